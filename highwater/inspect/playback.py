"""A simulated run that is performed again and stands still at any moment.

A run is a function of its plan, so each of its moments can be reached again. Between two actions of the simulator nothing is half
done: that is where a playback stands still. The run is performed in a thread of its own, which waits there; only one of the two
threads ever runs.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, takewhile
from threading import Semaphore, Thread

from highwater.backends.sim.scheduler import Scheduler
from highwater.backends.sim.world import TooManyEvents, World
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.rig.scene import scene_of
from history.event import ClusterEvent
from history.history import History
from history.op import Operation
from reports.rows import Line, event_line, operation_line

Row = Operation | ClusterEvent
Stop = Callable[[int], bool]  # whether to stand still, by the time in ns of the next action


def line_of(row: Row) -> Line:
    """The row as the log of a run's page has it."""
    return operation_line(row) if isinstance(row, Operation) else event_line(row)


def has_words(row: Row, words: Sequence[str]) -> bool:
    """Whether the line of a row, or its kind, has all these words in any order; a word may be the beginning of one."""
    line = line_of(row)
    held = f"{line.who} {line.where} {line.words} {line.kind}".lower().replace(",", " ").split()
    return all(any(one.startswith(word.lower()) for one in held) for word in words)


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows in the order in which they were recorded."""
    return sorted(rows, key=lambda row: (row.index, row.slot if isinstance(row, Operation) else 0))


class _Steps(Scheduler):
    """A scheduler that stands still before an action, or after the last one of a span, where `between` waits."""

    __slots__ = ("between",)

    def __init__(self, between: Callable[[int], None]) -> None:
        super().__init__()
        self.between = between

    def run_until(self, end_ns: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end_ns:
            self.between(heap[0][0])
            super().run_next()
        self.now = end_ns
        self.between(end_ns + 1)


class _Abandoned(BaseException):
    """Ends the thread of a playback that nobody needs any more."""


class Playback:
    """Performs a plan of the simulator. It begins before the first action; `world` is the run as it stands."""

    def __init__(self, plan: Plan) -> None:
        self.world = World(scene_of(plan), scheduler=_Steps(self._between))
        self.ended = False
        self.actions = 0  # performed so far
        self._stop: Stop = lambda next_ns: True
        self._go, self._stands = Semaphore(0), Semaphore(0)
        self._error: Exception | None = None
        self._abandoned = False
        self._thread = Thread(target=self._perform, daemon=True)
        self._thread.start()
        self._wait()

    def close(self) -> None:
        """End the performance where it stands."""
        if not self.ended:
            self._abandoned = True
            self._go.release()
        self._thread.join()

    @property
    def now_ns(self) -> int:
        """The virtual time of the moment."""
        return self.world.sim.scheduler.now

    @property
    def row_count(self) -> int:
        """How many rows the run has recorded; the next row has this index."""
        return self.world.sim.recorder.next_index

    def run(self, stop: Stop) -> None:
        """Perform at least one action, and go on until `stop` or the end of the run."""
        if self.ended:
            return
        self._stop = stop
        self._go.release()
        self._wait()

    def run_to_time(self, time_ns: int) -> None:
        """Go on to a moment in ns; all that happens up to then, at the same instant too, has happened."""
        if time_ns >= self.now_ns:
            self.run(lambda next_ns: next_ns > time_ns)

    def run_to_row(self, index: int) -> None:
        """Go on until this row has been recorded."""
        if self.row_count <= index:
            self.run(lambda next_ns: self.row_count > index)

    def run_to_action(self, number: int) -> None:
        """Go on until `actions` has this value."""
        if self.actions < number:
            self.run(lambda next_ns: self.actions >= number)

    def run_to_words(self, choices: Sequence[Sequence[str]]) -> Row | None:
        """Go on until a row has been recorded whose line has all words of one of these choices; returns it, None at the end."""
        found: list[Row] = []
        seen = self.row_count

        def stop(next_ns: int) -> bool:
            nonlocal seen
            if self.row_count == seen:
                return False
            found.extend(row for row in self.rows(seen) if any(has_words(row, words) for words in choices))
            seen = self.row_count
            return bool(found)

        self.run(stop)
        return found[0] if found else None

    def rows(self, first: int = 0) -> list[Row]:
        """The recorded rows from an index on, in their order."""
        recorder = self.world.sim.recorder
        tables: tuple[Sequence[Row], ...] = (recorder.operations, recorder.events)
        late = (takewhile(lambda row: row.index >= first, reversed(table)) for table in tables)
        return in_order(chain.from_iterable(late))

    def _wait(self) -> None:
        self._stands.acquire()
        if self._error is not None:
            raise self._error

    def _perform(self) -> None:
        try:
            self._between(0)
            self.world.play()
        except (_Abandoned, TooManyEvents):  # a run of too many events ends where it stands
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread that waits raises it
            self._error = error  # raised by the thread that waits
        self.ended = True
        self._stands.release()

    def _between(self, next_ns: int) -> None:
        self.actions += 1
        if not self._stop(next_ns):
            return
        self._stands.release()
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned


def check_same(playback: Playback, stored: History, checked: int) -> int:
    """Compare the rows of a playback from index `checked` on with those of the stored run; returns how many rows were compared.

    UsageError at the first row that differs: the code that made the run was another one.
    """
    known = in_order([*stored.operations, *stored.events])
    rows = playback.rows(checked)
    at = next((at for at, row in enumerate(known) if row.index >= checked), len(known))
    for row, other in zip(rows, known[at : at + len(rows)], strict=False):
        if row != other:
            commit = stored.manifest.commit[:12] or "no commit"
            raise UsageError(
                f"row {row.index} is another one than in the stored run, which the code of {commit} made; look with that"
            )
    return playback.row_count
