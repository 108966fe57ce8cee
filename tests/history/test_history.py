"""Queries of a history."""

from history.event import EventKind
from history.history import History, TopicPartition
from history.op import OpType
from history.recorder import Record, Recorder
from tests.strategies import MANIFEST


def _small_history() -> History:
    recorder = Recorder(lambda: 5)
    recorder.operation(process=1, type=OpType.INVOKE, f="produce", records=(Record(value="a"), Record(value="b")), topic="t")
    recorder.operation(process=2, type=OpType.INVOKE, f="poll", topic="t")
    recorder.event(EventKind.HW, topic="t", partition=3, hw=1)
    recorder.operation(process=1, type=OpType.INFO, f="produce", records=(Record(value="a"), Record(value="b")), topic="t")
    recorder.operation(process=1, type=OpType.INVOKE, f="produce", records=(Record(value="c"),), topic="t")
    recorder.event(EventKind.HEALED)
    recorder.operation(process=2, type=OpType.OK, f="poll", topic="t")
    return recorder.history(MANIFEST)


def test_completion_is_paired_with_the_last_call_of_its_process() -> None:
    pairs = [([r.index for r in a.invoke], [r.index for r in a.completion]) for a in _small_history().attempts]

    assert pairs == [([0, 0], [3, 3]), ([1], [6]), ([4], [])]


def test_completion_without_invocation_is_in_no_client_call() -> None:
    recorder = Recorder(lambda: 5)
    recorder.operation(process=1, type=OpType.OK, f="poll")

    assert recorder.history(MANIFEST).attempts == ()


def test_history_lists_partitions_of_rows_and_assignment() -> None:
    assert _small_history().partitions == (TopicPartition("orders", 0), TopicPartition("t", 3))


def test_history_finds_events_by_kind_in_order() -> None:
    assert [e.index for e in _small_history().of_kind(EventKind.HEALED, EventKind.HW)] == [2, 5]


def test_history_row_is_found_by_its_index() -> None:
    history = _small_history()

    assert history.row(0) == history.operations[:2]
    assert history.row(2) == history.events[0]
    assert history.row(99) is None


def test_polars_frames_of_a_history_hold_its_rows() -> None:
    history = _small_history()

    assert history.operations_frame["value"].to_list() == ["a", "b", None, "a", "b", "c", None]
    assert history.events_frame["kind"].to_list() == ["hw", "healed"]
