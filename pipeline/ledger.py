"""The ledger of a piece of work: one row for each finished item, in a file of its own.

    <ledger>/<key>.json    a row; its presence means that the item is finished and all that it wrote is whole
    <ledger>/<key>.last    the last attempt that Spark permits has begun; holds its number

A worker writes the row of an item last. What has no row is done again, and a key has one row however often it was done. So the
rows on disk, and not what a worker reports, are the result of the work: a killed worker, executor or driver loses nothing.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from pipeline.errors import PipelineError
from pipeline.storage import Storage

_ROW = ".json"
_MARK = ".last"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

State = Literal["done", "failed", "late"]


class Row(Struct, frozen=True, kw_only=True):
    """A finished item. `result` is what the function returned, as JSON; null unless the item is done.

    `failed`: the function raised, or its worker died each time; `late`: it met its deadline. `words` says so in one line.
    """

    key: str
    state: State
    attempt: int  # from 1
    seconds: float  # by the clock, of the last attempt
    words: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")


class Ledger:
    """The rows at a storage's root."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def location(self) -> str:
        """The location that another process opens."""
        return self._storage.location

    def keys(self) -> set[str]:
        """The keys of all finished items."""
        return {name.removesuffix(_ROW) for name in self._storage.names() if name.endswith(_ROW)}

    def holds(self, key: str) -> bool:
        """Whether the item is finished."""
        return self._storage.exists(key + _ROW)

    def commit(self, row: Row) -> None:
        """Write the row of a finished item; the item's own files must be written before."""
        assert _KEY.fullmatch(row.key), row.key
        self._storage.write(row.key + _ROW, msgspec.json.encode(row))

    def read(self, key: str) -> Row:
        """The row of a finished item. Raises PipelineError where the file is damaged or missing."""
        return next(self.rows([key]))

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[Row]:
        """The rows of these finished items, in their order; without keys all rows, ordered by key.

        Raises PipelineError where a file is damaged or missing.
        """
        sorted_keys = sorted(self.keys()) if keys is None else list(keys)
        texts = self._storage.read_each(key + _ROW for key in sorted_keys)
        for key in sorted_keys:
            try:
                row = msgspec.json.decode(next(texts), type=Row)
            except (OSError, msgspec.DecodeError) as error:
                raise PipelineError(f"{self._storage.path(key + _ROW)}: not a row of a ledger: {error}") from error
            if row.key != key:
                raise PipelineError(f"{self._storage.path(key + _ROW)}: the row of another item, {row.key}")
            yield row

    def forget(self, keys: set[str]) -> None:
        """Delete the rows of these items, so that they are done again."""
        self._storage.delete(key + _ROW for key in sorted(keys))

    def mark(self, key: str, attempt: int) -> None:
        """Note that the last permitted attempt at an item begins, in case it kills its worker."""
        self._storage.write(key + _MARK, str(attempt).encode())

    def marks(self) -> dict[str, int]:
        """The items with a mark, and the number of the marked attempt."""
        marked = [name for name in self._storage.names() if name.endswith(_MARK)]
        return {name.removesuffix(_MARK): int(self._storage.read(name)) for name in marked}

    def clear_marks(self, *keys: str) -> None:
        """Delete the marks of these items."""
        self._storage.delete(key + _MARK for key in keys)
