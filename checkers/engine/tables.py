"""The rows of one table that a checker reads, as a frame of columns and as named tuples.

All views of a small table share what was decoded of it: a row becomes a named tuple once for all checkers and groups, and a view
holds the places of its rows. A query to Polars costs a tenth of a millisecond whatever the number of rows, which is more than a
walk over the rows of most partitions. A view of a table of more than `DECODED_MAX` rows is a frame of its own and decodes its
rows each time: as Python objects they would not fit into memory.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import polars as pl

from checkers.engine.rows import FIT, Call, EventRow, OperationRow, calls, decoded, operation_rows, rows_of
from history.event import EventKind as K

DECODED_MAX = 400_000  # rows, at some 500 bytes as Python objects
_Row = TypeVar("_Row", bound=NamedTuple)
_Values = list[Any]  # of one column: the type of its values depends on the column


class _Source:
    """A whole table, sorted, whose columns and rows are decoded on first use."""

    def __init__(self, frame: pl.DataFrame, *, is_small: bool) -> None:
        self.frame = frame
        self.is_small = is_small
        self._columns: dict[str, _Values] = {}

    def column(self, name: str) -> _Values:
        if name not in self._columns:
            self._columns[name] = self.frame[name].to_list()
        return self._columns[name]

    @cached_property
    def event_rows(self) -> list[EventRow | None]:
        """Each row of a table of events; None if it lacks a column that its kind must fill."""
        fit = self.frame.select(FIT.alias("fit"))["fit"].to_list()
        return [row if is_fit else None for row, is_fit in zip(decoded(EventRow, self.column), fit, strict=True)]

    @cached_property
    def operation_rows(self) -> list[OperationRow]:
        """Each row of a table of operations."""
        return operation_rows(self.frame)


class Table:
    """Some rows of a table, in order. A checker declares which words it reads in the column `told_by`.

    A table of more than `small_max` rows (`DECODED_MAX` by default) decodes nothing for its views; -1 makes any table so.
    """

    told_by: ClassVar[str]
    order: ClassVar[tuple[str, ...]]

    def __init__(self, frame: pl.DataFrame, *, small_max: int | None = None) -> None:
        self._source = _Source(frame, is_small=frame.height <= (DECODED_MAX if small_max is None else small_max))
        self._places: Sequence[int] = range(frame.height)
        self._views: dict[frozenset[str], Self] = {}

    @classmethod
    def sorted(cls, frame: pl.DataFrame, *, small_max: int | None = None) -> Self:
        """Make a table of the rows of a frame, which may be in any order."""
        return cls(frame.sort(cls.order, maintain_order=True), small_max=small_max)

    def at(self, places: Sequence[int]) -> Self:
        """The rows at some of the places, which are in order."""
        if not self.is_small:
            return type(self)(self._source.frame[places] if places else self._source.frame.clear(), small_max=-1)
        table = type(self).__new__(type(self))
        table._source, table._places, table._views = self._source, places, {}
        return table

    @property
    def is_small(self) -> bool:
        """Whether the whole table is small enough that all views share its decoded rows."""
        return self._source.is_small

    @property
    def places(self) -> Sequence[int]:
        """The places of these rows in the whole table, in order."""
        return self._places

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return self._source.frame.columns

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self._places)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The rows as a frame with all columns."""
        if self._is_whole:
            return self._source.frame
        return self._source.frame[self._places] if self._places else self._source.frame.clear()

    @property
    def _is_whole(self) -> bool:
        return isinstance(self._places, range)

    def column(self, name: str) -> _Values:
        """The values of one column, in order."""
        values = self._source.column(name) if self.is_small else self._source.frame[name].to_list()
        return values if self._is_whole else [values[place] for place in self._places]

    def columns(self, *names: str) -> Iterable[tuple[Any, ...]]:
        """The values of several columns, row by row."""
        return zip(*map(self.column, names), strict=True)

    def as_rows(self, kind: type[_Row]) -> list[_Row]:
        """Read the columns that a class of rows names; `at` is the index of the row. No row is left out."""
        return decoded(kind, self.column)

    def distinct(self, name: str) -> set[Any]:
        """The values of one column, each once."""
        return set(self.column(name) if self.is_small else self._source.frame[name].unique())

    @cached_property
    def words(self) -> frozenset[str]:
        """The words in the column `told_by`."""
        return frozenset(self._by_word if self.is_small else self.distinct(self.told_by))

    @cached_property
    def _by_word(self) -> dict[str, list[int]]:
        by_word: dict[str, list[int]] = {}
        for place, word in zip(self._places, self.column(self.told_by), strict=True):
            by_word.setdefault(word, []).append(place)
        return by_word

    def of(self, *words: str) -> Self:
        """The rows with one of these words in the column `told_by`."""
        wanted = frozenset(words) & self.words if self.is_small else frozenset(words)
        view = self._views.get(wanted)
        if view is None:
            view = self._of(wanted)
            if self.is_small:
                self._views[wanted] = view
        return view

    def _of(self, wanted: frozenset[str]) -> Self:
        """The rows with one of these words, without the memory of earlier answers."""
        if not self.is_small:
            is_wanted = pl.col(self.told_by).is_in(sorted(wanted))
            return type(self)(self._source.frame.filter(is_wanted) if wanted else self._source.frame.clear(), small_max=-1)
        if len(wanted) == len(self._by_word):
            return self
        view = self.at(sorted(chain.from_iterable(self._by_word[word] for word in wanted)))
        view._by_word = {word: self._by_word[word] for word in wanted}
        return view

    def without(self, *words: str) -> Self:
        """The rows with none of these words in the column `told_by`."""
        return self.of(*self.words.difference(words))

    def first_partition(self) -> tuple[str, int] | None:
        """Topic and partition of the first row that concerns a partition; None if there is none."""
        if self.is_small:
            topics, numbers = self._source.column("topic"), self._source.column("partition")
            place = next((place for place in self._places if numbers[place] is not None), None)
            return None if place is None else (str(topics[place]), int(numbers[place]))
        about = self._source.frame.filter(pl.col("partition").is_not_null()).head(1)
        return (str(about["topic"][0]), int(about["partition"][0])) if about.height else None


class Events(Table):
    """Cluster events, by index."""

    told_by = "kind"
    order = ("index",)

    @property
    def rows(self) -> list[EventRow]:
        """The events, in order, without those that lack a column which their kind requires."""
        if not self.is_small:
            return rows_of(EventRow, self._source.frame.filter(FIT))
        rows = self._source.event_rows
        return [row for place in self._places if (row := rows[place]) is not None]

    @property
    def swaps(self) -> list[EventRow]:
        """The events in which a log directory was replaced by an empty one, whatever logs it held."""
        wounds = self.of(K.WOUND)
        about = zip(wounds.as_rows(EventRow), wounds.column("partition"), strict=True)
        return [row for row, partition in about if partition is None and row.node and row.detail == "swapped"]


class Operations(Table):
    """Rows of client operations, by index and slot."""

    told_by = "f"
    order = ("index", "slot")

    @property
    def rows(self) -> list[OperationRow]:
        """The rows, in order. Impossible offsets (< 0 or > OFFSET_MAX) are None."""
        if not self.is_small:
            return operation_rows(self._source.frame)
        rows = self._source.operation_rows
        return rows[:] if self._is_whole else [rows[place] for place in self._places]

    @property
    def calls(self) -> list[Call]:
        """The calls (`rows.calls`)."""
        return list(self._calls) if self.is_small else calls(self.rows)

    @cached_property
    def _calls(self) -> list[Call]:
        return calls(self.rows)
