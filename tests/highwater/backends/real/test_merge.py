"""Rows of several sources are ordered by time."""

from highwater.backends.real.merge import RowClock, merged
from history.event import EventKind
from history.op import OpType
from history.recorder import Record, Recorder


def recorder_at(*rows: tuple[int, str]) -> Recorder:
    """A recorder with one row for each time in ns and detail."""
    clock = RowClock(1000)
    recorder = Recorder(clock)
    for at_ns, name in rows:
        clock.set(at_ns)
        recorder.event(EventKind.HW, detail=name)
    return recorder


def test_merged_history_rows_are_numbered_by_time() -> None:
    first, second = recorder_at((1010, "a"), (1030, "c")), recorder_at((1020, "b"), (1040, "d"))

    _, events = merged([second, first])

    assert [(e.index, e.time_ns, e.detail) for e in events] == [(0, 10, "a"), (1, 20, "b"), (2, 30, "c"), (3, 40, "d")]


def test_merged_rows_of_equal_time_keep_their_recorded_order() -> None:
    first, second = recorder_at((1010, "a"), (1010, "b")), recorder_at((1010, "c"))

    _, events = merged([first, second])

    assert [e.detail for e in events] == ["a", "b", "c"]


def test_merged_rows_of_one_operation_keep_one_index() -> None:
    clock = RowClock(1000)
    recorder = Recorder(clock)
    clock.set(1015)
    recorder.operation(process=3, type=OpType.OK, f="produce", records=(Record(value="x"), Record(value="y")))
    events_only = recorder_at((1010, "before"), (1020, "after"))

    operations, events = merged([recorder, events_only])

    assert [(o.index, o.slot, o.value) for o in operations] == [(1, 0, "x"), (1, 1, "y")]
    assert [e.index for e in events] == [0, 2]


def test_history_rows_before_the_run_get_its_start_time() -> None:
    _, events = merged([recorder_at((900, "early"))])

    assert [e.time_ns for e in events] == [0]


def test_history_rows_after_the_end_of_the_run_are_dropped() -> None:
    """Brokers run on after the end; a commit without the notes that caused it could accuse a correct leader."""
    first, second = recorder_at((1010, "a"), (1021, "late")), recorder_at((1020, "b"), (1040, "later"))

    _, events = merged([second, first], until_ns=20)

    assert [e.detail for e in events] == ["a", "b"]
