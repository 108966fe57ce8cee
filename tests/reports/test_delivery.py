"""Pictures of the side of consumers: unseen records, realtime lag, rebalances, version orders."""

import json
import re
from typing import Any

import pytest

from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import OpType
from history.recorder import Record
from reports.calls import calls_of
from reports.delivery import LINES_MAX, DeliveryTrack, delivery_figure, delivery_of, rebalances_of
from reports.panels import Panel, PanelLine, panels_figure
from reports.svg import Backdrop, TimeScale
from reports.timeline import timeline_figure
from reports.version_order import ROWS_MAX, version_orders_of
from tests.reports.scenes import MS, Scene, manifest_of

SCALE = TimeScale(start_ns=0, end_ns=10_000 * MS)
CALM = Backdrop(windows=(), milestones=())
LONG = "a-topic-with-a-long-name"


def read(scene: Scene, process: int, *placed: tuple[int, str], start: int, end: int) -> None:
    """Record a poll of orders-0 that returned these records."""
    asked: dict[str, Any] = {"process": process, "f": "poll", "topic": "orders", "partition": 0}
    scene.at(start).operation(type=OpType.INVOKE, records=(Record(offset=placed[0][0]),), **asked)
    records = tuple(Record(offset=offset, value=value) for offset, value in placed)
    scene.at(end).operation(type=OpType.OK, records=records, **asked)


def call(scene: Scene, process: int, f: str, answer: object, *, at: int) -> None:
    """Record a call of a session that was answered with this JSON, or with a text that is none."""
    scene.at(at).operation(type=OpType.INVOKE, records=(Record(value='{"group":"g"}'),), process=process, f=f)
    value = answer if isinstance(answer, str) else json.dumps(answer)
    scene.at(at + 1).operation(type=OpType.OK, records=(Record(value=value),), process=process, f=f)


def history_of(scene: Scene) -> History:
    return History(manifest_of(), operations=scene.recorder.operations, events=scene.recorder.events)


def tracks_of(scene: Scene, clients: int = 4) -> tuple[DeliveryTrack, ...]:
    return delivery_of(history_of(scene).attempts, clients)


def at(*times_ms: int) -> list[int]:
    return [ms * MS for ms in times_ms]


def test_record_is_unseen_from_its_acknowledgement_to_a_read() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=100, offset=0)
    scene.produce(0, "lost", start=100, end=200, offset=1)
    read(scene, 1, (0, "a"), (1, "other"), start=250, end=300)

    (track,) = tracks_of(scene)
    assert track.unseen(at(99, 100, 200, 299, 300, 9000)) == [0, 1, 2, 2, 1, 1]


def test_record_that_is_read_before_its_answer_is_never_unseen() -> None:
    scene = Scene()
    read(scene, 1, (0, "a"), start=0, end=50)
    scene.produce(0, "a", start=0, end=100, offset=0)

    (track,) = tracks_of(scene)
    assert track.unseen(at(50, 100, 200)) == [0, 0, 0]


def test_lag_is_the_age_of_the_first_record_behind_the_reader() -> None:
    scene = Scene()
    read(scene, 1, (0, "a"), start=5, end=10)
    for offset, ms in enumerate((0, 100, 200)):
        scene.produce(0, "abc"[offset], start=ms, end=ms, offset=offset)
    read(scene, 1, (1, "b"), start=400, end=450)

    (track,) = tracks_of(scene)
    assert track.lags_ns("client 1", at(0, 50, 300, 449, 450)) == [None, 0, 200 * MS, 349 * MS, 250 * MS]


def test_reader_that_seeks_back_keeps_its_place() -> None:
    scene = Scene()
    for offset in range(2):
        scene.produce(0, "ab"[offset], start=0, end=1, offset=offset)
    read(scene, 1, (0, "a"), (1, "b"), start=5, end=10)
    read(scene, 1, (0, "a"), start=20, end=30)

    (track,) = tracks_of(scene)
    assert track.lags_ns("client 1", at(15, 40)) == [0, 0]
    assert track.lags_ns("client 1", at(40)) == [0]


def test_lag_of_a_final_reader_is_not_drawn() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=1, offset=0)
    read(scene, 1, (0, "a"), start=5, end=10)
    read(scene, 3, (0, "a"), start=900, end=910)
    svg = delivery_figure(tracks_of(scene), SCALE, CALM, final_reads_ns=500 * MS)

    assert ("orders-0: client 1" in svg, "client 3" in svg, ">unseen records of each partition<" in svg) == (True, False, True)


def test_members_of_a_group_are_one_reader() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=1, offset=0)
    scene.produce(0, "b", start=0, end=1, offset=1)
    call(scene, 1, "group-poll", {"group": "g", "records": {"orders-0": [[0, "a"]]}}, at=10)
    call(scene, 2, "share-poll", {"group": "g", "records": {"orders-0": [[1, "b", 1]]}}, at=20)

    (track,) = tracks_of(scene)
    assert (track.readers(None), track.lags_ns("group g", at(15))) == (("group g",), [14 * MS])
    assert track.unseen(at(15, 30)) == [1, 0]


def test_transaction_sends_and_polls_count() -> None:
    scene = Scene()
    call(scene, 0, "txn", [["send", "t-0", [7, "a"]], ["poll", {"t-0": [[6, "b"]]}, "end"]], at=10)

    (track,) = tracks_of(scene)
    assert ([*track.acknowledged], [record.value for record in track.given]) == ([(11 * MS, 7, "a")], ["b"])


@pytest.mark.parametrize("answer", ["{", "[1]", "7", '{"records":[1]}', '{"records":{"t-0":[null,[1],["x","y"]]}}', '["poll"]'])
def test_answer_of_another_form_tells_nothing(answer: str) -> None:
    scene = Scene()
    for f in ("group-poll", "txn", "process"):
        call(scene, 1, f, answer, at=10)

    assert (tracks_of(scene), rebalances_of(history_of(scene).attempts)) == ((), ())


def test_rebalances_are_marked_on_the_lane_of_their_client() -> None:
    scene = Scene()
    call(scene, 1, "group-poll", {"group": "g", "assigned": ["t-0", "t-1"], "revoked": ["t-2"]}, at=10)
    call(scene, 1, "process", {"group": "g", "revoked": ["t-1"]}, at=20)
    call(scene, 1, "group-poll", {"group": "g"}, at=30)
    history = history_of(scene)
    changes = rebalances_of(history.attempts)
    svg = timeline_figure(calls_of(history.attempts), SCALE, CALM, rebalances=changes)

    assert [change.words for change in changes] == ["given t-0, t-1; taken t-2", "taken t-1"]
    assert (svg.count("mark rebalance"), "client 1: given t-0, t-1; taken t-2, at 0.011 s" in svg) == (2, True)


def test_marks_name_the_row_of_their_call() -> None:
    scene = Scene()
    call(scene, 1, "group-poll", {"group": "g", "assigned": ["t-0"]}, at=10)
    history = history_of(scene)
    svg = timeline_figure(calls_of(history.attempts), SCALE, CALM, rebalances=rebalances_of(history.attempts))

    assert '<g data-row="1" data-t="11000000"><path' in svg
    assert "(row 1)" in svg


def test_partition_that_nobody_read_is_unseen() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=1, offset=0)

    (track,) = tracks_of(scene)
    assert (track.unseen(at(5)), ">unseen records of each partition<" in delivery_figure([track], SCALE, CALM)) == ([1], True)


def test_topics_of_one_name_have_a_track_each() -> None:
    scene = Scene()
    for topic_id, value in (("7", "a"), ("12", "b")):
        asked: dict[str, Any] = {"process": 1, "f": "poll", "topic": "t", "partition": 0, "topic_id": topic_id}
        scene.at(1).operation(type=OpType.INVOKE, records=(Record(offset=0),), **asked)
        scene.at(2).operation(type=OpType.OK, records=(Record(offset=0, value=value),), **asked)

    tracks = tracks_of(scene)
    assert [track.key for track in tracks] == ["t-0 (topic 7)", "t-0 (topic 12)"]
    assert version_orders_of(tracks, []) == ()


def test_share_group_has_no_place_and_so_no_lag() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=1, offset=0)
    call(scene, 2, "share-poll", {"group": "g", "records": {"orders-0": [[4, "b", 1]]}}, at=20)

    (track,) = tracks_of(scene)
    assert track.readers(None) == ()


def test_half_a_surrogate_pair_is_replaced() -> None:
    scene = Scene()
    call(scene, 1, "group-poll", '{"group":"g","records":{"t-0":[[0,"\\ud800"],[true,"x"],[-1,"y"]]}}', at=10)

    (track,) = tracks_of(scene)
    assert [record.value for record in track.given] == ["?"]


def test_panel_with_many_lines_keeps_the_highest() -> None:
    scene = Scene()
    for n in range(LINES_MAX + 3):
        for offset in range(n + 1):
            asked: dict[str, Any] = {"process": 0, "f": "produce", "topic": LONG, "partition": n, "acks": -1}
            record = Record(value=f"{n}-{offset}", offset=offset)
            scene.at(1).operation(type=OpType.INVOKE, records=(record,), **asked)
            scene.at(2).operation(type=OpType.OK, records=(record,), **asked)
    svg = delivery_figure(tracks_of(scene), SCALE, CALM)

    assert ">unseen records of each partition, 3 more are lower<" in svg
    assert svg.count(">…<") == 1  # names that do not fit beside it
    assert (f"{LONG}-2: acknowledged" in svg, f"{LONG}-3: acknowledged" in svg) == (False, True)


def test_equal_lines_are_drawn_side_by_side_near_their_value() -> None:
    names = [f"client {n}" for n in range(8)]
    lines = tuple(PanelLine(title=name, process="b1", colour="r0", points=((0, 0),)) for name in names)
    svg = panels_figure([Panel(name="lag", title="", lines=lines)], SCALE, CALM, label="")

    heights = {int(y) for y in re.findall(r'<path d="M96 (\d+)h1000" class="leo', svg)}
    assert max(heights) - min(heights) == 8
    assert len(heights) == 5


def test_version_order_shows_who_saw_which_value() -> None:
    scene = Scene()
    for offset, value in enumerate("abc"):
        scene.produce(0, value, start=0, end=1, offset=offset)
    read(scene, 1, (0, "a"), (1, "b"), start=5, end=10)
    read(scene, 2, (1, "x"), start=5, end=10)
    disk = ClusterEvent(
        index=99, kind=EventKind.RECORD_ON_DISK, time_ns=0, node="b2", topic="orders", partition=0, offset=1, value="x"
    )

    (order,) = version_orders_of(tracks_of(scene), [disk])
    assert [(row.offset, row.differs) for row in order.rows] == [(0, False), (1, True), (2, False)]
    assert [(v.value, v.words) for v in order.rows[1].versions] == [
        ("b", "acknowledged; read by client 1"),
        ("x", "read by client 2; on the disk of b2"),
    ]


def test_long_version_order_is_cut_and_says_so() -> None:
    scene = Scene()
    for reader, prefix in ((1, "a"), (2, "b")):
        read(scene, reader, *((offset, f"{prefix}{offset}") for offset in range(100)), start=0, end=1)

    (order,) = version_orders_of(tracks_of(scene), [])
    assert (len(order.rows) <= ROWS_MAX, order.left_out + sum(row.differs for row in order.rows)) == (True, 100)


def test_offsets_with_one_value_have_no_version_order() -> None:
    scene = Scene()
    scene.produce(0, "a", start=0, end=1, offset=0)
    read(scene, 1, (0, "a"), start=5, end=10)

    assert version_orders_of(tracks_of(scene), []) == ()
