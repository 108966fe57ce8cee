"""Rows of a history's tables as named tuples, for the loops of checkers.

Reading whole columns into Python once and looping is faster here than many small expressions over small groups. A field is
meaningful only if the kind of the row fills it (`history.event`). Rows that lack a column of their kind are left out, and
`checkers.validity.assumptions` reports them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import polars as pl

from history.event import EventKind as K

_SEVERAL = ("isr", "replicas")  # columns of lists that become tuples, so that rows can be compared and hashed
_Row = TypeVar("_Row", bound=NamedTuple)


class EventRow(NamedTuple):
    """One cluster event of a history. Columns that the kind does not fill are None, whatever their type says."""

    at: int  # index of the row
    kind: str
    time_ns: int
    node: str
    life: int | None
    incarnation: int | None
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    stamps: tuple[int, ...] | None
    hw: int
    leo: int | None
    offset: int
    value: str
    dir: int | None
    replicas: tuple[str, ...]
    detail: str | None


class ClusterRow(NamedTuple):
    """One event of any broker, partition or fault, for checkers of a whole run. Columns as in `EventRow`."""

    at: int
    time_ns: int
    kind: str
    node: str
    life: int | None
    broker: str
    incarnation: int
    topic: str
    topic_id: str | None
    partition: int | None
    leader: str | None
    leader_epoch: int
    zk_version: int | None
    isr: tuple[str, ...]
    stamps: list[int] | None
    elr: list[str] | None
    replicas: tuple[str, ...]
    fault: str
    detail: str
    dir: int | None


# The columns that a row of each kind must fill to be judged; other kinds need none.
FILLED: tuple[tuple[K, tuple[str, ...]], ...] = (
    (K.NODE_STARTED, ("node",)),
    (K.NODE_STOPPED, ("node",)),
    (K.REGISTERED, ("node",)),
    (K.SESSION_ENDED, ("node",)),
    (K.CONTROLLER_ELECTED, ("node",)),
    (K.STATE_WRITTEN, ("isr", "leader_epoch")),
    (K.ASSIGNED, ("replicas",)),
    (K.ISR_CHANGE_SENT, ("node", "isr")),
    (K.ISR_CHANGE_ENDED, ("node", "isr", "leader_epoch")),
    (K.BECAME_LEADER, ("node", "leader_epoch")),
    (K.BECAME_FOLLOWER, ("node", "leader_epoch")),
    (K.RESIGNED, ("node",)),
    (K.RECOVERED, ("node", "leo")),
    (K.DIR_FAILED, ("node", "dir")),
    (K.APPEND, ("node", "offset", "leader_epoch", "value")),
    (K.TRUNCATE, ("node", "offset")),
    (K.FLUSHED, ("node", "offset")),
    (K.HW, ("node", "hw", "leader_epoch", "detail")),
    (K.REPLICA_DELETED, ("node",)),
    (K.WOUND, ("node",)),
    (K.RECORD_ON_DISK, ("node", "offset", "leader_epoch", "value")),
)


# The highest offset that is judged. Logs are held as lists, so a greater offset would exhaust the memory.
OFFSET_MAX = 1 << 26


def _impossible(*columns: str) -> pl.Expr:
    return pl.any_horizontal(*(((pl.col(c) < 0) | (pl.col(c) > OFFSET_MAX)).fill_null(False) for c in columns))


_IS_WOUND = pl.col("kind") == str(K.WOUND)


def _lacks_required() -> pl.Expr:
    """Flag the rows that lack a required column. Built column by column, which is faster on small frames."""
    columns = sorted({column for _, columns in FILLED for column in columns})
    needing = {column: [str(kind) for kind, filled in FILLED if column in filled] for column in columns}
    bad = [pl.col(column).is_null() & pl.col("kind").is_in(kinds) for column, kinds in needing.items()]
    return pl.any_horizontal(*bad, _IS_WOUND & pl.col("partition").is_not_null() & pl.col("offset").is_null())


# True for rows of events that lack a column their kind must fill.
LACKING = _lacks_required()
# A wound of a whole node has a row without a partition. The rows of its logs say the same, so partitions ignore it.
_WHOLE = _IS_WOUND & pl.col("partition").is_null()
# True for rows with an impossible offset: these are not judged, and `checkers.validity.assumptions` reports them.
IMPOSSIBLE_OPERATION = _impossible("offset")
IMPOSSIBLE_EVENT = _impossible("offset", "hw", "leo")
# True for rows of events that a walk over a partition reads.
FIT = ~(LACKING | _WHOLE | IMPOSSIBLE_EVENT)


def rows_of(kind: type[_Row], frame: pl.DataFrame) -> list[_Row]:
    """Read the columns of a frame that a class of rows names; `at` is the index of the row. No row is left out."""
    return decoded(kind, lambda name: frame[name].to_list())


def decoded(kind: type[_Row], column: Callable[[str], list[Any]]) -> list[_Row]:
    """Make rows of a class from columns, by name; `at` is the index of the row."""
    columns = [column("index" if name == "at" else name) for name in kind._fields]
    for place, name in enumerate(kind._fields):
        if name in _SEVERAL:
            columns[place] = [None if members is None else tuple(members) for members in columns[place]]
    return list(map(kind._make, zip(*columns, strict=True)))


class OperationRow(NamedTuple):
    """One row of a client operation; None where a column does not apply."""

    at: int  # index of the row
    process: int
    type: str
    f: str
    value: str | None
    offset: int | None
    acks: int | None
    leader_epoch: int | None
    hw: int | None
    error: str | None
    time_ns: int
    delivery: str | None = None
    attempts: int | None = None
    node: str | None = None  # the broker that was asked, or that answered


def operation_rows(operations: pl.DataFrame) -> list[OperationRow]:
    """Read the client operations of a frame, in order. Impossible offsets (< 0 or > OFFSET_MAX) become None."""
    if not operations.height:
        return []
    frame = operations.rename({"index": "at"}).with_columns(pl.when(~IMPOSSIBLE_OPERATION).then("offset").alias("offset"))
    return list(map(OperationRow._make, zip(*(frame[name].to_list() for name in OperationRow._fields), strict=True)))


class Call(NamedTuple):
    """A client's invocation with its completion; `rows` are those of the completion, one for each record.

    An open call has type "" and `ended` -1.
    """

    process: int
    f: str
    invoked: int
    invoked_ns: int
    asked: tuple[OperationRow, ...]
    type: str
    ended: int
    rows: tuple[OperationRow, ...]

    @property
    def request(self) -> tuple[str, str]:
        """What an administrator's request is about, and the replicas that it names, if any: "orders-0 on 1,2,3"."""
        about, _, replicas = (self.asked[0].value or "").partition(" on ")
        return about, replicas


def calls(rows: list[OperationRow]) -> list[Call]:
    """Pair clients' invocations with completions by process, in order of completion; calls without a completion come last.

    A call whose process goes on without a completion stays open: the completion may be of an earlier topic with the same name.
    A completion without an invocation is left out: `checkers.validity.assumptions` reports it.
    """
    paired: list[Call] = []
    waiting: dict[int, list[OperationRow]] = {}
    left_open: list[list[OperationRow]] = []
    start, count = 0, len(rows)
    while start < count:
        first = rows[start]
        end = start + 1
        while end < count and rows[end].at == first.at:
            end += 1
        if first.type == "invoke":
            if first.process in waiting:
                left_open.append(waiting[first.process])
            waiting[first.process] = rows[start:end]
        elif invocation := waiting.pop(first.process, None):
            paired.append(_call_of(invocation, rows[start:end]))
        start = end
    open_calls = sorted([*left_open, *waiting.values()], key=lambda invocation: invocation[0].at)
    return paired + [_call_of(invocation, []) for invocation in open_calls]


def _call_of(rows: list[OperationRow], answered: list[OperationRow]) -> Call:
    """The call of an invocation and its completion; without one it has no type and never ends."""
    first = rows[0]
    if first.f == "produce":
        # The invocation holds the values that were sent; a completion need not repeat them.
        answered = [
            row if row.value is not None else row._replace(value=sent.value) for row, sent in zip(answered, rows, strict=False)
        ]
    return Call(
        process=first.process,
        f=first.f,
        invoked=first.at,
        invoked_ns=first.time_ns,
        asked=tuple(rows),
        type=answered[0].type if answered else "",
        ended=answered[0].at if answered else -1,
        rows=tuple(answered),
    )
