"""A reader who looks at moments of one run: goes to a time or a row, on and back, and compares two moments.

    session = Session(plan, stored=history)
    session.to_row(15_736)
    session.before, session.moment    two views: before the row's action and after it

A session goes on from where it stands. To go back it performs the run again, which takes as long as performing it did. A row is
looked up in the stored run, or in the whole run performed once, so that the session knows at which time it has to stand still.
"""

from collections.abc import Iterator, Sequence

from highwater.errors import UsageError
from highwater.inspect.explored import PathPlayback
from highwater.inspect.playback import Playback, Row, check_same, from_index, has_words, in_order, line_of
from highwater.inspect.simulated import SimPlayback
from highwater.inspect.view import View, changes, view_of
from highwater.plans.plan import Plan
from history.event import ClusterEvent, EventKind
from history.history import History

_CHANGES_MAX = 40
_NS_PER_S = 1e9


class Session:
    """The moment of a run at which a reader stands, and the one before.

    `row` is the row that the last step was made to, if it was one. `stored`: the rows of a stored run, with which those of this
    performance are compared.
    """

    def __init__(self, plan: Plan, *, stored: History | None = None, partition: str = "") -> None:
        self.partition = partition  # the lines of moments tell of it alone, of all if empty
        self._plan = plan
        self._made_by = None if stored is None else stored.manifest
        self._recorded_rows = None if stored is None else in_order([*stored.operations, *stored.events])  # all rows of the run
        self._playback = playback_of(plan, self._recorded_rows)
        self._compared = 0  # rows that are those of the stored run
        self.row: Row | None = None
        self.called: tuple[str, ...] = ()  # by the action of the row: functions of the reference
        self.moment = self.before = self._view()

    def close(self) -> None:
        """End the performance; a session that is closed cannot go on."""
        self._playback.close()

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self._playback.ended

    def to_time(self, time_ns: int) -> None:
        """Go to a moment in ns since the start of the run. UsageError, and at its end, if the run is shorter."""
        if time_ns < self.moment.time_ns:
            self._begin_again()
        self._playback.run_to_time(time_ns)
        self._stand(None)
        if self.ended and time_ns > self._playback.now_ns:
            end_ns = self._playback.now_ns
            raise UsageError(f"{time_ns / _NS_PER_S:.6f} s is after the end of the run at {end_ns / _NS_PER_S:.6f} s")

    def to_row(self, index: int) -> None:
        """Go to the action that recorded this row: `before` is the moment before it. UsageError if there is no such row."""
        self._to(self.row_at(index))

    def row_at(self, index: int) -> Row:
        """The row with this index, or the next one. UsageError if there is none."""
        recorded_rows = self._rows_of_the_run()
        at = from_index(recorded_rows, index)
        if at == len(recorded_rows):
            raise UsageError(f"the run has no row {index}; the last is {recorded_rows[-1].index}")
        return recorded_rows[at]

    def own(self) -> tuple[str, ...]:
        """The broker that the row is of, where it is of one."""
        node = getattr(self.row, "node", None)
        return (node,) if node in self.moment.tree else ()

    def to_words(self, words: Sequence[str]) -> None:
        """Go on to the next row whose line has all these words. UsageError if there is none."""
        self.to_any([words])

    def to_any(self, choices: Sequence[Sequence[str]]) -> None:
        """Go on to the next row whose line has all words of one of these choices. UsageError if there is none."""
        recorded_rows = self._rows_of_the_run()
        later = recorded_rows[from_index(recorded_rows, self._playback.row_count) :]
        row = next((row for row in later if any(has_words(row, words) for words in choices)), None)
        if row is None:
            raise UsageError(f"no later row says {' or '.join(' '.join(words) for words in choices)}")
        self._to(row)

    def step(self) -> None:
        """Perform one action: an arrival of a message, a timer, a fault."""
        self._playback.step()
        self._stand(None)

    def look_at(self, partition: str) -> None:
        """From now on the lines of moments tell of this partition alone; of all if it is empty."""
        self.partition = partition
        self.moment = self._view()

    def where(self) -> Iterator[str]:
        """Where the session stands, and the row that brought it there."""
        over = ", the end of the run" if self.ended else ""
        rows = f"after row {self.moment.rows - 1}" if self.moment.rows else "before the first row"
        yield f"{self.moment.time_ns / _NS_PER_S:.6f} s, {rows}{over}"
        if self.row is not None:
            yield row_words(self.row)

    def lines(self, names: Sequence[str] = ()) -> Iterator[str]:
        """What the processes of these names hold, or all."""
        for name, (first, *rest) in self.moment.lines:
            if not names or name in names:
                yield f"{name}  {first}"
                yield from (f"  {line}" for line in rest)

    def rows(self, count: int) -> list[Row]:
        """The last rows that have been recorded."""
        return self._playback.rows(max(0, self._playback.row_count - count))

    def differences(self, names: Sequence[str] = ()) -> Iterator[str]:
        """What differs between the moment before and this one, of these processes and the partition; the first of many."""
        differing = [
            change.words
            for change in changes(self.before, self.moment)
            if (not names or change.process in names) and (not self.partition or self.partition in change.words)
        ]
        yield from differing[:_CHANGES_MAX]
        if len(differing) > _CHANGES_MAX:
            yield f"and {len(differing) - _CHANGES_MAX} more"

    def _to(self, row: Row) -> None:
        """Stand after the action that recorded a row, with the view before it."""
        if self.row is not None and self.before.rows <= row.index < self.moment.rows and self.before.partition == self.partition:
            self.row = row  # the last action recorded it, too
            return
        if row.index < self._playback.row_count:
            self._begin_again()
        self._playback.run(lambda next_ns: next_ns >= row.time_ns)
        while self._playback.row_count <= row.index and not self._playback.ended:
            self.moment = self._view()
            self.called = self._playback.step()
        self._stand(row)

    def _rows_of_the_run(self) -> Sequence[Row]:
        if self._recorded_rows is None:
            whole = playback_of(self._plan)
            whole.run(lambda next_ns: False)
            whole.close()
            self._recorded_rows = whole.rows()
        return self._recorded_rows

    def _stand(self, row: Row | None) -> None:
        self._compare()
        self.before, self.moment, self.row = self.moment, self._view(), row

    def _compare(self) -> None:
        if self._recorded_rows is not None and self._made_by is not None:
            self._compared = check_same(self._playback, self._recorded_rows, self._made_by, self._compared)

    def _view(self) -> View:
        return view_of(self._playback.moment(), self.partition)

    def _begin_again(self) -> None:
        self._playback.close()
        self._playback = playback_of(self._plan, self._recorded_rows)


def playback_of(plan: Plan, recorded_rows: Sequence[Row] | None = None) -> Playback:
    """Performs a plan of the simulator or a path of the explorer, from before its first action on.

    A run of which it is known that it breaks no rule is performed without the rules: its rows are the same.
    """
    if plan.path:
        return PathPlayback(plan)
    watched = recorded_rows is None or any(
        isinstance(row, ClusterEvent) and row.kind is EventKind.RULE_BROKEN for row in recorded_rows
    )
    return SimPlayback(plan, watched=watched)


def row_words(row: Row) -> str:
    """A row in one line: its number, who, where, what."""
    line = line_of(row)
    return " ".join(filter(None, (f"row {line.index}", f"{line.time_ns / _NS_PER_S:.6f} s", line.who, line.where, line.words)))
