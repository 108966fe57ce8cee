"""Merges rows that several processes recorded into one history, numbered by time.

All processes of one machine share CLOCK_MONOTONIC, so that a cause has an earlier time than its effect. Rows of equal time keep
the order of the sources, and within a source the order of recording.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from history.event import ClusterEvent
from history.op import Operation
from history.recorder import Recorder


class RowClock:
    """A clock that is set before each history row is recorded. Set in monotonic ns, read in ns since the run's start."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._at_ns = start_ns

    def set(self, monotonic_ns: int) -> None:
        """Set the time of the next history rows. Times before the start of the run become its start."""
        self._at_ns = max(self._start_ns, monotonic_ns)

    def __call__(self) -> int:
        """The time of the next history row, in ns since the start of the run."""
        return self._at_ns - self._start_ns


def merged(sources: Sequence[Recorder], *, until_ns: int | None = None) -> tuple[tuple[Operation, ...], tuple[ClusterEvent, ...]]:
    """Merge the rows of all recorders up to `until_ns` into one history, ordered by time and numbered from 0."""
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
