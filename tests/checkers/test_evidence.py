"""Input of checkers: well-formed rows, groups, and the limit of reported anomalies."""

import msgspec
import pytest

from checkers.engine.checker import ANOMALIES_MAX, apply
from checkers.engine.facts import facts_of
from checkers.engine.groups import PARTITION, groups
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.registry import ALL
from history.event import ClusterEvent, EventKind
from history.history import History
from tests.checkers.corpus import history as stored
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition


def without_column(history: History, kind: EventKind, column: str) -> History:
    """The history as a backend would write it if it did not fill a column."""
    events: list[ClusterEvent] = [
        msgspec.structs.replace(event, **{column: None}) if event.kind == kind else event for event in history.events
    ]
    return History(history.manifest, operations=history.operations, events=events)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (EventKind.HW, "hw"),
        (EventKind.APPEND, "value"),
        (EventKind.STATE_WRITTEN, "isr"),
        (EventKind.BECAME_LEADER, "leader_epoch"),
        (EventKind.WOUND, "offset"),
    ],
)
def test_history_row_without_required_column_makes_run_unknown(kind: EventKind, column: str) -> None:
    builder = healthy_partition()
    commit_record(builder)
    builder.wound("b3", 1, 13)

    verdict = judge(without_column(builder.history(), kind, column))

    assert verdict.validity == Validity.UNKNOWN
    assert any(f"{kind} rows lack a column" in reason for reason in verdict.unchecked)


def test_data_loss_event_without_a_partition_is_ignored() -> None:
    builder = healthy_partition()
    commit_record(builder)
    builder.event(EventKind.WOUND, whole_node=True, node="b3", incarnation=13, detail="power-loss")

    assert judge(builder.history()).validity == Validity.VALID


def test_events_without_a_partition_reach_every_partition() -> None:
    builder = healthy_partition()
    commit_record(builder)
    builder.on_partition(1)
    builder.state("b1", 1, "b1 b2 b3")
    builder.session_ended("b3", 13)
    history = builder.history()

    groups_found = groups(Operations(history.operations_frame), Events(history.events_frame), PARTITION)

    assert [group.events.of("session-ended").height for group in groups_found] == [1, 1]
    assert [group.events.frame["index"].is_sorted() for group in groups_found] == [True, True]


def test_shuffled_history_rows_get_the_same_verdict() -> None:
    """A Spark shuffle loses the order of rows, so groups are sorted again."""
    history = stored("bad/acked-loss-truncated-to-hw")
    facts = facts_of(history.manifest)
    shuffled = history.operations_frame.sample(fraction=1, shuffle=True, seed=1), history.events_frame.reverse()
    tables = Operations.sorted(shuffled[0]), Events.sorted(shuffled[1])

    for checker in ALL:
        in_order = groups(Operations(history.operations_frame), Events(history.events_frame), checker.group_by)
        straight = [apply(checker, group, facts) for group in in_order]
        assert [apply(checker, group, facts) for group in groups(*tables, checker.group_by)] == straight


def test_client_completions_are_paired_with_their_invocations() -> None:
    builder = HistoryBuilder()
    builder.invoke_produce(1, "x")
    builder.invoke_produce(2, "y")
    builder.produce_ok(2, "y", 0)
    builder.produce_info(1, "x")
    builder.invoke_produce(3, "z")

    paired = Operations(builder.history().operations_frame).calls

    assert [(call.process, call.invoked, call.ended, call.type) for call in paired] == [
        (2, 2, 3, "ok"),
        (1, 1, 4, "info"),
        (3, 5, -1, ""),
    ]


def test_only_the_first_anomalies_of_a_kind_are_reported() -> None:
    builder = HistoryBuilder()
    builder.leads("b1", 1, leo=0)
    builder.produce(1, "first", 100)
    for offset in range(10):
        builder.produce(1, f"v{offset}", offset)

    anomalies = [anomaly for anomaly in judge(builder.history()).anomalies if anomaly.kind == "offset-order"]

    assert len(anomalies) == ANOMALIES_MAX
    assert anomalies[-1].words.endswith("(and 7 more of this kind)")


def test_event_row_without_a_required_field_is_skipped() -> None:
    builder = healthy_partition()
    at = builder.hw("b1", 0)
    history = without_column(builder.history(), EventKind.HW, "detail")

    assert at not in [row.at for row in Events(history.events_frame).rows]


def test_topic_missing_from_the_promise_makes_the_run_unknown() -> None:
    builder = healthy_partition()
    builder.on_partition(0, topic="strange").state("b1", 1, "b1")

    assert "assumptions: the promise does not list topic strange" in judge(builder.history()).unchecked


@pytest.mark.parametrize("outcome", ["interrupted", "incomplete", "harness-fault"])
def test_run_that_did_not_end_as_planned_is_never_valid(outcome: str) -> None:
    builder = healthy_partition()
    commit_record(builder)

    verdict = judge(builder.history(outcome=outcome))

    assert verdict.validity == Validity.UNKNOWN


def test_excused_loss_under_profile_within_is_unknown() -> None:
    """VAC-2: the ledger must be empty there, so either the harness did too much or the excuse is wrong."""
    history = stored("ok/acked-loss-excused-then-rewritten")
    within = msgspec.structs.replace(history.manifest.promise, profile="within")
    manifest = msgspec.structs.replace(history.manifest, promise=within)

    verdict = judge(History(manifest, operations=history.operations, events=history.events))

    assert verdict.validity == Validity.UNKNOWN


def test_verdict_on_an_empty_history_is_unknown() -> None:
    assert judge(History(HistoryBuilder().manifest)).validity == Validity.UNKNOWN
