"""From rows to the data of figures: calls, fault windows, replicas, brokers, the life of an offset."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history import fault_kinds
from history.event import ClusterEvent, EventKind
from history.op import Operation, OpType
from history.recorder import Record
from reports.bands import packed
from reports.calls import Call, calls_of, quantile
from reports.fault_windows import windows_of
from reports.lag import lag_points
from reports.nodes import nodes_of
from reports.offset_story import AFTER_MAX, Place, story_of, witness_rows
from reports.replicas import PartitionTrack, ReplicaTrack, tracks_of
from reports.rows import event_line, folded, operation_line
from reports.svg import TimeScale
from reports.timeline import lane_count
from reports.windows import FaultWindow, category_of
from tests.reports.scenes import MS, Scene, manifest_of, small_loss

END = 30_000 * MS


def test_client_call_without_an_answer_is_shown_as_unknown() -> None:
    """Counted as failed, its records would look like anomalies if they appear."""
    scene = Scene()
    scene.at(5).operation(process=0, type=OpType.INVOKE, f="produce")

    (call,) = calls_of(scene.recorder.history(manifest_of()).attempts)
    assert (call.type, call.end_ns, call.latency_ns) == (OpType.INFO, None, None)


def test_poll_counts_returned_records_and_produce_sent_records() -> None:
    history, _ = small_loss()
    assert [(call.f, call.records) for call in calls_of(history.attempts)] == [
        ("produce", 1),
        ("produce", 1),
        ("produce", 1),
        ("poll", 1),
    ]


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 1000))
def test_latency_quantile_is_the_nearest_rank(found: list[int], per_mille: int) -> None:
    ordered = sorted(found)
    answer = quantile(ordered, per_mille)
    assert answer in ordered
    assert sum(value <= answer for value in ordered) * 1000 >= len(ordered) * per_mille


def test_fault_without_a_recorded_end_ends_at_healing() -> None:
    history, _ = small_loss()
    windows = {window.id: window for window in windows_of(history.events_frame, END)}
    assert (windows["f1"].end_ns, windows["f1"].acted) == (5000 * MS, 1)
    assert (windows["f2"].end_ns, windows["f2"].acted) == (20_000 * MS, 0)


def test_each_category_of_faults_has_a_colour() -> None:
    kinds = {
        "isolate-leader": "network",
        "cut-zookeeper": "network",
        "disk-slow": "disk",
        "controller-kill": "process",
        "restart": "process",
        "expire-session": "zookeeper",
        "clock-jump": "clock",
        "meteorite": "other",
    }
    assert {kind: category_of(kind) for kind in kinds} == kinds


def test_new_kind_of_fault_has_the_colour_of_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fault_kinds._BY_NAME, "cut-the-disk", "clock")

    assert category_of("cut-the-disk") == "clock"


def track_of_small_loss() -> PartitionTrack:
    history, _ = small_loss()
    (track,) = tracks_of(history.events, history.manifest.assignments, END)
    return track


def replica_of(track: PartitionTrack, node: str) -> ReplicaTrack:
    return next(replica for replica in track.replicas if replica.node == node)


def test_replica_has_no_log_end_while_its_node_is_down() -> None:
    b2 = replica_of(track_of_small_loss(), "b2")
    assert b2.leo == (
        (1005 * MS, 1),
        (1012 * MS, 1),
        (2005 * MS, 2),
        (3000 * MS, None),
        (5010 * MS, 2),
        (5020 * MS, 1),
        (6025 * MS, 1),
    )


def test_replica_roles_follow_each_other_without_a_gap() -> None:
    b2 = replica_of(track_of_small_loss(), "b2")
    assert [(span.role, span.leader_epoch) for span in b2.roles] == [
        ("idle", None),
        ("follower", 1),
        ("down", None),
        ("idle", None),
        ("leader", 2),
    ]
    assert all(before.end_ns == after.start_ns for before, after in pairwise(b2.roles))


def test_isr_is_taken_from_zookeeper_and_not_from_nodes() -> None:
    track = track_of_small_loss()
    assert replica_of(track, "b1").in_isr == ((20 * MS, 6020 * MS),)
    assert replica_of(track, "b2").in_isr == ((20 * MS, END),)
    assert (track.leader_changes, track.isr_changes, track.leader_epoch) == (1, 1, 2)


def test_lag_is_measured_against_the_longest_log_that_is_up() -> None:
    lags = lag_points(track_of_small_loss())
    names = [replica.node for replica in track_of_small_loss().replicas]
    b2 = lags[names.index("b2")]
    assert (5020 * MS, 1) in b2
    assert b2[-1] == (5500 * MS, 0)


def test_span_of_a_controller_ends_when_its_node_stops() -> None:
    history, _ = small_loss()
    b1, b2, _ = nodes_of(history.events, history.manifest.brokers, END)
    assert b1.reigns == ((1, 10 * MS, 5500 * MS),)
    assert b1.down == ((5500 * MS, END),)
    assert b1.registered == ((5 * MS, 6000 * MS),)
    assert b2.reigns == ((2, 6010 * MS, END),)


def test_account_of_an_offset_names_the_truncating_broker() -> None:
    history, verdict = small_loss()
    story = story_of(Place(topic="orders", partition=0, offset=1), history, witness=verdict.anomalies[0].witness)
    assert [f"{line.who}: {line.words}" for line in story if not line.who.startswith("client")] == [
        "b1: writes to ZooKeeper: leader b1, leader epoch 1, ISR [b1, b2] (version 1)",
        "b1: appends v2 at offset 1, leader epoch 1 (leader)",
        "b2: appends v2 at offset 1, leader epoch 1 (follower)",
        "b1: moves its HW to 2, LEO 2 (leader)",
        "b2: stops (life 1): crash",
        "b2: starts (life 2)",
        "b2: truncates to offset 1 (to its high watermark)",
        "b1: stops (life 1): power-loss",
        "b1: loses its ZooKeeper session, incarnation 10",
        "b2: writes to ZooKeeper: leader b2, leader epoch 2, ISR [b2] (version 2)",
        "b2: leads under leader epoch 2: LEO 1, HW 1, ISR [b2]",
    ]


def test_account_of_an_offset_shows_the_first_hw_beyond_it() -> None:
    """This holds also if the first move is itself a witness."""
    scene = Scene()
    moves = [scene.at(hw).event(EventKind.HW, node="b1", topic="orders", partition=0, hw=hw) for hw in (1, 2, 3)]
    history = scene.recorder.history(manifest_of())
    story = story_of(Place(topic="orders", partition=0, offset=1), history, witness=(moves[1],))
    assert [line.index for line in story] == [moves[1]]


def test_account_of_an_offset_covers_the_record_of_its_witness() -> None:
    """An offset that was lost and written again held two records; a story of both would explain neither."""
    scene = Scene()
    place: dict[str, Any] = {"node": "b1", "topic": "orders", "partition": 0}
    for value in ("old", "new"):
        append = scene.at(1).event(EventKind.APPEND, offset=4, value=value, **place)
        cut = scene.at(2).event(EventKind.TRUNCATE, offset=4, **place)

    story = story_of(Place(topic="orders", partition=0, offset=4), scene.recorder.history(manifest_of()), witness=(cut,))

    assert [line.index for line in story] == [append, cut]


def test_account_of_an_anomaly_ends_after_its_last_witness() -> None:
    scene = Scene()
    place: dict[str, Any] = {"topic": "orders", "partition": 0}
    append = scene.at(1).event(EventKind.APPEND, node="b1", offset=4, value="v", **place)
    for _ in range(100):
        scene.at(2).operation(process=0, type=OpType.OK, f="poll", records=(Record(value="v", offset=4),), **place)

    story = story_of(Place(topic="orders", partition=0, offset=4), scene.recorder.history(manifest_of()), witness=(append,))

    assert len(story) == 1 + AFTER_MAX


def test_poll_of_many_records_shows_only_that_at_the_offset() -> None:
    scene = Scene()
    records = tuple(Record(value=f"v{n}", offset=n) for n in range(500))
    poll = scene.at(1).operation(process=0, type=OpType.OK, f="poll", topic="orders", partition=0, records=records)
    history = scene.recorder.history(manifest_of())

    assert [operation_line(row).words for row in witness_rows(history, poll, 77) if isinstance(row, Operation)] == [
        "reads v77 at offset 77"
    ]
    assert len(witness_rows(history, poll, None)) == 2


def test_every_event_kind_has_a_sentence_on_the_page() -> None:
    lines = [event_line(ClusterEvent(index=0, kind=kind, time_ns=0)) for kind in EventKind]
    assert all(line.words for line in lines)


def test_one_fault_on_several_brokers_is_one_log_line() -> None:
    events = [
        ClusterEvent(index=n, kind=EventKind.FAULT_BEGUN, time_ns=0, node=f"b{n}", fault="f1", detail="crash") for n in (1, 2, 3)
    ]
    assert [line.who for line in folded(map(event_line, events))] == ["b1, b2, b3"]
    assert len(folded(event_line(event, witness=event.index == 2) for event in events)) == 3


def a_call(process: int, start: int, outcome: OpType = OpType.OK) -> Call:
    return Call(
        index=start,
        completed=start + 1,
        process=process,
        f="produce",
        type=outcome,
        topic="orders",
        partition=0,
        start_ns=start,
        end_ns=start + 5,
        records=1,
        offset=0,
        error=None,
        node="b1",
    )


def test_client_keeps_its_timeline_lane_with_a_new_process() -> None:
    calls = [a_call(0, 0, OpType.INFO), a_call(1, 1), a_call(2, 2, OpType.INFO), a_call(3, 10), a_call(5, 10)]
    assert lane_count(calls) == 3


def test_overlapping_clients_have_separate_timeline_lanes() -> None:
    assert lane_count([a_call(n, n) for n in range(4)]) == 4
    assert lane_count([]) == 1


def a_window(start: int, end: int) -> FaultWindow:
    return FaultWindow(id="f", kind="crash", category="process", nodes=("b1",), start_ns=start, end_ns=end, acted=1)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 300)).map(lambda w: a_window(w[0], w[0] + w[1])), max_size=30))
def test_fault_bars_in_one_timeline_row_never_overlap(windows: list[FaultWindow]) -> None:
    scale = TimeScale(start_ns=0, end_ns=1300)
    rows = packed(windows, scale)

    assert sum(len(row) for row in rows) == len(windows)
    assert all(scale.x(a.end_ns) <= scale.x(b.start_ns) for row in rows for a, b in pairwise(row))


def test_place_of_a_fault_bar_ignores_the_order_of_rows() -> None:
    windows = [replace(a_window(n * 100, n * 100 + 150), id=f"f{n}") for n in range(5)]
    scale = TimeScale(start_ns=0, end_ns=1300)
    assert packed(windows, scale) == packed(windows[::-1], scale)
