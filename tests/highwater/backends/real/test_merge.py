"""Rows of several sources get one order: that of time."""

from highwater.backends.real.merge import RowClock, merged
from history.event import EventKind
from history.op import OpType
from history.recorder import Record, Recorder


def recorder_at(*rows: tuple[int, str]) -> Recorder:
    clock = RowClock(1000)
    recorder = Recorder(clock)
    for at_ns, name in rows:
        clock.set(at_ns)
        recorder.event(EventKind.HW, detail=name)
    return recorder


def test_rows_are_numbered_by_time_whatever_source_they_come_from() -> None:
    one, two = recorder_at((1010, "a"), (1030, "c")), recorder_at((1020, "b"), (1040, "d"))

    _, events = merged([two, one])

    assert [(e.index, e.time_ns, e.detail) for e in events] == [(0, 10, "a"), (1, 20, "b"), (2, 30, "c"), (3, 40, "d")]


def test_rows_of_one_moment_keep_the_order_of_the_sources_and_of_their_recording() -> None:
    one, two = recorder_at((1010, "a"), (1010, "b")), recorder_at((1010, "c"))

    _, events = merged([one, two])

    assert [e.detail for e in events] == ["a", "b", "c"]


def test_the_rows_of_one_operation_keep_one_index_among_the_events_around_it() -> None:
    clock = RowClock(1000)
    recorder = Recorder(clock)
    clock.set(1015)
    recorder.operation(process=3, type=OpType.OK, f="produce", records=(Record(value="x"), Record(value="y")))
    events_only = recorder_at((1010, "before"), (1020, "after"))

    operations, events = merged([recorder, events_only])

    assert [(o.index, o.slot, o.value) for o in operations] == [(1, 0, "x"), (1, 1, "y")]
    assert [e.index for e in events] == [0, 2]


def test_what_was_before_the_run_belongs_to_its_first_moment() -> None:
    _, events = merged([recorder_at((900, "early"))])

    assert [e.time_ns for e in events] == [0]


def test_rows_after_the_end_are_dropped_whatever_source_they_come_from() -> None:
    """Brokers go on until they are stopped: a commit that stays without the notes that led to it accuses a leader of nothing."""
    one, two = recorder_at((1010, "a"), (1021, "late")), recorder_at((1020, "b"), (1040, "later"))

    _, events = merged([two, one], until_ns=20)

    assert [e.detail for e in events] == ["a", "b"]
