"""Topics are deleted through /admin/delete_topics (R-149), partitions through V3 §H: first the replicas, then the znodes.

Every live replica answers before a znode is deleted, because the next controller goes by the znodes (B-62). A broker that is down
finds no assignment when it starts, or that of a later topic, and deletes its replica (V3 §E step 4). The request is deleted in
the same multi as the topics: if it stayed, it would delete the next topics of these names.
"""

from reference.controller import channel
from reference.controller.context import AdminPath, AdminProcedure, AdminStep, Controller, LiveBroker, forget_partition
from reference.controller.outstanding import ask, refuse
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Data, Delete, Exists, GetData
from reference.machine import Turn
from reference.messages import StopPartition
from reference.types import EPOCH_DURING_DELETE, LeaderEpoch, TopicId, TopicPartition, topic_of


def on_read(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered a read for deletions: the list of topics, then assignments, then which state znodes exist."""
    procedure = controller.admin["delete"]
    ops: tuple[AnyOp, ...]
    match procedure.step:
        case AdminStep.LISTING:
            answer = answers[0]
            if not isinstance(answer, Data):
                on_done(controller, procedure)
                return
            procedure.step = AdminStep.TOPICS
            procedure.topics = paths.decode_delete_topics(answer.data)
            procedure.version = answer.version
            if not procedure.topics:
                refuse(turn, paths.DELETE_TOPICS, "it names no topic")
            ops = tuple(GetData(paths.topic_path(topic)) for topic in procedure.topics)
        case AdminStep.TOPICS:
            procedure.step = AdminStep.READING
            there = [(t, a) for t, a in zip(procedure.topics, answers, strict=True) if isinstance(a, Data)]
            controller.topic_ids |= {t: TopicId(a.czxid) for t, a in there}
            unknown = tuple(t for t, a in zip(procedure.topics, answers, strict=True) if not isinstance(a, Data))
            forget(controller, unknown)
            if unknown:
                refuse(turn, paths.DELETE_TOPICS, f"no such topic: {', '.join(unknown)}")
            procedure.topics = tuple(t for t, _ in there)
            procedure.topic_versions = {t: a.version for t, a in there}
            procedure.partitions = dict(sorted(pair for t, a in there for pair in paths.decode_topic(t, a.data)))
            pairs = [(paths.state_path(tp), paths.state_parents(tp)[1]) for tp in procedure.partitions]
            ops = tuple(Exists(path) for pair in pairs for path in pair)
            ops += tuple(Exists(f"{paths.topic_path(topic)}/partitions") for topic in procedure.topics)
        case _:
            _plan(turn, controller, procedure, answers)
            return
    if ops:
        ask(turn, controller, AdminPath("delete"), ops)
    else:
        procedure.partitions = {}
        procedure.writes = [(Delete(paths.DELETE_TOPICS, procedure.version),)]
        procedure.step = AdminStep.READY


def _plan(turn: Turn, controller: Controller, procedure: AdminProcedure, answers: tuple[AnyAnswer, ...]) -> None:
    """Set the procedure's writes: erase the partitions, the topics and the request; replicas are stopped first."""
    count = 2 * len(procedure.partitions)
    erase = erasures(tuple(procedure.partitions), answers[:count])
    for topic, above in zip(procedure.topics, answers[count:], strict=True):
        base = paths.topic_path(topic)
        erase += (Delete(f"{base}/partitions"),) if isinstance(above, Data) else ()
        # Conditional: a replica that was assigned since, by a move or a new partition, was not told to stop.
        erase += (Delete(base, procedure.topic_versions[topic]),)
    procedure.writes = [(*erase, Delete(paths.DELETE_TOPICS, procedure.version))]
    begin_stopping(controller, procedure)
    if turn.config.variant.topic_id:
        procedure.epochs = dict.fromkeys(procedure.partitions, EPOCH_DURING_DELETE)  # KIP-570: the id says which topic is meant


def on_done(controller: Controller, procedure: AdminProcedure) -> None:
    """No request is left, perhaps because of a write whose answer was lost.

    A broker that registered before that write may have read the assignment and was not told: with full metadata it looks for its
    stray replicas (`broker.strays`). A new controller tells all metadata anyway.
    """
    procedure.step = AdminStep.IDLE
    if procedure.epochs:
        procedure.epochs = {}
        channel.tell_what_is_gone(controller)


def forget(controller: Controller, topics: tuple[str, ...]) -> None:
    """Forget deleted topics: the next topic of that name is new, though the list of names may look the same."""
    controller.topics = tuple(t for t in controller.topics if t not in topics)
    for tp in [tp for tp in controller.assignments if topic_of(tp) in topics]:
        forget_partition(controller, tp)
    for topic in topics:
        controller.topic_ids.pop(topic, None)


def erasures(tps: tuple[TopicPartition, ...], answers: tuple[AnyAnswer, ...]) -> tuple[AnyOp, ...]:
    """The ZooKeeper operations that delete each partition's state znode and its parent (two answers for each partition)."""
    nodes = [path for tp in tps for path in (paths.state_path(tp), paths.state_parents(tp)[1])]
    return tuple(Delete(path) for path, answer in zip(nodes, answers, strict=True) if isinstance(answer, Data))


def is_under_way(controller: Controller, tp: TopicPartition) -> bool:
    """Whether the replicas of a partition are being deleted while the topic's znode still lists it."""
    for procedure in (controller.admin[kind] for kind in ("delete", "remove") if kind in controller.admin):
        if procedure.step in (AdminStep.STOPPING, AdminStep.READY, AdminStep.WRITING) and tp in procedure.partitions:
            path = paths.topic_path(topic_of(tp))
            return any(op.path == path for ops in procedure.writes for op in ops)
    return False


def begin_stopping(controller: Controller, procedure: AdminProcedure) -> None:
    """Make no more decisions about partitions to be deleted, and note the epochs for their StopReplica."""
    procedure.told = ()
    procedure.step = AdminStep.STOPPING
    epochs = procedure.epochs
    procedure.epochs = {}
    for tp in procedure.partitions:
        state = forget_partition(controller, tp)
        # No broker was told a later epoch: this controller tells only what is in `states`, and older controllers are fenced.
        # Without a state no broker was told any epoch.
        procedure.epochs[tp] = epochs.get(tp, LeaderEpoch(0)) if state is None else state.leader_epoch
    controller.agent.again |= bool(controller.agent.entries)
    channel.tell_what_is_gone(controller)


def stop(turn: Turn, controller: Controller, procedure: AdminProcedure) -> None:
    """V3 §H on_partitions_remove step 2: StopReplica to the affected brokers; go on when all live ones have answered.

    The requests to move the partitions must be gone, too: they name the original replicas (KIP-236), and a topic that is created
    again would be rolled back to those of this one. The reassignment agent deletes them.
    """
    replicas = {broker for brokers in procedure.partitions.values() for broker in brokers}
    # any answer will do; a replica that the broker cannot reach counts as on a broker that is down
    waiting = turn.config.variant.reassign_failover != "zombie" and _may_be_moved(controller, procedure)
    for peer in controller.channels:
        registration = LiveBroker(peer.broker, peer.incarnation)
        if peer.broker in replicas and registration not in procedure.told:
            # also a broker that registers meanwhile: it may have read the assignment before it was deleted
            procedure.told = (*procedure.told, registration)
            for tp, brokers in procedure.partitions.items():
                if peer.broker in brokers:
                    channel.stop_replica(controller, StopPartition(tp, procedure.epochs[tp]), (peer.broker,))
        waiting = waiting or any(channel.is_stopping(peer, tp) for tp in procedure.partitions)
    if not waiting:
        procedure.step = AdminStep.READY


def _may_be_moved(controller: Controller, procedure: AdminProcedure) -> bool:
    # A new controller's agent has not read the requests yet.
    return not controller.agent.resumed or any(tp in controller.agent.entries for tp in procedure.partitions)
