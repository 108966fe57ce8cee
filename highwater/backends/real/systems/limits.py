"""What systems cannot do: the parts of plans that need requests through the reference's znodes, faults that would do nothing."""

from collections.abc import Callable, Collection, Iterable
from typing import assert_never

from msgspec import UNSET

from highwater.backends.real.systems.metadata import INTERNAL
from highwater.plans.plan import Plan, is_foreign, system_of
from nemesis import messages
from nemesis.faults import AnyFault, LinkFault, Links, Packets, PowerLoss, kinds_of
from nemesis.schedule import Window
from nemesis.targets import (
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    IsrMember,
    LeaderOf,
    Minority,
    Named,
    Random,
    WholeIsr,
)

WORKLOAD = "produce-consume"
NO_ZOOKEEPER = "a cluster with KRaft has no ZooKeeper"


def refusal(
    plan: Plan, system: str, lacks: Callable[[AnyFault], str | None], *, workloads: tuple[str, ...] = (WORKLOAD,)
) -> str | None:
    """Why this system cannot perform the plan, in a sentence; None if it can. `lacks` says why it cannot suffer a fault."""
    if plan.workload.name not in workloads:
        names = ", ".join(map(repr, workloads))
        return f"{system} performs the workload {names} only, not {plan.workload.name!r}"
    if plan.script or plan.audit_ms:
        asks = "a script" if plan.script else "an audit"
        return f"{system} cannot perform {asks}: its administrators' requests go through the reference's znodes"
    if plan.cluster.legacy_brokers:
        return f"{system} has no legacy brokers; the plan has {len(plan.cluster.legacy_brokers)}"
    for name in ("fetch_max_bytes", "producer_id_block_size", "reassign_interval_ms", "lag_max_records"):
        if getattr(plan.cluster, name) is not UNSET:
            return f"{system} is given no {name}; it has settings of its own (system.settings)"
    for topic in plan.cluster.topics:
        if topic.name.startswith(INTERNAL):
            return f"topic {topic.name}: names that begin with {INTERNAL} belong to the system itself"
    reason = insufferable(plan, system, lacks)
    if reason is not None:
        return reason
    reason = too_many_wounds(plan, plan.schedule)
    return None if reason is None else f"{system}: {reason}"


def insufferable(plan: Plan, system: str, lacks: Callable[[AnyFault], str | None]) -> str | None:
    """The first fault of the plan that this system cannot suffer, with the reason; None if it can suffer all."""
    for window in plan.schedule:
        reason = lacks(window.fault)
        if reason is not None:
            return f"window {window.id} ({window.kind}): {system} cannot suffer it: {reason}"
    return None


def unused(plan: Plan, *used: str) -> str | None:
    """The settings of the plan's system beside those that it uses, in a sentence; None if there are none."""
    system = system_of(plan)
    if system.starts and is_foreign(plan):
        return f"system {system.name} has one version, so its brokers cannot start as {', '.join(system.starts)}"
    extra = [name for name in system.settings if name not in used]
    return f"system {system.name} does not use these settings: {', '.join(extra)}" if extra else None


def no_link(fault: LinkFault, requests: Collection[str], asked: Collection[str], *, zookeeper: bool) -> str | None:
    """Why a network fault would touch nothing; None if it touches something.

    `requests` are the kinds of messages that brokers of the system send each other, `asked` those of clients, without replies.
    """
    links: tuple[Links, ...] = ("peers", "clients") if isinstance(fault, Packets) else fault.links
    if links == ("zookeeper",) and not zookeeper:
        return NO_ZOOKEEPER
    kinds = kinds_of(fault)
    known = {*(requests if "peers" in links else ()), *(asked if "clients" in links else ())}
    if kinds and not messages.requests(kinds) & known:
        names = " or ".join(kinds)
        return f"its clients do not send {names}" if links == ("clients",) else f"its brokers do not send each other {names}"
    return None


def too_many_wounds(plan: Plan, windows: Iterable[Window]) -> str | None:
    """Why nobody could judge a plan with these windows, because too many brokers may lose power; None if few enough do.

    Wounds on fewer brokers than min.insync.replicas excuse no loss (docs/promise.md DUR-4). Which losses more of them excuse,
    only the notes of brokers can tell.
    """
    targets = [window.target for window in windows if isinstance(window.fault, PowerLoss)]
    named = {broker for target in targets if isinstance(target, Named) for broker in target.brokers}
    drawn = sum(_drawn_brokers_max(target, plan.cluster.brokers) for target in targets)
    least = min((topic.min_insync_replicas for topic in plan.cluster.topics), default=1)
    hit = len(named) + drawn
    if hit == 0 or hit < least:
        return None
    may = f"at most {least - 1} may, fewer than min.insync.replicas"
    return f"up to {hit} brokers lose power, and without notes nobody can tell which losses that excuses: {may}"


def _drawn_brokers_max(target: AnyTarget, brokers: int) -> int:
    """How many brokers a target may hit that it does not name."""
    match target:
        case Named() | ClientPlace():
            return 0
        case LeaderOf() | IsrMember() | Controller():
            return 1
        case Random(count=count):
            return count
        case WholeIsr() | Minority() | Everyone():
            return brokers
        case _:
            assert_never(target)
