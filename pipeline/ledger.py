"""The ledger of a piece of work: one row for each finished item, in a file of its own.

    <ledger>/<key>.json    a row; its presence means that the item is finished and all that it wrote is whole
    <ledger>/<key>.last    the last attempt that Spark permits has begun; holds its number

A worker writes the row of an item last. What has no row is done again, and a key has one row however often it was done. So the
rows on disk, and not what a worker reports, are the result of the work: a killed worker, executor or driver loses nothing.

Each row is sealed with a checksum. A row that is empty, cut or edited does not count: `mend` deletes it, and it is done again.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from history.errors import NOT_JSON
from pipeline.errors import PipelineError
from pipeline.stamp import present_stamp
from pipeline.storage import Storage

SUFFIX = ".json"
_MARK = ".last"
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

State = Literal["done", "failed", "late", "lost"]


class Row(Struct, frozen=True, kw_only=True):
    """A finished item. `result` is what the function returned, as JSON; null unless the item is done.

    `failed`: the function raised; `late`: it met its deadline; `lost`: the environment failed (a disk, an object store, a worker
    that died each time), which says nothing of the item, so that resumed work does it again. `words` says so in one line.
    """

    key: str
    state: State
    attempt: int  # from 1
    seconds: float  # by the clock, of the last attempt
    words: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    code: str = ""  # of the worker (`pipeline.stamp`)
    seal: str = ""  # of all other fields


def sealed(row: Row) -> Row:
    """The row with the code of this process and its seal."""
    row = replace(row, code=present_stamp().code)
    return replace(row, seal=_seal(row))


def _seal(row: Row) -> str:
    return blake2b(msgspec.json.encode(replace(row, seal="")), digest_size=8).hexdigest()


Complaint = Callable[[Row], str | None]  # why a row does not count, though it is as it was written; None if it counts


def no_complaint(row: Row) -> None:
    """The complaint of those who take every row."""


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
        return {name.removesuffix(SUFFIX) for name in self._storage.names() if name.endswith(SUFFIX)}

    def holds(self, key: str) -> bool:
        """Whether the item is finished."""
        return self._storage.exists(key + SUFFIX)

    def commit(self, row: Row) -> Row:
        """Write the row of a finished item and return it with its seal; the item's own files must be written before."""
        assert _KEY.fullmatch(row.key), row.key
        row = sealed(row)
        self._storage.write(row.key + SUFFIX, msgspec.json.encode(row))
        return row

    def read(self, key: str) -> Row:
        """The row of a finished item. Raises PipelineError where the file is damaged or missing."""
        return next(self.rows([key]))

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[Row]:
        """The rows of these finished items, in their order; without keys all rows, ordered by key.

        Raises PipelineError where a file is damaged or missing.
        """
        sorted_keys = sorted(self.keys()) if keys is None else list(keys)
        texts = self._storage.read_each(key + SUFFIX for key in sorted_keys)
        for key in sorted_keys:
            try:
                yield row_of(key, next(texts))
            except (OSError, ValueError) as error:
                raise PipelineError(f"{self._storage.path(key + SUFFIX)}: {error}") from error

    def mend(self, code: str | None = None, complaint: Complaint = no_complaint) -> list[str]:
        """Delete the rows that do not count, so that their items are done again; return a sentence for each.

        These are damaged rows, rows of lost items, rows that `complaint` finds wrong and, if `code` is given, rows that other
        code has written. Call it before the work begins, while nobody else writes.
        """
        wanted = sorted(self.keys())
        bad = {}
        for key, text in zip(wanted, self._storage.read_each(key + SUFFIX for key in wanted), strict=True):
            try:
                row = row_of(key, text)
            except ValueError as error:
                bad[key] = str(error)
                continue
            if row.state == "lost":
                bad[key] = f"the environment failed: {row.words}"
            elif code not in (None, row.code):
                bad[key] = f"written by other code, {row.code}"
            elif (wrong := complaint(row)) is not None:
                bad[key] = wrong
        self.forget(set(bad))
        return [f"{self._storage.path(key + SUFFIX)}: {words}; done again" for key, words in bad.items()]

    def forget(self, keys: set[str]) -> None:
        """Delete the rows of these items, so that they are done again."""
        self._storage.delete(key + SUFFIX for key in sorted(keys))

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


def row_of(key: str, text: bytes) -> Row:
    """The row of an item as its file has it. Raises ValueError where it is damaged."""
    if not text.strip():
        raise ValueError("an empty row of a ledger")
    try:
        row = msgspec.json.decode(text, type=Row)
    except NOT_JSON as error:
        raise ValueError(f"not a row of a ledger: {error}") from error
    if row.key != key:
        raise ValueError(f"the row of another item, {row.key}")
    if row.seal != _seal(row):
        raise ValueError(
            "a row that was changed after it was written: its checksum is another"
            if row.seal
            else "a row without checksum, of an earlier version"
        )
    return checked(row)


def checked(row: Row) -> Row:
    """The row. Raises ValueError for one with a result of an item that is not done: it would hide what came of the item."""
    if row.state != "done" and bytes(row.result) != b"null":
        raise ValueError(f"a row with a result, though its item is {row.state}")
    return row
