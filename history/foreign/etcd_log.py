r"""The logs of etcd under Jepsen that Porcupine and its ancestor are tested with, as steps.

`INFO  jepsen.util - <process>\t:<type>\t:<f>\t<value>`. Three peculiarities: a compare-and-set that fails has certainly seen
another value, so it is an answer (`false`) and no failure; a read that timed out fails and says nothing; a value of
`:timed-out` is none.
"""

import re
from collections.abc import Hashable, Iterator
from typing import BinaryIO

from history.errors import HistoryError
from history.foreign.step import Named, Step, shown
from history.foreign.text import DIGITS_MAX
from history.op import OpType

_LINE = re.compile(r"INFO\s+jepsen\.util - (\S+)\s+:(invoke|ok|fail|info)\s+:(read|write|cas)(?:\s+(.*?))?\s*\Z")
_NUMBER = re.compile(rf"-?\d{{1,{DIGITS_MAX}}}\Z", re.ASCII)
_PAIR = re.compile(rf"\[(-?\d{{1,{DIGITS_MAX}}}) (-?\d{{1,{DIGITS_MAX}}})\]\Z", re.ASCII)
_REFUSED = Named("false")


def steps(file: BinaryIO) -> Iterator[Step]:
    """The steps of clients; lines of other loggers are none. HistoryError where there are no others."""
    told = False
    for number, raw in enumerate(file, 1):
        # The logger ends each line: without that, the number at its end may be the half of one.
        if not raw.endswith(b"\n"):
            end = raw[-40:].decode(errors="replace")
            raise HistoryError(f"line {number}: cut, or no step of an etcd log: no line end behind {shown(end)}")
        try:
            text = raw.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise HistoryError(f"line {number}: not UTF-8: {error.reason}") from error
        told = told or "jepsen.util" in text
        match = _LINE.match(text)
        if match is None:
            if "jepsen.util" in text and "nemesis" not in text:
                raise HistoryError(f"line {number}: cut, or no step of an etcd log: {text[:60]!r}")
            continue
        process, kind, f, words = match.groups(default="")
        if process.startswith(":"):
            continue
        value = _value(words, number)
        if kind == "fail" and f == "cas" and words != ":timed-out":
            yield Step(number, _process(process, number), OpType.OK, f, _REFUSED)
        else:
            yield Step(number, _process(process, number), OpType(kind), f, value)
    if not told:
        raise HistoryError("no step in it")


def _process(text: str, line: int) -> int:
    if not _NUMBER.match(text):
        raise HistoryError(f"line {line}: the process must be a number, not {text[:60]!r}")
    return int(text)


def _value(words: str, line: int) -> Hashable:
    if words in ("", "nil", ":timed-out"):
        return None
    if pair := _PAIR.match(words):
        return (int(pair[1]), int(pair[2]))
    if _NUMBER.match(words):
        return int(words)
    raise HistoryError(f"line {line}: the value must be a number, a pair of them or nil, not {words[:60]!r}")
