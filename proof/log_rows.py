"""Reads the rows of one partition for the definitions: calls with their answers, and logs rebuilt from the first row."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.promise import Flush

Operations = Sequence[Operation]
Events = Sequence[ClusterEvent]
Record = tuple[str | None, int | None]  # value and epoch


class Case(NamedTuple):
    """One random history on which checker and definition are compared: rows of one partition and its topic's promise.

    If the history was healed, it also has the times of healing and end, and its rows keep their times.
    """

    operations: Operations
    events: Events
    m: int = 2
    flush: Flush = "none"
    by_operator: bool = False
    healed_at_ns: int | None = None
    final_reads_at_ns: int | None = None
    end_ns: int = 0
    makes_final_reads: bool = True
    simulated: bool = False
    client_timeout_ms: int | None = None
    whole: bool = False  # the rows are those of a whole run and name its topics and partitions themselves
    compacted: bool = False  # the topic keeps the last record of each key only


Definition = Callable[[Case], set[str]]
ByRows = Callable[[Operations, Events], set[str]]


def of_rows(definition: ByRows) -> Definition:
    """Turn a definition that needs only rows into one that takes a `Case` (rows and promise)."""
    return lambda case: definition(case.operations, case.events)


class Call(NamedTuple):
    """A client's invocation and its answer (empty if none came)."""

    asked: list[Operation]
    answer: list[Operation]

    @property
    def ok(self) -> bool:
        """Whether the client's call certainly succeeded."""
        return bool(self.answer) and self.answer[0].type is OpType.OK

    @property
    def failed(self) -> bool:
        """Whether the client's call certainly failed."""
        return bool(self.answer) and self.answer[0].type is OpType.FAIL


def calls(rows: Operations, f: str) -> list[Call]:
    """Pair the calls of one client function: the answer is the process's next row, unless that is an invocation."""
    all_calls = []
    for index in sorted({row.index for row in rows if row.type is OpType.INVOKE and row.f == f}):
        invoked = [row for row in rows if row.index == index]
        later = [row for row in rows if row.process == invoked[0].process and row.index > index]
        first = min((row.index for row in later), default=-1)
        all_calls.append(Call(invoked, [row for row in later if row.index == first and row.type is not OpType.INVOKE]))
    return all_calls


def records_at(events: Events, node: str, index: int) -> dict[int, Record]:
    """Rebuild a replica's log after row `index` from the first row: offset -> value and epoch."""
    log: dict[int, Record] = {}
    for row in events:
        if row.index > index or row.node != node:
            continue
        end = {K.APPEND: row.offset, K.TRUNCATE: row.offset, K.WOUND: row.offset, K.RECOVERED: row.leo, K.REPLICA_DELETED: 0}
        if row.kind in end:
            log = {offset: record for offset, record in log.items() if offset < (end[row.kind] or 0)}
        if row.kind is K.APPEND and row.offset is not None:
            log[row.offset] = (row.value, row.leader_epoch)
    return log


def log_at(events: Events, node: str, index: int) -> dict[int, str | None]:
    """Rebuild a replica's log after row `index` from the first row: offset -> value."""
    return {offset: value for offset, (value, _) in records_at(events, node, index).items()}
