"""Functions for items of work: some raise, hang or kill their worker. Workers import this module."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from pipeline.items import Item
from pipeline.ledger import Row

HANG_S = 60


class Deed(Struct, frozen=True, kw_only=True):
    """What an item does. `trace`: a folder in which each attempt leaves a file; `times`: only the first attempts misbehave."""

    name: str
    trace: str
    what: str = "count"
    times: int = 99


def item_of_deed(name: str, trace: Path, what: str = "count", *, times: int = 99) -> Item:
    """An item that does this deed; its key is its name."""
    return Item(name, msgspec.json.encode(Deed(name=name, trace=str(trace), what=what, times=times)))


def numbered(trace: Path, misdeeds: dict[int, str], number: int) -> Item:
    """The item of a number; most do what they should."""
    return item_of_deed(f"{number:04}", trace, misdeeds.get(number, "count"))


class Deeds:
    """Does the items of a block, and stores their names in a file of the block's name."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._names: list[str] = []

    def do(self, payload: bytes) -> bytes:
        """Perform a deed and note it."""
        result = do_deed(payload)
        self._names.append(msgspec.json.decode(result))
        return result

    def store(self, block: str) -> None:
        """Write down whose deeds were done."""
        (self._place / block).write_text(" ".join(self._names))

    def total(self, rows: Sequence[Row]) -> bytes:
        """The keys of the rows."""
        return msgspec.json.encode([row.key for row in rows])


def attempts(trace: Path, name: str) -> int:
    """How often the item was begun."""
    return len(list(trace.glob(f"{name}-*")))


def do_deed(payload: bytes) -> bytes:
    """Perform a deed; the result is the name of the item."""
    deed = msgspec.json.decode(payload, type=Deed)
    begun = attempts(Path(deed.trace), deed.name) + 1
    (Path(deed.trace) / f"{deed.name}-{begun}").touch()
    if begun <= deed.times:
        _misbehave(deed.what)
    return msgspec.json.encode(deed.name)


def _misbehave(what: str) -> None:
    match what:
        case "raise":
            raise ValueError("two\nlines")
        case "hang":
            time.sleep(HANG_S)
        case "hang in C":  # the alarm does not reach it
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(HANG_S)
        case "hang twice":  # as if the first alarm fell into a finalizer, whose exceptions Python drops
            with suppress(BaseException):
                time.sleep(HANG_S)
            time.sleep(HANG_S)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            time.sleep(1)
        case _:
            pass


def blocked(item: str, attempt: int) -> list[int]:
    """The signals that this process blocks."""
    return sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
