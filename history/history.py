"""The recorded history of one run, as rows and as frames of columns.

A history is made from rows (by a recorder, a JSONL file, a test) or from the Arrow tables of a Parquet store. It derives the
other form on demand: judging needs the columns alone, a report needs the rows. Columns of stored files are read on demand too. A
history never changes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from history import digest
from history.columns import TableName
from history.event import ClusterEvent, EventKind
from history.manifest import RunManifest
from history.op import Operation, OpType

# Polars and pyarrow are 360 MB: they are imported where columns are asked for, so that rows are judged without (decision 57).
if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


class TopicPartition(NamedTuple):
    """A partition of a topic, as histories name it."""

    topic: str
    partition: int


class Attempt(Struct, frozen=True, kw_only=True):
    """One client operation: the rows of its invocation and those of its completion (empty where none was recorded), by slot."""

    invoke: tuple[Operation, ...]
    completion: tuple[Operation, ...]


class History:
    """The recorded history of one run. `operations` and `events` are in the order of `index` (and slot)."""

    _files: tuple[Sequence[Path], Sequence[Path]] | None = None  # Parquet files of both tables; rows are read on demand

    def __init__(
        self, manifest: RunManifest, *, operations: Sequence[Operation] = (), events: Sequence[ClusterEvent] = ()
    ) -> None:
        self.manifest = manifest
        self.operations = tuple(operations)
        self.events = tuple(events)

    @classmethod
    def from_tables(cls, manifest: RunManifest, *, operations: "pa.Table", events: "pa.Table") -> "History":
        """Make a history from Arrow tables of `history.schema` that their reader has checked. Rows are made on demand."""
        history = cls.__new__(cls)
        history.manifest = manifest
        history.operations_table = operations
        history.events_table = events
        return history

    @classmethod
    def stored(cls, manifest: RunManifest, *, operations: Sequence[Path], events: Sequence[Path]) -> "History":
        """Make a history from Parquet files that passed `history.parquet.check`, one of each table or one for each part.

        They are read on demand.
        """
        history = cls.__new__(cls)
        history.manifest = manifest
        history._files = (operations, events)
        return history

    def part(self, number: int) -> "History":
        """One part of a history that is stored in parts (`manifest.parts`)."""
        assert self._files is not None
        operations, events = self._files
        return History.stored(self.manifest, operations=operations[number : number + 1], events=events[number : number + 1])

    def index_ranges(self, rows_max: int) -> list[tuple[int, int]]:
        """Cut the index of a stored history into ranges (first, last) of about `rows_max` rows. Reads the footers."""
        from history import parquet, parts

        files = [path for paths in self._files or () for path in paths]
        return parts.index_ranges([rows for path in files for rows in parquet.indexed_rows(path)], rows_max)

    def between(self, table: TableName, first: int, last: int, names: Sequence[str]) -> "list[pa.Table]":
        """Some columns of the rows of a range of the index, file by file, `last` included. Reads only their row groups."""
        from history import parquet

        assert self._files is not None
        paths = self._files[0] if table == "operations" else self._files[1]
        return [table_part for path in paths if (table_part := parquet.read_between(path, table, first, last, names)) is not None]

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The rows of client operations: what clients asked and were told."""
        from history import schema

        return schema.operations_of(self.operations_frame)

    @cached_property
    def events(self) -> tuple[ClusterEvent, ...]:
        """The rows of cluster events: what was observed of nodes, ZooKeeper and the harness."""
        from history import schema

        return schema.events_of(self.events_frame)

    @cached_property
    def operations_table(self) -> "pa.Table":
        """The operations as an Arrow table."""
        from history import parquet, schema

        if self._files:
            return _join_sorted([parquet.read(path, "operations") for path in self._files[0]], ("index", "slot"))
        return schema.frame_to_table("operations", self.operations_frame)

    @cached_property
    def events_table(self) -> "pa.Table":
        """The events as an Arrow table."""
        from history import parquet, schema

        if self._files:
            return _join_sorted([parquet.read(path, "events") for path in self._files[1]], ("index",))
        return schema.frame_to_table("events", self.events_frame)

    @property
    def operation_rows(self) -> int:
        """The number of rows of the operations. Reads only the footer of a file that was not read yet."""
        from history import parquet

        if self._files and "operations_table" not in self.__dict__:
            return sum(parquet.check(path, "operations") for path in self._files[0])
        return len(self.operations) if "operations" in self.__dict__ else self.operations_table.num_rows

    @property
    def operation_count(self) -> int:
        """The number of invocations and completions, each counted once however many rows it has."""
        return len(self.operations_of(("index",))["index"].unique())

    def operations_of(self, names: Sequence[str]) -> "pa.Table":
        """Select columns of the operations. Of a file that was not read yet, read only these, with dictionaries for texts.

        Rows of several files come file by file.
        """
        import pyarrow as pa

        from history import parquet

        if self._files and "operations_table" not in self.__dict__:
            return pa.concat_tables(parquet.read_columns(path, "operations", names) for path in self._files[0])
        return self.operations_table.select(names)

    def operations_kept(self, keep: "Callable[[pl.DataFrame], pl.DataFrame]") -> "pl.DataFrame":
        """Return the operation rows that `keep` selects. A file that was not read yet is read and filtered part by part."""
        import polars as pl

        from history import parquet, schema

        if self._files and "operations_table" not in self.__dict__:
            frames = [keep(schema.to_frame(rows)) for path in self._files[0] for rows in parquet.parts(path, "operations")]
            return pl.concat(frames) if frames else self.operations_frame
        return keep(self.operations_frame)

    @cached_property
    def operations_frame(self) -> "pl.DataFrame":
        """The operations as a Polars frame."""
        from history import schema

        if "operations" in self.__dict__:
            return schema.rows_to_frame("operations", self.operations)
        return schema.to_frame(self.operations_table)

    @cached_property
    def events_frame(self) -> "pl.DataFrame":
        """The events as a Polars frame."""
        from history import schema

        if "events" in self.__dict__:
            return schema.rows_to_frame("events", self.events)
        return schema.to_frame(self.events_table)

    @cached_property
    def digest(self) -> str:
        """The digest of the rows (history.digest)."""
        return digest.digest(self.operations, self.events)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each client operation, its invocation paired with its completion, in the order of invocation.

        A process has one operation open at a time, so a completion belongs to the last invocation of its process.
        """
        invoked: dict[int, tuple[Operation, ...]] = {}  # index of the invocation -> its rows
        completed: dict[int, tuple[Operation, ...]] = {}  # index of the invocation -> rows of its completion
        open_of: dict[int, int] = {}  # process -> index of its open invocation
        for index, rows in by_index(self.operations):
            process = rows[0].process
            if rows[0].type is OpType.INVOKE:
                invoked[index] = rows
                open_of[process] = index
            elif process in open_of:
                completed[open_of.pop(process)] = rows
        return tuple(Attempt(invoke=rows, completion=completed.get(index, ())) for index, rows in invoked.items())

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All partitions named by a row or by the assignment of the manifest, sorted."""
        named = {TopicPartition(a.topic, a.partition) for a in self.manifest.assignments}
        for frame in (self.operations_frame, self.events_frame):
            pairs = frame.select("topic", "partition").drop_nulls().unique()
            named.update(TopicPartition(topic, partition) for topic, partition in pairs.iter_rows())
        return tuple(sorted(named))

    def of_kind(self, *kinds: EventKind) -> tuple[ClusterEvent, ...]:
        """The cluster events of these kinds, in the order of index."""
        return tuple(event for event in self.events if event.kind in kinds)

    def row(self, index: int) -> tuple[Operation, ...] | ClusterEvent | None:
        """The rows under one index, which is how an anomaly names its witnesses. None where no row has this index."""
        return self._rows_by_index.get(index)

    @cached_property
    def _rows_by_index(self) -> dict[int, tuple[Operation, ...] | ClusterEvent]:
        rows: dict[int, tuple[Operation, ...] | ClusterEvent] = dict(by_index(self.operations))
        rows.update((event.index, event) for event in self.events)
        return rows


def _join_sorted(tables: "list[pa.Table]", by: tuple[str, ...]) -> "pa.Table":
    """Join the tables of the parts of a history, sorted."""
    import pyarrow as pa

    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).sort_by([(name, "ascending") for name in by])


def by_index(operations: Sequence[Operation]) -> Iterator[tuple[int, tuple[Operation, ...]]]:
    """Group operation rows by index: each invocation and each completion with its rows in the order of slots."""
    for index, rows in groupby(operations, key=attrgetter("index")):
        yield index, tuple(rows)
