"""Checker of convergence: after the faults, ZooKeeper, the brokers' metadata for clients and the logs on disk agree.

Part of liveness (docs/promise.md §6, LIVE-1, LIVE-2, LIVE-4): a partition that has not converged in the quiet time is *not live*,
never INVALID; a lost record is reported by the ledger. The checker reads the rows that the harness records at the very end, from
outside of the brokers. It therefore also sees what no broker noted: a stray log, or a deleted topic that is still in the
metadata.

A partition whose deletion was ordered owes no agreement while it is still in ZooKeeper: brokers drop it one by one, and those
that did are not accused if the deletion does not end. `availability-cluster` judges whether it ends (LIVE-4).

If ZooKeeper names no leader, silence is right (SILENT-2; `availability` judges whether it may name none): no log is then
the right one, and each replica keeps its own until an operator decides.

Metadata of an old release of Kafka has no leader epoch, and a log whose first records were deleted has no digest: what is missing
is not compared.

A snapshot of a partition takes time. If the harness recorded two snapshots because they differ, the partition was still changing:
observations from different moments prove nothing, and the partition is unchecked.

    >>> from checkers.sketches import sketch
    >>> rows = "zk-state leader=b1 isr=b1,b2,b3 replicas=b1 topic_id=9", "metadata-view node=b1 leader=b2 topic_id=9"
    >>> sketch("convergence", "healed", *rows)[0]
    'b1 has no log of t-0 at the end'
"""

from typing import NamedTuple

from checkers.engine.anomalies import not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_compacted, recovery_deadline_ns
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "convergence"
_END = (K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK)


class _Row(NamedTuple):
    """One final observation of a partition: by ZooKeeper, by a broker's metadata or on a disk. Unobserved fields are None."""

    kind: str
    node: str | None
    topic_id: str | None
    leader: str | None
    leader_epoch: int | None
    isr: tuple[str, ...] | None
    replicas: tuple[str, ...] | None
    dir: int | None
    leo: int | None
    digest: str | None


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge whether one partition converged after the faults. Finds nothing if the harness recorded no final observations."""
    end_rows = events.of(*_END)
    if recovery_deadline_ns(facts) is None or not end_rows.height:
        return Findings()
    topic, number = partition_of(operations, events)
    name = f"{topic}-{number}"
    rows = end_rows.as_rows(_Row)
    if _was_moving(rows):
        return Findings(unchecked=(f"{NAME}: {name} was still changing when it was observed at the end",))
    state = next((row for row in rows if row.kind == K.ZK_STATE), None)
    views = [row for row in rows if row.kind == K.METADATA_VIEW]
    logs = [row for row in rows if row.kind == K.LOG_ON_DISK]
    if state is None:
        complaints = [f"{row.node} still lists {name}, which is not in ZooKeeper," for row in views]
        complaints += [f"a log of {name}, which is not in ZooKeeper, is on {_where(row)}" for row in logs]
    elif _is_ordered_deleted(events, state.topic_id):
        complaints = []
    else:
        if is_compacted(facts, topic):  # each replica compacts its own log, so logs that are right have other digests
            logs = [row._replace(digest=None) for row in logs]
        complaints = [*_wrong_metadata(name, state, views, facts.brokers), *_wrong_logs(name, state, logs)]
        if _writer(events) != state.leader:
            complaints += _wrong_isrs(name, state, views)
    return Findings(not_live=tuple(f"{said} at the end" for said in complaints), live_judged=True, counts={"end_states": 1})


def _is_ordered_deleted(events: Events, topic_id: str | None) -> bool:
    """Whether the deletion of the partition of this topic was ordered, and it was not added again since."""
    orders = events.of(K.TOPIC_DELETED, K.ASSIGNED).columns("kind", "topic_id")
    orders_of_id = [kind for kind, id_ in orders if id_ == topic_id]
    return orders_of_id[-1:] == [K.TOPIC_DELETED]


def _was_moving(rows: list[_Row]) -> bool:
    """True if two final observations of ZooKeeper, a broker or a disk differ: the partition was still changing."""
    looks: dict[tuple[str, str | None], list[_Row]] = {}
    for row in rows:
        if row.kind != K.LOG_ON_DISK:
            looks.setdefault((row.kind, row.node), []).append(row)
    return len({len(seen) for seen in looks.values()}) > 1 or any(len(set(seen)) > 1 for seen in looks.values())


def _wrong_metadata(name: str, state: _Row, views: list[_Row], brokers: tuple[str, ...]) -> list[str]:
    """Find brokers whose metadata names another leader, epoch, replicas or topic id than ZooKeeper (LIVE-1)."""
    view_of_node = {view.node: view for view in views}
    complaints = [
        f"{broker} does not list {name} for clients"
        for broker in brokers
        if broker not in view_of_node and state.leader is not None
    ]
    for node, view in view_of_node.items():
        epoch = state.leader_epoch if view.leader_epoch is None else view.leader_epoch
        if (view.leader, epoch) != (state.leader, state.leader_epoch):
            complaints.append(
                f"{node} tells clients that {view.leader or 'no broker'} leads {name} in epoch {view.leader_epoch}, ZooKeeper "
                f"names {state.leader or 'no leader'} in epoch {state.leader_epoch}"
            )
        if view.replicas != state.replicas:
            complaints.append(
                f"{node} tells clients that {name} is on {_list(view.replicas)}, ZooKeeper names {_list(state.replicas)}"
            )
        if view.topic_id is not None and view.topic_id != state.topic_id:
            complaints.append(f"{node} gives clients topic id {view.topic_id} for {name}, ZooKeeper holds {state.topic_id}")
    return complaints


def _writer(events: Events) -> str | None:
    """The node that last wrote the partition's state to ZooKeeper; None if no row says."""
    written = events.of(K.STATE_WRITTEN)
    return None if not written.height else str(written.column("node")[-1])


def _wrong_isrs(name: str, state: _Row, views: list[_Row]) -> list[str]:
    """Find brokers whose metadata names another ISR than ZooKeeper.

    Not called if the leader wrote the state itself (V3 §G): no message tells the other brokers of that write.
    """
    return [
        f"{view.node} tells clients that the ISR of {name} is {_list(view.isr)}, ZooKeeper holds {_list(state.isr)}"
        for view in views
        if sorted(view.isr or ()) != sorted(state.isr or ())
    ]


def _wrong_logs(name: str, state: _Row, logs: list[_Row]) -> list[str]:
    """Find assigned replicas without a log, logs that differ, and logs on brokers that are not assigned (LIVE-2)."""
    assigned = state.replicas or ()
    complaints = [f"a stray log of {name} is on {_where(log)}" for log in logs if log.node not in assigned]
    complaints += [
        f"the log of {name} on {_where(log)} has topic id {log.topic_id}, ZooKeeper holds {state.topic_id}"
        for log in logs
        if log.topic_id is not None and log.topic_id != state.topic_id
    ]
    for node in assigned:
        own = [log for log in logs if log.node == node]
        if len(own) > 1:
            complaints.append(f"{node} has {len(own)} logs of {name}, in directories {', '.join(str(log.dir) for log in own)}")
        elif not own and state.leader is not None:
            complaints.append(f"{node} has no log of {name}")
    leading = next((log for log in logs if log.node == state.leader), None)
    if leading is not None:
        others = [log for log in logs if log.node in assigned and log.node != state.leader]
        complaints += [
            f"the log of {name} on {log.node} ends at {log.leo} with digest {log.digest}, that of leader {state.leader} at "
            f"{leading.leo} with {leading.digest}"
            for log in others
            if log.leo != leading.leo or (None not in (log.digest, leading.digest) and log.digest != leading.digest)
        ]
    return complaints


def _where(log: _Row) -> str:
    return f"{log.node}, directory {log.dir}"


def _list(nodes: tuple[str, ...] | None) -> str:
    return ", ".join(nodes or ()) or "none"


CHECKER = Checker(
    name=NAME,
    claim="At the very end ZooKeeper, the brokers' metadata for clients, and the logs on disk agree; no log is stray or missing.",
    assumes="The harness observes ZooKeeper, metadata and disks once nothing changes any more.",
    blind="The ISR in the metadata if the leader itself wrote it last; the logs of partitions without a leader; partitions whose "
    "deletion was ordered and has not ended.",
    reports=(
        not_live(
            "RES",
            "META",
            shown_by=("newest-layouts", "protocol-before-the-setting", "reassign-ar-first", "reassign-without-widening"),
        ),
    ),
    group_by=PARTITION,
    events=(*_END, K.STATE_WRITTEN, K.ASSIGNED, K.TOPIC_DELETED),
    across_topics=True,
    check=check,
)
