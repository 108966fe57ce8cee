"""Random histories of clients that keep a session with the cluster: mostly correct, with some answers changed at random.

Each drawer simulates a few processes and what the cluster keeps of them. A call takes effect when it is answered; one of unknown
outcome takes effect or not, and its process is not heard of again.
"""

import json
from typing import Any

from msgspec.structs import replace

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Case
from proof.session_rows import OTHER_PARTITION

MS = 1_000_000
_READERS = (90, 91)
_FINAL_READER = 92
_TRANSACTORS = 3
Said = dict[str, Any]


class Calls:
    """The rows of some processes, and which call each of them has open."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.rows: list[Operation] = []
        self.time_ms = 0
        self.open: dict[int, Said] = {}  # by process: what the simulation knows of its open call

    def write(self, process: int, type_: OpType, f: str, said: Said | str | None = None, **columns: Any) -> None:
        """Append a row; what was said is written as JSON."""
        self.time_ms += 1 + self.rng.below(3)
        value = json.dumps(said) if isinstance(said, dict) else said
        row = Operation(index=len(self.rows), process=process, type=type_, f=f, value=value, time_ns=self.time_ms * MS, **columns)
        self.rows.append(row)

    def outcome(self, well: int = 4) -> OpType | None:
        """Draw how a call ends, in most cases `well`; None: nobody answers."""
        return self.rng.pick((*[OpType.OK] * well, OpType.FAIL, OpType.INFO, None))


def case_of(calls: Calls, rows: list[Operation], final_reads_ms: int | None, **columns: Any) -> Case:
    """The case of these calls. In a few of them brokers lost bytes, or an operator's order cost a partition its records."""
    rng, at = calls.rng, rows[-1].index + 1
    wounded = [f"b{1 + rng.below(2)}" for _ in range(1 + rng.below(3))] if rng.below(8) == 0 else []
    events = [_event(at + number, K.WOUND, 0, node=node, offset=0, detail="power-loss") for number, node in enumerate(wounded)]
    if rng.below(16) == 0:
        events += _records_lost_by_order(at + len(events), rng)
    final_reads_at_ns = None if final_reads_ms is None else final_reads_ms * MS
    return Case(
        rows, events, m=1 + rng.below(3), final_reads_at_ns=final_reads_at_ns, makes_final_reads=rng.below(4) > 0,
        end_ns=(at + len(events)) * MS + rows[-1].time_ns, by_operator=True, whole=True, **columns,
    )  # fmt: skip


def _event(index: int, kind: K, partition: int, **columns: Any) -> ClusterEvent:
    return ClusterEvent(index=index, kind=kind, time_ns=index * MS, life=1, topic="t", partition=partition, **columns)


def _records_lost_by_order(at: int, rng: Rng) -> list[ClusterEvent]:
    """Events of another partition, whose only record may be below the high watermark, and which the elected replica lacks."""
    about = {"leader_epoch": 1, "detail": "leader", "node": "b1"}
    elected = {"leader": "b3", "leader_epoch": 2, "isr": ("b3",)}
    return [
        _event(at, K.STATE_WRITTEN, OTHER_PARTITION, leader="b1", leader_epoch=1, isr=("b1",), zk_version=0),
        _event(at + 1, K.APPEND, OTHER_PARTITION, offset=0, value="x", **about),
        _event(at + 2, K.HW, OTHER_PARTITION, hw=rng.below(2), leo=1, **about),
        _event(at + 3, K.UNCLEAN_ELECTION_ORDERED, OTHER_PARTITION, leader="b3"),
        _event(at + 4, K.STATE_WRITTEN, OTHER_PARTITION, zk_version=1, **elected),
        _event(at + 5, K.BECAME_LEADER, OTHER_PARTITION, node="b3", leo=0, hw=0, leader_epoch=2, isr=("b3",)),
    ]


class _Readers:
    """Consumers of committed records: each goes on where it stopped, and is given what can be read by then."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.positions: dict[int, dict[str, int]] = {}

    def read(self, reader: int, logs: dict[str, list[tuple[int, str]]], *, whole: bool) -> None:
        """A call of a reader; `logs` has the records that can be read. It rarely fails or comes to no end."""
        rng, calls = self.calls.rng, self.calls
        calls.write(reader, OpType.INVOKE, "read-committed")
        if rng.below(12) == 0:
            calls.write(reader, OpType.FAIL, "read-committed")
            return
        positions = self.positions.setdefault(reader, {})
        records: dict[str, list[list[Any]]] = {}
        is_end = True
        for key, log in logs.items():
            there: list[list[Any]] = [list(record) for record in log if record[0] >= positions.get(key, 0)]
            got = there if whole or rng.below(2) else there[:1]
            is_end &= len(got) == len(there)
            if got:
                records[key] = got
                positions[key] = int(got[-1][0]) + 1
        said = {"records": records, "end": True} if is_end else {"records": records}
        calls.write(reader, OpType.OK, "read-committed", said)


def answers_changed(rows: list[Operation], rng: Rng, change: Any) -> list[Operation]:
    """The rows, with up to three answers changed."""
    rows = list(rows)
    for _ in range(max(0, rng.below(6) - 2)):
        at = rng.below(len(rows))
        if rows[at].type is not OpType.INVOKE:
            rows[at] = change(rows[at], rng)
    return rows


def _with_reads_changed(row: Operation, rng: Rng, sent: tuple[tuple[str, int, str], ...]) -> Operation:
    """An answer to a reader, with a record left out, moved or replaced, or one added of these: partition, offset and value."""
    said = json.loads(row.value or "{}")
    records: dict[str, list[list[Any]]] = said.get("records", {})
    other = rng.pick(sent)
    key = rng.pick(tuple(sorted(records))) if records else other[0]
    placed = records.setdefault(key, [])
    match rng.below(7):
        case 0 | 1 if placed:
            del placed[rng.below(len(placed))]
        case 2 if placed:
            placed.append([placed[-1][0] + 1 + rng.below(2), rng.pick(placed)[1]])
        case 3 if placed:
            placed[rng.below(len(placed))][1] = other[2]
        case 4:
            placed.append([rng.below(4), other[2]])
        case 5:
            records.setdefault(other[0], []).append([other[1], other[2]])
        case _:
            said = {"records": records, **({} if said.get("end") else {"end": True})}
    return replace(row, value=json.dumps(said))


class _Processors:
    """A group that reads t-0 and t-1 and writes a result of each record to out-0 and out-1, in transactions."""

    def __init__(self, rng: Rng) -> None:
        self.calls = Calls(rng)
        self.readers = _Readers(self.calls)
        self.inputs: dict[int, list[str]] = {0: [], 1: []}
        self.results: dict[int, list[tuple[str, bool]]] = {0: [], 1: []}  # of out-0 and out-1: value, and whether it can be read
        self.positions = {0: 0, 1: 0}
        self.processes = 30
        self.tears = rng.below(4) == 0  # a cluster that commits parts of transactions

    def step(self) -> None:
        """A produce, a part of a transaction, or a call of a reader."""
        rng = self.calls.rng
        match rng.below(8):
            case 0 | 1 | 2:
                self.produce()
            case 3:
                self.readers.read(rng.pick(_READERS), self.logs(), whole=False)
            case _:
                self.process(1 + rng.below(3))

    def logs(self) -> dict[str, list[tuple[int, str]]]:
        """The results that can be read."""
        return {
            f"out-{partition}": [(offset, value) for offset, (value, is_readable) in enumerate(log) if is_readable]
            for partition, log in self.results.items()
        }

    def produce(self) -> None:
        """Write a record to be processed."""
        calls, rng = self.calls, self.calls.rng
        partition, outcome = rng.below(2), calls.outcome()
        log = self.inputs[partition]
        self.processes += 1
        sent = {"topic": "t", "partition": partition, "acks": -1 if rng.below(6) else 1}
        value = f"v{self.processes}"
        calls.write(self.processes, OpType.INVOKE, "produce", value, **sent)
        if outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2)):
            log.append(value)
        if outcome is not None:
            offset = {"offset": len(log) - 1} if outcome is OpType.OK else {}
            calls.write(self.processes, outcome, "produce", value, **sent, **offset)

    def process(self, member: int) -> None:
        """Begin or end a transaction of a member."""
        calls, rng = self.calls, self.calls.rng
        if member not in calls.open:
            calls.open[member] = {}
            calls.write(member, OpType.INVOKE, "process", {"group": "g"})
            return
        if calls.open[member]:
            return  # it was never answered
        outcome = calls.outcome()
        took = [partition for partition in (0, 1) if rng.below(3)]
        said: Said = {"group": "g", "records": {}, "results": {}, "positions": {}}
        commits = outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2) == 0)
        for partition in took:
            self.take(partition, said, commits=commits)
        if outcome is None:
            calls.open[member] = {"silent": True}
            return
        del calls.open[member]
        is_told = outcome is OpType.OK or rng.below(4) > 0
        calls.write(member, outcome, "process", said if is_told else None)

    def take(self, partition: int, said: Said, *, commits: bool) -> None:
        """Process the next records of a partition."""
        rng, start = self.calls.rng, self.positions[partition]
        if rng.below(12) == 0:
            start = rng.below(start + 1)  # told by a coordinator that was replaced
        records = list(enumerate(self.inputs[partition]))[start : start + 1 + rng.below(2)]
        if not records:
            return
        log = self.results[partition]
        names_offsets = rng.below(4) > 0
        placed: list[list[Any]] = []
        for offset, value in records:
            result = f"t-{partition}@{offset}={value}"
            placed.append([len(log) if names_offsets else None, result])
            log.append((result, commits and not (self.tears and rng.below(3) == 0)))
        said["records"][f"t-{partition}"] = [list(record) for record in records]
        said["results"][f"out-{partition}"] = placed
        said["positions"][f"t-{partition}"] = records[-1][0] + 1
        if commits:
            self.positions[partition] = records[-1][0] + 1


def drawn_processed(rng: Rng) -> Case:
    """Return a random history of a group that commits results and positions in transactions, and of their readers."""
    group = _Processors(rng)
    for _ in range(8 + rng.below(12)):
        group.step()
    final_reads_ms = group.calls.time_ms + 1
    for _ in range(rng.below(3) if rng.below(4) == 0 else 2):
        group.readers.read(rng.pick((_FINAL_READER, *_READERS)), group.logs(), whole=rng.below(6) > 0)
    logs = group.results.items()
    sent = [(f"out-{number}", offset, value) for number, log in logs for offset, (value, _) in enumerate(log)]
    values = (*sent, ("out-0", 0, "t-0@9=nobody"))
    rows = answers_changed(group.calls.rows, rng, lambda row, rng: _with_processing_changed(row, rng, values))
    return case_of(group.calls, rows, final_reads_ms if rng.below(8) else None)


def _with_processing_changed(row: Operation, rng: Rng, sent: tuple[tuple[str, int, str], ...]) -> Operation:
    """The answer with something changed: another outcome, position, result or record."""
    if row.f == "read-committed":
        return _with_reads_changed(row, rng, sent) if row.type is OpType.OK else row
    if row.f == "produce":
        return replace(row, offset=None if row.offset is None else max(0, row.offset - 1 + 2 * rng.below(2)))
    said = json.loads(row.value) if row.value else {}
    placed: list[list[Any]] = next(iter(said.get("results", {}).values()), [])
    match rng.below(6):
        case 0 | 1:
            return replace(row, type=rng.pick((OpType.OK, OpType.FAIL, OpType.INFO))) if row.value else row
        case 2 if placed:
            del placed[rng.below(len(placed))]
        case 3 if placed:
            placed[rng.below(len(placed))][0] = rng.pick((None, 0, 1, 2))
        case 4 if placed:
            placed[rng.below(len(placed))][1] = rng.pick(sent)[2]
        case _:
            said["positions"] = {key: position + 1 for key, position in said.get("positions", {}).items()}
    return replace(row, value=json.dumps(said)) if row.value else row


class _Transactors:
    """Producers that take two transactional ids over from each other, and readers of what they commit."""

    def __init__(self, rng: Rng) -> None:
        self.calls = Calls(rng)
        self.readers = _Readers(self.calls)
        self.log: list[tuple[str, int]] = []  # value and number of its transaction
        self.readable: set[int] = set()  # transactions that committed
        self.current: dict[str, int] = {}  # id -> the process that has it
        self.id_of: dict[int, str] = {}
        self.transaction: dict[int, int] = {}  # process -> its transaction
        self.is_open: dict[int, bool] = {}  # process -> whether it sent something in that
        self.process_of = {client: client for client in range(_TRANSACTORS)}
        self.is_lax = rng.below(4) == 0  # a cluster that fences nobody
        self.tears = rng.below(4) == 0  # one that commits parts of transactions
        self.torn: set[str] = set()  # values that cannot be read though their transaction committed
        self.numbers = 0

    def step(self) -> None:
        """Ask for something or be told something."""
        rng = self.calls.rng
        client = rng.below(_TRANSACTORS)
        process = self.process_of[client]
        if rng.below(10) == 0:
            self.readers.read(rng.pick(_READERS), {"t-0": self.committed()}, whole=False)
        elif process in self.calls.open:
            self.told(process, self.calls.open.pop(process))
        else:
            self.ask(process)

    def committed(self) -> list[tuple[int, str]]:
        """The records that can be read."""
        return [
            (offset, value)
            for offset, (value, number) in enumerate(self.log)
            if number in self.readable and value not in self.torn
        ]

    def ask(self, process: int) -> None:
        """Invoke the next step of a producer."""
        rng = self.calls.rng
        id_ = self.id_of.get(process)
        sends: Said = {}
        if id_ is None or rng.below(5) == 0:
            id_ = "b" if rng.below(5) == 0 else "a"
            f = "init-transactions"
        elif not self.is_open.get(process) or rng.below(3) == 0:
            values = [f"w{self.numbers + at}" for at in range(1 + rng.below(2))]
            self.numbers += len(values)
            f, sends = "txn-send", {"t-0": [[None, value] for value in values]}
        else:
            f = "txn-commit" if rng.below(4) else "txn-abort"
        said: Said = {"id": id_, "sends": sends} if f == "txn-send" else {"id": id_}
        self.calls.open[process] = {"f": f, "said": said}
        self.calls.write(process, OpType.INVOKE, f, said)

    def told(self, process: int, asked: Said) -> None:
        """Complete the call of a producer; one that was taken over is refused, or is told that it does not know."""
        calls, rng = self.calls, self.calls.rng
        f, said = asked["f"], asked["said"]
        id_ = said["id"]
        outcome = calls.outcome(12)
        if f != "init-transactions" and self.current.get(id_) != process and not self.is_lax and outcome is OpType.OK:
            outcome = OpType.INFO if f == "txn-commit" and rng.below(2) else OpType.FAIL
        works = outcome is OpType.OK or (
            outcome in (OpType.INFO, None) and rng.below(2) == 0 and (self.is_lax or self.current.get(id_) == process)
        )
        if f == "init-transactions":
            self.initialize(process, id_, works=outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2) == 0))
        elif f == "txn-send":
            self.is_open[process] = True
            said = self.sent(process, said, works=works)
        else:
            if f == "txn-commit" and works:
                self.readable.add(self.transaction[process])
            self.begin(process)
        if outcome in (OpType.INFO, None):
            self.process_of[process % _TRANSACTORS] += _TRANSACTORS  # the client goes on as another process
        elif outcome is OpType.FAIL:
            # A producer that was refused is given up; the process initializes another one.
            self.id_of.pop(process, None)
        if outcome is not None:
            calls.write(process, outcome, f, said)

    def initialize(self, process: int, id_: str, *, works: bool) -> None:
        """Take an id over."""
        if works:
            self.current[id_] = process
            self.id_of[process] = id_
            self.begin(process)

    def begin(self, process: int) -> None:
        """Begin a transaction."""
        self.numbers += 1
        self.transaction[process] = self.numbers
        self.is_open[process] = False

    def sent(self, process: int, said: Said, *, works: bool) -> Said:
        """Append records; return what the producer is told."""
        if not works:
            return said
        names_offsets = self.calls.rng.below(4) > 0
        placed: list[list[Any]] = []
        for _, value in said["sends"]["t-0"]:
            placed.append([len(self.log) if names_offsets else None, value])
            self.log.append((value, self.transaction[process]))
            self.torn |= {value} if self.tears and self.calls.rng.below(3) == 0 else set()
        return {**said, "sends": {"t-0": placed}}


def drawn_takeovers(rng: Rng) -> Case:
    """Return a random history of producers that take their ids over from each other, and of readers of committed records."""
    producers = _Transactors(rng)
    for _ in range(20 + rng.below(24)):
        producers.step()
    final_reads_ms = producers.calls.time_ms + 1
    for _ in range(rng.below(3) if rng.below(4) == 0 else 2):
        reader = rng.pick((_FINAL_READER, *_READERS))
        producers.readers.read(reader, {"t-0": producers.committed()}, whole=rng.below(6) > 0)
    sent = [("t-0", offset, value) for offset, (value, _) in enumerate(producers.log)]
    values = (*sent, ("t-0", 0, "nobody"))
    rows = answers_changed(producers.calls.rows, rng, lambda row, rng: _with_step_changed(row, rng, values))
    return case_of(producers.calls, rows, final_reads_ms if rng.below(8) else None)


def _with_step_changed(row: Operation, rng: Rng, sent: tuple[tuple[str, int, str], ...]) -> Operation:
    """The answer with another outcome, or with other records."""
    if row.f == "read-committed":
        return _with_reads_changed(row, rng, sent) if row.type is OpType.OK else row
    if row.f in ("txn-commit", "txn-send", "txn-abort") and row.type is not OpType.INFO:
        return replace(row, type=rng.pick((OpType.OK, OpType.FAIL)))
    return row
