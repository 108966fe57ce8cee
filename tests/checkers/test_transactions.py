"""Recorded transactions of Kafka 3.9.1 under faults are VALID; with one thing changed, the anomaly of that name is found.

The run performed corpus/real/transactions.yaml: the leader was killed, a broker was cut off, another one hung.
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.clients import transactions
from checkers.clients.transactions import CHECKER
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-3.9.1-transactions"
Micros = list[list[Any]]
Change = Callable[[dict[int, Micros], dict[int, Operation]], None]
Poll = tuple[int, list[list[Any]]]  # the row of the completion, and the records of one key, as they are in it


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def history_after(change: Change) -> History:
    """The recorded history after a change to the values of its completions, by row."""
    history = recorded_history()
    rows = {row.index: row for row in history.operations if row.type is not OpType.INVOKE and row.value is not None}
    values: dict[int, Micros] = {index: json.loads(row.value or "") for index, row in rows.items()}
    change(values, rows)
    operations = [replace(row, value=json.dumps(values[row.index])) if row.index in values else row for row in history.operations]
    return History(history.manifest, operations=operations, events=history.events)


def kinds_after(change: Change) -> set[str]:
    verdict = judge(history_after(change), (CHECKER,))
    assert verdict.validity is Validity.INVALID
    return {anomaly.kind for anomaly in verdict.anomalies}


def polls(values: dict[int, Micros], rows: dict[int, Operation], key: str = "t-0") -> Iterator[Poll]:
    """The polls of committed transactions that returned records of a key."""
    for index, micros in sorted(values.items()):
        for micro in micros:
            if rows[index].type is OpType.OK and micro[0] == "poll" and micro[1:] and micro[1].get(key):
                yield index, micro[1][key]


def long_poll(values: dict[int, Micros], rows: dict[int, Operation]) -> list[list[Any]]:
    """The records of a poll that returned many."""
    return max((records for _, records in polls(values, rows)), key=len)


def sends_of(values: dict[int, Micros], rows: dict[int, Operation], type: OpType) -> list[tuple[str, int, str]]:
    """Key, offset and value of sends whose transaction ended so."""
    return [
        (micro[1], *micro[2])
        for index, micros in sorted(values.items())
        for micro in micros
        if rows[index].type is type and micro[0] == "send" and micro[2][0] is not None
    ]


def everywhere(values: dict[int, Micros], change: Callable[[str, list[list[Any]]], list[list[Any]]]) -> None:
    """Change the records of each key in each poll."""
    for micros in values.values():
        for micro in micros:
            if micro[0] == "poll" and micro[1:]:
                micro[1] = {key: change(key, records) for key, records in micro[1].items()}


def test_recorded_transactions_of_kafka_are_valid() -> None:
    verdict = judge(recorded_history(), (CHECKER,))

    assert (verdict.validity, verdict.live, verdict.unchecked) == (Validity.VALID, True, ())
    assert verdict.counts["transactions"] > 300


def test_run_of_transactions_is_valid_and_not_vacuous() -> None:
    """All checkers: nobody misses produce rows, and committed transactions count as acknowledged."""
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert verdict.counts["acked"] == verdict.counts["transactions"]


def aborted_is_read(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    """Put the value of a failed send into a poll that passed its offset."""
    offset, value, records = next(
        (offset, value, records)
        for key, offset, value in sends_of(values, rows, OpType.FAIL)
        for _, records in polls(values, rows, key)
        if records[0][0] < offset < records[-1][0]
    )
    records.append([offset, value])
    records.sort()


def record_is_lost(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    _, _, value = sends_of(values, rows, OpType.OK)[40]
    everywhere(values, lambda _, records: [one for one in records if one[1] != value])


def last_record_is_unseen(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    last = max(offset for _, records in polls(values, rows) for offset, _ in records)
    everywhere(values, lambda key, records: [one for one in records if (key, one[0]) != ("t-0", last)])


def record_has_two_offsets(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    records = long_poll(values, rows)
    records.append([records[-1][0] + 100_000, records[0][1]])


def offset_has_two_values(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    records = long_poll(values, rows)
    records[0][1], records[1][1] = records[1][1], records[0][1]


def record_is_nobodys(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    long_poll(values, rows)[0][1] = "nobody's"


def poll_leaves_one_out(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    del long_poll(values, rows)[2]


def poll_is_out_of_order(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    long_poll(values, rows).reverse()


def consecutive(values: dict[int, Micros], rows: dict[int, Operation]) -> tuple[list[list[Any]], list[list[Any]]]:
    """The records of two polls of one process, the second right behind the first."""
    last: dict[int, list[list[Any]]] = {}
    for index, records in polls(values, rows):
        before = last.get(rows[index].process)
        if before is not None and len(before) > 1 and len(records) > 1:
            return before, records
        last[rows[index].process] = records
    raise AssertionError("no process polled twice")


def next_poll_skips_one(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    del consecutive(values, rows)[1][0]


def next_poll_goes_back(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    before, records = consecutive(values, rows)
    records[:0] = [list(one) for one in before]


def transaction_reads_itself(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    """Put a transaction's own send into its poll."""
    for index, micros in sorted(values.items()):
        polled = next((m for m in micros if m[0] == "poll" and m[1:]), None)
        own_send = next((m for m in micros if m[0] == "send"), None)
        if rows[index].type is OpType.OK and polled and own_send and not polled[1].get(own_send[1]):
            polled[1][own_send[1]] = [list(own_send[2])]
            return


def two_transactions_read_each_other(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    """Put into the polls of two transactions what the other one sent."""
    both = [
        (micros, next(m for m in micros if m[0] == "send"), next(m for m in micros if m[0] == "poll" and m[1:]))
        for index, micros in sorted(values.items())
        if rows[index].type is OpType.OK and {m[0] for m in micros} == {"send", "poll"}
    ]
    (_, first, polled), (_, second, then) = both[10], both[11]
    polled[1] = {second[1]: [list(second[2])]}
    then[1] = {first[1]: [list(first[2])]}


def swap_offsets(values: dict[int, Micros], first: list[Any], second: list[Any]) -> None:
    """Exchange the offsets of two sends, in their answers and in all polls."""
    (low, low_offset_value), (high, high_offset_value) = first[2], second[2]
    first[2], second[2] = [high, low_offset_value], [low, high_offset_value]
    swapped = {low_offset_value: high, high_offset_value: low}
    everywhere(values, lambda _, records: sorted([swapped.get(v, o), v] for o, v in records))


def sends_swap_offsets(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    """Exchange the offsets of two sends of one transaction to one partition."""
    for index, micros in sorted(values.items()):
        own_sends = [m for m in micros if m[0] == "send" and m[1] == "t-0"]
        if rows[index].type is OpType.OK and len(own_sends) > 1:
            swap_offsets(values, own_sends[0], own_sends[1])
            return


def sends_of_a_process_swap_offsets(values: dict[int, Micros], rows: dict[int, Operation]) -> None:
    """Exchange the offsets of sends of two transactions of one process."""
    last: dict[int, list[Any]] = {}
    for index, micros in sorted(values.items()):
        own_sends = [m for m in micros if m[0] == "send" and m[1] == "t-0"]
        if rows[index].type is not OpType.OK or len(own_sends) != 1:
            continue
        before = last.get(rows[index].process)
        if before is not None:
            swap_offsets(values, before, own_sends[0])
            return
        last[rows[index].process] = own_sends[0]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (aborted_is_read, "G1a"),
        (record_is_lost, "lost-write"),
        (last_record_is_unseen, "unseen"),
        (record_has_two_offsets, "duplicate"),
        (record_has_two_offsets, "duplicate-elements"),
        (offset_has_two_values, "inconsistent-offsets"),
        (offset_has_two_values, "incompatible-order"),
        (record_is_nobodys, "phantom-read"),
        (poll_leaves_one_out, "int-poll-skip"),
        (poll_is_out_of_order, "int-nonmonotonic-poll"),
        (next_poll_skips_one, "poll-skip"),
        (next_poll_goes_back, "nonmonotonic-poll"),
        (transaction_reads_itself, "precommitted-read"),
        (two_transactions_read_each_other, "G1c"),
        (sends_swap_offsets, "int-nonmonotonic-send"),
        (sends_of_a_process_swap_offsets, "nonmonotonic-send"),
    ],
)
def test_changed_history_has_the_anomaly(change: Change, kind: str) -> None:
    assert kind in kinds_after(change)


def test_interleaved_transactions_are_allowed() -> None:
    """Kafka's transactions may interleave: Jepsen's G0 and G1c with ww are no anomalies (docs/promise.md SES-1)."""
    sends = ['[["send","t-0",[0,"a"]],["send","t-1",[1,"b"]]]', '[["send","t-0",[1,"c"]],["send","t-1",[0,"d"]]]']
    polled = '[["poll",{"t-0":[[0,"a"],[1,"c"]],"t-1":[[0,"d"],[1,"b"]]},"end"]]'
    history = history_of(
        "invoke txn process=1", "invoke txn process=2", f"ok txn process=1 value={sends[0]}",
        f"ok txn process=2 value={sends[1]}", f"ok txn process=3 value={polled}",
    )  # fmt: skip

    assert judge(history, (CHECKER,)).anomalies == ()


def test_commit_of_unknown_outcome_accuses_nobody() -> None:
    history = history_of('info txn value=[["send","t-0",[0,"a"]]]', 'ok txn process=2 value=[["poll",{"t-0":[[1,"b"]]}]]',
                         'ok txn process=3 value=[["send","t-0",[1,"b"]]]')  # fmt: skip

    assert "lost-write" not in {anomaly.kind for anomaly in judge(history, (CHECKER,)).anomalies}


def verdict_of(*lines: str) -> Verdict:
    return judge(history_of(*lines), (CHECKER,))


def test_value_that_is_no_json_makes_the_verdict_unknown() -> None:
    verdict = verdict_of("ok txn value=[[")

    assert verdict.validity is Validity.UNKNOWN
    assert "is not JSON" in verdict.unchecked[0]


def test_unseen_record_accuses_only_if_a_reader_was_at_the_end() -> None:
    lines = ('ok txn value=[["send","t-0",[0,"a"]]]', 'ok txn process=2 value=[["poll",{},"end"]]', "healed")  # an early end
    verdict = verdict_of(*lines)

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("no final reader came to the end" in complaint for complaint in verdict.unchecked)


def test_runs_without_transactions_are_not_judged() -> None:
    assert verdict_of("ok produce value=a offset=0").anomalies == ()
    assert transactions.NAME not in " ".join(verdict_of("ok produce value=a offset=0").unchecked)


@pytest.mark.parametrize(
    "value", ["7", "[7]", '[["poll",null]]', '[["poll",{"t-0":[7]}]]', '[["send","t-0",[0]]]', '[["append","t-0","a"]]']
)
def test_value_of_another_form_makes_the_verdict_unknown(value: str) -> None:
    verdict = verdict_of(f"ok txn value={value}")

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any("is no list of sends and polls" in line for line in verdict.unchecked)


def test_lost_write_is_excused_by_two_wounds() -> None:
    """docs/promise.md §8: the records of a transaction may be among the bytes that were destroyed."""
    lost = ('ok txn value=[["send","t-0",[0,"a"]]]', 'ok txn process=2 value=[["poll",{"t-0":[[0,"b"]]},"end"]]')
    wounds = [f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in ("b1", "b2")]

    assert {"lost-write", "phantom-read"} <= {anomaly.kind for anomaly in verdict_of(*lost, wounds[0]).anomalies}
    excused = verdict_of(*lost, *wounds)
    assert {anomaly.kind for anomaly in excused.anomalies} == {"phantom-read"}
    assert any("destroyed bytes of b1, b2" in line for line in excused.unchecked)
