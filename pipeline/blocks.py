"""Blocks: the rows of up to a hundred items in one object, for items that follow from their numbers.

    <ledger>/blocks/<number>.rows    a header, then a row a line; its presence means that the items of the block are finished

A million items would be a million small objects, and a driver that follows them would hold a million keys. A `Series` says what
item a number is, so neither the driver nor a task holds a list, and a block holds the rows of a range of numbers. An item may
also have a row of its own in the ledger (`pipeline.ledger`): of local processes, or of a block that did not get to its end. If
both are there, the block counts.

The header seals itself and the lines below it, so a block that is cut, edited or exchanged for another one does not count: `mend`
deletes it, and it is done again. It also says what its batch adds the rows up to, so that whoever counts reads headers alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from history.errors import NOT_JSON
from pipeline.errors import PipelineError
from pipeline.items import Item
from pipeline.ledger import Complaint, Ledger, Row, checked, no_complaint, sealed
from pipeline.stamp import present_stamp
from pipeline.storage import Storage

ITEMS_MAX = 100  # of a block: what a killed worker does again
_BLOCKS_WANTED = 64  # of a short series, so that all cores have work
FOLDER = "blocks"
SUFFIX = ".rows"
_NAME = re.compile(r"block-(\d{7,})\.rows")
_AHEAD = 32  # blocks of some 400 kB
_HEADER_BYTES = 1 << 14  # of most headers


class Batch(Protocol):
    """Performs the items of one block, and stores beside its rows what it makes of them."""

    def do(self, payload: bytes) -> bytes:
        """As the function of a job."""

    def store(self, block: str) -> None:
        """Store what the items of the block made, under a name with the block's. Called before the rows are written."""

    def total(self, rows: Sequence[Row]) -> bytes:
        """What the rows of the block add up to, as JSON; also of rows that another batch made."""


class Series(Struct, frozen=True, kw_only=True):
    """Items that follow from their numbers, 0 to `count` - 1. `item` and `batch` must be importable, or a `partial` of such."""

    count: int
    item: Callable[[int], Item]
    batch: Callable[[], Batch]

    def __iter__(self) -> Iterator[Item]:
        return map(self.item, range(self.count))

    @property
    def size(self) -> int:
        """The number of items of a block. It depends on nothing but the series, so that all who read a block agree."""
        return max(1, min(ITEMS_MAX, self.count // _BLOCKS_WANTED))

    @property
    def blocks(self) -> range:
        """The numbers of all blocks."""
        return range(-(-self.count // self.size))

    def numbers(self, block: int) -> range:
        """The numbers of the items of a block."""
        return range(block * self.size, min((block + 1) * self.size, self.count))

    def items(self, block: int) -> list[Item]:
        """The items of a block."""
        return [self.item(number) for number in self.numbers(block)]

    def outside(self, finished: AbstractSet[int]) -> Iterator[Item]:
        """The items of all blocks but these."""
        return (item for block in self.blocks if block not in finished for item in self.items(block))


class Header(Struct, frozen=True, kw_only=True):
    """The first line of a block."""

    block: int
    rows: int
    total: msgspec.Raw  # of the rows, by their batch
    code: str  # of the worker (`pipeline.stamp`)
    digest: str  # of the lines below
    seal: str = ""  # of all other fields


def block_name(block: int) -> str:
    """The name of a block, for example `block-0000012`: also of the mark in the ledger that its last attempt has begun."""
    return f"block-{block:07}"


class Blocks:
    """The blocks of a ledger at a storage's root."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def finished(self) -> set[int]:
        """The numbers of the finished blocks."""
        found = (_NAME.fullmatch(name.rpartition("/")[2]) for name in self._storage.names(FOLDER))
        return {int(match[1]) for match in found if match is not None}

    def holds(self, block: int) -> bool:
        """Whether the block is finished."""
        return self._storage.exists(_path(block))

    def write(self, block: int, rows: Sequence[Row], total: bytes = b"null") -> None:
        """Write the rows of a block, whole or not at all. What its items made must be stored before."""
        lines = b"".join(msgspec.json.encode(row if row.seal else sealed(row)) + b"\n" for row in rows)
        code = present_stamp().code
        header = Header(block=block, rows=len(rows), total=msgspec.Raw(total), code=code, digest=_digest(lines))
        header = replace(header, seal=_seal(header))
        self._storage.write(_path(block), msgspec.json.encode(header) + b"\n" + lines)

    def header(self, block: int) -> Header:
        """The header of a finished block. Raises PipelineError where it is damaged or missing."""
        try:
            return _header_of(block, next(self._storage.lines(_path(block), buffer=_HEADER_BYTES), b""))
        except (OSError, ValueError) as error:
            raise PipelineError(f"{self._storage.path(_path(block))}: {error}") from error

    def rows(self, block: int) -> list[Row]:
        """The rows of a finished block. Raises PipelineError where the object is damaged or missing."""
        return next(self.whole([block]))[1]

    def whole(self, blocks: Iterable[int]) -> Iterator[tuple[Header, list[Row]]]:
        """The header and the rows of each of these finished blocks, as `rows` does; reads a few blocks ahead."""
        wanted = list(blocks)
        texts = self._storage.read_each(map(_path, wanted), ahead=_AHEAD)
        for block in wanted:
            try:
                yield _header_and_rows(block, next(texts))
            except (OSError, ValueError) as error:
                raise PipelineError(f"{self._storage.path(_path(block))}: {error}") from error

    def mend(self, code: str | None = None, complaint: Complaint = no_complaint, series: Series | None = None) -> list[str]:
        """Delete the blocks that do not count, as `Ledger.mend` does with rows; return a sentence for each.

        Blocks of a `series` hold its items, and what their batch adds up. Of a block with rows of lost items the other rows are
        kept, as rows of their own.
        """
        wanted = sorted(self.finished())
        mended = []
        ledger = Ledger(self._storage)
        for block, text in zip(wanted, self._storage.read_each(map(_path, wanted), ahead=_AHEAD), strict=True):
            words, kept = _why_not_counted(block, text, code, complaint, series)
            if words is None:
                continue
            for row in kept:
                ledger.commit(row)
            mended.append(f"{self._storage.path(_path(block))}: {words}; done again")
            self.forget([block])
        return mended

    def forget(self, blocks: Iterable[int]) -> None:
        """Delete these blocks, so that they are done again."""
        self._storage.delete(map(_path, blocks))

    def clear(self) -> None:
        """Delete all blocks."""
        self._storage.delete(self._storage.names(FOLDER))


def rows_of_block(name: str, text: bytes) -> list[Row]:
    """The rows of a block as the object of this name has them. Raises ValueError where it is damaged, or no block."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError("not the name of a block")
    return _header_and_rows(int(match[1]), text)[1]


def _path(block: int) -> str:
    return f"{FOLDER}/{block_name(block)}{SUFFIX}"


def _digest(lines: bytes) -> str:
    return blake2b(lines, digest_size=16).hexdigest()


def _seal(header: Header) -> str:
    return blake2b(msgspec.json.encode(replace(header, seal="")), digest_size=8).hexdigest()


def _header_of(block: int, line: bytes) -> Header:
    """The header in the first line of a block. Raises ValueError where it is damaged or of another block."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except NOT_JSON as error:
        raise ValueError(f"not a block of a ledger: {error}") from error
    if header.seal != _seal(header):
        raise ValueError("a block that was changed after it was written: the checksum of its header is another")
    if header.block != block:
        raise ValueError(f"another block, {header.block}")
    return header


def _header_and_rows(block: int, text: bytes) -> tuple[Header, list[Row]]:
    """The header and the rows of a block. Raises ValueError where it is damaged."""
    first, _, lines = text.partition(b"\n")
    header = _header_of(block, first)
    if header.digest != _digest(lines):
        raise ValueError("a block that was changed after it was written: its checksum is another")
    try:
        return header, [checked(msgspec.json.decode(line, type=Row)) for line in lines.splitlines()]
    except NOT_JSON as error:
        raise ValueError(f"not a block of a ledger: {error}") from error


def _why_not_counted(
    block: int, text: bytes, code: str | None, complaint: Complaint, series: Series | None
) -> tuple[str | None, list[Row]]:
    """Why a block does not count, and the rows of it that do; None if it counts."""
    try:
        header, rows = _header_and_rows(block, text)
    except ValueError as error:
        return str(error), []
    if code not in (None, header.code):
        return f"written by other code, {header.code}", []
    wrong = next(filter(None, map(complaint, rows)), None)
    if wrong is not None:
        return wrong, []
    if series is not None and [row.key for row in rows] != [item.key for item in series.items(block)]:
        return "the rows of other items", []
    if series is not None and bytes(header.total) != series.batch().total(rows):
        return "a total that is not that of its rows", []
    lost = [row for row in rows if row.state == "lost"]
    if not lost:
        return None, []
    return f"the environment failed: {lost[0].words}", [row for row in rows if row.state != "lost"]


def finished_rows(series: Series, storage: Storage) -> Iterator[Row]:
    """The rows of all finished items of a series, in the order of their numbers. Holds the keys of single rows alone."""
    return (row for _, rows in finished_blocks(series, storage) for row in rows)


def finished_blocks(series: Series, storage: Storage) -> Iterator[tuple[Header | None, list[Row]]]:
    """The header and the rows of each block, in their order; of one that is not whole the rows that its items have alone."""
    blocks, ledger = Blocks(storage), Ledger(storage)
    single, finished = ledger.keys(), blocks.finished()
    whole = blocks.whole(block for block in series.blocks if block in finished)
    for block in series.blocks:
        if block in finished:
            yield next(whole)
        elif single:
            yield None, list(ledger.rows(item.key for item in series.items(block) if item.key in single))


def finished_parts(series: Series, storage: Storage) -> Iterator[Header | Row]:
    """As `finished_blocks`, but of a whole block its header alone."""
    blocks, ledger = Blocks(storage), Ledger(storage)
    single, finished = ledger.keys(), blocks.finished()
    for block in series.blocks:
        if block in finished:
            yield blocks.header(block)
        elif single:
            yield from ledger.rows(item.key for item in series.items(block) if item.key in single)
