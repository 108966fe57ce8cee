"""The record of a run: its tables fit the schema, calls and windows are counted as defined."""

from typing import NamedTuple

import pytest
from hypothesis import given

from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.sketches import history_of
from history.history import History
from history.op import OpType
from pipeline.record import Known, Record, calls_of, record_of, record_of_failure
from pipeline.record_file import decode, encode
from pipeline.tables import OF_A_RECORD, Table, arrow_schema
from reports.calls import calls_of as calls_of_the_page
from tests.pipeline.records import HISTORY, facts_of_run, record, verdict
from tests.strategies import histories


def _rows(record_found: Record, table: Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = record_found.tables[table].to_pylist()
    return rows


def _assert_fits(record_found: Record) -> None:
    assert tuple(record_found.tables) == OF_A_RECORD
    for table in OF_A_RECORD:
        assert record_found.tables[table].schema == arrow_schema(table)
        record_found.tables[table].validate(full=True)
        for column, field in zip(record_found.tables[table].columns, record_found.tables[table].schema, strict=True):
            assert field.nullable or column.null_count == 0, (table, field.name)


@pytest.mark.slow
@given(histories())
def test_record_of_any_history_fits_the_schema(history: History) -> None:
    rows = [*(row.index for row in history.operations), *(row.index for row in history.events)]
    anomalies = [Anomaly(kind="k", checker="c", key="", witness=(row,), words="w") for row in [*rows[:3], 10**6]]
    new_record = record_of(facts_of_run(1), history, merge([Findings(anomalies=tuple(anomalies))]))

    _assert_fits(new_record)
    assert decode(encode(new_record)).tables == new_record.tables


def test_record_of_a_run_names_cause_and_counts() -> None:
    row = _rows(record(1), "runs")[0]

    assert row["run"] == "seed-1/sim-v3-0"
    assert row["signature"] == "truncated-committed/log-matching/truncate:hw"
    assert row["cause"] == "Step truncate:hw of t-0 at 0.005 s while pause was in effect: b2 truncated a"
    assert row["cause_faults"] == ["pause"]
    assert (row["verdict"], row["live"], row["operations"], row["acked"], row["fault_windows"]) == ("INVALID", True, 2, 1, 1)


def test_record_of_a_valid_run_has_no_signature() -> None:
    record_found = record_of(facts_of_run(2), HISTORY, verdict(invalid=False))

    _assert_fits(record_found)
    assert (_rows(record_found, "runs")[0]["signature"], _rows(record_found, "anomalies")) == (None, [])


def test_anomaly_has_the_time_and_faults_of_its_proof() -> None:
    row = _rows(record(1), "anomalies")[0]

    assert (row["witness"], row["at_ns"], row["in_effect"]) == ([4, 5], 5_000_000, ["pause"])


def test_run_without_a_history_has_a_row_of_runs_alone() -> None:
    failed = record_of_failure(Known(plan="seed-1", run_id="x", protocol="safe", outcome="harness-fault", failure="disk full"))

    _assert_fits(failed)
    assert {table: rows.num_rows for table, rows in failed.tables.items() if rows.num_rows} == {"runs": 1}
    row = _rows(failed, "runs")[0]
    assert (row["verdict"], row["signature"], row["failure"]) == ("UNKNOWN", "harness-fault", "disk full")


def test_coverage_counts_steps_by_fault_in_effect() -> None:
    assert _rows(record(1), "coverage") == [
        {"run": "seed-1/sim-v3-0", "state": "created", "fault": "", "count": 1},
        {"run": "seed-1/sim-v3-0", "state": "truncate:hw", "fault": "pause", "count": 1},
    ]


# --- calls ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(histories())
def test_calls_equal_those_of_the_page(history: History) -> None:
    """The page pairs rows one by one; the record pairs columns."""
    numbered = [op for op in history.operations if op.type in tuple(OpType)]
    page = calls_of_the_page(History(history.manifest, operations=numbered).attempts)
    found = calls_of(history.operations_frame).rows(named=True)

    assert [(c["process"], c["f"], c["topic"], c["partition"], c["type"], c["invoked_ns"]) for c in found] == [
        (c.process, c.f, c.topic, c.partition, str(c.type), c.start_ns) for c in page
    ]
    assert [(c["records"], c["error"], c["ended_ns"]) for c in found] == [(c.records, c.error, c.end_ns) for c in page]


def test_call_without_an_answer_is_info() -> None:
    found = calls_of(history_of("invoke produce value=a").operations_frame).row(0, named=True)

    assert (found["type"], found["latency_ns"], found["records"]) == ("info", None, 1)


# --- windows --------------------------------------------------------------------------------------------------------------------

_MS = 1_000_000


class _Case(NamedTuple):
    lines: tuple[str, ...]
    unavailable_ms: int
    recovery_ms: int | None


def _fault(begun: int, ended: int) -> tuple[str, ...]:
    return (f"fault-begun fault=f detail=cut time_ns={begun * _MS}", f"fault-ended fault=f time_ns={ended * _MS}")


def _produce(at: int, answered: int | None, *, process: int = 1, partition: int = 0, type: str = "ok") -> tuple[str, ...]:
    where = f"produce process={process} partition={partition} value={partition}-{at}"
    invoked = f"invoke {where} time_ns={at * _MS}"
    return (invoked,) if answered is None else (invoked, f"{type} {where} time_ns={answered * _MS}")


_CASES = {
    "silent through the window": _Case((*_fault(100, 200), *_produce(90, 95), *_produce(120, 260)), 140, 60),
    "open when the window begins": _Case((*_fault(100, 200), *_produce(90, 260)), 160, 60),
    "first acknowledgement within": _Case((*_fault(100, 200), *_produce(110, 130), *_produce(150, 290)), 140, 90),
    "acknowledged all the time": _Case((*_fault(100, 200), *_produce(110, 120), *_produce(121, 140), *_produce(201, 205)), 19, 5),
    "the slowest partition counts": _Case(
        (*_fault(100, 200), *_produce(110, 210), *_produce(110, 320, process=2, partition=1), *_produce(211, 220)), 210, 120
    ),
    "nobody tried": _Case((*_fault(100, 200), *_produce(10, 20)), 0, None),
    "idle time does not count": _Case((*_fault(100, 200), *_produce(101, 103), *_produce(195, 199)), 4, None),
    "never acknowledged again": _Case((*_fault(100, 200), *_produce(110, 500, type="info"), *_produce(501, None)), 391, None),
    "a failed call is no answer": _Case((*_fault(100, 200), *_produce(110, 150, type="fail"), *_produce(151, 250)), 140, 50),
    "tried after the window": _Case((*_fault(100, 200), *_produce(110, 150), *_produce(210, 250)), 40, 50),
}


@pytest.mark.parametrize("name", _CASES)
def test_window_knows_silence_and_recovery(name: str) -> None:
    case = _CASES[name]
    row = _rows(record_of(facts_of_run(1), history_of(*case.lines), verdict(invalid=False)), "windows")[0]

    assert (row["unavailable_ns"], row["recovery_ns"]) == (
        case.unavailable_ms * _MS,
        None if case.recovery_ms is None else case.recovery_ms * _MS,
    )
