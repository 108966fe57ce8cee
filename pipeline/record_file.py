"""Files of records: one record as a Parquet file of one row, or those of a block of runs as one file, a row each.

A row has one list of structs for each table of a record, so a record is there whole or not at all; the tables of one run are
small, and 76 columns of each by themselves would be slow. So checks and checksums look at the columns of all records of a file
together, and only a record that does not pass is looked at by itself, for the words.

Each record has a checksum: of a single one it is in the metadata of the file, of a block in a column.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from history import parquet
from pipeline.errors import DamagedError
from pipeline.record import HARNESS_FAILED, Record
from pipeline.tables import COLUMNS, DATASET_VERSION, OF_A_RECORD, Column, Table, arrow_schema

_VERSION_KEY = b"highwater.dataset_version"
_PROTOCOL_KEY = b"highwater.protocol"
_SEAL_KEY = b"highwater.seal"
_OF_A_BLOCK = ("key", "protocol", "seal")  # columns before the tables
_UNREADABLE = (OSError, KeyError, IndexError, TypeError, ValueError, pa.ArrowException)

_Ends = NDArray[np.int64]


class _Together(NamedTuple):
    """The records of a file: for each table all rows, and the row at which each record ends, after a 0."""

    protocols: Sequence[str]
    tables: Mapping[Table, pa.Table]
    ends: Mapping[Table, _Ends]

    def record(self, number: int) -> Record:
        """One of the records; its tables are slices."""
        bounds = {table: (int(self.ends[table][number]), int(self.ends[table][number + 1])) for table in OF_A_RECORD}
        tables = {table: self.tables[table].slice(start, end - start) for table, (start, end) in bounds.items()}
        return Record(protocol=self.protocols[number], tables=tables)


def encode(record: Record) -> bytes:
    """A record as a Parquet file of one row."""
    together = _together_of([record])
    metadata = {_PROTOCOL_KEY: record.protocol.encode(), _SEAL_KEY: _seals(together)[0].encode()}
    return _encoded(_list_columns(together), metadata)


def encode_block(records: Sequence[Record], keys: Sequence[str]) -> bytes:
    """Records as one Parquet file, a row each, with the keys of their items."""
    together = _together_of(records)
    texts = zip(_OF_A_BLOCK, (keys, together.protocols, _seals(together)), strict=True)
    return _encoded({name: pa.array(values, pa.string()) for name, values in texts} | _list_columns(together), {})


def _together_of(records: Sequence[Record]) -> _Together:
    """Records as flat tables, one for all of them, with the ends of each record's rows."""
    tables = {table: pa.concat_tables([record.tables[table] for record in records]) for table in OF_A_RECORD}
    list_ends = {
        table: np.array([*accumulate((record.tables[table].num_rows for record in records), initial=0)], np.int64)
        for table in OF_A_RECORD
    }
    return _Together([record.protocol for record in records], tables, list_ends)


def _list_columns(together: _Together) -> dict[str, pa.Array]:
    """A column for each table, with the list of its rows for each record."""
    columns: dict[str, pa.Array] = {}
    for table in OF_A_RECORD:
        rows = _one_array(together.tables[table].to_struct_array())
        columns[table] = pa.ListArray.from_arrays(pa.array(together.ends[table], pa.int32()), rows)
    return columns


def _encoded(columns: Mapping[str, pa.Array], metadata: Mapping[bytes, bytes]) -> bytes:
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    schema = pa.schema(fields, metadata={_VERSION_KEY: str(DATASET_VERSION).encode(), **metadata})
    return parquet.encode(pa.Table.from_arrays([*columns.values()], schema=schema))


class RecordFile:
    """The records in a file by their keys, read as far as they are asked for. `key` is that of a single record.

    All methods raise DamagedError where the file is damaged, or the record that is asked for; `name` is the file for the words.
    """

    def __init__(self, data: bytes, *, name: str, key: str | None = None) -> None:
        self._name, self._is_block = name, key is None
        try:
            self._file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            metadata = self._file.schema_arrow.metadata or {}
            if metadata.get(_VERSION_KEY) != str(DATASET_VERSION).encode():
                what = "records of a block" if self._is_block else "record of a run"
                raise DamagedError(f"{name}: not the {what} of dataset version {DATASET_VERSION}")
            if self._is_block:
                texts = self._file.read(columns=[*_OF_A_BLOCK], use_threads=False)
                keys, self._protocols, self._seals = (texts[column].to_pylist() for column in _OF_A_BLOCK)
            else:
                keys = [key]
                self._protocols = [metadata.get(_PROTOCOL_KEY, b"").decode()]
                self._seals = [metadata.get(_SEAL_KEY, b"").decode(errors="replace")]
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        self._numbers = {key: number for number, key in enumerate(keys)}
        if len(self._numbers) != self._file.metadata.num_rows:
            raise DamagedError(f"{name}: {self._file.metadata.num_rows} records of {len(self._numbers)} runs")

    @property
    def keys(self) -> list[str]:
        """The keys of the records."""
        return [*self._numbers]

    def holds(self, key: str) -> bool:
        """Whether the file has a record of this key."""
        return key in self._numbers

    def runs_row(self, key: str) -> dict[str, object]:
        """The row of `runs` of a record; nothing else is read."""
        try:
            row: dict[str, object] = self._runs[self._numbers[key]][0].as_py()
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return row

    def record(self, key: str) -> Record:
        """A record that is as it was written, and whose rows are possible."""
        number = self._numbers[key]
        wrong = self._complaints[number]
        if wrong is not None:
            raise DamagedError(f"{self._name}: {f'{key}: ' if self._is_block else ''}{wrong}")
        return self._together.record(number)

    @cached_property
    def _runs(self) -> pa.ChunkedArray:
        return self._file.read(columns=["runs"], use_threads=False).column("runs")

    @cached_property
    def _together(self) -> _Together:
        """All records of the file as flat tables, with the ends of records in each. Raises PipelineError."""
        try:
            whole = self._file.read(columns=[*OF_A_RECORD], use_threads=False)
            lists = {table: _one_array(whole.column(table)) for table in OF_A_RECORD}
            if any(column.null_count for column in lists.values()):
                raise ValueError("a table is null")
            list_ends = {
                table: np.asarray(column.offsets, np.int64) - column.offsets[0].as_py() for table, column in lists.items()
            }
            tables = {
                table: pa.Table.from_struct_array(column.flatten()).cast(arrow_schema(table)) for table, column in lists.items()
            }
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        return _Together(self._protocols, tables, list_ends)

    @cached_property
    def _complaints(self) -> list[str | None]:
        """What is wrong with each record; its rows come before its checksum."""
        together = self._together
        count = len(together.protocols)
        rows = (
            [None] * count
            if count > 1 and _are_sound(together)
            else [complaint(together.record(number)) for number in range(count)]
        )
        return [
            wrong or _seal_complaint(stated, seal)
            for wrong, stated, seal in zip(rows, self._seals, _seals(together), strict=True)
        ]

    def _unreadable(self, error: Exception) -> DamagedError:
        what = "complete records" if self._is_block else "a complete record"
        return DamagedError(f"{self._name}: not {what}: {' '.join(str(error).split())}")


def decode(data: bytes, *, name: str = "record") -> Record:
    """Read a record that `encode` made. Raises DamagedError where the bytes are not one; `name` is the file for the message."""
    return RecordFile(data, name=name, key=name).record(name)


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks or [pa.array([], values.type)])


# --- what rows are possible -----------------------------------------------------------------------------------------------------


def _are_sound(together: _Together) -> bool:
    """Whether no record has a `complaint`: the same questions, asked of whole columns."""
    tables, list_ends = together.tables, together.ends
    if any(column_complaint(tables[table][column.name], column) for table in OF_A_RECORD for column in COLUMNS[table]):
        return False
    counts = {table: np.diff(list_ends[table]) for table in OF_A_RECORD}
    runs, verdicts = tables["runs"], tables["verdicts"]
    if (counts["runs"] != 1).any():
        return False
    judged = pc.not_equal(runs["outcome"], HARNESS_FAILED)
    if (counts["verdicts"] != judged.to_numpy()).any():
        return False
    owners = {table: runs["run"].take(pa.array(np.repeat(np.arange(len(counts[table])), counts[table]))) for table in OF_A_RECORD}
    if not all(tables[table]["run"].equals(owners[table]) for table in OF_A_RECORD):
        return False
    judged_runs = runs.filter(judged)
    return all(judged_runs[name].equals(verdicts[name]) for name in ("verdict", "live"))


def complaint(record: Record) -> str | None:
    """What is wrong with the rows of a record: nulls, words and numbers that a column does not have, rows of other runs."""
    for table in OF_A_RECORD:
        rows = record.tables[table]
        for column in COLUMNS[table]:
            wrong = column_complaint(rows[column.name], column)
            if wrong is not None:
                return f"{table}.{column.name} {wrong}"
    if record.tables["runs"].num_rows != 1:
        return f"{record.tables['runs'].num_rows} rows of runs, not 1"
    judged = 0 if record.tables["runs"]["outcome"][0].as_py() == HARNESS_FAILED else 1  # without a history nobody can judge
    if record.tables["verdicts"].num_rows != judged:
        return f"{record.tables['verdicts'].num_rows} rows of verdicts, not {judged}"
    others = {run for table in OF_A_RECORD for run in record.tables[table]["run"].to_pylist()} - {record.run}
    if others:
        return f"rows of another run, {min(others)}"
    for name in ("verdict", "live") if judged else ():
        verdict_of_run, verdict_of_judge = (record.tables[table][name][0].as_py() for table in ("runs", "verdicts"))
        if verdict_of_run != verdict_of_judge:
            return f"runs.{name} is {verdict_of_run}, verdicts.{name} is {verdict_of_judge}"
    return None


def column_complaint(values: pa.ChunkedArray, column: Column) -> str | None:
    """What is wrong with the values of a column: nulls, words and numbers that it does not have."""
    if column.required and values.null_count:
        return "is null"
    held = values.drop_null()
    if column.among:
        unknown_values = sorted(set(held.unique().to_pylist()) - set(column.among))
        return f"is {unknown_values[0]!r}, none of {', '.join(column.among)}" if unknown_values else None
    if not len(held) or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return None
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(held)).as_py():
        return "is no finite number"
    least = pc.min(held).as_py()
    return f"is {least}, less than 0" if column.counts and least < 0 else None


# --- checksums ------------------------------------------------------------------------------------------------------------------


def _seals(together: _Together) -> list[str]:
    """A checksum of each record: of its protocol and all values. It depends on no encoding, neither Parquet's nor Arrow's."""
    digests = [blake2b(protocol.encode(), digest_size=8) for protocol in together.protocols]
    for table in OF_A_RECORD:
        list_ends = together.ends[table]
        counts = np.diff(list_ends).tolist()
        for name, values in zip(together.tables[table].column_names, together.tables[table].columns, strict=True):
            parts = [(memoryview(data), at.tolist()) for data, at in _bytes_of(_one_array(values), list_ends)]
            head = f"{table}.{name} "
            for number, digest in enumerate(digests):
                of_record = [data[at[number] : at[number + 1]] for data, at in parts]
                digest.update(b"".join([f"{head}{counts[number]} ".encode(), *of_record]))
    return [digest.hexdigest() for digest in digests]


def _bytes_of(values: pa.Array, list_ends: _Ends) -> Iterator[tuple[bytes, _Ends]]:
    """The values of a column as bytes, and where those of each record end: nulls, lengths of texts and lists, what they hold."""
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        yield nulls.tobytes(), list_ends
        held = values.drop_null()
        held_ends = list_ends - np.concatenate(([0], np.cumsum(nulls)))[list_ends]
    else:
        yield bytes(len(values)), list_ends
        held, held_ends = values, list_ends
    if pa.types.is_list(held.type):
        lengths = pc.list_value_length(held).to_numpy(zero_copy_only=False)
        yield lengths.tobytes(), held_ends * lengths.itemsize
        yield from _bytes_of(held.flatten(), np.concatenate(([0], np.cumsum(lengths)))[held_ends])
    elif pa.types.is_string(held.type):
        lengths = pc.binary_length(held).to_numpy(zero_copy_only=False)
        yield lengths.tobytes(), held_ends * lengths.itemsize
        yield _joined_texts(held), np.concatenate(([0], np.cumsum(lengths)))[held_ends]
    else:
        numbers = held.to_numpy(zero_copy_only=False)
        yield numbers.tobytes(), held_ends * numbers.itemsize


def _joined_texts(values: pa.StringArray) -> bytes:
    """All texts of an array without nulls, one after the other."""
    _, offsets_buffer, data = values.buffers()
    if data is None or not len(values):
        return b""
    at = np.frombuffer(offsets_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    return memoryview(data)[at[0] : at[-1]].tobytes()


def _seal_complaint(stated: str, seal: str) -> str | None:
    if not stated:
        return "a record without checksum, of an earlier version: perform its campaign anew"
    return None if stated == seal else "changed after it was written: its checksum is another"
