"""The record of a run: its tables fit the schema, calls and windows are counted as defined, and one file holds all."""

import re
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from msgspec.structs import replace

from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.sketches import history_of
from history import parquet
from history.history import History
from history.op import OpType
from pipeline.errors import PipelineError
from pipeline.record import (
    Known,
    Record,
    calls_of,
    decode,
    decode_block,
    encode,
    encode_block,
    record_of,
    record_of_failure,
    told_by,
)
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


# --- one file -------------------------------------------------------------------------------------------------------------------


def test_record_survives_encoding() -> None:
    new_record = record(1)
    record_found = decode(encode(new_record))

    assert (record_found.protocol, record_found.run, told_by(encode(new_record))["run"]) == (
        "v3",
        "seed-1/sim-v3-0",
        "seed-1/sim-v3-0",
    )
    assert record_found.tables == new_record.tables


def test_records_of_a_block_survive_encoding() -> None:
    records = {"a": record(1), "b": record(2, "safe")}
    found = decode_block(encode_block([*records.values()], [*records]), name="block")

    assert found.keys() == records.keys()
    for key, one in records.items():
        assert (found[key].protocol, found[key].run, found[key].tables) == (one.protocol, one.run, one.tables)


@pytest.mark.parametrize("length", [0, 4, 2000, -9])
def test_records_of_a_block_that_was_cut_off_are_refused(length: int) -> None:
    with pytest.raises(PipelineError, match=r"^b.parquet: not complete records"):
        decode_block(encode_block([record(1), record(2)], ["a", "b"])[:length], name="b.parquet")


@pytest.mark.parametrize("table", ["anomalies", "calls", "coverage", "windows"])
def test_record_whose_rows_were_doubled_is_refused(table: Table) -> None:
    """Its Parquet is whole and each row may be: every share and quantile of a campaign would be another."""
    one, other = record(1), record(2)
    doubled = replace(one, tables=one.tables | {table: pa.concat_tables([one.tables[table]] * 2)})
    data = _under(encode(one), encode(doubled))

    with pytest.raises(PipelineError, match=r"^r.parquet: changed after it was written: its checksum is another"):
        decode(data, name="r.parquet")
    whole = pq.read_table(pa.BufferReader(encode_block([doubled, other], ["a", "b"])))
    seals = pq.read_table(pa.BufferReader(encode_block([one, other], ["a", "b"])), columns=["seal"])["seal"]
    block = whole.set_column(whole.column_names.index("seal"), "seal", seals)
    with pytest.raises(PipelineError, match=r"^b.parquet: a: changed after it was written: its checksum is another"):
        decode_block(parquet.encode(block), name="b.parquet")


def test_record_without_checksum_is_refused() -> None:
    whole = pq.read_table(pa.BufferReader(encode(record(1))))
    metadata = {key: value for key, value in whole.schema.metadata.items() if key != b"highwater.seal"}

    with pytest.raises(PipelineError, match=r"^r.parquet: a record without checksum, of an earlier version"):
        decode(parquet.encode(whole.replace_schema_metadata(metadata)), name="r.parquet")


def test_checksum_does_not_depend_on_the_buffers_of_arrow() -> None:
    """Slices, chunks and masks without nulls are other buffers of the same values."""
    one = record(1)
    other = {t: pa.concat_tables([rows.slice(0, 1), rows.slice(1)]) for t, rows in one.tables.items()}

    assert decode(_under(encode(one), encode(replace(one, tables=other)))).tables == one.tables


def _under(sealed: bytes, data: bytes) -> bytes:
    """The rows of `data` under the metadata of another record, its checksum included."""
    metadata = pq.read_schema(pa.BufferReader(sealed)).metadata
    return parquet.encode(pq.read_table(pa.BufferReader(data)).replace_schema_metadata(metadata))


def test_equal_records_are_equal_bytes() -> None:
    assert encode(record(1)) == encode(record(1))


@pytest.mark.parametrize("length", [0, 4, 2000, -9])
def test_record_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(PipelineError, match=r"^r.parquet: not a complete record"):
        decode(encode(record(1))[:length], name="r.parquet")


def test_record_of_a_failure_survives_encoding() -> None:
    failed = record_of_failure(Known(plan="seed-1", run_id="x", protocol="safe", outcome="harness-fault", failure="disk full"))

    assert decode(encode(failed)).tables == failed.tables
    assert decode_block(encode_block([failed, record(1)], ["a", "b"]), name="block")["a"].tables == failed.tables


def test_record_of_a_failure_with_a_verdict_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"^record: 1 rows of verdicts, not 0"):
        decode(_changed("runs", "outcome", "harness-fault"))


def test_record_with_a_flipped_byte_in_a_page_is_refused() -> None:
    data = encode(record(1))
    at = data.index(b"truncated-committed/log-matching")

    with pytest.raises(PipelineError, match="not a complete record"):
        decode(data[:at] + b"T" + data[at + 1 :])


def test_file_of_another_kind_is_refused() -> None:
    """A stored table of operations is Parquet, too."""
    sink = pa.BufferOutputStream()
    pl.DataFrame({"runs": [1]}).write_parquet(sink)
    data = sink.getvalue().to_pybytes()

    with pytest.raises(PipelineError, match="not the record of a run of dataset version 1"):
        decode(data)
    with pytest.raises(PipelineError, match="not a complete record"):
        told_by(data)


def _changed(table: Table, column: str, value: object) -> bytes:
    """An encoded record with another value in one cell; its Parquet is whole."""
    this_record = record(1)
    rows = this_record.tables[table]
    at, type_ = rows.column_names.index(column), rows.schema.field(column).type
    values = pa.array([value, *rows[column].to_pylist()[1:]], type_)
    changed = rows.set_column(at, pa.field(column, type_, nullable=True), values)
    return encode(Record(protocol=this_record.protocol, tables=this_record.tables | {table: changed}))


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("runs", "verdict", "MARTIAN", "runs.verdict is 'MARTIAN', none of VALID, UNKNOWN, INVALID"),
        ("runs", "verdict", "VALID", "runs.verdict is VALID, verdicts.verdict is INVALID"),
        ("runs", "acked", -1, "runs.acked is -1, less than 0"),
        ("runs", "sim_seconds", float("nan"), "runs.sim_seconds is no finite number"),
        ("runs", "outcome", "", "runs.outcome is '', none of completed"),
        ("runs", "digest", None, "not a complete record"),
        ("calls", "type", "maybe", "calls.type is 'maybe', none of ok, fail, info"),
        ("anomalies", "run", "seed-2/sim-v3-0", "rows of another run, seed-2/sim-v3-0"),
    ],
)
def test_record_of_impossible_rows_is_refused(table: Table, column: str, value: object, words: str) -> None:
    with pytest.raises(PipelineError, match=f"^r.parquet: {re.escape(words)}"):
        decode(_changed(table, column, value), name="r.parquet")
