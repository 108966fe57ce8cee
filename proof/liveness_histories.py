"""Random histories of faults, their end and recovery, on which the checkers of liveness are compared with definitions."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case

SECOND = 1_000_000_000
HEALED_NS = 150 * SECOND


def drawn_progress(rng: Rng) -> Case:
    """Return a random history of two faults with a pause between them, and a client that writes all the time."""
    events: list[ClusterEvent] = []
    operations: list[Operation] = []
    index = 0
    now = 0
    mute = rng.below(3) == 0
    in_force: set[str] = set()
    while now < 170 and index < 90:
        now += 1 + rng.below(9)
        if rng.below(4) == 0:
            fault = f"f{rng.below(2)}"
            begins = fault not in in_force if rng.below(12) else rng.below(2) == 0
            (in_force.add if begins else in_force.discard)(fault)
            kind = K.FAULT_BEGUN if begins else K.FAULT_ENDED
            events.append(ClusterEvent(index=index, kind=kind, time_ns=now * SECOND, fault=fault, detail="crash"))
            index += 1
            mute = rng.below(2) == 0
            continue
        acks = -1 if rng.below(5) else 1
        about = {"process": 1, "f": "produce", "topic": "t", "partition": 0, "value": f"v{index}", "acks": acks}
        later = now + rng.below(4)
        answer = rng.pick((OpType.INFO, OpType.FAIL)) if mute or rng.below(4) == 0 else OpType.OK
        columns = {**about, "offset": index} if answer is OpType.OK else about
        operations.append(Operation(index=index, type=OpType.INVOKE, time_ns=now * SECOND, **about))  # type: ignore[arg-type]
        operations.append(Operation(index=index + 1, type=answer, time_ns=later * SECOND, **columns))  # type: ignore[arg-type]
        index, now = index + 2, later
    return Case(operations, events, healed_at_ns=HEALED_NS)


class _Partition:
    """One partition of three replicas after healing, which recovers in time, late, or not."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.events: list[ClusterEvent] = []
        self.operations: list[Operation] = []
        self.index, self.now = 0, 0
        self.assigned: tuple[str, ...] = ("b1", "b2", "b3")
        self.logs: dict[str, list[str]] = {node: [] for node in self.assigned}
        self.isr: tuple[str, ...] = self.assigned
        self.leader, self.epoch, self.hw = "b1", 1, 0

    def note(self, kind: K, **columns: object) -> None:
        """Append one event to the random history, a tenth of a second later."""
        self.now += SECOND // 10
        self.events.append(
            ClusterEvent(index=self.index, kind=kind, time_ns=self.now, topic="t", partition=0, **columns)  # type: ignore[arg-type]
        )
        self.index += 1

    def state(self, *, offline: bool = False) -> None:
        """Append a partition state written to ZooKeeper to the random history."""
        leader = None if offline else self.leader
        self.note(K.STATE_WRITTEN, node="b3", leader=leader, leader_epoch=self.epoch, isr=self.isr, zk_version=0)

    def lead(self, *, surely: bool) -> None:
        """Begin a new leader epoch in the random history; unless `surely`, some replicas do not hear of it."""
        self.epoch += 1
        self.state()
        for node in self.logs:
            if not surely and self.rng.below(6) == 0:
                continue
            kind = K.BECAME_LEADER if node == self.leader else K.BECAME_FOLLOWER
            leads = {"leo": len(self.logs[node]), "hw": self.hw, "isr": self.isr} if node == self.leader else {}
            self.note(kind, node=node, life=1, leader_epoch=self.epoch, leader=self.leader, **leads)

    def copy(self, node: str) -> None:
        """Append to this node's log the records of the leader's log that it lacks."""
        for offset in range(len(self.logs[node]), len(self.logs[self.leader])):
            value = self.logs[self.leader][offset]
            self.append(node, value, "follower")

    def append(self, node: str, value: str, role: str) -> None:
        """Append a record to this node's log, in the random history."""
        offset = len(self.logs[node])
        self.note(K.APPEND, node=node, life=1, offset=offset, value=value, leader_epoch=self.epoch, detail=role)
        self.logs[node].append(value)

    def commit(self) -> None:
        """Raise the leader's HW to its log end offset, in the random history."""
        self.hw = len(self.logs[self.leader])
        about = {"node": self.leader, "life": 1, "leader_epoch": self.epoch, "detail": "leader"}
        self.note(K.HW, **about, hw=self.hw, leo=self.hw)

    def call(self, f: str, invoked: dict[str, object], *rows: dict[str, object], type_: OpType | None = OpType.OK) -> None:
        """Append one client call to the random history, of a new process if none is named; type None: without completion."""
        process = invoked.setdefault("process", self.index % 100)
        rows = tuple({**row, "process": process} for row in rows)
        about = {"f": f, "topic": "t", "partition": 0}
        self.now += SECOND // 10
        self.operations.append(
            Operation(index=self.index, type=OpType.INVOKE, time_ns=self.now, **about, **invoked)  # type: ignore[arg-type]
        )
        self.index += 1
        self.now += SECOND // 10 if self.rng.below(12) else 3 * SECOND // 2
        if type_ is not None:
            self.operations.extend(
                Operation(index=self.index, slot=slot, type=type_, time_ns=self.now, **about, **row)  # type: ignore[arg-type]
                for slot, row in enumerate(rows)
            )
            self.index += 1

    def produce_in_turn(self) -> None:
        """Let one process produce with acks=all, 1 and 0; sometimes the state is written in between."""
        process = self.index % 100
        for acks in (-1, self.rng.below(2), self.rng.below(2)):
            if not self.produce(acks, process):
                return
            if self.rng.below(8) == 0:
                self.lead(surely=True)

    def produce(self, acks: int = -1, process: int | None = None) -> bool:
        """Produce a record; mostly it is copied, committed and acknowledged. False if the process gets no answer at all."""
        rng = self.rng
        value = f"v{self.index}"
        invoked: dict[str, object] = {"value": value, "acks": acks, "process": self.index % 100 if process is None else process}
        if rng.below(6) == 0:
            type_ = rng.pick((OpType.INFO, OpType.FAIL, None))
            error = rng.pick((None, "REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "OUT_OF_ORDER_SEQUENCE_NUMBER"))
            self.call("produce", invoked, {**invoked, "error": error}, type_=type_)
            return type_ is not None
        if invoked["acks"] == 0 and rng.below(2):
            self.call("produce", invoked, {**invoked})  # the request was sent and lost
            return True
        self.append(self.leader, value, "leader")
        for node in self.assigned:
            if rng.below(8):
                self.copy(node)
        if rng.below(8):
            self.commit()
        self.call("produce", invoked, {**invoked, "offset": len(self.logs[self.leader]) - 1, "leader_epoch": self.epoch})
        return True

    def ask(self) -> None:
        """Append a request for the end offset or a poll of nothing to the random history; some fail."""
        f, type_ = self.rng.pick(("latest", "poll")), self.rng.pick((OpType.OK, OpType.OK, OpType.FAIL))
        answer = {"offset": self.hw} if f == "latest" and type_ is OpType.OK and self.rng.below(8) else {}
        self.call(f, {"offset": self.hw} if f == "poll" else {}, {"leader_epoch": self.epoch, **answer}, type_=type_)

    def trouble(self) -> None:
        """Append one violation or disturbance to the random history."""
        rng = self.rng
        node = rng.pick(self.assigned)
        match rng.below(7):
            case 0:
                self.isr = tuple(replica for replica in self.assigned if replica != node or replica == self.leader)
                self.state()
            case 1:
                self.note(rng.pick((K.RESIGNED, K.NODE_STOPPED)), node=node, life=1, leader_epoch=self.epoch)
            case 2:
                self.epoch += 1
                self.state(offline=True)
            case 3:
                emptied = self.isr if rng.below(3) else (node,)
                for replica in emptied:
                    why = "swapped" if rng.below(6) else "power-loss"
                    self.note(K.WOUND, node=replica, incarnation=1, dir=0, offset=0, detail=why)
                    self.logs[replica].clear()
                if rng.below(2):
                    self.epoch += 1
                    self.state(offline=True)
            case 4:
                self.assigned = ("b1", "b2") if rng.below(2) else ("b1", "b2", "b3")
                self.note(K.ASSIGNED, replicas=self.assigned)
            case 5:
                log = self.logs[node]
                if log and rng.below(2):
                    log[-1] = "w"
                    about = {"node": node, "life": 1, "leader_epoch": self.epoch, "detail": "follower"}
                    self.note(K.APPEND, **about, offset=len(log) - 1, value="w")
                elif log:
                    del log[-1]
                    self.note(K.TRUNCATE, node=node, life=1, offset=len(log), detail="epoch")
            case _:
                self.lead(surely=False)

    def mend(self) -> None:
        """Let the partition recover: a leader with all assigned replicas in the ISR, equal logs, all committed."""
        for node in self.assigned:
            if self.rng.below(3):
                self.note(K.REGISTERED, node=node, life=1, incarnation=100 + self.index)
        self.isr = self.assigned
        self.leader = self.rng.pick(self.assigned)
        self.lead(surely=True)
        for node in self.assigned:
            if self.logs[node] != self.logs[self.leader]:
                self.logs[node].clear()
                self.note(K.TRUNCATE, node=node, life=1, offset=0, detail="epoch")
            self.copy(node)
        self.commit()

    def read(self) -> None:
        """Append a final reader to the random history, which sometimes misses the last record."""
        log = list(enumerate(self.logs[self.leader]))
        rows: list[dict[str, object]] = [{"offset": at, "value": value, "leader_epoch": self.epoch} for at, value in log]
        if rows and self.rng.below(6) == 0:
            rows.pop()
        self.call("poll", {"offset": 0}, *(rows or [{"leader_epoch": self.epoch}]))


def drawn_availability(rng: Rng) -> Case:
    """Return a random run: faults end at 10 s, it must be whole at 26 s, final reads at 32 s, end at 40 s."""
    partition = _Partition(rng)
    partition.lead(surely=True)
    partition.produce()
    for _ in range(rng.below(3)):
        partition.trouble()
    for until in (15, 27):
        partition.now = max(partition.now, until * SECOND)
        if rng.below(8):
            partition.mend()
        if rng.below(4) == 0:
            partition.trouble()
        if partition.index < 75 and rng.below(2):
            partition.produce(rng.pick((-1, -1, -1, 1)))
        if partition.index < 75 and rng.below(3) == 0:
            partition.ask()
        if partition.index < 60 and rng.below(3) == 0:
            partition.produce_in_turn()
    partition.now = max(partition.now, 32 * SECOND)
    if rng.below(8):
        partition.read()
    return Case(
        partition.operations, partition.events, healed_at_ns=10 * SECOND, final_reads_at_ns=32 * SECOND, end_ns=40 * SECOND,
        simulated=True,
    )  # fmt: skip


def drawn_replacement(rng: Rng) -> Case:
    """Return a random history of one partition whose brokers are cut off, some of them alone and for long, with writes."""
    nodes = ("b1", "b2", "b3")
    stamps = dict(zip(nodes, (1, 2, 3), strict=True))
    rows: list[ClusterEvent] = []
    operations: list[Operation] = []
    now, at = 0, 0

    def note(kind: K, **columns: object) -> None:
        nonlocal now, at
        now += SECOND * rng.pick((0, 0, 1, 2, 6)) + 1_000_000
        rows.append(ClusterEvent(index=at, kind=kind, time_ns=now, **columns))  # type: ignore[arg-type]
        at += 1

    def write(result: OpType) -> None:
        nonlocal now, at
        for type_ in (OpType.INVOKE, result):
            now += SECOND * rng.pick((0, 0, 1)) + 1_000_000
            about = {"process": 1, "f": "produce", "topic": "t", "partition": 0, "value": f"v{at}", "acks": rng.pick((-1, -1, 1))}
            if type_ is OpType.OK:
                about["offset"] = at
            operations.append(Operation(index=at, type=type_, time_ns=now, **about))  # type: ignore[arg-type]
            at += 1

    for node in nodes:
        note(K.REGISTERED, node=node, incarnation=stamps[node])
    note(K.CONTROLLER_ELECTED, node=rng.pick(nodes), controller_epoch=1)
    open_: list[tuple[str, str, str]] = []
    for turn in range(6 + rng.below(10)):
        node = rng.pick(nodes)
        if open_ and rng.below(3) == 0 and len(operations) < 40:
            now += SECOND * rng.pick((0, 3, 7))
            result = rng.pick((OpType.INFO, OpType.FAIL, OpType.OK))
            for _ in range(2 + rng.below(3)):
                write(result if rng.below(8) else OpType.OK)
        match 2 if turn == 0 else rng.below(8):
            case 0 | 1:
                open_.append((f"f{turn}", node, rng.pick(("isolate-one", "cut-peers-long", "crash-leader", "slow"))))
                fault, node, detail = open_[-1]
                note(K.FAULT_BEGUN, fault=fault, node=node, detail=detail)
            case 2 | 3:
                isr = tuple(replica for replica in nodes if rng.below(4)) or nodes
                about = {
                    "leader": rng.pick((*isr, None)),
                    "leader_epoch": turn,
                    "isr": isr,
                    "stamps": tuple(map(stamps.get, isr)),
                }
                note(K.STATE_WRITTEN, topic="t", partition=0, node="b1", zk_version=turn, **about)
            case 4 if rng.below(2):
                note(K.SESSION_ENDED, node=node, incarnation=stamps[node])
            case 4:
                stamps[node] += 10
                note(K.REGISTERED, node=node, incarnation=stamps[node])
            case 5:
                note(rng.pick((K.DIR_FAILED, K.CONTROLLER_ELECTED)), node=node, dir=0, controller_epoch=turn)
            case _ if open_:
                fault, node, detail = open_.pop(rng.below(len(open_)))
                note(K.FAULT_ENDED, fault=fault, node=node, detail=detail)
            case _:
                note(K.GAUGE, node=node, detail="x", gauge=1)
    return Case(operations, rows, m=1 + rng.below(2))
