"""A recorded consumer group of Kafka 3.9.1 under faults is VALID; with one thing changed, the anomaly of that name is found.

The run performed corpus/real/groups.yaml: members joined and left while brokers were killed, cut off and hung.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients import committed_offsets
from checkers.clients.group_delivery import CHECKER
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-3.9.1-groups"
CHECKERS = (CHECKER, committed_offsets.CHECKER)
Rows = list[Operation]


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def poll_answer(row: Operation) -> dict[str, Any]:
    """What a poll of a member returned."""
    return dict(json.loads(row.value or "{}")) if row.f == "group-poll" and row.type is OpType.OK else {}


def with_records(rows: Rows, change: Callable[[int, dict[str, list[list[Any]]]], dict[str, list[list[Any]]]]) -> Rows:
    """Change the records of each poll, by its row."""
    return [
        replace(row, value=json.dumps({**said, "records": change(row.index, said["records"])}))
        if (said := poll_answer(row))
        else row
        for row in rows
    ]


def test_recorded_group_of_kafka_is_valid() -> None:
    verdict = judge(recorded_history(), CHECKERS)

    assert (verdict.validity, verdict.anomalies, verdict.unchecked) == (Validity.VALID, (), ())
    assert verdict.counts["given"] > 100
    assert any(poll_answer(row).get("revoked") for row in recorded_history().operations)


def test_run_of_a_group_is_valid_and_live() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())


def member_skips_a_record(rows: Rows) -> Rows:
    """The rows, with one acknowledged record taken out of all polls."""
    acked = next(row for row in rows if row.f == "produce" and row.type is OpType.OK and (row.offset or 0) > 20)
    key = f"{acked.topic}-{acked.partition}"

    def without(_: int, records: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
        return {k: [one for one in of if (k, one[0]) != (key, acked.offset)] for k, of in records.items()}

    return with_records(rows, without)


def commit_comes_before_the_poll(rows: Rows) -> Rows:
    """A commit of a position that the group is given only afterwards: a crash in between would skip the records."""
    commit = next(row for row in rows if row.f == "commit" and row.type is OpType.INVOKE and (row.offset or 0) > 20)
    return [replace(row, offset=(row.offset or 0) + 5) if row.index == commit.index else row for row in rows]


def commit_goes_back(rows: Rows) -> Rows:
    """The second of two commits of one process, with nothing but commits and polls without an assignment in between."""
    last: dict[tuple[int, int | None], Operation] = {}
    operations = {row.process: row for row in rows if row.type is OpType.INVOKE}
    for row in rows:
        if row.f == "group-poll" and "assigned" in poll_answer(row):
            last = {at: operation for at, operation in last.items() if at[0] != row.process}
        if row.type is OpType.INVOKE:
            operations[row.process] = row
        elif row.f == "commit" and row.type is OpType.OK:
            before = last.get((row.process, row.partition))
            if before is not None and (before.offset or 0) > 1:
                back = operations[row.process].index
                return [replace(operation, offset=1) if operation.index in (back, row.index) else operation for operation in rows]
            last[row.process, row.partition] = row
    raise AssertionError("no process committed twice")


def next_owner_begins_anew(rows: Rows) -> Rows:
    """The rows, with a later poll of a partition that also returns its first record again."""
    commits = {row.partition: row.index for row in rows if row.f == "commit" and row.type is OpType.OK}
    first = {partition: min(r.index for r in rows if r.f == "commit" and r.partition == partition) for partition in commits}
    poll = next(
        (row, key)
        for row in rows
        for key in poll_answer(row).get("assigned", ())
        if poll_answer(row)["records"].get(key) and row.index > first[int(key.rpartition("-")[2])] + 200
    )

    def back(index: int, records: dict[str, list[list[Any]]]) -> dict[str, list[list[Any]]]:
        return {**records, poll[1]: [[0, "again"], *records[poll[1]]]} if index == poll[0].index else records

    return with_records(rows, back)


def answer_is_old(rows: Rows) -> Rows:
    """The rows, with the last answer for a committed offset replaced by one that was committed long before."""
    answer = [row for row in rows if row.f == "committed" and row.type is OpType.OK and (row.offset or 0) > 20][-1]
    old = next(row.offset for row in rows if row.f == "commit" and row.type is OpType.OK and row.partition == answer.partition)
    return [replace(row, offset=old) if row.index == answer.index else row for row in rows]


def answer_is_nobodys(rows: Rows) -> Rows:
    answer = [row for row in rows if row.f == "committed" and row.type is OpType.OK and row.offset is not None][-1]
    return [replace(row, offset=100_000) if row.index == answer.index else row for row in rows]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (member_skips_a_record, "skipped-record"),
        (commit_comes_before_the_poll, "skipped-record"),
        (commit_goes_back, "commit-regressed"),
        (next_owner_begins_anew, "resumed-behind"),
        (answer_is_old, "commit-lost"),
        (answer_is_nobodys, "phantom-commit"),
    ],
)
def test_changed_history_has_the_anomaly(change: Callable[[Rows], Rows], kind: str) -> None:
    history = recorded_history()
    verdict = judge(History(history.manifest, operations=change(list(history.operations)), events=history.events), CHECKERS)

    assert verdict.validity is Validity.INVALID
    assert kind in {anomaly.kind for anomaly in verdict.anomalies}


POLLED = 'ok group-poll value={"group":"g","records":{"t-0":[[0,"a"],[1,"b"]]}}'
PRODUCED = ("ok produce value=a offset=0", "ok produce value=b offset=1")


def kinds(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge(history_of(*PRODUCED, *lines), (CHECKER,)).anomalies]


def test_group_that_commits_what_it_was_given_is_right() -> None:
    """docs/promise.md SES-2."""
    assert kinds(POLLED, "invoke commit offset=2 value=g", "ok commit") == []


def test_commit_of_unknown_outcome_claims_nothing() -> None:
    assert kinds("invoke commit offset=2 value=g", "info commit") == []


def test_record_that_was_not_acknowledged_may_be_skipped() -> None:
    polled = 'ok group-poll value={"group":"g","records":{"t-0":[[0,"a"],[1,"b"],[3,"d"]]}}'

    assert kinds("info produce value=c", polled, "invoke commit offset=4 value=g", "ok commit") == []


def test_records_that_no_member_was_given_make_it_unknown() -> None:
    verdict = judge(history_of(*PRODUCED, 'ok group-poll value={"group":"g","records":{"t-0":[[0,"a"]]}}'), (CHECKER,))

    assert verdict.validity is Validity.UNKNOWN
    assert "1 acknowledged records were never given to a group" in verdict.unchecked[0]


def test_commit_of_unknown_outcome_explains_an_earlier_position() -> None:
    """The commit of 1 may have taken effect after that of 2, so the next owner may begin at 1."""
    assigned = 'ok group-poll process=4 value={"group":"g","assigned":["t-0"],"records":{"t-0":[[1,"b"]]}}'
    settled = (POLLED, "invoke commit process=2 offset=2 value=g", "ok commit process=2")

    assert kinds(*settled, assigned) == ["resumed-behind"]
    assert kinds("invoke commit process=3 offset=1 value=g", *settled, "info commit process=3", assigned) == []


def test_poll_of_another_form_is_named() -> None:
    """What a member was given and nobody can read is not judged in silence."""
    skipped = ("ok produce value=a offset=0", "invoke commit value=g offset=1", "ok commit value=g")
    verdict = judge(history_of(*skipped, 'ok group-poll value={"group":"g","records":[7]}'), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert "group-delivery: 1 answers cannot be read" in verdict.unchecked


@pytest.mark.parametrize(("nodes", "kinds_expected"), [(("b1", "b1"), ["skipped-record"]), (("b1", "b2"), [])])
def test_skipped_record_is_excused_by_two_wounds(nodes: tuple[str, str], kinds_expected: list[str]) -> None:
    """docs/promise.md §8."""
    wounds = (f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in nodes)
    skipped = ("ok produce value=a offset=0", "invoke commit value=g offset=1", "ok commit value=g")
    verdict = judge(history_of(*skipped, 'ok group-poll value={"group":"g"}', *wounds), (CHECKER,))

    assert [anomaly.kind for anomaly in verdict.anomalies] == kinds_expected
    assert any("destroyed bytes of b1, b2" in line for line in verdict.unchecked) is (not kinds_expected)


def test_partition_that_a_group_was_never_given_makes_it_unknown() -> None:
    """What was not read is not VALID (docs/promise.md VAC-4), where the group has another partition of the topic."""
    other = "ok produce topic=t partition=1 value=c offset=0"
    verdict = judge(history_of(*PRODUCED, other, POLLED), (CHECKER,))

    assert verdict.validity is Validity.UNKNOWN
    assert "1 acknowledged records were never given to a group" in verdict.unchecked[0]
