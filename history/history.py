"""A history: what was recorded of one run, as rows and as frames of columns.

It is made either from rows (by a recorder, a JSONL file, a test) or from the Arrow tables of a Parquet store, and holds the
same data in the other form as soon as somebody asks: judging needs the columns alone, a report the rows. Of stored files even
the columns are read only when they are asked for. Nothing in it changes afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
from msgspec import Struct

from history import digest, parquet, schema
from history.event import ClusterEvent, EventKind
from history.manifest import RunManifest
from history.op import Operation, OpType


class TopicPartition(NamedTuple):
    """A partition as histories name it."""

    topic: str
    partition: int


class Attempt(Struct, frozen=True, kw_only=True):
    """An invocation with its completion: the rows of each, by slot. `completion` is empty where none was recorded."""

    invoke: tuple[Operation, ...]
    completion: tuple[Operation, ...]


class History:
    """One run. `operations` and `events` are in the order of `index` (and slot)."""

    _files: tuple[Path, Path] | None = None  # of operations and events, where they are still to be read

    def __init__(
        self, manifest: RunManifest, *, operations: Sequence[Operation] = (), events: Sequence[ClusterEvent] = ()
    ) -> None:
        self.manifest = manifest
        self.operations = tuple(operations)
        self.events = tuple(events)

    @classmethod
    def from_tables(cls, manifest: RunManifest, *, operations: pa.Table, events: pa.Table) -> "History":
        """From Arrow tables of `history.schema`, already checked by their reader; rows are made when they are asked for."""
        history = cls.__new__(cls)
        history.manifest = manifest
        history.operations_table = operations
        history.events_table = events
        return history

    @classmethod
    def stored(cls, manifest: RunManifest, *, operations: Path, events: Path) -> "History":
        """From Parquet files that `history.parquet.check` found to be of this schema; they are read when they are asked for."""
        history = cls.__new__(cls)
        history.manifest = manifest
        history._files = (operations, events)
        return history

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """What clients asked and were told."""
        return schema.operations_of(self.operations_frame)

    @cached_property
    def events(self) -> tuple[ClusterEvent, ...]:
        """What nodes, ZooKeeper and the laboratory said."""
        return schema.events_of(self.events_frame)

    @cached_property
    def operations_table(self) -> pa.Table:
        """The operations as an Arrow table."""
        return parquet.read(self._files[0], "operations") if self._files else schema.to_table("operations", self.operations)

    @cached_property
    def events_table(self) -> pa.Table:
        """The events as an Arrow table."""
        return parquet.read(self._files[1], "events") if self._files else schema.to_table("events", self.events)

    @property
    def operation_rows(self) -> int:
        """How many rows the operations have."""
        if self._files and "operations_table" not in self.__dict__:
            return parquet.check(self._files[0], "operations")
        return len(self.operations) if "operations" in self.__dict__ else self.operations_table.num_rows

    @property
    def operation_count(self) -> int:
        """How many invocations and completions they are."""
        return len(self.operations_of(("index",))["index"].unique())

    def operations_of(self, names: Sequence[str]) -> pa.Table:
        """Some columns of the operations; of a file that was not read yet these alone, with dictionaries for texts."""
        if self._files and "operations_table" not in self.__dict__:
            return parquet.read_columns(self._files[0], "operations", names)
        return self.operations_table.select(names)

    def operations_kept(self, keep: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        """The rows of the operations that `keep` keeps of a part of them; a file that was not read yet is read part by part."""
        if self._files and "operations_table" not in self.__dict__:
            kept = [keep(schema.to_frame(part)) for part in parquet.parts(self._files[0], "operations")]
            return pl.concat(kept) if kept else self.operations_frame
        return keep(self.operations_frame)

    @cached_property
    def operations_frame(self) -> pl.DataFrame:
        """The operations as a Polars frame."""
        return schema.to_frame(self.operations_table)

    @cached_property
    def events_frame(self) -> pl.DataFrame:
        """The events as a Polars frame."""
        return schema.to_frame(self.events_table)

    @cached_property
    def digest(self) -> str:
        """Of the rows (history.digest)."""
        return digest.digest(self.operations, self.events)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each invocation with its completion, in the order of invocation.

        A process has one operation open at a time, so a completion belongs to the invocation that its process made last.
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
        """Every partition that a row or the assignment names, sorted."""
        named = {TopicPartition(a.topic, a.partition) for a in self.manifest.assignments}
        for frame in (self.operations_frame, self.events_frame):
            pairs = frame.select("topic", "partition").drop_nulls().unique()
            named.update(TopicPartition(topic, partition) for topic, partition in pairs.iter_rows())
        return tuple(sorted(named))

    def of_kind(self, *kinds: EventKind) -> tuple[ClusterEvent, ...]:
        """The events of these kinds, in order."""
        return tuple(event for event in self.events if event.kind in kinds)

    def row(self, index: int) -> tuple[Operation, ...] | ClusterEvent | None:
        """The rows under one index, as an anomaly's witness names them; None where no row has it."""
        return self._rows_by_index.get(index)

    @cached_property
    def _rows_by_index(self) -> dict[int, tuple[Operation, ...] | ClusterEvent]:
        rows: dict[int, tuple[Operation, ...] | ClusterEvent] = dict(by_index(self.operations))
        rows.update((event.index, event) for event in self.events)
        return rows


def by_index(operations: Sequence[Operation]) -> Iterator[tuple[int, tuple[Operation, ...]]]:
    """The rows of each invocation and completion, by slot, under their index."""
    for index, rows in groupby(operations, key=attrgetter("index")):
        yield index, tuple(rows)
