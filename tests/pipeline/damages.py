"""Drawn damages of the files of campaigns, judgements and datasets: what disks, copies, editors and faulty programs leave.

A damage takes draws and the files that it may hurt, sorted; it hurts one and returns it. Each is the same for the same draws.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shutil import copyfile
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from history import parquet
from history.seed import Rng
from pipeline.errors import PipelineError
from pipeline.ledger import Row, _seal
from pipeline.record import Record
from pipeline.record_file import decode, encode
from pipeline.tables import OF_A_RECORD

Damage = Callable[[Rng, Sequence[Path]], Path]
_Content = dict[str, Any]


def _of_bytes(change: Callable[[Rng, bytes], bytes]) -> Damage:
    def damage(draws: Rng, files: Sequence[Path]) -> Path:
        path = draws.pick(files)
        path.write_bytes(change(draws, path.read_bytes()))
        return path

    return damage


def _flipped(draws: Rng, data: bytes) -> bytes:
    at = draws.below(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draws.below(8))]) + data[at + 1 :]


def _removed(draws: Rng, files: Sequence[Path]) -> Path:
    path = draws.pick(files)
    path.unlink()
    return path


def _two(draws: Rng, files: Sequence[Path]) -> tuple[Path, Path]:
    first = draws.pick(files)
    return first, draws.pick([path for path in files if path != first])


def _exchanged(draws: Rng, files: Sequence[Path]) -> Path:
    first, second = _two(draws, files)
    data = first.read_bytes()
    copyfile(second, first)
    second.write_bytes(data)
    return first


def _replaced(draws: Rng, files: Sequence[Path]) -> Path:
    """The file of another run under the name of this one."""
    first, second = _two(draws, files)
    copyfile(second, first)
    return first


# Of any file.
PLAIN: dict[str, Damage] = {
    "a flipped bit": _of_bytes(_flipped),
    "cut off": _of_bytes(lambda draws, data: data[: draws.between(1, len(data) - 1)]),
    "0 bytes": _of_bytes(lambda draws, data: b""),
    "removed": _removed,
    "exchanged": _exchanged,
    "another run's": _replaced,
}

# --- rows of ledgers, as JSON ---------------------------------------------------------------------------------------------------


def _of_row(change: Callable[[_Content], object], *, sealed: bool = False) -> Damage:
    """Change the content of a row; `sealed`: by a program that seals what it writes."""

    def changed(draws: Rng, data: bytes) -> bytes:
        content: _Content = msgspec.json.decode(data)
        change(content)
        data = msgspec.json.encode(content)
        if sealed:
            row = msgspec.json.decode(data, type=Row)
            data = msgspec.json.encode(replace(row, seal=_seal(row)))
        return data

    return _of_bytes(changed)


def _with_result_of_another(draws: Rng, files: Sequence[Path]) -> Path:
    first, second = _two(draws, files)
    row, second_row = (msgspec.json.decode(path.read_bytes(), type=Row) for path in (first, second))
    row = replace(row, result=second_row.result)
    first.write_bytes(msgspec.json.encode(replace(row, seal=_seal(row))))
    return first


def _set(name: str, value: object) -> Callable[[_Content], None]:
    def change(content: _Content) -> None:
        content["result"][name] = value

    return change


def _drop(name: str) -> Callable[[_Content], object]:
    return lambda content: content["result"].pop(name)


_DEEP = b"[" * 100_000 + b"]" * 100_000


def _each_row(valid: Callable[[_Content], None], word: Callable[[_Content], None]) -> dict[str, Damage]:
    return {
        "doubled": _of_bytes(lambda draws, data: data * 2),
        "nested too deep": _of_bytes(lambda draws, data: data.replace(b"{", b'{"x":' + _DEEP + b",", 1)),
        "INVALID made VALID": _of_row(valid),
        "null verdict": _of_row(_set("verdict", None)),
        "unknown word": _of_row(word),
        "dropped field": _of_row(_drop("verdict")),
        "null verdict, sealed": _of_row(_set("verdict", None), sealed=True),
        "unknown word, sealed": _of_row(word, sealed=True),
        "dropped field, sealed": _of_row(_drop("verdict"), sealed=True),
    }


def _valid(content: _Content) -> None:
    content["result"]["verdict"] |= {"validity": 0, "anomalies": []}


def _unknown(content: _Content) -> None:
    content["result"]["verdict"]["validity"] = 7


ROWS = PLAIN | _each_row(_set("verdict", "VALID"), _set("verdict", "PERHAPS"))
ROWS |= {
    "another build's, sealed": _of_row(lambda content: content.update(code="0" * 12), sealed=True),
    "another seed's result, sealed": _with_result_of_another,
    "another protocol's, sealed": _of_row(_set("protocol", "kip101"), sealed=True),
    "another backend's, sealed": _of_row(_set("backend", "docker"), sealed=True),
    "another outcome, sealed": _of_row(_set("outcome", "interrupted"), sealed=True),
    "late with a result, sealed": _of_row(lambda content: content.update(state="late"), sealed=True),
    "another campaign's, sealed": _of_row(lambda content: content["result"].update(repeat="highwater run --seed 0"), sealed=True),
}
RULINGS = PLAIN | _each_row(_valid, _unknown)

# --- records of runs ------------------------------------------------------------------------------------------------------------


def _of_record(change: Callable[[Record], Record], *, sealed: bool = False) -> Damage:
    """Change the tables of a record below its old checksum; `sealed`: by a program that seals what it writes."""

    def changed(draws: Rng, data: bytes) -> bytes:
        after = encode(change(decode(data)))
        metadata = pq.read_schema(pa.BufferReader(data)).metadata
        return after if sealed else parquet.encode(pq.read_table(pa.BufferReader(after)).replace_schema_metadata(metadata))

    return _of_bytes(changed)


def _cells(name: str, value: object, *tables: str) -> Callable[[Record], Record]:
    """Set all values of a column."""

    def change(record: Record) -> Record:
        return replace(
            record, tables=record.tables | {t: with_value(record.tables[t], name, value) for t in OF_A_RECORD if t in tables}
        )

    return change


def with_value(rows: pa.Table, name: str, value: object) -> pa.Table:
    """The rows with one value in a column, which may be null then."""
    at = rows.column_names.index(name)
    type_ = rows.schema.field(name).type
    return rows.set_column(at, pa.field(name, type_, nullable=True), pa.array([value] * rows.num_rows, type_))


def _doubled(record: Record) -> Record:
    return replace(record, tables=record.tables | {"calls": pa.concat_tables([record.tables["calls"]] * 2)})


def _without(record: Record) -> Record:
    return replace(record, tables=record.tables | {"calls": record.tables["calls"].drop_columns(["latency_ns"])})


def _flipped_rows(draws: Rng, data: bytes) -> bytes:
    """A flipped bit that is noticed. A third of the file are statistics that nobody reads: there the record stays as it was."""
    while True:
        flipped = _flipped(draws, data)
        try:
            decoded = decode(flipped)
        except PipelineError:
            return flipped
        assert decoded.tables == decode(data).tables


RECORDS = PLAIN | {
    "a flipped bit": _of_bytes(_flipped_rows),
    "doubled": _of_record(_doubled),
    "INVALID made VALID": _of_record(_cells("verdict", "VALID", "runs", "verdicts")),
    "null verdict": _of_record(_cells("verdict", None, "runs", "verdicts")),
    "unknown word": _of_record(_cells("verdict", "PERHAPS", "runs", "verdicts")),
    "dropped column": _of_record(_without),
    "INVALID made VALID, sealed": _of_record(_cells("verdict", "VALID", "runs", "verdicts"), sealed=True),
    "unknown word, sealed": _of_record(_cells("verdict", "PERHAPS", "runs", "verdicts"), sealed=True),
    "another build's, sealed": _of_record(_cells("commit", "c0ffee", "runs"), sealed=True),
    "another seed's, sealed": _of_record(_cells("seed", 99, "runs"), sealed=True),
}

# --- tables of a dataset, and of a run ------------------------------------------------------------------------------------------


def of_table(change: Callable[[pa.Table], pa.Table]) -> Damage:
    """Change the rows of a Parquet file."""
    return _of_bytes(lambda draws, data: parquet.encode(change(pq.read_table(pa.BufferReader(data)))))


def doubled_rows(rows: pa.Table) -> pa.Table:
    """Each row twice."""
    return pa.concat_tables([rows, rows])


def five_of_twelve_rows(rows: pa.Table) -> pa.Table:
    """The first rows, as if the others had never been."""
    return rows.slice(0, rows.num_rows * 5 // 12)


def _without_last(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(rows.column_names[-1:])


FILES = PLAIN | {
    "doubled": of_table(doubled_rows),
    "five of twelve rows": of_table(five_of_twelve_rows),
    "dropped column": of_table(_without_last),
}
VERDICTS: dict[str, Damage] = {
    "INVALID made VALID": of_table(partial(with_value, name="verdict", value="VALID")),
    "null verdict": of_table(partial(with_value, name="verdict", value=None)),
    "unknown word": of_table(partial(with_value, name="verdict", value="PERHAPS")),
    "another build's": of_table(partial(with_value, name="run", value="seed-0/sim-v3-0")),
}
