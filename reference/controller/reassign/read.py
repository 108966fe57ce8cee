"""The reads of the reassignment agent when it wakes up: the requests first, then the partitions that they name.

The variant decides which path holds requests (C-06): /admin/reassign_partitions with the znodes of KIP-236 beside it, or V3's
tree of one znode for each partition. Proposal B has its own paths: requests and entries in flight (C-19).
"""

from msgspec import Struct

from reference.config import Variant
from reference.controller import broker_change
from reference.controller.context import Agent, AgentStep, LiveBroker, MoveStep
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import PARTITIONS_REASSIGNED, REASSIGNMENTS, REQUESTS, Reassignment, Reassignments
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Exists, GetChildren, GetData
from reference.coordination.reassignment_requests import decode_entry, decode_request
from reference.messages import PartitionState
from reference.types import BrokerId, TopicPartition, topic_of, topic_partition

_ROOTS_OF_B = (admin_paths.REASSIGN, REQUESTS)  # "requires only 1 more watch than the current version": none per reassignment
_ZNODES = (admin_paths.REASSIGN, admin_paths.REASSIGN_EXTRA, admin_paths.REASSIGN_CANCEL)


class Seen(Struct, kw_only=True):
    """What the reassignment agent read from ZooKeeper: AR of each partition of the topics concerned, states, registrations."""

    assigned: dict[TopicPartition, tuple[BrokerId, ...]]
    versions: dict[str, int]  # of the topic znodes
    states: dict[TopicPartition, PartitionState]
    registered: tuple[LiveBroker, ...]


class Draft(Struct, kw_only=True):
    """What the reassignment agent wants ZooKeeper to hold after its next write."""

    entries: Reassignments
    extra: Reassignments
    legacy: Reassignments
    assigned: dict[TopicPartition, tuple[BrokerId, ...]]


def uses_proposal_b(variant: Variant) -> bool:
    """C-19: whether the controller works by proposal B."""
    return variant.reassignment == "B"


def roots(variant: Variant) -> tuple[str, ...]:
    """The ZooKeeper paths under which reassignment requests come."""
    if uses_proposal_b(variant):
        return _ROOTS_OF_B
    return (PARTITIONS_REASSIGNED,) if variant.reassign_path == "v3" else _ZNODES


def listing(variant: Variant, agent: Agent) -> tuple[AnyOp, ...]:
    """The first ZooKeeper reads of the reassignment agent; each sets a watch, except that of entries in flight (R-252)."""
    if uses_proposal_b(variant):
        children = GetChildren(REQUESTS, watch=True), GetChildren(REASSIGNMENTS)
        return (*(Exists(root, watch=True) for root in _ROOTS_OF_B), *children)
    if variant.reassign_path == "v3":
        return Exists(PARTITIONS_REASSIGNED, watch=True), GetChildren(PARTITIONS_REASSIGNED, watch=True)
    # B-58, KAFKA-9478: the watch was set only where the znode did not exist, so what was written to it later was never seen
    armed = variant.reassign_failover != "zombie" or agent.version < 0
    return tuple(Exists(path, watch=armed or path != admin_paths.REASSIGN) for path in _ZNODES)


def on_listed(variant: Variant, agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """R-049: get the set of reassigned partitions: the agent's next reads; empty when the set is known."""
    if uses_proposal_b(variant):
        return _on_listed_in_flight(agent, answers)
    match agent.step:
        case AgentStep.LISTING if len(answers) == len(_ZNODES):
            _take_znodes(agent, answers)
        case AgentStep.LISTING:
            agent.entries, agent.step = {}, AgentStep.TOPICS
            topics = answers[1].names if isinstance(answers[1], Children) else ()
            return tuple(GetChildren(f"{PARTITIONS_REASSIGNED}/{topic}", watch=True) for topic in topics)
        case AgentStep.TOPICS:
            agent.step = AgentStep.ENTRIES
            listed = [(op.path, a.names) for op, a in zip(agent.asked, answers, strict=True) if isinstance(a, Children)]
            return tuple(GetData(f"{path}/{name}") for path, names in listed for name in names if name.isdecimal())
        case _:
            agent.entries = _entries_of_v3(agent.asked, answers)
    return ()


def _take_znodes(agent: Agent, answers: tuple[AnyAnswer, ...]) -> None:
    """Decode the three request znodes of KIP-236 into the agent: pending, extra and cancel."""
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


def _entries_of_v3(ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> Reassignments:
    """The moves that V3 §F's request znodes ask for, by partition."""
    entries: Reassignments = {}
    for op, answer in zip(ops, answers, strict=True):
        if isinstance(answer, Data):
            topic, _, index = op.path.removeprefix(f"{PARTITIONS_REASSIGNED}/").rpartition("/")
            entries[topic_partition(topic, int(index))] = Reassignment(paths.decode_replicas(answer.data))
    return dict(sorted(entries.items()))


def _on_listed_in_flight(agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """The next reads: requests and topics of entries in flight, then the entries; empty when all are known."""
    match agent.step:
        case AgentStep.LISTING:
            agent.step = AgentStep.TOPICS
            return _on_roots(agent, answers)
        case AgentStep.TOPICS:
            agent.step = AgentStep.ENTRIES
            answered = [(op.path, answer) for op, answer in zip(agent.asked, answers, strict=True)]
            agent.requests = {path: decode_request(a.data) for path, a in answered if isinstance(a, Data)}
            topics = [(path, a.names) for path, a in answered if isinstance(a, Children)]
            agent.parents += tuple(path for path, _ in topics)
            named = [(f"{path}/{name}", paths.index_named(name)) for path, names in topics for name in names]
            agent.strays = tuple(path for path, index in named if index is None)
            return tuple(GetData(path) for path, index in named if index is not None)
        case _:
            _on_entries(agent, answers)
            return ()


def _on_roots(agent: Agent, answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """Decode the legacy request and list what lies below the others; returns the next reads."""
    legacy, _, requests, topics = answers
    agent.legacy, agent.bad, agent.version = {}, 0, -1
    if isinstance(legacy, Data):
        agent.legacy, agent.bad = admin_paths.decode_reassignments(legacy.data)
        agent.version = legacy.version
    agent.entries, agent.versions, agent.requests, agent.parents, agent.strays = {}, {}, {}, (), ()
    ops: tuple[AnyOp, ...] = ()
    if isinstance(requests, Children):
        agent.parents += (REQUESTS,)
        ops += tuple(GetData(f"{REQUESTS}/{name}") for name in requests.names)
    if isinstance(topics, Children):
        agent.parents += (REASSIGNMENTS,)
        ops += tuple(GetChildren(f"{REASSIGNMENTS}/{topic}") for topic in topics.names)
    return ops


def _on_entries(agent: Agent, answers: tuple[AnyAnswer, ...]) -> None:
    """Decode the entries in flight; a znode that cannot be decoded is left out."""
    entries: Reassignments = {}
    for op, answer in zip(agent.asked, answers, strict=True):
        if isinstance(answer, Data):
            topic, _, index = op.path.removeprefix(f"{REASSIGNMENTS}/").rpartition("/")
            tp = topic_partition(topic, int(index))
            agent.versions[tp] = answer.version
            entry = decode_entry(answer.data)
            if entry is not None:  # else another client wrote there: the znode is deleted
                entries[tp] = entry
    agent.entries = dict(sorted(entries.items()))


def details(agent: Agent) -> tuple[AnyOp, ...]:
    """The agent's reads about each partition: V3 §F step 3.1 reads the ISR; the watch for the leader's change is Kafka's.

    Registrations come last: a broker that registers after this read reads its assignment later than this does.
    """
    tps = sorted({*agent.entries, *agent.moves})
    requested = [tp for request in agent.requests.values() for tp in request.replicas]
    topics = sorted({topic_of(tp) for tp in (*tps, *agent.extra, *requested, *agent.legacy)})
    leaving = sorted({b for move in agent.moves.values() if move.step is MoveStep.CLEARING for b in move.dropped})
    return (
        *(GetData(paths.topic_path(topic)) for topic in topics),
        *(GetData(paths.state_path(tp), watch=True) for tp in tps),
        *(GetData(paths.broker_path(broker)) for broker in leaving),
    )


def facts_of(ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> Seen:
    """Decode ZooKeeper's answers to the agent's reads about the partitions to be moved."""
    facts = Seen(assigned={}, versions={}, states={}, registered=())
    for op, answer in zip(ops, answers, strict=True):
        if not isinstance(answer, Data):
            continue
        above, _, name = op.path.rpartition("/")
        tp = paths.tp_of_state_path(op.path)
        if tp is not None:
            facts.states[tp] = paths.decode_state(tp, facts.assigned.get(tp, ()), answer)
        elif above == paths.TOPICS:
            facts.assigned.update(paths.decode_topic(name, answer.data))
            facts.versions[name] = answer.version
        else:
            facts.registered += broker_change.registrations((name,), (answer,))
    return facts
