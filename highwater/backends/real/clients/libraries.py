"""The client library that a plan names: librdkafka, or one whose calls another process performs."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from msgspec import UNSET

from highwater.backends.real.clients import aio_kafka, franz_go, java
from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.clients.piped import PipedClient, PipedWorker
from highwater.backends.real.clients.settings import NONE, Settings
from highwater.backends.real.site import HostPort
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from history.errors import unknown
from reference.types import Address
from workloads.parameters import CommitsAfter
from workloads.registry import COMPACTED, OF_SESSIONS, SHARE_GROUPS

WORKLOADS = ("produce-consume", "admin-storm", "create-delete", *OF_SESSIONS, COMPACTED)  # in the order of sentences


class Library(Protocol):
    """A client library whose calls a process beside the harness performs; a plan names it NAME:VERSION. A module is one."""

    @property
    def NAME(self) -> str:  # noqa: N802 (a constant of the module)
        """As a plan names it."""

    @property
    def COMMITS_AFTER(self) -> CommitsAfter:  # noqa: N802 (a constant of the module)
        """What a member that commits automatically commits: what earlier polls gave, or what a poll gives, at once."""

    def check(self, version: str) -> None:
        """Raise UsageError if this version of the library cannot be asked for."""

    def lacks(self, version: str) -> Collection[str]:
        """The workloads of WORKLOADS, and memberships of groups, that this version does not perform."""

    def missing(self, version: str) -> str | None:
        """What this machine lacks to run it, in a sentence; None if nothing."""

    def command(self, version: str) -> Sequence[str]:
        """The command line of the process, which speaks as piped.py says. HarnessError if it cannot be made. May take minutes."""


LIBRARIES: Mapping[str, Library] = {library.NAME: library for library in (java, franz_go, aio_kafka)}  # beside librdkafka


def refusal(plan: Plan) -> str | None:
    """Why the client library of the plan can perform it nowhere, in a sentence; None if it can. UsageError for an unknown one."""
    named, workload = plan.workload.client, plan.workload.name
    if named is UNSET:
        wanted = f"{java.NAME}:{java.SHARES_SINCE}"
        return f"the workload {SHARE_GROUPS!r} needs the Java client: --client {wanted}" if workload == SHARE_GROUPS else None
    library, version = _library(named)
    library.check(version)
    if plan.workload.auto_commit is not UNSET and plan.workload.auto_commit.after != library.COMMITS_AFTER:
        if library.COMMITS_AFTER == "delivery":
            return f"client {named} commits automatically what polls gave, at once (after: delivery), not after the next poll"
        return f"client {named} commits automatically what earlier polls gave (after: next-poll), not at once (after: delivery)"
    lacks = library.lacks(version)
    if plan.workload.membership is not UNSET and plan.workload.membership in lacks:
        return f"client {named} has no members with membership {plan.workload.membership!r}"
    if workload in WORKLOADS and workload not in lacks:
        return None
    if workload == SHARE_GROUPS:
        return f"client {named} has no share consumer that is stable (KIP-932): {java.NAME}:{java.SHARES_SINCE} and later have"
    names = ", ".join(repr(name) for name in WORKLOADS if name not in lacks)
    return f"client {named} performs the workloads {names} only, not {workload!r}"


def missing(plan: Plan) -> str | None:
    """What this machine lacks for the client library of the plan, in a sentence; None if nothing."""
    if plan.workload.client is UNSET:
        return None
    library, version = _library(plan.workload.client)
    return library.missing(version)


def _command(named: str) -> Sequence[str]:
    """The command line of the process of the library that a plan names."""
    library, version = _library(named)
    return library.command(version)


def _library(named: str) -> tuple[Library, str]:
    """The library that a plan names, and the version. UsageError if there is none of this name."""
    name, _, version = named.partition(":")
    if name not in LIBRARIES:
        raise UsageError(unknown("client", name, tuple(LIBRARIES)))
    return LIBRARIES[name], version


class Clients:
    """Makes the clients of one run with the library of its plan."""

    def __init__(self, plan: Plan) -> None:
        self._timeout_ms = plan.workload.request_timeout_ms
        self._membership = "" if plan.workload.membership is UNSET else plan.workload.membership
        self._auto_commit = None if plan.workload.auto_commit is UNSET else plan.workload.auto_commit
        self._keyed = plan.workload.name == COMPACTED
        self._users: set[Address] = set()
        self._worker = None if plan.workload.client is UNSET else PipedWorker(partial(_command, plan.workload.client))

    def client(
        self, name: Address, brokers: Mapping[Address, HostPort], *, run: str = "", settings: Settings = NONE
    ) -> KafkaClient | PipedClient:
        """A client that reaches the brokers at these addresses; `run` and `settings` as in KafkaClient."""
        timeout_ms, membership, commits = self._timeout_ms, self._membership, self._auto_commit
        if self._worker is None:
            return KafkaClient(
                name,
                brokers,
                request_timeout_ms=timeout_ms,
                run=run,
                membership=membership,
                auto_commit=commits,
                keyed=self._keyed,
                settings=settings,
            )
        return PipedClient(
            name,
            brokers,
            self._worker,
            self._users,
            request_timeout_ms=timeout_ms,
            run=run,
            membership=membership,
            auto_commit_ms=0 if commits is None else commits.interval_ms,
            keyed=self._keyed,
        )
