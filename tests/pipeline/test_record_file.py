"""Files of records: what is read is what was written, and what cannot be is refused with the record and the reason."""

import re

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from history import parquet
from pipeline.errors import PipelineError
from pipeline.record import Known, Record, record_of_failure
from pipeline.record_file import RecordFile, decode, encode, encode_block
from pipeline.tables import Table
from tests.pipeline.records import record


def test_record_survives_encoding() -> None:
    new_record = record(1)
    record_found = decode(encode(new_record))

    assert (record_found.protocol, record_found.run, RecordFile(encode(new_record), name="r", key="a").runs_row("a")["run"]) == (
        "v3",
        "seed-1/sim-v3-0",
        "seed-1/sim-v3-0",
    )
    assert record_found.tables == new_record.tables


def test_records_of_a_block_survive_encoding() -> None:
    records = {"a": record(1), "b": record(2, "safe")}
    record_file = RecordFile(encode_block([*records.values()], [*records]), name="block")

    assert record_file.keys == [*records]
    for key, one in records.items():
        assert record_file.runs_row(key)["run"] == one.run
        assert (record_file.record(key).protocol, record_file.record(key).tables) == (one.protocol, one.tables)


@pytest.mark.parametrize("length", [0, 4, 2000, -9])
def test_records_of_a_block_that_was_cut_off_are_refused(length: int) -> None:
    with pytest.raises(PipelineError, match=r"^b.parquet: not complete records"):
        RecordFile(encode_block([record(1), record(2)], ["a", "b"])[:length], name="b.parquet")


@pytest.mark.parametrize("table", ["anomalies", "calls", "coverage", "windows"])
def test_record_whose_rows_were_doubled_is_refused(table: Table) -> None:
    """Its Parquet is whole and each row may be: every share and quantile of a campaign would be another."""
    first_record, second_record = record(1), record(2)
    doubled = replace(first_record, tables=first_record.tables | {table: pa.concat_tables([first_record.tables[table]] * 2)})
    data = _under(encode(first_record), encode(doubled))

    with pytest.raises(PipelineError, match=r"^r.parquet: changed after it was written: its checksum is another"):
        decode(data, name="r.parquet")
    complete = pq.read_table(pa.BufferReader(encode_block([doubled, second_record], ["a", "b"])))
    seals = pq.read_table(pa.BufferReader(encode_block([first_record, second_record], ["a", "b"])), columns=["seal"])["seal"]
    block = complete.set_column(complete.column_names.index("seal"), "seal", seals)
    record_file = RecordFile(parquet.encode(block), name="b.parquet")
    with pytest.raises(PipelineError, match=r"^b.parquet: a: changed after it was written: its checksum is another"):
        record_file.record("a")
    assert record_file.record("b").tables == second_record.tables


def test_record_without_checksum_is_refused() -> None:
    complete = pq.read_table(pa.BufferReader(encode(record(1))))
    metadata = {key: value for key, value in complete.schema.metadata.items() if key != b"highwater.seal"}

    with pytest.raises(PipelineError, match=r"^r.parquet: a record without checksum, of an earlier version"):
        decode(parquet.encode(complete.replace_schema_metadata(metadata)), name="r.parquet")


def test_checksum_does_not_depend_on_the_buffers_of_arrow() -> None:
    """Slices, chunks and masks without nulls are other buffers of the same values."""
    record_1 = record(1)
    rechunked = {t: pa.concat_tables([rows.slice(0, 1), rows.slice(1)]) for t, rows in record_1.tables.items()}

    assert decode(_under(encode(record_1), encode(replace(record_1, tables=rechunked)))).tables == record_1.tables


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
    assert RecordFile(encode_block([failed, record(1)], ["a", "b"]), name="block").record("a").tables == failed.tables


def test_record_of_a_failure_with_a_verdict_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"^record: 1 rows of verdicts, not 0"):
        decode(encode(_changed("runs", "outcome", "harness-fault")))


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
    with pytest.raises(PipelineError, match="not the records of a block of dataset version 1"):
        RecordFile(data, name="block")


def _changed(table: Table, column: str, value: object) -> Record:
    """A record with another value in one cell."""
    this_record = record(1)
    rows = this_record.tables[table]
    at = rows.column_names.index(column)
    type_ = rows.schema.field(column).type
    values = pa.array([value, *rows[column].to_pylist()[1:]], type_)
    changed = rows.set_column(at, pa.field(column, type_, nullable=value is None), values)
    return Record(protocol=this_record.protocol, tables=this_record.tables | {table: changed})


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
        decode(encode(_changed(table, column, value)), name="r.parquet")


@pytest.mark.parametrize(("column", "value"), [("verdict", "MARTIAN"), ("acked", -1)])
def test_record_of_impossible_rows_costs_no_other(column: str, value: object) -> None:
    complete = [record(2), _changed("runs", column, value), record(3)]
    record_file = RecordFile(encode_block(complete, ["a", "b", "c"]), name="b.parquet")

    with pytest.raises(PipelineError, match=rf"^b.parquet: b: runs.{column} is {value!r}"):
        record_file.record("b")
    assert (record_file.record("a").tables, record_file.record("c").tables) == (complete[0].tables, complete[2].tables)


# Written before checksums were made of whole columns.
_SEALS = {(1, "v3"): "c4f74d01eedfd323", (2, "safe"): "ae4495127014bea4"}


@pytest.mark.parametrize("of", _SEALS)
def test_checksum_stays_that_of_earlier_files(of: tuple[int, str]) -> None:
    assert pq.read_schema(pa.BufferReader(encode(record(*of)))).metadata[b"highwater.seal"].decode() == _SEALS[of]
