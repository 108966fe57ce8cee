"""A recorded group of Kafka 4.1.0 that reads, processes and writes under faults is VALID; with one thing changed it is not.

The run performed corpus/real/read-process-write.yaml: members joined and left while brokers were killed, cut off and hung.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients.exactly_once import CHECKER
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.1.0-read-process-write"
Rows = list[Operation]


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def answers(rows: Rows, f: str, type_: OpType = OpType.OK) -> list[tuple[Operation, dict[str, Any]]]:
    return [(row, json.loads(row.value)) for row in rows if row.f == f and row.type is type_ and row.value]


def with_answers(rows: Rows, changed: dict[int, dict[str, Any]]) -> Rows:
    return [replace(row, value=json.dumps(changed[row.index])) if row.index in changed else row for row in rows]


def test_recorded_group_of_kafka_is_valid() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert verdict.counts["processed"] > 500
    assert {row.type for row in recorded_history().operations if row.f == "process"} == set(OpType)


def result_at_two_places(rows: Rows) -> Rows:
    """Every reader finds one more copy of the first result behind the last."""
    changed = {}
    for row, answer in answers(rows, "read-committed"):
        for records in answer["records"].values():
            records.append([100_000, records[0][1]])
        changed[row.index] = answer
    return with_answers(rows, changed)


def result_that_nobody_reads(rows: Rows) -> Rows:
    return without_result(rows, first_committed(rows))


def first_committed(rows: Rows) -> str:
    return str(next(placed[0][1] for _, answer in answers(rows, "process") for placed in answer.get("results", {}).values()))


def without_result(rows: Rows, result: str) -> Rows:
    """The rows, with a result taken out of all answers to readers."""
    changed = {}
    for row, answer in answers(rows, "read-committed"):
        answer["records"] = {key: [at for at in placed if at[1] != result] for key, placed in answer["records"].items()}
        changed[row.index] = answer
    return with_answers(rows, changed)


def group_passes_a_record(rows: Rows) -> Rows:
    """A member was given a record below its committed position, and sent no result of it."""
    row, answer = next((row, answer) for row, answer in answers(rows, "process") if answer.get("results"))
    key, placed = next(iter(answer["results"].items()))
    skipped = placed.pop(0)[1]
    return without_result(with_answers(rows, {row.index: {**answer, "results": {**answer["results"], key: placed}}}), skipped)


def transaction_failed(rows: Rows) -> Rows:
    """A transaction whose results are read did not commit; its records were processed by nobody else."""
    row = next(row for row, answer in answers(rows, "process") if answer.get("results"))
    return [replace(one, type=OpType.FAIL, error="ABORTED") if one.index == row.index else one for one in rows]


def result_of_nobody(rows: Rows) -> Rows:
    """The rows, with a result in one answer to a reader that no process sent."""
    row, answer = answers(rows, "read-committed")[0]
    key = next(iter(answer["records"]))
    answer["records"][key].append([100_000, "t-0@99999=nobody"])
    return with_answers(rows, {row.index: answer})


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (result_at_two_places, "doubled-result"),
        (result_that_nobody_reads, "lost-result"),
        (group_passes_a_record, "unprocessed-record"),
        (transaction_failed, "aborted-result"),
        (result_of_nobody, "phantom-result"),
    ],
)
def test_changed_history_has_the_anomaly(change: Callable[[Rows], Rows], kind: str) -> None:
    history = recorded_history()
    verdict = judge(History(history.manifest, operations=change(list(history.operations)), events=history.events), (CHECKER,))

    assert verdict.validity is Validity.INVALID
    assert kind in {anomaly.kind for anomaly in verdict.anomalies}


PRODUCED = ("ok produce topic=t partition=0 value=a offset=0", "ok produce topic=t partition=0 value=b offset=1")
LATE = "time_ns=3600000000000"  # of a final read
A, B = '[0,"t-0@0=a"]', '[1,"t-0@1=b"]'


def processed(outcome: str, *placed: str, position: int, client: int = 0) -> str:
    answer = f'{{"group":"g","results":{{"out-0":[{",".join(placed)}]}},"positions":{{"t-0":{position}}}}}'
    return f"{outcome} process process={client} value={answer}"


def polled(outcome: str, offset: int, value: str, *, client: int = 0) -> str:
    answer = f'{{"group":"g","records":{{"t-0":[[{offset},"{value}"]]}}}}'
    return f"{outcome} process process={client} value={answer}"


def read(*placed: str) -> str:
    return f'ok read-committed value={{"records":{{"out-0":[{",".join(placed)}]}},"end":true}}'


def kinds(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge(history_of(*PRODUCED, *lines), (CHECKER,)).anomalies]


def test_each_record_with_one_result_is_right() -> None:
    """docs/promise.md SES-3."""
    assert kinds(processed("ok", A, B, position=2), read(A, B)) == []


def test_record_behind_the_position_needs_no_result() -> None:
    assert kinds(processed("ok", A, position=1), read(A)) == []


def test_unknown_outcome_explains_a_result_and_promises_none() -> None:
    assert kinds(processed("info", A, position=1), read(A)) == []
    assert kinds(processed("info", A, position=1), read()) == []


def test_result_sent_again_after_a_failure_is_one_result() -> None:
    sent_again = '[5,"t-0@0=a"]'
    twice = (processed("fail", A, position=1), processed("ok", sent_again, position=1))

    assert kinds(*twice, read(sent_again)) == []
    assert sorted(kinds(*twice, read(A, sent_again))) == ["aborted-result", "doubled-result"]


def test_doubled_result_names_the_transactions_that_sent_it() -> None:
    """Who reads a red run wants to know when its record was processed, not when somebody read the results."""
    sent_again = '[5,"t-0@0=a"]'
    twice = (processed("ok", A, B, position=2), processed("ok", sent_again, position=1), read(A, B, sent_again))
    history = history_of(*PRODUCED, *twice)
    (anomaly,) = judge(history, (CHECKER,)).anomalies

    assert [row.f for row in history.operations if row.index in anomaly.witness] == ["process", "process"]


def test_member_is_given_nothing_below_its_commit_again() -> None:
    """SES-2: an old coordinator told the position of before the commit. That the transaction then fails excuses nothing."""
    again = polled("fail", 1, "b")

    assert kinds(processed("ok", A, B, position=2), again, read(A, B)) == ["resumed-behind"]
    assert kinds(processed("ok", A, position=1), again, read(A)) == []
    assert kinds(processed("info", A, B, position=2), again, read(A, B)) == []


def test_another_member_may_be_given_the_records_again() -> None:
    """It had polled them before they were taken from it, and what it commits is refused."""
    zombie = polled("fail", 1, "b", client=7)

    assert kinds(processed("ok", A, B, position=2), zombie, read(A, B)) == []


def test_answer_that_is_missing_explains_any_result() -> None:
    assert kinds("info process", read(A)) == []


def test_results_not_read_to_the_end_are_said_to_be_unjudged() -> None:
    unfinished = read(A).replace(',"end":true', "")
    verdict = judge(history_of(*PRODUCED, processed("ok", A, B, position=2), unfinished), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("told all results to their end" in line for line in verdict.unchecked)


def test_retry_that_told_nothing_explains_what_failed_before() -> None:
    """A member's transaction failed before its commit; it processed the records again, and never answered."""
    sent_again = '[5,"t-0@0=a"]'
    failed = processed("fail", A, position=1)

    assert kinds(failed, "info process", read(sent_again)) == []
    assert kinds(failed, "info process", read(A)) == ["aborted-result"]


def test_failed_result_without_an_offset_may_be_the_retrys() -> None:
    failed = processed("fail", '[null,"t-0@0=a"]', position=1)

    assert kinds(failed, read(A)) == ["aborted-result"]
    assert kinds(failed, "info process", read(A)) == []


def test_readers_that_differ_at_one_offset_are_reported() -> None:
    both = (processed("ok", A, position=1), processed("ok", '[0,"t-0@1=b"]', position=2))

    assert "inconsistent-offsets" in kinds(*both, read(A), read('[0,"t-0@1=b"]'))


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        '{"group":"g","result":{"out-0":[[0,"t-0@0=a"]]}}',
        "7",
        "null",
        '{"a":1',
        '{"group":"g","results":[1]}',
        '{"group":"g","results":{"out-0":[1]}}',
        '{"positions":{"t-0":null}}',
    ],
)
def test_answer_of_another_form_is_named_and_explains_all(answer: str) -> None:
    verdict = judge(history_of(*PRODUCED, f"ok process value={answer}", read(A)), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert "exactly-once: 1 answers cannot be read" in verdict.unchecked


def test_end_of_an_early_read_is_no_end_of_the_run() -> None:
    """What was committed afterwards cannot be in it."""
    verdict = judge(history_of(*PRODUCED, read(), processed("ok", A, position=1), "healed"), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("told all results to their end" in line for line in verdict.unchecked)


def test_missing_result_may_be_in_an_answer_of_another_form() -> None:
    final_read = ("healed", f"invoke read-committed {LATE}", f"{read(A)} {LATE}")
    lines = (*PRODUCED, processed("ok", A, B, position=2), 'ok read-committed value={"records":{"out-0":[7]}}', *final_read)
    verdict = judge(history_of(*lines), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())


@pytest.mark.parametrize(
    ("nodes", "kinds_expected"), [(("b1",), ["lost-result"]), (("b1", "b2"), []), (("b1", "b1"), ["lost-result"])]
)
def test_lost_result_is_excused_by_as_many_wounds(nodes: tuple[str, ...], kinds_expected: list[str]) -> None:
    """docs/promise.md §8: with a least ISR of two, two brokers have to lose bytes before a record of a session may be gone."""
    wounds = (f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in nodes)
    lines = (
        *PRODUCED,
        processed("ok", A, B, position=2),
        *wounds,
        "healed",
        f"invoke read-committed {LATE}",
        f"{read(A)} {LATE}",
    )
    verdict = judge(history_of(*lines), (CHECKER,))

    assert [anomaly.kind for anomaly in verdict.anomalies] == kinds_expected
    assert any("destroyed bytes of b1, b2" in line for line in verdict.unchecked) is (not kinds_expected)


def test_destroyed_bytes_excuse_results_and_a_waiting_group() -> None:
    wounds = [f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in ("b1", "b2")]
    second_result = '[0,"t-0@1=b"]'
    lines = (processed("ok", A, position=1), processed("info", second_result, position=2), *wounds, read(A), read(second_result))
    verdict = judge(history_of(*PRODUCED, *lines, "healed", f"invoke read-committed {LATE}", f"{read(A)} {LATE}"), (CHECKER,))

    assert (verdict.anomalies, verdict.not_live) == ((), ())


def at_the_end(*placed: str, process: int = 1) -> tuple[str, str]:
    """A final reader that comes to the end, behind a line "healed"."""
    return f"invoke read-committed {LATE} process={process}", f"{read(*placed)} {LATE} process={process}"


def test_result_that_is_read_before_it_was_sent_is_a_phantom() -> None:
    """SES-3: no later transaction explains what a reader was given."""
    assert kinds(read(A), processed("ok", A, position=1)) == ["phantom-result"]


def test_silent_member_explains_no_result_of_no_record() -> None:
    """A member processes what was produced, whatever it did not tell."""
    assert kinds("info process", read('[0,"t-0@7=nobody"]')) == ["phantom-result"]


def test_failed_member_that_told_nothing_explains_nothing() -> None:
    """Its transaction certainly did not commit."""
    assert kinds("fail process", read(A)) == ["phantom-result"]


def test_place_of_a_failed_result_holds_no_other_one() -> None:
    """The retry was not told where its result is; it is not where the one that failed is."""
    failed, retried = processed("fail", A, position=1), processed("info", '[null,"t-0@0=a"]', position=1)

    assert kinds(failed, retried, read(A)) == ["aborted-result"]
    assert kinds(failed, retried, read('[5,"t-0@0=a"]')) == []


def test_each_reader_at_the_end_is_given_all_results() -> None:
    """SES-1: what one final reader was given is no excuse for another one."""
    done = (processed("ok", A, B, position=2), "healed")

    assert kinds(*done, *at_the_end(A, B, process=8), *at_the_end(A, B, process=9)) == []
    assert kinds(*done, *at_the_end(A, B, process=8), *at_the_end(A, process=9)) == ["lost-result"]


def test_result_committed_after_the_final_read_is_not_missed() -> None:
    assert kinds("healed", *at_the_end(), processed("ok", A, B, position=2)) == []


def test_transaction_that_is_seen_in_part_has_committed() -> None:
    """SES-1: its outcome was unknown to its member; one result shows that it committed, so all can be read."""
    unknown = processed("info", A, B, position=2)

    assert kinds(unknown, read(A, B), "healed", *at_the_end(A, B)) == []
    assert kinds(unknown, read(A), "healed", *at_the_end(A, process=9)) == ["lost-result"]
    assert kinds(unknown, "healed", *at_the_end()) == []


def test_unknown_transaction_that_is_seen_claims_its_position() -> None:
    """A record below it has no result."""
    assert kinds(processed("info", B, position=2), read(B), "healed", *at_the_end(B)) == ["unprocessed-record"]


def test_result_of_a_silent_member_is_not_lost_once_it_was_read() -> None:
    assert kinds("info process process=2", read(A), "healed", *at_the_end(process=9)) == ["lost-result"]


def test_history_without_final_reads_is_judged_by_all_reads() -> None:
    """docs/promise.md VAC-4."""
    history = history_of(*PRODUCED, processed("ok", A, B, position=2), read(A))
    manifest = replace(history.manifest, makes_final_reads=False)
    verdict = judge(History(manifest, operations=history.operations, events=history.events), (CHECKER,))

    assert [anomaly.kind for anomaly in verdict.anomalies] == ["lost-result"]
