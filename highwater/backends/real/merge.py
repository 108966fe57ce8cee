"""One order for what several processes saw: each source is recorded on its own, then all rows are numbered anew by time.

All processes of one machine share CLOCK_MONOTONIC, so that a cause has an earlier time than its effect. Rows of equal time keep
the order of the sources, and within a source that of their recording.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from history.event import ClusterEvent
from history.op import Operation
from history.recorder import Recorder


class RowClock:
    """A clock that is set before each row that is recorded after the fact: monotonic ns, told since the start of the run."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._at_ns = start_ns

    def set(self, monotonic_ns: int) -> None:
        """The moment of the rows to come. What was before the start of the run belongs to its first moment."""
        self._at_ns = max(self._start_ns, monotonic_ns)

    def __call__(self) -> int:
        """Nanoseconds since the start of the run."""
        return self._at_ns - self._start_ns


def merged(sources: Sequence[Recorder], *, until_ns: int | None = None) -> tuple[tuple[Operation, ...], tuple[ClusterEvent, ...]]:
    """All rows up to this moment, in the order of time under new indices."""
    rows: list[tuple[int, int, int, Operation | ClusterEvent]] = []
    for number, source in enumerate(sources):
        rows += [(row.time_ns, number, row.index, row) for row in source.operations]
        rows += [(row.time_ns, number, row.index, row) for row in source.events]
    if until_ns is not None:
        rows = [row for row in rows if row[0] <= until_ns]
    rows.sort(key=lambda entry: entry[:3])  # stable: the slots of one operation stay in order
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    index = -1
    last: tuple[int, int] | None = None
    for _, number, old, row in rows:
        if last != (number, old):
            last = (number, old)
            index += 1
        if isinstance(row, Operation):
            operations.append(replace(row, index=index))
        else:
            events.append(replace(row, index=index))
    return tuple(operations), tuple(events)
