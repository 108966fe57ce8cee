"""A recorded compacted topic of Kafka 4.1.0 under faults is VALID; with one thing changed, the anomaly of that name is found.

The run performed corpus/real/compacted.yaml: twelve keys in each partition, whose cleaner ran all the time.
"""

from collections.abc import Callable
from functools import cache

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from checkers.clients import client_log, polls
from checkers.clients.compaction import CHECKER
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.history import History
from history.op import Operation, OpType
from history.promise import Keeps
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.1.0-compacted"
Rows = list[Operation]


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def key_of(row: Operation) -> str:
    return (row.value or "").partition("=")[0]


def is_final(row: Operation) -> bool:
    began = recorded_history().manifest.final_reads_at_ns
    return began is not None and row.time_ns >= began and row.type is OpType.OK


def test_recorded_compacted_topic_is_valid() -> None:
    verdict = judge(recorded_history(), (CHECKER,))

    assert (verdict.validity, verdict.anomalies, verdict.unchecked) == (Validity.VALID, (), ())
    assert verdict.counts["compacted"] > 100


def test_run_on_a_compacted_topic_is_valid_and_live() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())


def last_of_a_key(rows: Rows) -> Operation:
    """The last acknowledged record of a key that is not the last of its partition."""
    acked = [
        row for row in rows if row.f == "produce" and row.type is OpType.OK and row.partition == 0 and row.offset is not None
    ]
    ends = {key_of(row): row for row in sorted(acked, key=lambda row: row.offset or 0)}
    return min(ends.values(), key=lambda row: row.offset or 0)


def last_value_is_passed_by(rows: Rows) -> Rows:
    """The final readers are not given the last record of a key, nor any later one."""
    lost = last_of_a_key(rows)
    return [
        row
        for row in rows
        if not (
            row.f == "poll"
            and is_final(row)
            and row.partition == lost.partition
            and key_of(row) == key_of(lost)
            and (row.offset or 0) >= (lost.offset or 0)
        )
    ]


def log_ends_early(rows: Rows) -> Rows:
    """Nothing of a partition is left for the final readers from the last record of a key on."""
    cut = last_of_a_key(rows)
    kept = [
        row
        for row in rows
        if not (row.f == "poll" and is_final(row) and row.partition == cut.partition and (row.offset or 0) >= (cut.offset or 0))
    ]
    return [
        replace(row, offset=cut.offset) if row.f == "latest" and is_final(row) and row.partition == cut.partition else row
        for row in kept
    ]


def key_is_another(rows: Rows) -> Rows:
    """The last record of a key comes back under another key."""
    lost = last_of_a_key(rows)

    def is_read_of_it(row: Operation) -> bool:
        return row.f == "poll" and is_final(row) and row.partition == lost.partition and key_of(row) == key_of(lost)

    return [replace(row, value=f"k99={(row.value or '').partition('=')[2]}") if is_read_of_it(row) else row for row in rows]


@pytest.mark.parametrize("change", [last_value_is_passed_by, log_ends_early, key_is_another])
def test_changed_history_of_a_compacted_topic_is_invalid(change: Callable[[Rows], Rows]) -> None:
    history = recorded_history()
    rows = change(list(history.operations))
    verdict = judge(History(history.manifest, operations=rows, events=history.events), (CHECKER,))

    assert verdict.validity is Validity.INVALID
    assert {anomaly.kind for anomaly in verdict.anomalies} == {"lost-value"}


PRODUCED = ("ok produce value=a=1 offset=0", "ok produce value=b=1 offset=1", "ok produce value=a=2 offset=2")
END = "ok latest offset=3 process=2"


def judged(*final: str, keeps: Keeps | UnsetType = "last-of-key", events: tuple[str, ...] = ()) -> Verdict:
    """The verdict of these final reads after PRODUCED."""
    history = history_of(*PRODUCED, *final, *events)
    topics = tuple(replace(topic, keeps=keeps) for topic in history.manifest.promise.topics)
    manifest = replace(
        history.manifest,
        promise=replace(history.manifest.promise, topics=topics),
        final_reads_at_ns=history.operations[len(PRODUCED) * 2].time_ns,
    )
    return judge(
        History(manifest, operations=history.operations, events=history.events), (CHECKER, client_log.CHECKER, polls.CHECKER)
    )


def poll(offset: int, value: str) -> tuple[str, str]:
    return f"invoke poll offset={offset} process=2", f"ok poll process=2 value={value} offset={offset}"


def test_record_is_replaced_by_a_later_one_of_its_key() -> None:
    """docs/promise.md DUR-9: neither the black box nor the judge of polls misses it."""
    verdict = judged(END, *poll(1, "b=1"), *poll(2, "a=2"))

    assert (verdict.validity, verdict.counts["compacted"]) == (Validity.VALID, 1)


def test_record_that_is_gone_is_lost_where_nothing_is_compacted() -> None:
    verdict = judged(END, "invoke poll offset=0 process=2", "ok poll process=2 value=b=1 offset=1", *poll(2, "a=2"), keeps=UNSET)

    assert {anomaly.kind for anomaly in verdict.anomalies} == {"lost-write"}


def test_only_value_of_a_key_stays() -> None:
    verdict = judged(END, *poll(2, "a=2"))

    assert [(anomaly.kind, "b=1 was acknowledged at offset 1" in anomaly.words) for anomaly in verdict.anomalies] == [
        ("lost-value", True)
    ]


def test_final_reads_that_stop_leave_it_unknown() -> None:
    verdict = judged(END, *poll(0, "a=1"))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert "compaction: the final reads of t-0 did not come to the last records of 2 keys" in verdict.unchecked


def test_run_in_which_nothing_was_compacted_is_unknown() -> None:
    verdict = judged(END, *poll(0, "a=1"), *poll(1, "b=1"), *poll(2, "a=2"))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked == ("compaction: every promised record was there at the end: nothing was compacted",)


def test_lost_values_are_excused_by_two_wounds() -> None:
    """docs/promise.md DUR-4."""
    wounds = tuple(f"wound node={node} topic=t partition=0 offset=0 detail=power-loss" for node in ("b1", "b2"))

    assert judged(END, *poll(2, "a=2"), events=wounds[:1]).validity is Validity.INVALID
    verdict = judged(END, *poll(2, "a=2"), events=wounds)
    assert verdict.anomalies == ()
    assert "compaction: b1, b2 lost bytes" in " ".join(verdict.unchecked)
