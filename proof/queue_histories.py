"""Random histories of sends and polls: two logs, three processes, transactions of a few micro-operations, and some mistakes."""

from collections.abc import Hashable
from typing import NamedTuple

from history.foreign.step import Step
from history.op import OpType
from history.seed import Rng

KEYS = (0, 1)
_PROCESSES = 3
_GHOST = 900

Polled = tuple[int, int | None, int]  # key, offset, value


class Op(NamedTuple):
    """One operation of sends and polls; `at` and `ended` are its positions in the history, `ended` None without an answer."""

    process: int
    f: str
    at: int
    ended: int | None
    type: OpType
    sends: tuple[Polled, ...] = ()
    polls: tuple[tuple[Polled, ...], ...] = ()
    keys: tuple[int, ...] = ()  # assigned or subscribed keys, or keys rebalanced meanwhile
    rewinds: bool = False


class _Queue:
    """Simulates two logs and processes that send to them and poll them; the rows are the processes' operations."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.at = 0
        self.logs: dict[int, list[int]] = {key: [] for key in KEYS}
        self.position = [dict.fromkeys(KEYS, 0) for _ in range(_PROCESSES)]
        self.open: dict[int, tuple[Op, list[str]]] = {}
        self.ops: list[Op] = []
        self.values = 0

    def step(self) -> None:
        """Invoke or complete an operation of one process in the random history."""
        process = self.rng.below(_PROCESSES)
        if process in self.open:
            self.answer(process)
        else:
            self.ask(process)
        self.at += 1

    def ask(self, process: int) -> None:
        """Invoke a transaction, a send or a poll in the random history; sometimes an assignment, a subscription or a crash."""
        rng = self.rng
        draw = rng.below(24)
        if draw >= 21:
            f = "crash" if draw == 21 and rng.below(2) else rng.pick(("assign", "subscribe"))
            keys = () if f == "crash" else KEYS if rng.below(2) else (rng.pick(KEYS),)
            self.open[process] = Op(process, f, self.at, None, OpType.INFO, keys=keys, rewinds=rng.below(4) == 0), []
            return
        f = ("send", "poll", "txn", "txn")[draw % 4]
        micros = [("send", "poll")[rng.below(2)] if f == "txn" else f for _ in range(1 + rng.below(4 if f == "txn" else 2))]
        sends: list[Polled] = []
        for _ in range(micros.count("send")):
            self.values += 1
            sends.append((rng.pick(KEYS), None, self.values))
        op = Op(process, f, self.at, None, OpType.INFO, sends=tuple(sends), keys=(rng.pick(KEYS),) if rng.below(12) == 0 else ())
        if rng.below(2):
            op = self.written(op)  # its records are there before it is answered
        self.open[process] = op, micros

    def written(self, op: Op) -> Op:
        """Write the sent records to the logs; sometimes one is missing, doubled, or before the last."""
        sends = []
        for key, _, value in op.sends:
            log = self.logs[key]
            place = len(log) - 1 if log and self.rng.below(60) == 0 else len(log)
            if self.rng.below(40):
                log.insert(place, value)
            if self.rng.below(60) == 0:
                log.append(value)
            sends.append((key, place, value))
        return op._replace(sends=tuple(sends))

    def answer(self, process: int) -> None:
        """Complete an operation in the random history: ok, info or fail."""
        rng = self.rng
        op, micros = self.open.pop(process)
        type_ = rng.pick((OpType.OK, OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL))
        if type_ is OpType.FAIL and op.sends and op.sends[0][1] is not None and rng.below(8):
            type_ = OpType.INFO  # mostly: a written record did not certainly fail
        unwritten = any(offset is None for _, offset, _ in op.sends)
        if unwritten and (type_ is OpType.OK or rng.below(2 if type_ is OpType.INFO else 16) == 0):
            op = self.written(op)
        sure = 12 if type_ is OpType.OK else 3
        sends = [(k, o if o is None or rng.below(sure) else None, v) for k, o, v in op.sends]
        sends = [(k, o + 1 if o is not None and rng.below(60) == 0 else o, v) for k, o, v in sends]
        own = [(key, value) for key, _, value in op.sends] if rng.below(12) else []
        polls = tuple(self.polled(process, own) for _ in range(micros.count("poll")))
        self.ops.append(op._replace(ended=self.at, type=type_, sends=tuple(sends), polls=polls))

    def polled(self, process: int, own: list[tuple[int, int]]) -> tuple[Polled, ...]:
        """The records that one poll returns, mostly from the position on."""
        rng = self.rng
        records: list[Polled] = []
        for key in KEYS if rng.below(3) == 0 else (rng.pick(KEYS),):
            log, start = self.logs[key], self.position[process][key]
            if rng.below(40) == 0:
                start = max(0, start - 1 + 2 * rng.below(2))
            end = next((at for at, value in enumerate(log) if (key, value) in own), len(log))
            got: list[Polled] = [(key, offset, log[offset]) for offset in range(start, min(end, start + 3))]
            self.position[process][key] = start + len(got)
            records.extend(self._misread(got))
        return tuple(records)

    def _misread(self, got: list[Polled]) -> list[Polled]:
        """The records of a poll with a mistake, now and then."""
        rng = self.rng
        if not got:
            return got
        at = rng.below(len(got))
        key, offset, value = got[at]
        match rng.below(100):
            case 0 | 1:
                del got[at]
            case 2:
                got.append(got.pop(at))
            case 3:
                got[at] = (key, offset, 1 + rng.below(self.values))
            case 4:
                got[at] = (key, offset, _GHOST)
            case 5 | 6:
                got[at] = (key, None, value)
            case _:
                pass
        return got


def drawn_queue(rng: Rng) -> list[Op]:
    """Return a random history of four to twelve sends and polls; half of the histories end with one that reads everything."""
    queue = _Queue(rng)
    for _ in range(8 + rng.below(16)):
        queue.step()
    for process in sorted(queue.open):
        if rng.below(4):
            queue.answer(process)
            queue.at += 1
    ended = sorted(queue.ops, key=lambda op: op.ended or 0)
    ops = [*ended, *(op._replace(type=OpType.INFO, sends=_records_asked(op)) for op, _ in queue.open.values())]
    if rng.below(2):
        final_polls = tuple(tuple((key, offset, value) for offset, value in enumerate(queue.logs[key])) for key in KEYS)
        ops.append(Op(_PROCESSES, "poll", queue.at, queue.at + 1, OpType.OK, polls=final_polls))
    return ops


def _records_asked(op: Op) -> tuple[Polled, ...]:
    return tuple((key, None, value) for key, _, value in op.sends)


def steps_of(ops: list[Op]) -> list[Step]:
    """Return the lines of a history: each invocation, and each completion that came."""
    lines: list[tuple[int, Op, OpType]] = []
    for op in ops:
        lines.append((op.at, op, OpType.INVOKE))
        if op.ended is not None:
            lines.append((op.ended, op, op.type))
    return [
        Step(
            line=number, process=op.process, type=type_, f=op.f, value=_value(op, invoked=type_ is OpType.INVOKE),
            rebalanced=op.keys if op.f in ("send", "poll", "txn") and type_ is not OpType.INVOKE else (), rewinds=op.rewinds,
        )
        for number, (_, op, type_) in enumerate(sorted(lines, key=lambda line: line[0]), 1)
    ]  # fmt: skip


def _value(op: Op, *, invoked: bool) -> Hashable:
    """The value of an operation as Jepsen records it, at its invocation or its answer."""
    if op.f in ("assign", "subscribe", "crash"):
        return op.keys
    if invoked:
        return (*(("send", key, value) for key, _, value in op.sends), *(("poll",) for _ in op.polls))
    sends = tuple(("send", key, (offset, value)) for key, offset, value in op.sends)
    return (*sends, *(("poll", tuple((key, ((offset, value),)) for key, offset, value in poll)) for poll in op.polls))
