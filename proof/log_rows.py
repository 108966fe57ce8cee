"""Rows of one partition as definitions read them: calls with their answers, and logs rebuilt from the first row each time."""

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
    """The rows of one partition, what its topic promises, and of a run that was healed, when; its rows keep their times."""

    operations: Operations
    events: Events
    m: int = 2
    flush: Flush = "none"
    by_operator: bool = False
    healed_at_ns: int | None = None
    final_reads_at_ns: int | None = None
    end_ns: int = 0


Definition = Callable[[Case], set[str]]
ByRows = Callable[[Operations, Events], set[str]]


def of_rows(definition: ByRows) -> Definition:
    """A definition that does not ask what was promised."""
    return lambda case: definition(case.operations, case.events)


class Call(NamedTuple):
    """An invocation and its answer; empty where none came."""

    asked: list[Operation]
    answer: list[Operation]

    @property
    def ok(self) -> bool:
        """Whether it certainly succeeded."""
        return bool(self.answer) and self.answer[0].type is OpType.OK

    @property
    def failed(self) -> bool:
        """Whether it certainly did not."""
        return bool(self.answer) and self.answer[0].type is OpType.FAIL


def calls(rows: Operations, f: str) -> list[Call]:
    """The calls of one function: the answer is the next rows of the process that are no invocation."""
    found = []
    for index in sorted({row.index for row in rows if row.type is OpType.INVOKE and row.f == f}):
        asked = [row for row in rows if row.index == index]
        later = [row for row in rows if row.process == asked[0].process and row.index > index]
        first = min((row.index for row in later), default=-1)
        found.append(Call(asked, [row for row in later if row.index == first and row.type is not OpType.INVOKE]))
    return found


def records_at(events: Events, node: str, index: int) -> dict[int, Record]:
    """The log of a replica after the rows up to this one, from the first row on."""
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
    """The values alone."""
    return {offset: value for offset, (value, _) in records_at(events, node, index).items()}
