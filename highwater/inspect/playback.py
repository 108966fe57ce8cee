"""A run that is performed again and stands still at any moment.

A run is a function of its plan, so each of its moments can be reached again. Between two actions nothing is half done: that is
where a playback stands still.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from operator import attrgetter

from highwater.errors import UsageError
from highwater.inspect.calls import Calls
from highwater.inspect.moment import Moment
from history.event import ClusterEvent
from history.manifest import RunManifest
from history.op import Operation
from history.recorder import Recorder
from reports.rows import Line, event_line, operation_line

Row = Operation | ClusterEvent
Stop = Callable[[int], bool]  # whether to stand still, by the time in ns of the next action
_INDEX = attrgetter("index")


def line_of(row: Row) -> Line:
    """The row as the log of a run's page has it."""
    return operation_line(row) if isinstance(row, Operation) else event_line(row)


def has_words(row: Row, words: Sequence[str]) -> bool:
    """Whether the line of a row, or its kind, has all these words in any order; a word may be the beginning of one."""
    line = line_of(row)
    state_fields = f"{line.who} {line.where} {line.words} {line.kind}".lower().replace(",", " ").split()
    return all(any(text.startswith(word.lower()) for text in state_fields) for word in words)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order in which they were recorded; each table has its own rows in that order already."""
    return sorted(rows, key=_INDEX)


def from_index(rows: Sequence[Row], index: int) -> int:
    """The position of the first of these rows, in their order, that has this index or a greater one."""
    return bisect_left(rows, index, key=_INDEX)


class Playback(ABC):
    """Performs a plan action by action. It begins before the first one.

    `actions` counts the standstills so far, `next_ns` is the time of the next action. `calls` watches the actions, if it is set.
    """

    actions = 0
    next_ns = 0
    ended = False
    calls: Calls | None = None

    @property
    @abstractmethod
    def now_ns(self) -> int:
        """The virtual time of the moment."""

    @property
    @abstractmethod
    def recorder(self) -> Recorder:
        """The rows that the run has recorded."""

    @abstractmethod
    def moment(self) -> Moment:
        """The run as it stands; to be read before it goes on."""

    @abstractmethod
    def run(self, stop: Stop) -> None:
        """Go on until `stop` or the end of the run; no action if `stop` holds already."""

    @abstractmethod
    def close(self) -> None:
        """End the performance where it stands."""

    @property
    def row_count(self) -> int:
        """How many rows the run has recorded; the next row has this index."""
        return self.recorder.next_index

    def run_to_time(self, time_ns: int) -> None:
        """Go on to a moment in ns; all that happens up to then, at the same instant too, has happened."""
        self.run(lambda next_ns: next_ns > time_ns)

    def step(self) -> tuple[str, ...]:
        """Perform one action; returns the functions of the reference that it called."""
        number, self.calls = self.actions, Calls()
        self.run(lambda next_ns: self.actions > number)
        names, self.calls = self.calls.names, None
        return names

    def rows(self, first: int = 0) -> list[Row]:
        """The recorded rows from an index on, in their order."""
        tables: tuple[Sequence[Row], ...] = (self.recorder.operations, self.recorder.events)
        late_counts = (sum(1 for _ in takewhile(lambda row: row.index >= first, reversed(table))) for table in tables)
        return in_order(
            chain.from_iterable(table[len(table) - count :] for table, count in zip(tables, late_counts, strict=True))
        )


def check_same(playback: Playback, recorded_rows: Sequence[Row], made_by: RunManifest, checked: int) -> int:
    """Compare the rows of a playback from index `checked` on with those of the stored run; returns how many rows were compared.

    UsageError at the first row that differs: the code that made the run was another one.
    """
    rows = playback.rows(checked)
    at = from_index(recorded_rows, checked)
    expected = recorded_rows[at : at + len(rows)]
    differing = [row.index for row, expected_row in zip(rows, expected, strict=False) if row != expected_row]
    if not differing and len(rows) != len(expected):
        differing = [rows[len(expected)].index]
    if not differing and playback.ended and len(recorded_rows) > at + len(rows):
        differing = [recorded_rows[at + len(rows)].index]
    if differing:
        commit = made_by.commit[:12] or "no commit"
        raise UsageError(
            f"row {differing[0]} is another one than in the stored run, which the code of {commit} made; look with that"
        )
    return playback.row_count
