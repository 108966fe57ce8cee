"""Random histories of one partition, of a few calls or events: mostly correct, with some fields changed at random."""

from msgspec.structs import replace

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case

_FINAL = (OpType.OK, OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL)


class Clients:
    """Simulates clients that append to one log, read it and ask for its end offset; the rows are their calls."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.rows: list[Operation] = []
        self.log: list[str] = []
        self.open: dict[int, list[Operation]] = {}
        self.position: dict[int, int] = {}
        self.epoch = 1
        self.values = 0

    def write(self, process: int, type_: OpType, f: str, *columns: dict[str, object]) -> list[Operation]:
        """Append one invocation or completion to the random history."""
        index = self.rows[-1].index + 1 if self.rows else 0
        rows = [
            Operation(index=index, slot=slot, process=process, type=type_, f=f, topic="t", partition=0, time_ns=index, **row)  # type: ignore[arg-type]
            for slot, row in enumerate(columns)
        ]
        self.rows.extend(rows)
        return rows

    def step(self) -> None:
        """Invoke or complete a call of one client in the random history."""
        process = self.rng.below(3)
        invoked = self.open.pop(process, None)
        if invoked is None:
            self.ask(process)
        elif invoked[0].f == "produce":
            self.produced(process, invoked)
        else:
            self.told(process, invoked[0])

    def ask(self, process: int) -> None:
        """Invoke a call of a client in the random history."""
        draw = self.rng.below(7)
        if draw < 3:
            acks = -1 if self.rng.below(5) else 1
            once = "once" if process == 0 else None
            count = 1 + self.rng.below(2)
            self.values += count
            values = [f"v{self.values - count + i}" for i in range(count)]
            columns: list[dict[str, object]] = [{"value": v, "acks": acks, "delivery": once} for v in values]
            self.open[process] = self.write(process, OpType.INVOKE, "produce", *columns)
        elif draw < 6:
            self.open[process] = self.write(process, OpType.INVOKE, "poll", {"offset": self.position.get(process, 0)})
        else:
            self.open[process] = self.write(process, OpType.INVOKE, "latest", {})

    def produced(self, process: int, invoked: list[Operation]) -> None:
        """Complete a produce in the random history: appended once or twice, failed, or of unknown outcome."""
        rng = self.rng
        type_ = _FINAL[rng.below(len(_FINAL))]
        attempts = 1 + (rng.below(4) == 0)
        rows: list[dict[str, object]] = []
        offsets: list[int] = []
        if type_ is not OpType.FAIL and (type_ is OpType.OK or rng.below(2)):
            for _ in range(1 if invoked[0].delivery else 1 + rng.below(attempts)):
                offsets = list(range(len(self.log), len(self.log) + len(invoked)))
                self.log.extend(str(row.value) for row in invoked)
        for place, row in enumerate(invoked):
            answered: dict[str, object] = {"value": row.value, "acks": row.acks, "attempts": attempts, "delivery": row.delivery}
            if type_ is OpType.OK:
                answered |= {"offset": offsets[place], "leader_epoch": self.epoch}
            rows.append(answered)
        self.write(process, type_, "produce", *rows)

    def told(self, process: int, invoked_row: Operation) -> None:
        """Complete a poll with the records from its position on, or an end offset request (`latest`)."""
        rng = self.rng
        self.epoch += rng.below(8) == 0
        stated: dict[str, object] = {"leader_epoch": self.epoch, "hw": len(self.log)}
        if rng.below(8) == 0:
            error = "OFFSET_OUT_OF_RANGE" if invoked_row.f == "poll" and rng.below(2) else "TIMED_OUT"
            self.write(process, OpType.FAIL, invoked_row.f, {"error": error})
        elif invoked_row.f == "latest":
            self.write(process, OpType.OK, "latest", {"offset": len(self.log), "leader_epoch": self.epoch})
        else:
            start = invoked_row.offset or 0
            got = list(enumerate(self.log))[start : start + 3]
            self.position[process] = start + len(got) if rng.below(6) else 0
            self.write(process, OpType.OK, "poll", *([{"value": v, "offset": o, **stated} for o, v in got] or [stated]))


def drawn_operations(rng: Rng) -> list[Operation]:
    """Return a random history of six to thirteen client rows, with up to four changed fields."""
    clients = Clients(rng)
    for _ in range(6 + rng.below(8)):
        clients.step()
    rows = clients.rows
    for _ in range(rng.below(5)):
        at = rng.below(len(rows))
        rows[at] = misspoken(rows[at], rng)
    return rows


def misspoken(row: Operation, rng: Rng) -> Operation:
    """The row with one field changed, in most cases."""
    match rng.below(6):
        case 0 | 4 | 5 if row.offset is not None:
            return replace(row, offset=max(0, row.offset + (1 if rng.below(2) else -1)))
        case 1 if row.value is not None and row.type is not OpType.INVOKE:
            return replace(row, value=f"v{rng.below(5)}")
        case 2 if row.hw is not None:
            return replace(row, hw=rng.below(4))
        case 3 if row.leader_epoch is not None:
            return replace(row, leader_epoch=1 + rng.below(3))
        case _:
            return row


class _Brokers:
    """Simulates three replicas that copy from a leader, and the partition's state in ZooKeeper; the rows are their events."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.rows: list[ClusterEvent] = []
        self.logs: dict[str, list[str]] = {"b1": [], "b2": [], "b3": []}
        self.hw = dict.fromkeys(self.logs, 0)
        self.leader, self.epoch = "b1", 1
        self.believers = ["b1"]  # brokers that act as leader of this epoch
        self.isr: tuple[str, ...] = ("b1", "b2", "b3") if rng.below(2) else ("b1", "b2")
        self.values = 0
        self.controller = "b3"
        self.note(K.CONTROLLER_ELECTED, node="b3", controller_epoch=1)
        if rng.below(2):
            self.note(K.ASSIGNED, replicas=("b1", "b2", "b3") if rng.below(6) else ("b1", "b2"))
        self.state()

    def note(self, kind: K, **columns: object) -> None:
        """Append one event of a broker to the random history."""
        index = len(self.rows)
        # Rows are ten milliseconds apart, so that no clock rounds two of them to the same time.
        at = {"index": index, "kind": kind, "time_ns": 10_000_000 * index}
        self.rows.append(ClusterEvent(topic="t", partition=0, life=1, **at, **columns))  # type: ignore[arg-type]

    def state(self) -> None:
        """Append a state written to ZooKeeper, and the leader's own event about it, to the random history."""
        self.believers = [self.leader]
        writer = self.controller if self.rng.below(8) else self.rng.pick(tuple(self.logs))
        self.note(K.STATE_WRITTEN, node=writer, leader=self.leader, leader_epoch=self.epoch, isr=self.isr, zk_version=0)
        log, hw = self.logs[self.leader], self.hw[self.leader]
        self.note(K.BECAME_LEADER, node=self.leader, leader_epoch=self.epoch, leo=len(log), hw=hw, isr=self.isr)

    def step(self) -> None:
        """Append one random event of a broker."""
        rng = self.rng
        node = self.rng.pick(tuple(self.logs))
        match rng.below(10):
            case 0 | 1:
                self.values += 1
                self.append(self.leader, f"v{self.values}")
            case 2 | 3 | 4:
                lack = self.logs[self.leader][len(self.logs[node]) :]
                if lack:
                    self.append(node, lack[0])
            case 5 | 6:
                hw = min(len(self.logs[member]) for member in self.isr)
                believer = rng.pick(self.believers)
                self.raise_hw(believer, max(hw, self.hw[believer]), "leader")
            case 7:
                self.raise_hw(node, min(self.hw[self.leader], len(self.logs[node])), "follower")
            case 8:
                self.epoch += 1
                self.leader = rng.pick(self.isr)
                self.isr = tuple(sorted({self.leader, *(member for member in self.isr if rng.below(4))}))
                self.state()
            case _:
                self.odd(node)

    def append(self, node: str, value: str) -> None:
        """Append a record to this replica's log, in the random history."""
        log = self.logs[node]
        role = "leader" if node == self.leader else "follower"
        self.note(K.APPEND, node=node, offset=len(log), value=value, leader_epoch=self.epoch, detail=role)
        log.append(value)

    def raise_hw(self, node: str, hw: int, role: str) -> None:
        """Append a rise of this broker's high watermark to the random history."""
        if node == self.leader and role == "follower":
            return
        self.hw[node] = hw
        self.note(K.HW, node=node, hw=hw, leo=len(self.logs[node]), leader_epoch=self.epoch, detail=role)

    def odd(self, node: str) -> None:
        """Append an event that the protocol may forbid to the random history."""
        rng = self.rng
        log = self.logs[node]
        match rng.below(11):
            case 0 | 1:
                keep = rng.below(len(log) + 1)
                del log[keep:]
                self.note(K.TRUNCATE, node=node, offset=keep, detail="epoch")
            case 2:
                self.believers.append(node)
                self.note(K.BECAME_LEADER, node=node, leader_epoch=self.epoch, leo=len(log), hw=self.hw[node], isr=self.isr)
            case 3:
                self.note(K.HW, node=node, hw=rng.below(4), leo=len(log), leader_epoch=self.epoch, detail="leader")
            case 4:
                self.append(node, f"w{self.values}")
            case 5 | 6:
                self.note(K.FENCED if rng.below(3) else K.UNFENCED, node=node)
            case 7:
                self.controller = node
                self.note(K.CONTROLLER_ELECTED, node=node, controller_epoch=self.epoch)
            case 8:
                # A write by the leader: another ISR, and sometimes more than it may write.
                self.isr = tuple(sorted({self.leader if rng.below(6) else node, node}))
                self.epoch -= rng.below(6) == 0
                wrote = {"leader": self.leader, "leader_epoch": self.epoch, "isr": self.isr, "zk_version": 0}
                self.note(K.STATE_WRITTEN, node=self.leader, **wrote)
            case _:
                self.epoch += rng.below(4) > 0
                self.leader = node
                self.state()

    def ask(self) -> None:
        """Append a leader's request for another ISR, or a change to the role of a follower."""
        rng = self.rng
        node = self.rng.pick(tuple(self.logs))
        if rng.below(3):
            isr_wanted = tuple(sorted({*self.isr, node} if rng.below(4) else {self.leader, node}))
            self.note(K.ISR_CHANGE_SENT, node=rng.pick(self.believers), leader_epoch=self.epoch, isr=isr_wanted, zk_version=0)
        else:
            self.note(K.BECAME_FOLLOWER, node=node, leader_epoch=self.epoch + rng.below(2), leader=self.leader)


def drawn_calls(rng: Rng) -> Case:
    """Return random client operations with the brokers that answered, periods in which these are fenced, and one ISR."""
    operations = [replace(row, index=2 * row.index + 1, node=f"b{1 + rng.below(2)}") for row in drawn_operations(rng)]
    about = {"topic": "t", "partition": 0, "life": 1}
    first = {"leader": "b1", "leader_epoch": 1, "isr": ("b1", "b2"), "zk_version": 0}
    events = [ClusterEvent(index=0, kind=K.STATE_WRITTEN, time_ns=0, **about, **first)]  # type: ignore[arg-type]
    for index in sorted({2 * (1 + rng.below(10)) for _ in range(rng.below(4))}):
        kind = K.FENCED if rng.below(2) else K.UNFENCED
        node = f"b{1 + rng.below(2)}"
        events.append(ClusterEvent(index=index, kind=kind, time_ns=index, node=node, **about))  # type: ignore[arg-type]
    return Case(operations, events)


def drawn_events(rng: Rng) -> Case:
    """Return a random history of eight to twenty rows of brokers and ZooKeeper."""
    brokers = _Brokers(rng)
    for _ in range(6 + rng.below(12)):
        brokers.step()
    return Case([], brokers.rows, flush=rng.pick(("none", "before_ack")))


def drawn_joins(rng: Rng) -> Case:
    """Return a random history of brokers and ZooKeeper in which leaders also ask for other ISRs, and become followers."""
    brokers = _Brokers(rng)
    for _ in range(6 + rng.below(12)):
        if rng.below(4):
            brokers.step()
        else:
            brokers.ask()
    return Case([], brokers.rows)


def drawn_commits(rng: Rng) -> Case:
    """Return a random history of two consumer groups that poll and commit offsets, some of which may be forgotten."""
    rows: list[Operation] = []
    committed: dict[str, list[int | None]] = {"g": [None], "h": [None]}
    positions = [0, 0, 0]
    open_calls: dict[int, Operation] = {}
    end = 2 + rng.below(4)
    forgets = rng.below(3) == 0
    for index in range(8 + rng.below(20)):
        process = rng.below(3)
        about = {"index": index, "process": process, "topic": "t", "partition": 0, "time_ns": index}
        invoked = open_calls.pop(process, None)
        if invoked is None:
            f = rng.pick(("poll", "latest", "commit", "commit", "commit", "committed", "committed"))
            position = max(0, positions[process] - rng.below(2) + (rng.below(16) == 0))
            columns = {"poll": {"offset": 0}, "commit": {"offset": position}}.get(f, {})
            group = {} if f in ("poll", "latest") else {"value": "g" if rng.below(4) else "h"}
            row = Operation(type=OpType.INVOKE, f=f, **about, **columns, **group)  # type: ignore[arg-type]
            open_calls[process] = row
            rows.append(row)
            if f == "commit" and rng.below(2):
                committed[row.value or ""].append(position)  # it takes effect at once
            continue
        type_ = rng.pick((OpType.OK, OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL))
        answer = {**about, "type": type_, "f": invoked.f}
        if type_ is not OpType.OK or invoked.f == "commit":
            if (
                invoked.f == "commit"
                and committed[invoked.value or ""][-1] != invoked.offset
                and (type_ is OpType.OK or rng.below(2))
            ):
                committed[invoked.value or ""].append(invoked.offset)
            rows.append(Operation(**answer))  # type: ignore[arg-type]
            continue
        if invoked.f == "committed":
            store = committed[invoked.value or ""]
            answer_drawn = rng.pick(tuple(store)) if forgets and rng.below(3) == 0 else store[-1]
            answer_drawn = rng.below(6) if rng.below(24) == 0 else answer_drawn
            rows.append(Operation(**answer, offset=answer_drawn))  # type: ignore[arg-type]
            positions[process] = max(positions[process], answer_drawn or 0)
        elif invoked.f == "latest":
            rows.append(Operation(**answer, offset=end))  # type: ignore[arg-type]
            positions[process] = max(positions[process], end)
        else:
            got = rng.below(end)
            rows.extend(Operation(**answer, slot=at, offset=at, value=f"v{at}") for at in range(got + 1))  # type: ignore[arg-type]
            positions[process] = max(positions[process], got + 1)
    return Case(rows, [])
