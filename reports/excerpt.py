"""The part of a long run that its pictures and its event log show: around the cause, or another one that the reader asks for.

A run of an hour has hundreds of faults: drawn as a whole, its page is larger than 2 MB and no picture can be read. Cause, tables
of anomalies, their proofs and the numbers of the summary are always those of the whole run.
"""

from collections.abc import Sequence

from checkers.causes.cause import Cause
from checkers.engine.verdict import Anomaly
from history.history import History
from reports.svg import NS_PER_S, TimeScale

WHOLE_MAX_NS = 300 * NS_PER_S  # a run that is not longer is shown as a whole
EXCERPT_NS = 240 * NS_PER_S  # shown of a longer one
BEFORE_NS = 30 * NS_PER_S  # of it before the first row that is told


def excerpt_of(
    history: History, cause: Cause | None, shown: Sequence[Anomaly], end_ns: int, window: tuple[int, int] | None = None
) -> TimeScale:
    """What is shown of a run: what was asked for, else the whole of a short run and the cause of a long one."""
    if window is not None:
        start = min(max(window[0], 0), end_ns - 1)
        return TimeScale(start_ns=start, end_ns=min(max(window[1], start + 1), end_ns))
    if end_ns <= WHOLE_MAX_NS:
        return TimeScale(start_ns=0, end_ns=end_ns)
    rows_told = [] if cause is None else list(cause.rows)
    rows_told = rows_told or [index for anomaly in shown[:1] for index in anomaly.witness]
    times = [time_ns for index in rows_told if (time_ns := _time_of_row(history, index)) is not None]
    if times:
        # The proof may come long after the step: what led to it is shown, and the end of the story only if there is room.
        start = max(min(times) - BEFORE_NS, 0)
        if cause is not None and cause.step is not None and (step := _time_of_row(history, cause.step)) is not None:
            start = max(start, step - EXCERPT_NS // 2)
    else:
        healed = history.manifest.healed_at_ns
        start = (end_ns if healed is None else healed) - EXCERPT_NS * 3 // 4
    start = min(max(start, 0), end_ns - EXCERPT_NS)
    return TimeScale(start_ns=start, end_ns=start + EXCERPT_NS)


def _time_of_row(history: History, index: int) -> int | None:
    row = history.row(index)
    if isinstance(row, tuple):
        return row[0].time_ns
    return None if row is None else row.time_ns
