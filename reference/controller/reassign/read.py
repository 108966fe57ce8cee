"""The reads of the reassignment agent when it wakes up: the requests first, then the partitions that they name.

The variant decides which path holds requests (C-06): /admin/reassign_partitions with the znodes of KIP-236 beside it, or V3's
tree of one znode for each partition. Proposal B has its own paths (`in_flight_read`).
"""

from msgspec import Struct

from reference.config import Variant
from reference.controller import broker_change
from reference.controller.context import Agent, LiveBroker
from reference.controller.reassign import in_flight_read as reassign_in_flight_read
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import PARTITIONS_REASSIGNED, Reassignment, Reassignments
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Exists, GetChildren, GetData
from reference.messages import PartitionState
from reference.types import BrokerId, TopicPartition, topic_of, topic_partition

_ZNODES = (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA, admin_paths.REASSIGN_CANCEL)


class Seen(Struct, kw_only=True):
    """ZooKeeper as it was read: AR of each partition of the topics concerned, states, and registrations."""

    assigned: dict[TopicPartition, tuple[BrokerId, ...]]
    versions: dict[str, int]  # of the topic znodes
    states: dict[TopicPartition, PartitionState]
    registered: tuple[LiveBroker, ...]


class Draft(Struct, kw_only=True):
    """What ZooKeeper is to hold after the next write."""

    entries: Reassignments
    extra: Reassignments
    legacy: Reassignments
    assigned: dict[TopicPartition, tuple[BrokerId, ...]]


def roots(variant: Variant) -> tuple[str, ...]:
    """The paths that hold requests."""
    if reassign_in_flight_read.in_use(variant):
        return reassign_in_flight_read.ROOTS
    return (PARTITIONS_REASSIGNED,) if variant.reassign_path == "v3" else _ZNODES


def listing(variant: Variant, agent: Agent) -> tuple[AnyOp, ...]:
    """The first reads, each with a watch."""
    if reassign_in_flight_read.in_use(variant):
        return reassign_in_flight_read.LISTING
    if variant.reassign_path == "v3":
        return Exists(PARTITIONS_REASSIGNED, watch=True), GetChildren(PARTITIONS_REASSIGNED, watch=True)
    # B-58, KAFKA-9478: the watch was set only where the znode did not exist, so what was written to it later was never seen
    armed = variant.reassign_failover != "zombie" or agent.version < 0
    return tuple(Exists(path, watch=armed or path != admin_paths.REASSIGN) for path in _ZNODES)


def on_listed(variant: Variant, agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """R-049: get the set of reassigned partitions. The next reads; empty when the set is known."""
    if reassign_in_flight_read.in_use(variant):
        return reassign_in_flight_read.on_listed(agent, answers)
    match agent.step:
        case "listing" if len(answers) == len(_ZNODES):
            _take_znodes(agent, answers)
        case "listing":
            agent.entries, agent.step = {}, "topics"
            topics = answers[1].names if isinstance(answers[1], Children) else ()
            return tuple(GetChildren(f"{PARTITIONS_REASSIGNED}/{topic}", watch=True) for topic in topics)
        case "topics":
            agent.step = "entries"
            found = [(op.path, a.names) for op, a in zip(agent.asked, answers, strict=True) if isinstance(a, Children)]
            return tuple(GetData(f"{path}/{name}") for path, names in found for name in names if name.isdecimal())
        case _:
            agent.entries = _entries_of_v3(agent.asked, answers)
    return ()


def _take_znodes(agent: Agent, answers: tuple[AnyAnswer, ...]) -> None:
    pending, extra, cancel = answers
    agent.entries, agent.bad, agent.version = {}, 0, -1
    agent.extra, agent.extra_bad, agent.extra_version = {}, 0, -1
    if isinstance(pending, Data):
        agent.entries, agent.bad = admin_paths.decode_reassignments(pending.data)
        agent.version = pending.version
    if isinstance(extra, Data):
        agent.extra, agent.extra_bad = admin_paths.decode_reassignments(extra.data)
        agent.extra_version = extra.version
    agent.cancelled = isinstance(cancel, Data)


def _entries_of_v3(asked: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> Reassignments:
    found: Reassignments = {}
    for op, answer in zip(asked, answers, strict=True):
        if isinstance(answer, Data):
            topic, _, index = op.path.removeprefix(f"{PARTITIONS_REASSIGNED}/").rpartition("/")
            found[topic_partition(topic, int(index))] = Reassignment(paths.decode_replicas(answer.data))
    return dict(sorted(found.items()))


def details(agent: Agent) -> tuple[AnyOp, ...]:
    """Reads about the partitions: V3 §F step 3.1 reads the ISR; the watch for the leader's change of it is Kafka's.

    Registrations come last: a broker that registers after this read reads its assignment later than this does.
    """
    tps = sorted({*agent.entries, *agent.moves})
    topics = sorted({topic_of(tp) for tp in (*tps, *agent.extra)} | {*reassign_in_flight_read.topics_asked(agent)})
    leaving = sorted({b for move in agent.moves.values() if move.step == "clearing" for b in move.dropped})
    return (
        *(GetData(paths.topic_path(topic)) for topic in topics),
        *(GetData(paths.state_path(tp), watch=True) for tp in tps),
        *(GetData(paths.broker_path(broker)) for broker in leaving),
    )


def seen(asked: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> Seen:
    """The answers to `details`."""
    found = Seen(assigned={}, versions={}, states={}, registered=())
    for op, answer in zip(asked, answers, strict=True):
        if not isinstance(answer, Data):
            continue
        above, _, name = op.path.rpartition("/")
        tp = paths.tp_of_state_path(op.path)
        if tp is not None:
            found.states[tp] = paths.decode_state(tp, found.assigned.get(tp, ()), answer)
        elif above == paths.TOPICS:
            found.assigned.update(paths.decode_topic(name, answer.data))
            found.versions[name] = answer.version
        else:
            found.registered += broker_change.registrations((name,), (answer,))
    return found
