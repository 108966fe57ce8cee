"""Recorded clients of Kafka 4.1.0 that take an id over from each other are VALID; with one thing changed they are not.

The run performed corpus/real/zombies.yaml with librdkafka: brokers were killed, cut off and hung meanwhile.
"""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients.zombies import CHECKER
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.1.0-zombies"
Rows = list[Operation]


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def test_recorded_clients_of_one_id_are_valid() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert verdict.counts["fenced"] > 10
    assert verdict.counts["acked"] == verdict.counts["transactions"] > 50


def commits(rows: Rows, *types: OpType) -> list[tuple[int, int]]:
    """The indices in `rows` of the invocation and completion of each commit that ended so."""
    row_of_invocation: dict[int, int] = {}
    found = []
    for at, row in enumerate(rows):
        if row.f == "txn-commit" and row.type is OpType.INVOKE:
            row_of_invocation[row.process] = at
        elif row.f == "txn-commit" and row.type in types:
            found.append((row_of_invocation[row.process], at))
    return found


def sent_before(rows: Rows, commit: int) -> dict[str, list[Any]]:
    """The records of the transaction whose commit begins at this index."""
    process = rows[commit].process
    row = next(row for row in reversed(rows[:commit]) if row.process == process and row.f == "txn-send" and row.value)
    sends: dict[str, list[Any]] = json.loads(row.value or "")["sends"]
    return sends


def read_too(rows: Rows, records: dict[str, list[Any]]) -> Rows:
    """The rows, with these records in the last answer to a reader."""
    last = max(at for at, row in enumerate(rows) if row.f == "read-committed" and row.type is OpType.OK)
    answer = json.loads(rows[last].value or "")
    for key, placed in records.items():
        answer["records"].setdefault(key, []).extend(placed)
    return [*rows[:last], replace(rows[last], value=json.dumps(answer)), *rows[last + 1 :]]


def commit_of_zombie(rows: Rows) -> tuple[int, int]:
    """A commit that was asked for after the id was taken over, and was refused."""
    history = recorded_history()
    for invoked_at, ended in commits(rows, OpType.INFO):
        changed = [replace(row, type=OpType.OK, error=None) if at == ended else row for at, row in enumerate(rows)]
        verdict = judge(History(history.manifest, operations=changed, events=history.events), (CHECKER,))
        if "unfenced-producer" in {anomaly.kind for anomaly in verdict.anomalies}:
            return invoked_at, ended
    raise AssertionError("no zombie asked for a commit")


def record_of_zombie_is_read(rows: Rows) -> Rows:
    return read_too(rows, sent_before(rows, commit_of_zombie(rows)[0]))


def zombie_is_told_that_it_committed(rows: Rows) -> Rows:
    _, ended = commit_of_zombie(rows)
    return [replace(row, type=OpType.OK, error=None) if at == ended else row for at, row in enumerate(rows)]


def aborted_record_is_read(rows: Rows) -> Rows:
    aborted = next(at for at, row in enumerate(rows) if row.f == "txn-abort" and row.type is OpType.OK)
    return read_too(rows, sent_before(rows, aborted))


def committed_record_is_not_read(rows: Rows) -> Rows:
    """A transaction that certainly committed is gone from all answers to readers."""
    gone = {value for placed in sent_before(rows, commits(rows, OpType.OK)[0][0]).values() for _, value in placed}
    changed = []
    for row in rows:
        answer = json.loads(row.value) if row.f == "read-committed" and row.value else None
        if answer:
            kept = {key: [at for at in placed if at[1] not in gone] for key, placed in answer["records"].items()}
            changed.append(replace(row, value=json.dumps({**answer, "records": kept})))
        else:
            changed.append(row)
    return changed


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (record_of_zombie_is_read, "zombie-write"),
        (zombie_is_told_that_it_committed, "unfenced-producer"),
        (aborted_record_is_read, "G1a"),
        (committed_record_is_not_read, "unseen"),
    ],
)
def test_changed_history_has_the_anomaly(change: Callable[[Rows], Rows], kind: str) -> None:
    history = recorded_history()
    verdict = judge(History(history.manifest, operations=change(list(history.operations)), events=history.events), (CHECKER,))

    assert verdict.validity is Validity.INVALID
    assert {anomaly.kind for anomaly in verdict.anomalies} == {kind}


def transaction_step(outcome: str, f: str, process: int, value: str = '{"id":"a"}') -> str:
    return f"{outcome} {f} value={value} process={process}"


def send_step(process: int, value: str, outcome: str = "ok") -> str:
    return transaction_step(outcome, "txn-send", process, f'{{"id":"a","sends":{{"t-0":[[0,"{value}"]]}}}}')


def read_step(*values: str) -> str:
    placed = ",".join(f'[0,"{value}"]' for value in values)
    return f'ok read-committed value={{"records":{{"t-0":[{placed}]}},"end":true}} process=9'


def kinds(*lines: str) -> list[str]:
    return [anomaly.kind for anomaly in judge(history_of(*lines), (CHECKER,)).anomalies]


FIRST, SECOND = transaction_step("ok", "init-transactions", 1), transaction_step("ok", "init-transactions", 2)


def test_producer_that_was_taken_over_has_no_effect() -> None:
    """docs/promise.md SES-4."""
    late_commit = transaction_step("info", "txn-commit", 1)

    assert kinds(FIRST, send_step(1, "x"), SECOND, late_commit, read_step()) == []
    assert kinds(FIRST, send_step(1, "x"), SECOND, late_commit, read_step("x")) == ["zombie-write"]


def test_zombie_that_sends_anew_is_refused() -> None:
    assert kinds(FIRST, SECOND, send_step(1, "x", "fail"), read_step()) == []
    assert kinds(FIRST, SECOND, send_step(1, "x"), read_step()) == ["unfenced-producer"]


def test_unconfirmed_initialization_fences_nobody_for_certain() -> None:
    maybe = transaction_step("info", "init-transactions", 2)

    assert kinds(FIRST, send_step(1, "x"), maybe, transaction_step("ok", "txn-commit", 1), read_step("x")) == []


def test_producer_of_another_id_is_not_fenced() -> None:
    other = transaction_step("ok", "init-transactions", 2, '{"id":"b"}')

    assert kinds(FIRST, send_step(1, "x"), other, transaction_step("ok", "txn-commit", 1), read_step("x")) == []


def test_record_read_before_its_commit_is_an_anomaly() -> None:
    assert kinds(FIRST, send_step(1, "x"), read_step("x"), transaction_step("ok", "txn-commit", 1), SECOND) == ["G1a"]


def test_end_of_an_early_read_is_no_end_of_the_run() -> None:
    lines = (FIRST, send_step(1, "x"), transaction_step("ok", "txn-commit", 1), read_step(), SECOND, "healed")
    verdict = judge(history_of(*lines), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("told all committed records to their end" in line for line in verdict.unchecked)


def test_record_of_nobody_is_an_anomaly() -> None:
    assert kinds(FIRST, send_step(1, "x"), transaction_step("ok", "txn-commit", 1), SECOND, read_step("x", "y")) == [
        "phantom-read"
    ]


@pytest.mark.parametrize("value", ["7", '{"id":7}', '{"id":"a","sends":[1]}'])
def test_value_of_another_form_is_named(value: str) -> None:
    verdict = judge(history_of(FIRST, transaction_step("ok", "txn-send", 1, value), SECOND, read_step("x")), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("answers cannot be read" in line for line in verdict.unchecked)


def test_abort_that_a_zombie_is_told_of_is_right() -> None:
    """It was aborted when the id was taken over."""
    assert kinds(FIRST, send_step(1, "x"), SECOND, transaction_step("ok", "txn-abort", 1), read_step()) == []


def test_run_without_zombies_shows_nothing() -> None:
    verdict = judge(history_of(FIRST, send_step(1, "x"), transaction_step("ok", "txn-commit", 1)), (CHECKER,))

    assert verdict.validity is Validity.UNKNOWN
    assert any("no producer worked on after another one" in line for line in verdict.unchecked)


def test_destroyed_bytes_excuse_what_they_may_explain() -> None:
    zombie_commit = (FIRST, send_step(1, "x"), SECOND, transaction_step("info", "txn-commit", 1), read_step("x"))
    verdict = judge(history_of("wound node=b1", "wound node=b2", *zombie_commit), (CHECKER,))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("faults destroyed bytes of b1, b2" in line for line in verdict.unchecked)


LATE = "time_ns=3600000000000"  # of a final read


def at_the_end(*values: str, process: int = 9) -> tuple[str, str]:
    """A final reader that comes to the end, behind a line "healed"."""
    told = read_step(*values).replace("process=9", f"process={process}")
    return f"invoke read-committed {LATE} process={process}", f"{told} {LATE}"


def test_transaction_of_several_sends_commits_all_of_them() -> None:
    """A commit is of all that was sent since the last one."""
    twice = (FIRST, send_step(1, "x"), send_step(1, "y"), transaction_step("ok", "txn-commit", 1), SECOND)

    assert kinds(*twice, read_step("x", "y")) == []
    assert kinds(*twice, "healed", *at_the_end("y")) == ["unseen"]


def test_refused_commit_of_a_zombie_shows_that_it_is_fenced() -> None:
    """A run in which a zombie was refused has something to show, however its client was told."""
    lines = (FIRST, send_step(1, "x"), SECOND, transaction_step("fail", "txn-commit", 1), "healed", *at_the_end())
    verdict = judge(history_of(*lines), (CHECKER,))

    assert (verdict.validity, verdict.counts["fenced"]) == (Validity.VALID, 1)


def test_zombie_is_served_where_no_offset_is_told() -> None:
    """The send certainly was done; the client was not told where its record is."""
    unplaced = transaction_step("ok", "txn-send", 1, '{"id":"a","sends":{"t-0":[[null,"x"]]}}')

    assert kinds(FIRST, SECOND, unplaced) == ["unfenced-producer"]
    assert kinds(FIRST, unplaced, transaction_step("ok", "txn-commit", 1), SECOND, "healed", *at_the_end()) == ["unseen"]


def test_each_reader_at_the_end_is_given_all_records() -> None:
    """SES-1: what one final reader was given is no excuse for another one."""
    committed = (FIRST, send_step(1, "x"), transaction_step("ok", "txn-commit", 1), SECOND)
    lines = (*committed, "healed", *at_the_end("x"), *at_the_end(process=8))

    assert kinds(*lines) == ["unseen"]


def test_transaction_that_is_seen_in_part_has_committed() -> None:
    """SES-1: the outcome of its commit was unknown; one record shows that it committed, so all can be read."""
    commit = transaction_step("info", "txn-commit", 1)
    lines = (FIRST, send_step(1, "x"), send_step(1, "y"), commit, SECOND, read_step("x"), "healed")

    assert kinds(*lines, *at_the_end("x", "y", process=8)) == []
    assert kinds(*lines, *at_the_end("x", process=8)) == ["unseen"]


@pytest.mark.parametrize(
    ("late", "is_live"),
    [
        ((send_step(2, "y"), transaction_step("ok", "txn-abort", 2)), True),
        ((send_step(2, "y", "info"), transaction_step("ok", "txn-abort", 2)), False),
        ((send_step(2, "y"), transaction_step("info", "txn-commit", 2)), False),
        ((send_step(1, "y"), transaction_step("info", "txn-commit", 1)), True),
    ],
    ids=["aborted on purpose", "aborted after an error", "not committed", "fenced"],
)
def test_late_transactions_must_be_committed_if_they_can(late: tuple[str, str], is_live: bool) -> None:
    """A short run whose last transactions were aborted on purpose, or fenced, was not live."""
    timed = [f"{step.replace('ok ', 'invoke ', 1).replace('info ', 'invoke ', 1)} {LATE}" for step in late]
    lines = [line for pair in zip(timed, (f"{step} {LATE}" for step in late), strict=True) for line in pair]
    verdict = judge(history_of(FIRST, SECOND, "healed", *lines, *at_the_end()), (CHECKER,))
    told = any("was committed from the bound B" in line for line in verdict.not_live)

    assert told is not is_live
