"""The run page tells why: cause, step, true counts, the space-time diagram, names of faults, what is shown of odd values."""

import json
from typing import Any

import msgspec
import pytest

from checkers.causes.cause import cause_of
from checkers.engine.verdict import Anomaly, Findings, Verdict, found_in, merge, more_of_kind, without_count
from checkers.judge import judge
from checkers.sketches import history_of
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import SystemFacts
from history.op import OpType
from history.recorder import Record
from reports.bands import packed, paused
from reports.render import run_html
from reports.rows import Source, event_line, operation_line
from reports.run_page import page_of
from reports.spacetime import ROWS_MAX, WHOLE_MAX, Arrow, Diagram, diagram_of
from reports.svg import TimeScale, visible_text
from reports.timeline import LABEL_MAX, timeline_figure
from reports.trace import trace_json
from reports.windows import FaultWindow
from tests.reports.scenes import MS, Scene, manifest_of, random_run, small_loss


def a_loss() -> tuple[History, Verdict]:
    """The run of `small_loss` with the anomaly as the ledger words it."""
    history, _ = small_loss()
    (acked,) = [row.index for row in history.operations if row.value == "v2" and row.type is OpType.OK]
    (lead,) = [event.index for event in history.of_kind(EventKind.BECAME_LEADER) if event.node == "b2"]
    words = "b2 leads epoch 2 without the promised record v2 at offset 1; no wound excuses it"
    lost_write = Anomaly(kind="lost-write", checker="acked-loss", key="orders-0", witness=(acked, lead), words=words)
    duplicate = Anomaly(
        kind="duplicate", checker="duplicates", key="orders-0", witness=(acked,), words=f"twice{more_of_kind(323)}"
    )
    return history, merge([Findings(anomalies=(lost_write, duplicate), live_judged=True)])


def cut_of(history: History) -> int:
    return history.of_kind(EventKind.TRUNCATE)[0].index


def html_of(history: History, verdict: Verdict) -> str:
    return run_html(history, verdict, plan="", repeat="")


def test_run_page_tells_the_cause_before_the_list_of_anomalies() -> None:
    html = html_of(*a_loss())
    sentence = "b2 truncated its log to its checkpointed HW 1 at 5.020 s, as a follower of b1 in epoch 1"
    assert 0 < html.index(sentence) < html.index("broke its promise: lost-write (1), duplicate (324)")


def test_step_of_the_cause_is_a_witness_and_in_the_account() -> None:
    """The truncation did it, and the anomaly names only the promise and the election."""
    history, verdict = a_loss()
    view = page_of(history, verdict, plan="", repeat="").anomalies[0]
    assert [line.index for line in view.witnesses if line.step] == [cut_of(history)]
    assert [line.index for line in view.story if line.step] == [cut_of(history)]


def test_run_page_counts_anomalies_that_the_verdict_left_out() -> None:
    """A checker lists three of a kind and counts the rest in words."""
    page = page_of(*a_loss(), plan="", repeat="")
    assert page.anomalies_found == 325
    assert [(row.kind, row.count) for row in page.kinds] == [("lost-write", 1), ("duplicate", 324)]


def test_count_in_the_words_of_an_anomaly_is_read_back() -> None:
    words = f"twice{more_of_kind(7)}"
    assert (found_in(words), found_in("twice"), without_count(words)) == (8, 1, "twice")


def test_rows_of_a_page_name_their_code_and_statements() -> None:
    source = Source(functions=("reference/replica/follower.become",), statements=(37,))
    history, verdict = a_loss()
    html = run_html(history, verdict, plan="", repeat="", sources={"truncate:to its high watermark": source})
    assert f"R-{37:03d}, follower.become</span>" in html


def test_rows_of_another_system_name_no_code_of_the_reference() -> None:
    history, verdict = a_loss()
    source = Source(functions=("reference/replica/follower.become",), statements=(37,))
    manifest = msgspec.structs.replace(history.manifest, system=SystemFacts(name="kafka"))
    history_of_kafka = History(manifest, operations=history.operations, events=history.events)
    html = run_html(history_of_kafka, verdict, plan="", repeat="", sources={"truncate:to its high watermark": source})
    assert "follower.become" not in html


# --- the space-time diagram ---------------------------------------------------------------------------------------------------


def drawn(history: History, verdict: Verdict) -> Diagram:
    diagram = page_of(history, verdict, plan="", repeat="").diagram
    assert diagram is not None
    return diagram


def row_of(history: History, kind: EventKind, node: str, offset: int | None = None) -> int:
    found = [e.index for e in history.of_kind(kind) if e.node == node and (offset is None or e.offset == offset)]
    return found[0]


def test_diagram_of_a_short_run_shows_all_its_rows() -> None:
    history, verdict = a_loss()
    diagram = drawn(history, verdict)
    assert diagram.whole
    assert diagram.left_out == 0
    assert diagram.processes == ("client 0", "client 1", "client 2", "b1", "b2", "b3", "ZooKeeper")
    assert {spot.line.index for spot in diagram.spots} >= {event.index for event in history.of_kind(EventKind.TRUNCATE)}


def test_diagram_derives_fetch_reply_and_fetch_from_the_rows() -> None:
    history, verdict = a_loss()
    arrows = drawn(history, verdict).arrows
    appended = row_of(history, EventKind.APPEND, "b1", 1)
    copied = row_of(history, EventKind.APPEND, "b2", 1)
    moved = next(event.index for event in history.of_kind(EventKind.HW) if event.node == "b1" and event.hw == 2)
    reply = Arrow(
        kind="fetch-reply", start=appended, end=copied, source="b1", target="b2", words="FetchReply with v2 at offset 1"
    )
    assert reply in arrows
    assert Arrow(kind="fetch", start=copied, end=moved, source="b2", target="b1", words="Fetch from offset 2") in arrows


def test_diagram_derives_commands_writes_and_watches() -> None:
    history, verdict = a_loss()
    arrows = {(arrow.kind, arrow.source, arrow.target) for arrow in drawn(history, verdict).arrows}
    assert {
        ("command", "b1", "b2"),  # LeaderAndIsr of the first controller
        ("write", "b2", "ZooKeeper"),
        ("watch", "ZooKeeper", "b2"),  # the session of b1 ended
        ("client", "b1", "client 0"),  # an acknowledgement
    } <= arrows


def test_diagram_of_a_long_run_is_bounded_around_its_cause() -> None:
    history = random_run(seed=3, partitions=2, seconds=60, calls_per_s=20)
    first = history.of_kind(EventKind.APPEND)[0]
    last = history.of_kind(EventKind.BECAME_LEADER)[-1]
    odd = Anomaly(kind="odd", checker="c", key="orders-0", witness=(first.index, last.index), words="odd")
    diagram = drawn(history, merge([Findings(anomalies=(odd,))]))
    assert len(history.events) > WHOLE_MAX
    assert not diagram.whole
    assert len(diagram.spots) <= ROWS_MAX
    assert {first.index, last.index} <= {spot.line.index for spot in diagram.spots}


def test_diagram_shows_each_row_that_the_cause_tells() -> None:
    """Answers without a record are not drawn otherwise."""
    history = history_of("ok latest offset=5", "ok latest offset=3")
    cause = cause_of(history, judge(history))
    diagram = diagram_of(history, cause)

    assert cause is not None
    assert diagram is not None
    assert cause.name == "latest-regressed"
    assert {*cause.rows} <= {spot.line.index for spot in diagram.spots}


def test_long_run_without_a_failure_has_no_diagram() -> None:
    history = random_run(seed=3, partitions=1, seconds=40, calls_per_s=20)
    assert diagram_of(history, None) is None


def test_diagram_shows_when_a_broker_is_down() -> None:
    history, verdict = a_loss()
    spans = [(span.process, span.kind) for span in drawn(history, verdict).spans]
    assert ("b2", "down") in spans
    assert ("b2", "fault") in spans


# --- small defects ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(EventKind))
def test_row_without_its_columns_says_unknown_and_not_none(kind: EventKind) -> None:
    assert "None" not in event_line(ClusterEvent(index=0, kind=kind, time_ns=0)).words


def test_call_without_a_partition_names_its_topic_alone() -> None:
    scene = Scene()
    scene.at(1).operation(process=0, type=OpType.INVOKE, f="create-topic", topic="orders")
    scene.at(2).operation(process=0, type=OpType.OK, f="create-topic", topic="orders")
    html = html_of(scene.recorder.history(manifest_of()), merge([Findings()]))
    assert "orders-None" not in html
    assert "create-topic orders at" in html


def test_control_characters_are_visible_on_a_page() -> None:
    """A value with an escape sequence or a text-direction mark would hide or turn what stands beside it."""
    scene = Scene()
    value = "a\x00b\x1b[31m\u202ec\x85"
    invocation: dict[str, Any] = {"process": 0, "f": "produce", "topic": "orders", "partition": 0, "acks": -1}
    scene.at(1).operation(type=OpType.INVOKE, records=(Record(value=value),), **invocation)
    done = scene.at(2).operation(type=OpType.OK, records=(Record(value=value, offset=0),), node="b1", **invocation)
    odd = Anomaly(kind="odd", checker="c", key="orders-0", witness=(done,), words=f"odd {value}")
    html = html_of(scene.recorder.history(manifest_of()), merge([Findings(anomalies=(odd,))]))
    assert not {character for character in "\x00\x1b\u202e\x85" if character in html}
    assert "a\u2400b\u241b[31m&lt;U+202E&gt;c&lt;U+0085&gt;" in html
    assert visible_text("two\nlines\t") == "two\nlines\t"


def a_fault(kind: str, start_ms: int, end_ms: int, *nodes: str, acted: int = 1) -> FaultWindow:
    return FaultWindow(
        id="f", kind=kind, category="process", nodes=nodes, start_ns=start_ms * MS, end_ns=end_ms * MS, acted=acted
    )


def test_name_of_a_fault_at_the_end_stays_inside_the_figure() -> None:
    """A short fault at the right edge had its name cut off."""
    scale = TimeScale(start_ns=0, end_ns=1000 * MS)
    late_band = a_fault("partition-majorities-ring", 990, 1000, "b1", "b2")
    early = a_fault("crash", 700, 900, "b3")
    assert packed([late_band, early], scale) == [[early], [late_band]]


def test_pause_is_drawn_where_it_took_effect() -> None:
    windows = [a_fault("pause-leader", 1, 2, "b1"), a_fault("pause", 3, 4, "b1", acted=0), a_fault("crash", 5, 6, "b1")]
    assert paused(windows, "b1") == [(MS, 2 * MS)]
    assert paused(windows, "b2") == []


def test_lane_label_of_a_busy_client_is_short_with_a_whole_title() -> None:
    scene = Scene()
    for number, f in enumerate(("add-partition", "create-topic", "reassign-request")):
        scene.at(number).operation(process=0, type=OpType.INVOKE, f=f, topic="orders")
        scene.at(number).operation(process=0, type=OpType.OK, f=f, topic="orders")
    page = page_of(scene.recorder.history(manifest_of()), merge([Findings()]), plan="", repeat="")
    drawing = timeline_figure(page.calls, page.scale, page.backdrop)
    assert "client 0: add-partition, create-topic, reassign-request" in drawing
    label = drawing.split('class="lane-label" text-anchor="end">')[1].split("<")[0]
    assert len(label) <= LABEL_MAX
    assert label.endswith("+2")


def test_rows_of_operations_lead_to_their_calls_in_the_timeline() -> None:
    history, verdict = a_loss()
    html = html_of(history, verdict)
    invocation_index = next(row.index for row in history.operations if row.type is OpType.INVOKE)
    assert f'<g data-row="{invocation_index}"' in html
    assert operation_line(history.operations[0]).index == invocation_index


# --- export -------------------------------------------------------------------------------------------------------------------


def test_trace_of_a_run_is_in_the_trace_event_format() -> None:
    """Perfetto drops events without phase, process and time."""
    history, verdict = a_loss()
    trace = json.loads(trace_json(history, verdict))
    events = trace["traceEvents"]
    assert all(event["ph"] in "MXiCsf" and isinstance(event["pid"], int) for event in events)
    assert all(event["ts"] >= 0 for event in events if event["ph"] != "M")
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"faults", "clients", "b1", "b2", "b3", "ZooKeeper"}
    assert [event["dur"] for event in events if event["name"] == "produce orders-0"][:2] == [5000.0, 5000.0]
    starts = sorted(event["id"] for event in events if event["ph"] == "s")
    assert starts == sorted(event["id"] for event in events if event["ph"] == "f")
    assert starts
