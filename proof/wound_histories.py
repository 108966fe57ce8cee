"""Random histories of one partition with destroyed bytes: power loss, swapped directories, recovery, ordered elections.

The cluster mostly keeps the promise as far as it can; sometimes a broker truncates, is elected or leaves out a record unlawfully.
Rows of nodes name the partition, so that many partitions fit into one history.
"""

from typing import Literal

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case

_NODES = ("b1", "b2", "b3")
_ROWS_MAX = 85  # a partition has room for 100


class _Cluster:
    """Simulates three replicas, their sessions, ZooKeeper's state and a producer; the rows are their events and calls."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.m = 1 + rng.below(8) % 3
        self.index = 0
        self.events: list[ClusterEvent] = []
        self.operations: list[Operation] = []
        self.logs: dict[str, list[str]] = {node: [] for node in _NODES}
        self.durable = dict.fromkeys(_NODES, True)
        self.up = dict.fromkeys(_NODES, True)
        self.reported: set[str] = set()
        self.life = dict.fromkeys(_NODES, 1)
        self.session: dict[str, int | None] = {node: 11 + at for at, node in enumerate(_NODES)}
        self.stamp = {node: 11 + at for at, node in enumerate(_NODES)}
        self.stamped = rng.below(2) == 0
        self.isr: tuple[str, ...] = rng.pick((_NODES, _NODES, _NODES[:2]))
        self.elr: tuple[str, ...] = ()
        self.leader, self.epoch, self.hw = "b1", 1, 0
        self.values = 0
        self.open: list[tuple[int, str, int]] = []  # (process, value, offset) of records not acknowledged yet
        for node in _NODES:
            self.note(K.REGISTERED, node=node, incarnation=self.session[node], life=1)
        self.state()
        self.leads()

    def note(self, kind: K, **columns: object) -> int:
        """Append one event to the random history; return its index."""
        about = {"topic": "t", "partition": 0, "time_ns": 10_000_000 * self.index}
        self.events.append(ClusterEvent(index=self.index, kind=kind, **about, **columns))  # type: ignore[arg-type]
        self.index += 1
        return self.index - 1

    def said(self, process: int, type_: OpType, f: str, *rows: dict[str, object]) -> None:
        """Append one invocation or completion of a client to the random history."""
        about = {"process": process, "topic": "t", "partition": 0, "time_ns": 10_000_000 * self.index, "type": type_, "f": f}
        self.operations.extend(
            Operation(index=self.index, slot=slot, **about, **row)  # type: ignore[arg-type]
            for slot, row in enumerate(rows)
        )
        self.index += 1

    def state(self) -> None:
        """Append a state written to ZooKeeper to the random history."""
        stamps = tuple(self.stamp[node] for node in self.isr) if self.stamped else None
        self.elr = () if len(self.isr) >= self.m else tuple(node for node in self.elr if node not in self.isr)
        self.note(
            K.STATE_WRITTEN, node=self.leader, leader=self.leader, leader_epoch=self.epoch, isr=self.isr, stamps=stamps,
            zk_version=0,
        )  # fmt: skip

    def leads(self) -> None:
        """Append the event that the leader took its role to the random history."""
        leo = len(self.logs[self.leader])
        self.hw = min(self.hw, leo)
        about = {"node": self.leader, "life": self.life[self.leader], "leader_epoch": self.epoch}
        self.note(K.BECAME_LEADER, **about, leo=leo, hw=self.hw, isr=self.isr)

    def step(self) -> None:
        """Append one random event of a broker or client to the random history."""
        rng = self.rng
        node = self.rng.pick(_NODES)
        draw = rng.below(24)
        if draw < 4:
            self.produce()
        elif draw < 10:
            self.copy(node)
        elif draw < 13:
            self.commit()
        elif draw < 15:
            self.change_isr(node)
        elif draw < 17:
            self.fall(node)
        elif draw < 19:
            self.end_session(node)
        elif draw < 21:
            self.rise(node)
        elif draw == 21:
            self.elect()
        elif draw == 22:
            self.poll()
        elif rng.below(2):
            self.odd(node)

    def produce(self) -> None:
        """Invoke a produce in the random history, and append the record to the leader's log."""
        if not self.up[self.leader] or len(self.open) > 1:
            return
        self.values += 1
        value = f"v{self.values}"
        log = self.logs[self.leader]
        acks = -1 if self.rng.below(6) else 1
        self.said(self.values, OpType.INVOKE, "produce", {"value": value, "acks": acks})
        self.append(self.leader, value, "leader")
        self.open.append((self.values, value, len(log) - 1))

    def append(self, node: str, value: str, role: str) -> None:
        """Append a record to this broker's log, in the random history."""
        offset = len(self.logs[node])
        about = {"node": node, "life": self.life[node], "offset": offset, "value": value}
        self.note(K.APPEND, **about, leader_epoch=self.epoch, detail=role)
        self.logs[node].append(value)

    def copy(self, node: str) -> None:
        """Let a follower truncate to the leader's log and append the next records, in the random history."""
        leader_log, follower_log = self.logs[self.leader], self.logs[node]
        if node == self.leader or not self.up[node] or not self.up[self.leader] or self.session[node] is None:
            return
        same = next(
            (at for at, (a, b) in enumerate(zip(leader_log, follower_log, strict=False)) if a != b),
            min(len(leader_log), len(follower_log)),
        )
        if same < len(follower_log):
            del follower_log[same:]
            self.note(K.TRUNCATE, node=node, life=self.life[node], offset=same, detail="epoch")
        for value in leader_log[same : same + 1 + self.rng.below(2)]:
            self.append(node, value, "follower")

    def commit(self) -> None:
        """Raise the high watermark; covered records are mostly acknowledged, otherwise their outcome is unknown."""
        if not self.up[self.leader] or self.session[self.leader] is None or len(self.isr) < self.m:
            return
        hw = min(len(self.logs[member]) for member in self.isr)
        if hw > self.hw:
            self.hw = hw
            about = {"node": self.leader, "life": self.life[self.leader], "leader_epoch": self.epoch, "detail": "leader"}
            self.note(K.HW, **about, hw=hw, leo=len(self.logs[self.leader]))
        for process, value, offset in [open_produce for open_produce in self.open if open_produce[2] < self.hw]:
            self.open.remove((process, value, offset))
            acks = next(row.acks for row in self.operations if row.process == process)
            is_committed = offset < len(self.logs[self.leader]) and self.logs[self.leader][offset] == value
            answer: dict[str, object] = {"value": value, "acks": acks, "offset": offset, "leader_epoch": self.epoch}
            if is_committed and self.rng.below(6):
                self.said(process, OpType.OK, "produce", answer)
            else:
                self.said(process, OpType.INFO, "produce", {"value": value, "acks": acks, "error": "timeout"})

    def change_isr(self, node: str) -> None:
        """Let the leader send an ISR change, which may be applied, refused or left pending."""
        rng = self.rng
        if node == self.leader or not self.up[self.leader] or self.session[self.leader] is None:
            return
        joins = node not in self.isr
        if joins and (not self.up[node] or self.logs[node][: self.hw] != self.logs[self.leader][: self.hw]):
            return
        isr_wanted = tuple(sorted({*self.isr, node} if joins else set(self.isr) - {node}))
        about = {"node": self.leader, "leader_epoch": self.epoch, "zk_version": 0}
        self.note(K.ISR_CHANGE_SENT, **about, isr=isr_wanted)
        if rng.below(3) == 0:
            return
        if rng.below(4):
            if joins and self.session[node] is not None:
                self.stamp[node] = self.session[node] or 0
            self.isr = isr_wanted
            self.state()
        self.note(K.ISR_CHANGE_ENDED, **about, isr=self.isr, detail="applied")

    def fall(self, node: str) -> None:
        """Stop brokers in the random history: by a crash, or by a fault that shortens or empties the log."""
        rng = self.rng
        if not self.up[node] or (sum(self.up.values()) == 3 and rng.below(3) == 0):
            return
        victims = [victim_there for victim_there in _NODES if self.up[victim_there] and (victim_there == node or rng.below(2))]
        for victim in victims:
            why = rng.pick(("power-loss", "power-loss", "swapped", "dropped", "crash"))
            self.up[victim] = False
            if why == "crash":
                self.note(K.NODE_STOPPED, node=victim, life=self.life[victim], detail="crash")
                continue
            offset = 0 if why == "swapped" else rng.below(len(self.logs[victim]) + 1)
            wound = {"node": victim, "incarnation": self.session[victim], "dir": 0, "offset": offset, "detail": why}
            self.note(K.WOUND, **wound)
            del self.logs[victim][offset:]
            if why == "dropped" and self.session[victim] is not None and rng.below(3):
                row_of_wound = {"life": self.life[victim], "incarnation": self.session[victim], "dir": rng.below(4) // 3}
                self.note(K.DIR_FAILED, node=victim, **row_of_wound, detail="io")

    def end_session(self, node: str) -> None:
        """End the ZooKeeper session of a broker that is down."""
        if not self.up[node] and self.session[node] is not None:
            self.note(K.SESSION_ENDED, node=node, incarnation=self.session[node])
            self.session[node] = None

    def rise(self, node: str) -> None:
        """Restart a broker under a new registration, in the random history."""
        if self.up[node]:
            return
        self.life[node] += 1
        self.note(K.NODE_STARTED, node=node, life=self.life[node])
        self.end_session(node)
        log = self.logs[node]
        if self.rng.below(12) == 0:
            del log[self.rng.below(len(log) + 1) :]
        self.note(K.RECOVERED, node=node, life=self.life[node], leo=len(log), hw=0, dir=0)
        self.session[node] = 20 + self.index
        self.up[node] = True
        self.note(K.REGISTERED, node=node, life=self.life[node], incarnation=self.session[node])
        if node == self.leader:
            self.leads()  # the controller tells it again

    def elect(self) -> None:
        """Elect a leader in the random history: from the ISR, by the longest log, or by an operator's order."""
        rng = self.rng
        living = [node for node in _NODES if self.up[node] and self.session[node] is not None]
        if not living:
            return
        inside = [node for node in living if node in self.isr]
        if inside and rng.below(4):
            chosen = max(inside, key=lambda node: len(self.logs[node]))
        elif rng.below(2):
            chosen = rng.pick(living)
            self.note(K.UNCLEAN_ELECTION_ORDERED, node=None, leader=chosen)
            if rng.below(6) == 0:
                chosen = rng.pick(living)
        else:
            chosen = max(living, key=lambda node: len(self.logs[node]))
        self.epoch += 1
        self.leader = chosen
        self.isr = tuple(sorted({chosen, *(node for node in inside if self.logs[node] and rng.below(3))}))
        self.stamp[chosen] = self.session[chosen] or 0
        self.state()
        self.leads()

    def poll(self) -> None:
        """Append a poll below the high watermark; rarely a record is left out."""
        rng = self.rng
        log = self.logs[self.leader]
        if not self.up[self.leader]:
            return
        start = rng.below(self.hw + 1)
        got = list(enumerate(log[: self.hw]))[start : start + 3]
        if len(got) > 1 and rng.below(6) == 0:
            del got[rng.below(len(got) - 1)]
        answer: dict[str, object] = {"leader_epoch": self.epoch, "hw": self.hw}
        self.said(99, OpType.INVOKE, "poll", {"offset": start})
        self.said(99, OpType.OK, "poll", *([{"offset": at, "value": value, **answer} for at, value in got] or [answer]))

    def odd(self, node: str) -> None:
        """Append an event that the protocol forbids to the random history."""
        rng = self.rng
        log = self.logs[node]
        if not self.up[node]:
            return
        if rng.below(2) and log:
            keep = rng.below(len(log))
            del log[keep:]
            self.note(K.TRUNCATE, node=node, life=self.life[node], offset=keep, detail="epoch")
        else:
            self.note(
                K.BECAME_LEADER, node=node, life=self.life[node], leader_epoch=max(0, self.epoch - rng.below(2)), leo=len(log),
                hw=0, isr=self.isr,
            )  # fmt: skip


def drawn_wounds(rng: Rng) -> Case:
    """Return a random history of twenty to eighty rows with destroyed bytes. One in sixteen has no rows of the ISR."""
    cluster = _Cluster(rng)
    for _ in range(2 + rng.below(3)):
        cluster.produce()
        for node in _NODES[: 1 + rng.below(3)]:
            cluster.copy(node)
        cluster.commit()
    for _ in range(10 + rng.below(24)):
        if cluster.index < _ROWS_MAX - 12:
            cluster.step()
    if rng.below(2) and cluster.index < _ROWS_MAX - 12:
        for node in _NODES:
            cluster.rise(node)
        cluster.elect()
    flush: Literal["none", "before_ack"] = "none" if rng.below(4) else "before_ack"
    events = [row for row in cluster.events if row.kind is not K.STATE_WRITTEN] if rng.below(16) == 0 else cluster.events
    return Case(cluster.operations, events, cluster.m, flush, by_operator=rng.below(2) == 0)
