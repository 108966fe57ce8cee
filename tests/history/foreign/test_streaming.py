"""Reading a file holds only a piece of it, however long the file is."""

import io
import tracemalloc
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import pytest

from history.foreign import edn, jsonlines

_LINES: dict[str, tuple[str, Callable[[BinaryIO], Iterator[object]]]] = {
    "edn": ("{:index %d, :time %d, :process 3, :type :ok, :f :txn, :value [[:r 1 [1 2 3]] [:append 2 %d]]}\n", edn.rows),
    "json": ('{"index": %d, "time": %d, "type": "ok", "value": [["r", 1, [1, 2, 3]], ["append", 2, %d]]}\n', jsonlines.records),
}


class Endless(io.RawIOBase):
    """A file of a given number of lines, generated while it is read."""

    def __init__(self, line: str, count: int) -> None:
        self._lines = (line % (i, i, i) for i in range(count))

    def read(self, size: int = -1) -> bytes:
        found, held = [], 0
        for line in self._lines:
            found.append(line)
            held += len(line)
            if held >= size:
                break
        return "".join(found).encode()


def _peak(read: Callable[[BinaryIO], Iterator[object]], line: str, count: int) -> int:
    tracemalloc.start()
    try:
        assert sum(1 for _ in read(cast(BinaryIO, Endless(line, count)))) == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("form", sorted(_LINES))
def test_history_file_is_never_held_in_memory_as_a_whole(form: str) -> None:
    """The file has 4 MB and less than half of it is held: pieces of 256 kB, their text, and the rest of the last piece."""
    line, read = _LINES[form]
    size = 4 << 20

    assert _peak(read, line, size // len(line)) < size // 2
