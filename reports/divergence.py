"""Where two runs part: how many rows they have in common, and the first rows in which they differ.

Rows are compared in the order of recording. Not compared: rows of faults, which follow from the plans; numbers that only tell one
thing from another (`IDENTITY`); columns and kinds of rows that one of the two protocols does not know. Three differences are told
apart, because the first one is often a matter of a millisecond: the first row that differs at all, be it in its time or its place
in the order; the first row that says something else, where the order of rows of different processes and their times do not count;
the first of these that changes a leader, an ISR, a log or a broker.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

import polars as pl

from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from history.op import Operation
from reports.rows import is_control, partition_key

Row = ClusterEvent | Operation
What = Literal["differs", "says", "decides"]
Key = tuple[object, ...]

IDENTITY = frozenset({"index", "incarnation", "stamps", "topic_id", "digest", "controller_epoch", "fault"})
_FAULTS = frozenset({K.FAULT_BEGUN, K.FAULT_ENDED, K.FAULT_ACTED, K.FAULT_PROBED})
_NOTED = frozenset({K.GAUGE, K.BROKER_STATE})  # not by every protocol
_POSITIONS = frozenset({"leo", "hw", "zk_version"})  # follow from records and from earlier writes, and decide nothing
_MILESTONES = frozenset({K.HEALED, K.FINAL_READS})
ZOOKEEPER = "ZooKeeper"
HARNESS = "harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The first difference of a sort. None: the run has no row that corresponds to the other's."""

    what: What
    left: Row | None
    right: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How far two runs are the same. `until_ns` is the time of the last row in common, `marks` are in order of `What`."""

    same: int
    until_ns: int
    marks: tuple[Mark, ...]
    columns: tuple[str, ...]  # that only one run fills, which are not compared

    @property
    def last(self) -> Mark | None:
        """The mark that tells most; None where the runs are the same."""
        return self.marks[-1] if self.marks else None


class Comparer:
    """Compares the rows of two histories."""

    def __init__(self, left: History, right: History) -> None:
        self._kinds_left_out = _FAULTS | _noted_by_one(left, right)
        filled_by_one = _columns_filled(left, self._kinds_left_out) ^ _columns_filled(right, self._kinds_left_out)
        self.columns = tuple(sorted(filled_by_one - IDENTITY))
        left_out = IDENTITY | {*self.columns, "time_ns"}
        self._event = _getter(ClusterEvent.__struct_fields__, left_out)
        self._deed = _getter(ClusterEvent.__struct_fields__, left_out | _POSITIONS)
        self._call = _getter(Operation.__struct_fields__, IDENTITY | {"time_ns"})

    def rows(self, history: History) -> list[Row]:
        """The rows that are compared, in the order of recording."""
        rows_compared: list[Row] = [event for event in history.events if event.kind not in self._kinds_left_out]
        rows_compared += history.operations
        return sorted(rows_compared, key=lambda row: (row.index, row.slot if isinstance(row, Operation) else 0))

    def says(self, row: Row) -> Key:
        """What a row says, without its time and its names of things. Equal for rows that correspond to each other."""
        return self._call(row) if isinstance(row, Operation) else self._event(row)

    def decides(self, row: Row) -> Key:
        """What an event changes, without the positions that it found."""
        return self._deed(row)

    def changes(self, left: Row, right: Row) -> tuple[tuple[str, object, object], ...]:
        """The columns in which two rows of one kind differ: name, value here, value there."""
        if type(left) is not type(right) or getattr(left, "kind", None) != getattr(right, "kind", None):
            return ()
        names = (name for name in left.__struct_fields__ if name not in IDENTITY and name not in self.columns)
        pairs = ((name, getattr(left, name), getattr(right, name)) for name in names)
        return tuple(pair for pair in pairs if pair[1] != pair[2])


def divergence_of(left: History, right: History) -> Divergence:
    """Find after how many equal rows two runs part, and the rows in which they first differ, say and decide something else."""
    compare = Comparer(left, right)
    left_rows, right_rows = compare.rows(left), compare.rows(right)
    pairs = enumerate(zip(left_rows, right_rows, strict=False))
    differing = (n for n, (x, y) in pairs if x.time_ns != y.time_ns or compare.says(x) != compare.says(y))
    same = next(differing, min(len(left_rows), len(right_rows)))
    marks: list[Mark] = []
    if same < max(len(left_rows), len(right_rows)):
        marks.append(Mark(what="differs", left=_at(left_rows, same), right=_at(right_rows, same)))
        says = _earliest_difference("says", left_rows, right_rows, compare.says)
        deeds = [[row for row in rows if _is_deed(row)] for rows in (left_rows, right_rows)]
        decides = _earliest_difference("decides", deeds[0], deeds[1], compare.decides)
        marks += [mark for mark in (says, decides) if mark is not None]
    until_ns = left_rows[same - 1].time_ns if same else 0
    return Divergence(same=same, until_ns=until_ns, marks=tuple(marks), columns=compare.columns)


def _at(rows: Sequence[Row], number: int) -> Row | None:
    return rows[number] if number < len(rows) else None


def _noted_by_one(left: History, right: History) -> set[K]:
    """The kinds of rows that only one of the two protocols knows."""
    left_kinds, right_kinds = (set(history.events_frame["kind"].unique()) for history in (left, right))
    return {kind for kind in _NOTED if (kind.value in left_kinds) != (kind.value in right_kinds)}


def _columns_filled(history: History, without: Iterable[K]) -> set[str]:
    """The columns of events that have a value, or a list with values, in some row of another kind than these."""
    frame = history.events_frame.filter(~pl.col("kind").is_in([str(kind) for kind in without]))
    return {
        column.name
        for column in frame.get_columns()
        if (column.list.len().sum() if column.dtype.is_nested() else len(column) - column.null_count())
    }


def _getter(fields: Iterable[str], without: Iterable[str]) -> Callable[[Row], Key]:
    return attrgetter(*(field for field in fields if field not in frozenset(without)))


def _is_deed(row: Row) -> bool:
    """Whether a row changes a leader, an ISR, a log or a broker; appends are too many and told by `says`."""
    return isinstance(row, ClusterEvent) and is_control(row) and row.kind not in _MILESTONES


def actor(row: Row) -> str:
    """Who acts: a client, a broker, ZooKeeper or the harness."""
    if isinstance(row, Operation):
        return f"client {row.process}"
    if row.kind in (K.STATE_WRITTEN, K.SESSION_ENDED):
        return ZOOKEEPER
    return row.node or HARNESS


def _earliest_difference(what: What, left: Sequence[Row], right: Sequence[Row], key: Callable[[Row], Key]) -> Mark | None:
    """The earliest row at which one process, on one partition, says something else in the two runs."""
    left_rows, right_rows = _rows_by_actor(left), _rows_by_actor(right)
    marks = [
        mark
        for lane in {**left_rows, **right_rows}
        if (mark := _first_difference(what, left_rows[lane], right_rows[lane], key)) is not None
    ]
    return min(
        marks, key=lambda mark: min((row.time_ns, row.index) for row in (mark.left, mark.right) if row is not None), default=None
    )


def _rows_by_actor(rows: Iterable[Row]) -> defaultdict[tuple[str, str], list[Row]]:
    # By who acts and the partition.
    lanes: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        lanes[actor(row), partition_key(row)].append(row)
    return lanes


def _first_difference(what: What, left: Sequence[Row], right: Sequence[Row], key: Callable[[Row], Key]) -> Mark | None:
    """The first pair of rows that differ, or the end of the shorter list; None if there is no difference."""
    for x, y in zip(left, right, strict=False):
        if key(x) != key(y):
            return Mark(what=what, left=x, right=y)
    if len(left) == len(right):
        return None
    at = min(len(left), len(right))
    return Mark(what=what, left=_at(left, at), right=_at(right, at))


def partners(compare: Comparer, left: Iterable[Row], right: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Rows of the two runs that say the same: the first of the one with the first of the other, the second with the second."""
    waiting: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in right:
        waiting[compare.says(row)].append(row)
    counts: defaultdict[Key, int] = defaultdict(int)
    for row in left:
        key = compare.says(row)
        if counts[key] < len(waiting[key]):
            yield row, waiting[key][counts[key]]
            counts[key] += 1
