"""The recorder numbers operations and events in one order."""

from itertools import count

from history.event import EventKind
from history.op import Operation, OpType
from history.recorder import Record, Recorder
from tests.strategies import MANIFEST


def test_operations_and_events_share_one_row_counter() -> None:
    """Checkers compare the index of an acknowledgement with the index of a truncation."""
    recorder = Recorder(count(100).__next__)

    indices = [
        recorder.operation(process=1, type=OpType.INVOKE, f="produce", records=(Record(value="a"),)),
        recorder.event(EventKind.HEALED),
        recorder.operation(process=1, type=OpType.OK, f="produce", records=(Record(value="a", offset=0),)),
    ]

    assert indices == [0, 1, 2]
    assert [row.index for row in recorder.operations] == [0, 2]
    assert [(row.index, row.time_ns) for row in recorder.events] == [(1, 101)]


def test_rows_of_one_operation_are_numbered_by_slot() -> None:
    recorder = Recorder(lambda: 5)

    records = (Record(value="a", offset=3, leader_epoch=1), Record(value="b", offset=4, leader_epoch=1))
    recorder.operation(process=1, type=OpType.OK, f="poll", records=records, topic="orders", partition=0, node="b1")

    def row(slot: int, value: str, offset: int) -> Operation:
        return Operation(
            index=0,
            slot=slot,
            process=1,
            type=OpType.OK,
            f="poll",
            topic="orders",
            partition=0,
            value=value,
            offset=offset,
            leader_epoch=1,
            node="b1",
            time_ns=5,
        )

    assert recorder.operations == [row(0, "a", 3), row(1, "b", 4)]


def test_operation_without_records_is_one_row() -> None:
    """A poll that returned nothing must be recorded too."""
    recorder = Recorder(lambda: 5)

    recorder.operation(process=1, type=OpType.OK, f="poll", topic="orders", partition=0)

    assert [(row.slot, row.value, row.offset) for row in recorder.operations] == [(0, None, None)]


def test_history_does_not_change_while_recording_goes_on() -> None:
    recorder = Recorder(lambda: 5)
    recorder.event(EventKind.HEALED)
    history = recorder.history(MANIFEST)

    recorder.event(EventKind.FINAL_READS)

    assert [event.kind for event in history.events] == [EventKind.HEALED]
