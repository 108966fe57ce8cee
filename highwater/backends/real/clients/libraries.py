"""The client library that a plan names: librdkafka, or one whose calls another process performs."""

from collections.abc import Mapping

from msgspec import UNSET

from highwater.backends.real.clients import java
from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.clients.piped import PipedClient, PipedWorker
from highwater.backends.real.clients.settings import NONE, Settings
from highwater.backends.real.site import HostPort
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from history.errors import unknown
from reference.types import Address
from workloads.registry import COMPACTED, OF_SESSIONS, SHARE_GROUPS

LIBRARIES = (java.NAME,)  # beside librdkafka, which a plan does not name
WORKLOADS = ("produce-consume", "admin-storm", "create-delete", *OF_SESSIONS, COMPACTED)  # that they perform


def refusal(plan: Plan) -> str | None:
    """Why the client library of the plan can perform it nowhere, in a sentence; None if it can. UsageError for an unknown one."""
    named = plan.workload.client
    shares = plan.workload.name == SHARE_GROUPS
    if named is UNSET:
        return (
            f"the workload {SHARE_GROUPS!r} needs the Java client: --client {java.NAME}:{java.SHARES_SINCE}" if shares else None
        )
    name, _, version = named.partition(":")
    if name not in LIBRARIES:
        raise UsageError(unknown("client", name, LIBRARIES))
    java.release_of(version)
    if shares and not java.has_shares(version):
        return f"client {named} has no share consumer that is stable (KIP-932): {java.SHARES_SINCE} and later have"
    if plan.workload.auto_commit is not UNSET and plan.workload.auto_commit.after != "next-poll":
        return f"client {named} commits automatically what earlier polls gave (after: next-poll), not at once (after: delivery)"
    if plan.workload.name not in WORKLOADS:
        names = ", ".join(repr(name) for name in WORKLOADS if name != SHARE_GROUPS or java.has_shares(version))
        return f"client {named} performs the workloads {names} only, not {plan.workload.name!r}"
    return None


def missing(plan: Plan) -> str | None:
    """What this machine lacks for the client library of the plan, in a sentence; None if nothing."""
    named = plan.workload.client
    return None if named is UNSET else java.missing(named.partition(":")[2])


class Clients:
    """Makes the clients of one run with the library of its plan."""

    def __init__(self, plan: Plan) -> None:
        self._timeout_ms = plan.workload.request_timeout_ms
        self._membership = "" if plan.workload.membership is UNSET else plan.workload.membership
        self._auto_commit = None if plan.workload.auto_commit is UNSET else plan.workload.auto_commit
        self._keyed = plan.workload.name == COMPACTED
        self._users: set[Address] = set()
        version = "" if plan.workload.client is UNSET else plan.workload.client.partition(":")[2]
        self._worker = PipedWorker(lambda: java.command(version)) if version else None

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
