"""What systems cannot do: the parts of plans that need requests through the reference's znodes, faults that would do nothing."""

from collections.abc import Callable, Collection, Iterable
from typing import assert_never

from msgspec import UNSET

from highwater.plans.plan import Plan, is_foreign, system_of, topics_of
from nemesis import messages
from nemesis.faults import AnyFault, LinkFault, Links, Packets, PowerLoss, kinds_of
from nemesis.schedule import Window
from nemesis.targets import (
    INTERNAL,
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    IsrMember,
    LeaderOf,
    Minority,
    Named,
    OfPartition,
    Random,
    WholeIsr,
)
from workloads.registry import INTERNAL_TOPICS_OF
from workloads.script_rules import MIN_ISR, MOVES

WORKLOAD = "produce-consume"
WITH_ADMINISTRATORS = ("admin-storm", "create-delete")
_DELETING = ("cleanup.policy", "retention.ms", "retention.bytes")
NO_QUORUM = "no quorum of controllers apart from the brokers is there to leave, or to roll"
NO_ZOOKEEPER = "a cluster with KRaft has no ZooKeeper"


def refusal(
    plan: Plan,
    system: str,
    lacks: Callable[[AnyFault], str | None],
    *,
    workloads: tuple[str, ...] = (WORKLOAD,),
    requests: Collection[str] = (),
) -> str | None:
    """Why this system cannot perform the plan, in a sentence; None if it can. `lacks` says why it cannot suffer a fault.

    `requests`: what its administrators can be asked for.
    """
    if plan.workload.name not in workloads:
        names = ", ".join(map(repr, workloads))
        return f"{system} performs the workload {names} only, not {plan.workload.name!r}"
    reason = unadministered(plan, system, requests)
    if reason is not None:
        return reason
    if plan.cluster.legacy_brokers:
        return f"{system} has no legacy brokers; the plan has {len(plan.cluster.legacy_brokers)}"
    for name in ("fetch_max_bytes", "producer_id_block_size", "reassign_interval_ms", "lag_max_records"):
        if getattr(plan.cluster, name) is not UNSET:
            return f"{system} is given no {name}; it has settings of its own (system.settings)"
    for topic in plan.cluster.topics:
        if topic.name.startswith(INTERNAL):
            return f"topic {topic.name}: names that begin with {INTERNAL} belong to the system itself"
    reason = insufferable(plan, system, lacks) or _without_partition(plan, system)
    if reason is not None:
        return reason
    reason = too_many_wounds(plan, plan.schedule)
    return None if reason is None else f"{system}: {reason}"


def administers(plan: Plan) -> bool:
    """Whether an administrator acts in the plan: in its workload, or by its script."""
    return bool(plan.script) or plan.workload.name in WITH_ADMINISTRATORS


def unadministered(plan: Plan, system: str, requests: Collection[str]) -> str | None:
    """Why the system's administrators cannot do what the plan asks of them, in a sentence; None if they can."""
    if plan.audit_ms:
        return f"{system} cannot perform an audit, which deposes controllers: no request of Kafka's does that"
    if plan.workload.edits is True:
        return f"{system} has no znodes below /admin that an operator could edit by hand (workload.edits)"
    unable = next((step for step in plan.script if step.do not in requests), None)
    if unable is None:
        return _unpromised(plan, system)
    if not requests:
        return f"{system} cannot perform a script: it has no administrators here"
    return f"{system} cannot be asked to {unable.do}; scripts for it may have {', '.join(requests)}"


def _unpromised(plan: Plan, system: str) -> str | None:
    """Why a step of the script would take the promise away, in a sentence.

    It leaves fewer replicas than must be in sync, asks for more in sync than there are, or lets the system delete records.
    """
    least = {topic.name: topic.min_insync_replicas for topic in topics_of(plan)}
    copies = {topic.name: topic.replication_factor for topic in topics_of(plan)}
    for step in plan.script:
        count = min(map(len, step.replicas), default=0)
        settings = step.settings or {}
        deleting = next((name for name in settings if name in _DELETING), None)
        if deleting is not None:
            return f"{system} would be told {deleting} of {step.topic}, by which it may delete records that the promise keeps"
        least[step.topic] = int(settings.get(MIN_ISR, least.get(step.topic, 1)))
        if settings and least[step.topic] > copies[step.topic]:
            asks = f"{system} would be told {MIN_ISR}={least[step.topic]} of {step.topic}"
            return f"{asks}, which has {copies[step.topic]} replicas: nothing could be acknowledged"
        if step.do in MOVES and count < least[step.topic]:
            moves = f"{system} would move {step.topic}-{step.partition} to {count} replicas, which the reference refuses"
            return f"{moves}: fewer than {MIN_ISR}, {least[step.topic]}, keep no promise"
    return None


def insufferable(plan: Plan, system: str, lacks: Callable[[AnyFault], str | None]) -> str | None:
    """The first fault of the plan that this system cannot suffer, with the reason; None if it can suffer all."""
    for window in plan.schedule:
        reason = lacks(window.fault)
        if reason is not None:
            return f"window {window.id} ({window.kind}): {system} cannot suffer it: {reason}"
    return None


def _without_partition(plan: Plan, system: str) -> str | None:
    """The first window that aims at an internal topic which nothing in the run makes, in a sentence; None if there is none."""
    kept = INTERNAL_TOPICS_OF.get(plan.workload.name, ())
    for window in plan.schedule:
        if isinstance(window.target, OfPartition) and (topic := window.target.topic).startswith(INTERNAL) and topic not in kept:
            names = f"only {', '.join(kept)}" if kept else "and no other internal one"
            why = f"{system} keeps no topic {topic} for the workload {plan.workload.name!r}, {names}"
            return f"window {window.id} ({window.kind}): {why}"
    return None


def unused(plan: Plan, *used: str) -> str | None:
    """The settings of the plan's system beside those that it uses, in a sentence; None if there are none."""
    system = system_of(plan)
    if system.starts and is_foreign(plan):
        return f"system {system.name} has one version, so its brokers cannot start as {', '.join(system.starts)}"
    if system.controllers is not UNSET:
        return f"system {system.name} has no controllers of Kafka's, so none run apart from its brokers"
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
    least = min([least, *(int((step.settings or {}).get(MIN_ISR, least)) for step in plan.script)])
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
