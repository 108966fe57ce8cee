r"""The logs of early Jepsen tests, such as those of etcd and Elasticsearch that Porcupine and its predecessor judge, as steps.

The format is `INFO  jepsen.util - <process>\t:<type>\t:<f>\t<value>`, and the value is EDN; other lines of the log are left out.
Three cases are special. A failed compare-and-set certainly saw another value, so it becomes an answer (`false`) and not a
failure. A timed-out read fails and says nothing. A value of `:timed-out` becomes None.
"""

import re
from collections.abc import Hashable, Iterator
from typing import BinaryIO

from history.errors import HistoryError
from history.foreign import edn
from history.foreign.step import FALSE, Step, short
from history.foreign.text import DIGITS_MAX
from history.op import OpType

_LINE = re.compile(r"INFO\s+jepsen\.util - (\S+)\s+:(invoke|ok|fail|info)\s+:([\w-]+)(?:\s+(.*?))?\s*\Z")
_NUMBER = re.compile(rf"-?\d{{1,{DIGITS_MAX}}}\Z", re.ASCII)
_PAIR = re.compile(rf"\[(-?\d{{1,{DIGITS_MAX}}}) (-?\d{{1,{DIGITS_MAX}}})\]\Z", re.ASCII)


def steps(file: BinaryIO) -> Iterator[Step]:
    """Yield the invocations and completions of clients in a log of a Jepsen test. HistoryError for a log without any."""
    is_jepsen = False
    for number, raw in enumerate(file, 1):
        # The logger ends each line. Without the line end, the last number may be cut.
        if not raw.endswith(b"\n"):
            end = raw[-40:].decode(errors="replace")
            raise HistoryError(f"line {number}: cut, or not a step of a Jepsen test: no line end after {short(end)}")
        try:
            text = raw.decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise HistoryError(f"line {number}: not UTF-8: {error.reason}") from error
        is_jepsen = is_jepsen or "jepsen.util" in text
        match = _LINE.match(text)
        if match is None:
            if "jepsen.util" in text and "nemesis" not in text:
                raise HistoryError(f"line {number}: cut, or not a step of a Jepsen test: {text[:60]!r}")
            continue
        process, kind, f, words = match.groups(default="")
        if process.startswith(":"):
            continue
        value = _parse_value(words, number)
        if kind == "fail" and f == "cas" and words != ":timed-out":
            yield Step(number, _process(process, number), OpType.OK, f, FALSE)
        else:
            yield Step(number, _process(process, number), OpType(kind), f, value)
    if not is_jepsen:
        raise HistoryError("the file has no invocation or completion of a client")


def _process(text: str, line: int) -> int:
    if not _NUMBER.match(text):
        raise HistoryError(f"line {line}: the process must be a number, not {text[:60]!r}")
    return int(text)


def _parse_value(words: str, line: int) -> Hashable:
    """The value that a line of the log shows; numbers and pairs, the most frequent ones, need no parser. Raises HistoryError."""
    if words in ("", "nil", ":timed-out"):
        return None
    if pair := _PAIR.match(words):
        return (int(pair[1]), int(pair[2]))
    if _NUMBER.match(words):
        return int(words)
    try:
        return edn.value(words)
    except HistoryError as error:
        raise HistoryError(f"line {line}: the value must be EDN, not {words[:60]!r}") from error
