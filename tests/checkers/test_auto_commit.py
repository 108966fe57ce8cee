"""A recorded group of Kafka 4.1.0 that commits automatically is VALID; with one thing changed, the anomaly of that name is found.

The run performed corpus/real/groups-auto-commit.yaml with librdkafka: members joined, left and crashed while brokers were killed,
cut off and hung.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients import group_delivery
from checkers.clients.auto_commit import CHECKER
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.1.0-groups-auto-commit"
CHECKERS = (CHECKER, group_delivery.CHECKER)
Rows = list[Operation]
Told = dict[str, Any]


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def with_rows(rows: Rows) -> History:
    history = recorded_history()
    return History(history.manifest, operations=rows, events=history.events)


def told(row: Operation, f: str) -> Told:
    """What a completed operation of this function says."""
    return dict(json.loads(row.value or "{}")) if row.f == f and row.type is OpType.OK else {}


def changed(rows: Rows, index: int, value: Told) -> Rows:
    """The rows, with another value in one of them."""
    return [replace(row, value=json.dumps(value)) if row.index == index else row for row in rows]


def answers(rows: Rows) -> list[tuple[Operation, Told]]:
    return [(row, answer) for row in rows if (answer := told(row, "group-positions"))]


def test_recorded_group_that_commits_automatically_is_valid() -> None:
    verdict = judge(recorded_history(), CHECKERS)

    assert (verdict.validity, verdict.anomalies, verdict.unchecked) == (Validity.VALID, (), ())
    assert verdict.counts["told"] > 50
    assert verdict.counts["crashed"] > 0


def test_run_of_a_group_that_commits_automatically_is_live() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())


def members_skip_a_record(rows: Rows) -> Rows:
    """The rows, with one acknowledged record taken out of all polls."""
    acked = next(row for row in rows if row.f == "produce" and row.type is OpType.OK and (row.offset or 0) > 20)
    key = f"{acked.topic}-{acked.partition}"
    for row in rows:
        answer = told(row, "group-poll")
        if answer.get("records", {}).get(key):
            answer["records"][key] = [one for one in answer["records"][key] if one[0] != acked.offset]
            rows = changed(rows, row.index, answer)
    return rows


def crashed_members_records(rows: Rows) -> Iterator[tuple[Operation, str, int]]:
    """The last poll that gave records to each member that crashed: its row, a partition and the offset behind the last record."""
    last: dict[int, Operation] = {}
    for row in rows:
        if row.f == "group-poll" and row.type is OpType.OK:
            last[row.process] = row
        elif row.f == "group-abandon" and row.type is OpType.INVOKE and row.process in last:
            for key, placed in told(last[row.process], "group-poll")["records"].items():
                yield last[row.process], key, placed[-1][0] + 1


def record_of_a_crashed_member_is_committed(rows: Rows) -> Rows:
    """The group answers with the position behind what a member had in its hands when it crashed."""
    for poll, key, position in crashed_members_records(rows):
        later = (row for row in rows if row.index > poll.index)
        for row in later:
            if any(offset == position - 1 for offset, _ in told(row, "group-poll").get("records", {}).get(key, ())):
                break
            said = told(row, "group-positions")
            if said:
                return changed(rows, row.index, {**said, "committed": {**said["committed"], key: position}})
    raise AssertionError("no position was told before the records of a crashed member were given again")


def records_of_a_crashed_member_are_given_to_nobody(rows: Rows) -> Rows:
    """The next reader of the partition begins behind what a member had in its hands when it crashed."""
    poll, key, position = next(crashed_members_records(rows))
    for row in rows:
        answer = told(row, "group-poll")
        if row.index > poll.index and answer.get("records", {}).get(key):
            answer["records"][key] = [one for one in answer["records"][key] if one[0] >= position]
            rows = changed(rows, row.index, answer)
    return rows


def next_reader_begins_anew(rows: Rows) -> Rows:
    """A member that is newly given a partition is given its first record again."""
    row, answer, key = next(
        (row, answer, key)
        for row in rows
        if (answer := told(row, "group-poll")) and row.index > answers(rows)[10][0].index
        for key in answer.get("assigned", ())
        if answer["records"].get(key)
    )
    return changed(rows, row.index, {**answer, "records": {**answer["records"], key: [[0, "again"], *answer["records"][key]]}})


def positions_fall_at_the_end(rows: Rows) -> Rows:
    answer, said = answers(rows)[-1]
    return changed(rows, answer.index, {**said, "committed": dict.fromkeys(said["committed"], 1)})


def positions_are_gone_at_the_end(rows: Rows) -> Rows:
    answer, said = answers(rows)[-1]
    return changed(rows, answer.index, {**said, "committed": dict.fromkeys(said["committed"])})


def member_is_given_a_record_again(rows: Rows) -> Rows:
    """A member that kept its partition is given the last record of its last poll again."""
    before: dict[int, Told] = {}
    for row in rows:
        if row.f in ("group-leave", "group-abandon") or (row.f == "group-poll" and row.type is OpType.FAIL):
            before.pop(row.process, None)
        answer = told(row, "group-poll")
        kept = answer and not {"assigned", "revoked"} & answer.keys()
        for key in sorted(answer.get("records", {}).keys() & before.get(row.process, {}).keys()) if kept else ():
            again = [before[row.process][key][-1], *answer["records"][key]]
            return changed(rows, row.index, {**answer, "records": {**answer["records"], key: again}})
        if answer:
            before[row.process] = answer["records"]
    raise AssertionError("no member was given records twice in a row")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (members_skip_a_record, "skipped-record"),
        (record_of_a_crashed_member_is_committed, "early-commit"),
        (records_of_a_crashed_member_are_given_to_nobody, "early-commit"),
        (next_reader_begins_anew, "resumed-behind"),
        (positions_fall_at_the_end, "commit-lost"),
        (positions_are_gone_at_the_end, "commit-lost"),
        (member_is_given_a_record_again, "repeated-record"),
    ],
)
def test_changed_history_of_auto_commits_is_invalid(change: Callable[[Rows], Rows], kind: str) -> None:
    verdict = judge(with_rows(change(list(recorded_history().operations))), CHECKERS)

    assert verdict.validity is Validity.INVALID
    assert kind in {anomaly.kind for anomaly in verdict.anomalies}


def test_members_that_leave_without_a_commit_are_not_live() -> None:
    """What a member was given is committed when it leaves in order; where nothing of it ever is, the group does not progress."""
    rows = list(recorded_history().operations)
    answer, said = answers(rows)[-1]
    behind = {key: position - 1 for key, position in said["committed"].items()}
    verdict = judge(with_rows(changed(rows, answer.index, {**said, "committed": behind})), CHECKERS)

    assert any("when its members had left, who were given offset" in reason for reason in verdict.not_live)


ASKS = 'invoke {} process=1 value={{"group":"g","commits":"{}"}}'
POLLED = 'ok group-poll process=1 value={"group":"g","records":{"t-0":[[0,"a"],[1,"b"]]}}'
PRODUCED = ("ok produce value=a offset=0 process=9", "ok produce value=b offset=1 process=9")


def position_told(position: str, commits: str = "next-poll") -> tuple[str, str]:
    asks = f'invoke group-positions process=2 value={{"group":"g","commits":"{commits}"}}'
    return asks, f'ok group-positions process=2 value={{"group":"g","committed":{{"t-0":{position}}}}}'


def verdict_of(*lines: str) -> Verdict:
    return judge(history_of(*PRODUCED, *lines), (CHECKER,))


def kinds(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in verdict_of(*lines).anomalies]


def poll(commits: str = "next-poll") -> tuple[str, str]:
    return ASKS.format("group-poll", commits), POLLED


def does(f: str, commits: str = "next-poll") -> str:
    return ASKS.format(f, commits)


def test_position_behind_a_poll_in_use_is_early() -> None:
    """docs/promise.md SES-6: its member may crash, and nobody is given the records again."""
    assert kinds(*poll(), *position_told("2")) == ["early-commit", "early-commit"]
    assert kinds(*poll(), *position_told("0")) == []


@pytest.mark.parametrize(("next_call", "expected"), [("group-poll", 0), ("group-leave", 0), ("group-abandon", 2)])
def test_member_is_done_when_it_polls_again_or_leaves(next_call: str, expected: int) -> None:
    assert len(kinds(*poll(), does(next_call), *position_told("2"))) == expected


def test_question_for_positions_ends_no_use_of_records() -> None:
    asks, told_one = (line.replace("process=2", "process=1") for line in position_told("2"))

    assert kinds(*poll(), asks, told_one) == ["early-commit", "early-commit"]


def test_offsets_that_are_stored_at_delivery_may_be_committed() -> None:
    """By default librdkafka stores an offset when it hands the record over; what no poll gave is skipped then, too."""
    assert kinds(*poll("delivery"), *position_told("2", "delivery")) == []
    assert kinds(*position_told("2", "delivery"), *poll("delivery")) == ["skipped-record", "skipped-record"]


def test_record_that_nobody_acknowledged_may_be_committed() -> None:
    given = 'ok group-poll process=1 value={"group":"g","records":{"t-0":[[0,"a"],[1,"b"],[3,"d"]]}}'

    assert kinds(does("group-poll"), given, does("group-poll"), *position_told("4")) == []


def test_lower_answer_before_the_end_accuses_nobody() -> None:
    """A coordinator that does not know that it was deposed answers what it knew."""
    told_twice = (*poll(), does("group-leave"), *position_told("2"), *position_told("1"))

    history = history_of(*PRODUCED, *told_twice)
    at_the_end = History(
        replace(history.manifest, final_reads_at_ns=history.operations[-2].time_ns),
        operations=history.operations,
        events=history.events,
    )

    assert kinds(*told_twice) == []
    assert [anomaly.kind for anomaly in judge(at_the_end, (CHECKER,)).anomalies] == ["commit-lost"]


def test_poll_of_unknown_outcome_explains_a_position() -> None:
    verdict = verdict_of(does("group-poll"), *position_told("2"))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert "a poll of g may have given records unseen" in " ".join(verdict.unchecked)


def test_group_of_which_no_position_is_told_is_unknown() -> None:
    verdict = verdict_of(*poll(), *position_told("null"))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked == ("auto-commit: no position of t-0 that g committed was told",)


def test_group_that_was_not_polled_and_told_nothing_is_unknown() -> None:
    verdict = verdict_of(*position_told("null"))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked == ("auto-commit: no position that a group committed was told",)


def test_record_with_another_value_was_not_given() -> None:
    """SES-6 speaks of records, not of offsets."""
    rows = list(recorded_history().operations)
    polled = [(row, answer) for row in rows if (answer := told(row, "group-poll")) and any(answer.get("records", {}).values())]
    for row, answer in polled:
        foreign = {key: [[offset, "zzz"] for offset, _ in records] for key, records in answer["records"].items()}
        rows = changed(rows, row.index, answer | {"records": foreign})

    assert {anomaly.kind for anomaly in judge(with_rows(rows), (CHECKER,)).anomalies} == {"skipped-record"}


@pytest.mark.parametrize("position", ["-1", '"1"'])
def test_position_that_cannot_be_is_unknown(position: str) -> None:
    assert verdict_of(*poll(), *position_told(position)).validity is Validity.UNKNOWN


def test_group_that_commits_by_calls_is_judged_by_another() -> None:
    verdict = judge(history_of(*PRODUCED, POLLED, "invoke commit offset=1 value=g", "ok commit"), (CHECKER,))

    assert (verdict.validity, verdict.anomalies, verdict.unchecked) == (Validity.VALID, (), ())


@pytest.mark.parametrize(("nodes", "expected"), [(("b1", "b1"), 2), (("b1", "b2"), 0)])
def test_early_commit_is_excused_by_two_wounds(nodes: tuple[str, str], expected: int) -> None:
    """docs/promise.md §8."""
    wounds = (f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in nodes)
    verdict = verdict_of(*poll(), *position_told("2"), *wounds)

    assert len(verdict.anomalies) == expected
    assert any("destroyed bytes of b1, b2" in line for line in verdict.unchecked) is (expected == 0)
