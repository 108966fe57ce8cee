"""Large histories in parts: each part is a pair of tables with all rows of some partitions, so that it can be judged alone.

    operations/part-00000.parquet   events/part-00000.parquet    the rows without a partition
    operations/part-00001.parquet   events/part-00001.parquet    all rows of the first partitions, and so on

The rows of a part are sorted by index and divided into small row groups. A reader can therefore take a range of the index from
all parts without reading the rest. A partition is never divided, so a part has about `part_rows` rows or one larger partition.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from history import schema
from history.parquet import IndexedRows

GROUP_ROWS = 16_384  # rows of a row group: 32 ranges of the index in a part
INDEX_MAX = (1 << 63) - 1
PartitionName = tuple[str | None, int | None]
_KEY = ["topic", "partition"]


class Part(NamedTuple):
    """The tables of one part and the partitions that they hold, sorted; none for the rows without a partition."""

    partitions: tuple[PartitionName, ...]
    operations: pa.Table
    events: pa.Table


def part_name(number: int) -> str:
    """The name of a part, which is that of its files without the suffix."""
    return f"part-{number:05}"


def cut(operations: pa.Table, events: pa.Table, *, part_rows: int) -> Iterator[Part]:
    """Cut two tables, sorted by index, into parts: first the rows without a partition, then whole partitions by name."""
    bins = _partitions_by_part(_rows_of_partitions(operations) + _rows_of_partitions(events), part_rows)
    keys = [(number, *key) for number, bin in enumerate(bins) for key in bin]
    numbers = pl.DataFrame(keys, schema={"number": pl.Int64, "topic": pl.String, "partition": pl.Int64}, orient="row")
    places = [_frame(table).join(numbers, on=_KEY, how="left", nulls_equal=True, maintain_order="left")["number"]
              for table in (operations, events)]  # fmt: skip
    for number, bin in enumerate(bins):
        tables = (table.filter((place == number).to_arrow()) for table, place in zip((operations, events), places, strict=True))
        yield Part(() if number == 0 else tuple(bin), *tables)


def index_ranges(groups: Sequence[IndexedRows], rows_max: int) -> list[tuple[int, int]]:
    """Cut the index into ranges (first, last) of about `rows_max` rows, if the rows of each row group lie evenly in it."""
    starts = np.array([rows.first for rows in groups], np.float64)
    end_places = np.array([rows.last + 1 for rows in groups], np.float64)
    density = np.array([rows.rows for rows in groups]) / np.maximum(end_places - starts, 1)
    edges, place = np.unique(np.concatenate([starts, end_places]), return_inverse=True)
    change = np.bincount(place, np.concatenate([density, -density]), len(edges))
    before = np.append(0, np.cumsum(np.cumsum(change)[:-1] * np.diff(edges)))  # rows before each edge
    wanted = np.arange(rows_max, before[-1], rows_max)
    bounds = sorted({0, *np.interp(wanted, before, edges).astype(np.int64).tolist()}) if len(edges) else [0]
    return list(zip(bounds, [bound - 1 for bound in bounds[1:]] + [INDEX_MAX], strict=True))


def partitions_in(*tables: pa.Table) -> tuple[PartitionName, ...]:
    """The partitions that rows of these tables name, sorted."""
    names = set[PartitionName]().union(*(_rows_of_partitions(table) for table in tables))
    return tuple(sorted(names - {(None, None)}, key=str))


def _partitions_by_part(rows: Counter[PartitionName], part_rows: int) -> list[list[PartitionName]]:
    """Share partitions among parts of about `part_rows` rows; the first part is for rows without a partition."""
    bins: list[list[PartitionName]] = [[(None, None)]]
    room = 0
    for key in sorted(rows.keys() - {(None, None)}, key=str):
        if rows[key] > room:
            bins.append([])
            room = part_rows
        bins[-1].append(key)
        room -= rows[key]
    return bins


def _rows_of_partitions(table: pa.Table) -> Counter[PartitionName]:
    counted = _frame(table).group_by(_KEY).len()
    return Counter({(topic, partition): count for topic, partition, count in counted.iter_rows()})


def _frame(table: pa.Table) -> pl.DataFrame:
    return schema.to_frame(table.select(_KEY))
