"""Random histories of the end of a run: final observations of ZooKeeper, metadata and disks, with some mistakes."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.end_definitions import BROKERS
from proof.log_rows import Case

_SECOND = 1_000_000_000
_TIMES = Case([], [], healed_at_ns=10 * _SECOND, final_reads_at_ns=32 * _SECOND, end_ns=40 * _SECOND)


class _End:
    """Builds the final rows of one partition: what ZooKeeper, the brokers' metadata and the disks hold at the end of a run."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.rows: list[ClusterEvent] = []
        self.replicas = rng.pick((BROKERS, BROKERS[:2], BROKERS[1:]))
        self.leader = None if rng.below(6) == 0 else rng.pick(self.replicas)
        self.isr = self.replicas if rng.below(4) else self.replicas[:1]

    def note(self, kind: K, **columns: object) -> None:
        """Append one event to the random history."""
        index = len(self.rows)
        about = {"index": index, "kind": kind, "time_ns": 33 * _SECOND + index, "topic": "t", "partition": 0}
        self.rows.append(ClusterEvent(**about, **columns))  # type: ignore[arg-type]

    def odd(self, ratio: int = 32) -> bool:
        """Draw True once in `ratio` cases, to put a mistake into the random history."""
        return self.rng.below(ratio) == 0

    def view(self, node: str) -> None:
        """Append one broker's metadata to the random history, sometimes wrong."""
        leader = self.rng.pick((None, *BROKERS)) if self.odd() else self.leader
        replicas = BROKERS[:1] if self.odd() else self.replicas
        isr = tuple(reversed(self.isr)) if self.odd(4) else self.replicas[:1] if self.odd(16) else self.isr
        epoch = 3 if self.odd() else 4
        topic_id = "9" if self.odd() else None if self.odd(8) else "10"
        columns = {"leader": leader, "leader_epoch": epoch, "isr": isr, "replicas": replicas, "topic_id": topic_id}
        self.note(K.METADATA_VIEW, node=node, **columns)

    def log(self, node: str, dir: int = 0) -> None:
        """Append a log on disk to the random history, sometimes wrong."""
        rng = self.rng
        topic_id = "9" if self.odd() else None if self.odd(4) else "10"
        self.note(K.LOG_ON_DISK, node=node, dir=dir, topic_id=topic_id, leo=2 + self.odd(), digest="d" if rng.below(32) else "e")


def drawn_end(rng: Rng) -> Case:
    """Return random final observations of a partition, which mostly agree."""
    end = _End(rng)
    if rng.below(8) == 0:
        for kind in rng.pick(((K.TOPIC_DELETED,), (K.TOPIC_DELETED, K.ASSIGNED))):
            end.note(kind, topic_id=rng.pick(("9", "10", "10")))
    if rng.below(3):
        end.note(K.STATE_WRITTEN, node=rng.pick(BROKERS), leader=end.leader, leader_epoch=4, isr=end.isr, zk_version=1)
    if rng.below(12):
        held = {"leader": end.leader, "leader_epoch": 4, "isr": end.isr, "replicas": end.replicas, "topic_id": "10", "elr": ()}
        end.note(K.ZK_STATE, **held, zk_version=1)
    for node in BROKERS:
        if not end.odd():
            end.view(node)
        if (node in end.replicas) != end.odd():
            end.log(node)
        if end.odd():
            end.log(node, dir=1)
    return _TIMES._replace(events=end.rows)


def drawn_cluster(rng: Rng) -> Case:
    """Return a random history of sessions and controllers around the bound B, and of open admin requests."""
    rows: list[ClusterEvent] = []
    session: dict[str, int | None] = dict.fromkeys(BROKERS)
    at, now = 0, 0
    for step in range(12 + rng.below(12)):
        now += rng.below(4) * _SECOND
        node = rng.pick(BROKERS) if step > 4 else (*BROKERS, *BROKERS)[step]
        kind, columns = _drawn_event(rng, node, session, step)
        if kind is not None:
            rows.append(ClusterEvent(index=at, kind=kind, time_ns=now, **columns))  # type: ignore[arg-type]
            at += 1
    operations: list[Operation] = []
    for process in range(rng.below(3)):
        invocation = {"process": process, "f": "admin-pending", "time_ns": (rng.pick((31, 33, 33)) + process) * _SECOND}
        operations.append(Operation(index=at, type=OpType.INVOKE, **invocation))  # type: ignore[arg-type]
        type_ = rng.pick((OpType.OK, OpType.OK, OpType.INFO))
        value = rng.pick((None, None, "/admin/reassign_partitions", "/admin/delete_topics/t")) if type_ is OpType.OK else None
        operations.append(Operation(index=at + 1, type=type_, value=value, **invocation))  # type: ignore[arg-type]
        at += 2
    return _TIMES._replace(operations=operations, events=rows)


def _drawn_event(rng: Rng, node: str, session: dict[str, int | None], step: int) -> tuple[K | None, dict[str, object]]:
    """One event: first registrations, an election and a state; then sessions end and begin, and others are elected."""
    draw = step if step < 5 else 5 + rng.below(14)
    if draw < 3 or (not 8 <= draw <= 12 and session[node] is None):
        session[node] = 10 + step
        return K.REGISTERED, {"node": node, "incarnation": session[node], "life": 1}
    if draw in (3, 8) and session[node] is not None:
        return K.CONTROLLER_ELECTED, {"node": node, "controller_epoch": step}
    if draw in (4, 9) and rng.below(8):
        about = {"topic": "t", "partition": 0, "leader_epoch": step, "isr": (node,), "zk_version": 0}
        return K.STATE_WRITTEN, {"node": node, "leader": node if rng.below(3) else None, **about}
    if draw in (4, 13):
        return K.BECAME_LEADER, {"node": node, "topic": "t", "partition": 0, "leader_epoch": step, "hw": 0, "leo": 0, "life": 1}
    if draw == 10:
        return K.CONTROLLER_RESIGNED, {"node": node, "controller_epoch": step}
    if draw in (11, 12) and session[node] is not None:
        ended = session[node] if rng.below(6) else 9  # sometimes an older session of the broker
        session[node] = session[node] if ended == 9 else None
        return K.SESSION_ENDED, {"node": node, "incarnation": ended}
    return None, {}
