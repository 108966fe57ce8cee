"""Partitions are added to a topic and removed from it (V3 §H, R-063).

V3 deletes the admin path before it updates the topic path: if the controller dies between the two, the request is lost. `safe`
deletes the admin path last (C-13), and elects no leader of a new partition before the topic path lists it: a broker that starts
in between would take its replica for a stray one and delete it (V3 §E step 4).
"""

from typing import Literal

from reference.controller import deletion, leader_election
from reference.controller.context import AdminPath, AdminProcedure, AdminStep, Controller
from reference.controller.outstanding import ask, refuse
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Delete, Exists, GetChildren, GetData, SetData
from reference.machine import Turn
from reference.types import BrokerId, TopicPartition, topic_of, topic_partition

_Kind = Literal["add", "remove"]


def on_read(turn: Turn, controller: Controller, kind: _Kind, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §H on_partitions_add step 1, V3 §H on_partitions_remove step 1: determine the set of partitions, in three reads."""
    procedure = controller.admin[kind]
    ops: tuple[AnyOp, ...] = ()
    root = paths.PARTITIONS_ADD if kind == "add" else paths.PARTITIONS_REMOVE
    match procedure.step:
        case AdminStep.LISTING:
            procedure.step = AdminStep.TOPICS
            procedure.topics = answers[1].names if isinstance(answers[1], Children) else ()
            ops = tuple(GetChildren(f"{root}/{topic}", watch=True) for topic in procedure.topics)
        case AdminStep.TOPICS:
            procedure.step = AdminStep.READING
            listed = [
                (topic, name, paths.index_named(name))
                for topic, answer in zip(procedure.topics, answers, strict=True)
                if isinstance(answer, Children)
                for name in answer.names
            ]
            partitions = [topic_partition(topic, index) for topic, _, index in listed if index is not None]
            procedure.partitions = dict.fromkeys(sorted(partitions), ())
            procedure.strays = tuple(f"{root}/{topic}/{name}" for topic, name, index in listed if index is None)
            procedure.topics = tuple(sorted({topic for topic, _, _ in listed}))
            ops = _reads(kind, procedure)
        case _:
            _plan(turn, controller, kind, answers)
            return
    if ops:
        ask(turn, controller, AdminPath(kind), ops)
    else:
        deletion.on_done(controller, procedure)


def _reads(kind: _Kind, procedure: AdminProcedure) -> tuple[AnyOp, ...]:
    """The reads that a procedure needs before its writes: the topics, and for each partition its request or its state nodes."""
    topics = tuple(GetData(paths.topic_path(topic)) for topic in procedure.topics)
    if kind == "add":
        return topics + tuple(GetData(paths.partition_add_path(tp)) for tp in procedure.partitions)
    nodes = [(Exists(paths.state_path(tp)), Exists(paths.state_parents(tp)[1])) for tp in procedure.partitions]
    return topics + tuple(op for pair in nodes for op in pair)


def _plan(turn: Turn, controller: Controller, kind: _Kind, answers: tuple[AnyAnswer, ...]) -> None:
    """Set the procedure's writes from its reads: topic znodes with partitions added or removed, and the request taken away."""
    procedure = controller.admin[kind]
    count = len(procedure.topics)
    topic_answers = dict(zip(procedure.topics, answers[:count], strict=True))
    listed = {t: dict(paths.decode_topic(t, a.data)) for t, a in topic_answers.items() if isinstance(a, Data)}
    versions = {t: a.version for t, a in topic_answers.items() if isinstance(a, Data)}
    clear = _clear(kind, procedure)
    accepted: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    erase: tuple[AnyOp, ...] = ()
    if kind == "add":
        for tp, answer in zip(procedure.partitions, answers[count:], strict=True):
            topic = topic_of(tp)
            replicas = paths.decode_replicas(answer.data) if isinstance(answer, Data) else ()
            if topic in listed and (replicas or tp in listed[topic]):
                accepted[tp] = listed[topic].get(tp, replicas)  # a repeated request leaves the partition as it is
        after = {t: old | {tp: r for tp, r in accepted.items() if topic_of(tp) == t} for t, old in listed.items()}
    else:
        accepted = {tp: listed.get(topic_of(tp), {}).get(tp, ()) for tp in procedure.partitions}
        erase = deletion.erasures(tuple(accepted), answers[count:])
        after = {t: {tp: r for tp, r in old.items() if tp not in accepted} for t, old in listed.items()}
    _refuse(turn, kind, procedure, [tp for tp in procedure.partitions if not accepted.get(tp)])
    procedure.partitions = accepted
    # V3 §H on_partitions_add step 4, V3 §H on_partitions_remove step 4: update the topic path
    changed = [t for t in listed if after[t] != listed[t]]
    update = tuple(SetData(paths.topic_path(t), paths.partitions_payload(after[t]), versions[t]) for t in changed)
    first_admin = turn.config.variant.admin_path_first
    steps = [clear, erase + update] if first_admin else [erase + update, clear]
    procedure.writes = [ops for ops in steps if ops]
    procedure.step = AdminStep.READY
    if kind == "remove":
        deletion.begin_stopping(controller, procedure)  # V3 §H on_partitions_remove step 2
    elif first_admin or not update:
        init_leaders(turn, controller, procedure)


def _refuse(turn: Turn, kind: _Kind, procedure: AdminProcedure, refused: list[TopicPartition]) -> None:
    """Note the requests that are deleted and not carried out."""
    for tp in refused:
        if kind == "add":
            refuse(turn, paths.partition_add_path(tp), "no such topic, or no valid replicas")
        else:
            refuse(turn, paths.partition_remove_path(tp), "no such partition")
    for path in procedure.strays:
        refuse(turn, path, "its name is no partition's")


def _clear(kind: _Kind, procedure: AdminProcedure) -> tuple[AnyOp, ...]:
    """V3 §H on_partitions_add step 3, V3 §H on_partitions_remove step 3: delete the znode of the finished request."""
    entry = paths.partition_add_path if kind == "add" else paths.partition_remove_path
    entries = tuple(Delete(entry(tp)) for tp in procedure.partitions) + tuple(Delete(path) for path in procedure.strays)
    root = paths.PARTITIONS_ADD if kind == "add" else paths.PARTITIONS_REMOVE
    return entries + tuple(Delete(f"{root}/{topic}") for topic in procedure.topics)


def init_leaders(turn: Turn, controller: Controller, procedure: AdminProcedure) -> None:
    """R-063, V3 §H on_partitions_add step 2: call init_leaders(set_p).

    A listed partition that is being removed is left alone: its brokers have just deleted it.
    """
    for tp, replicas in procedure.partitions.items():
        if tp not in controller.assignments and not deletion.is_under_way(controller, tp):
            controller.assignments[tp] = replicas
            leader_election.start(turn, controller, tp)
