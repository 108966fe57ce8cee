r"""Jepsen's `history.txt`: process, type, function, value and, where there is one, the error, between tabs.

    0\t:invoke\t:write\t9
    0\t:info\t:write\t9\t:timeout

Knossos writes spaces for tabs, also before the error. Each line is written as a map, so that the reader of EDN defines what a
value means and which is refused, with the same line. What the nemesis did is not read, nor are errors, which may go on for
several lines.
"""

import re
from collections.abc import Iterator
from io import RawIOBase
from typing import BinaryIO

from history.errors import HistoryError
from history.foreign import edn
from history.foreign.step import shown

_BEGUN = re.compile(rb"\s*(-?\d+|:[\w.-]+)\t")  # what no line of an error begins with
_LINE = re.compile(
    rb"""\s*(-?\d+|:[\w.-]+)[ \t]+:(invoke|ok|fail|info)[ \t]+(:[^\s,\[\](){}";\\]+)(?:[ \t]+([^\t\r\n]*))?(?=\s|\Z)"""
)
_PLAIN = re.compile(rb"(?:[\[(]*[\w:.+/-]+[\])]*)?\s*")  # no more than one form of EDN, if the reader finds no fault
_WITH_ERROR = re.compile(rb"(.*?) +(?::[\w.-]+|\[:.*\])\s*")  # a value, and an error behind spaces
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"|\\.')
_FORMS = re.compile(rb"[^\s,\[\](){}]+|[\[({]|[\])}]")  # in a value without strings, characters, comments, sets and tags
_OPENING, _CLOSING = frozenset((b"[", b"(", b"{")), frozenset((b"]", b")", b"}"))
_NEMESIS = b"{:process :nemesis, :type :info, :f :nemesis}\n"


def is_history_txt(head: bytes) -> bool:
    """Whether a file that begins with these bytes is one."""
    return _LINE.match(head) is not None


class AsEdn(RawIOBase):
    """The file as EDN, one map for each of its lines."""

    def __init__(self, file: BinaryIO) -> None:
        self._lines = _edn_maps(file)

    def read(self, size: int = -1) -> bytes:
        """The next lines, at least `size` bytes unless the file ends; b"" at its end."""
        parts: list[bytes] = []
        length = 0
        for line in self._lines:
            parts.append(line)
            length += len(line)
            if 0 <= size <= length:
                break
        return b"".join(parts)


def _edn_maps(file: BinaryIO) -> Iterator[bytes]:
    """The lines as EDN maps; the lines of a stack trace after an error are left blank, to keep line numbers."""
    has_error = False
    for number, line in enumerate(file, 1):
        match = _LINE.match(line)
        if match is None:
            if line.strip() and (not has_error or _BEGUN.match(line)):
                raise HistoryError(
                    f"line {number}: not a process, a type, a function and a value between tabs: {_line_in_short(line)}"
                )
            yield b"\n"
            continue
        if not line.endswith(b"\n"):  # the last value may be cut
            raise HistoryError(f"line {number}: cut: no line end after {_line_in_short(line)}")
        process, kind, f, value = match.groups()
        has_error = line[match.end() :].strip() != b""
        if process == b":nemesis":
            yield _NEMESIS
        else:
            if value and b"\t" not in line and (behind := _WITH_ERROR.fullmatch(value)) and _is_one_form(behind[1]):
                value = behind[1]
            if not _is_one_form(value or b"nil"):
                raise HistoryError(f"line {number}: the value must be one EDN value, not {_line_in_short(value)}")
            yield b"{:process %b, :type :%b, :f %b, :value %b}\n" % (process, kind, f, value or b"nil")


def _is_one_form(value: bytes) -> bool:
    """Whether a value cannot add a field or a step to the map that is made of its line. It may still be no EDN."""
    if _PLAIN.fullmatch(value):
        return True
    if any(sign in value for sign in b'"\\;#'):
        try:
            edn.value(value.decode())
        except (HistoryError, UnicodeDecodeError):
            return False
        return b";" not in _TEXTS.sub(b"", value)  # a comment would hide the end of the map
    depth = forms = 0
    for match in _FORMS.finditer(value):
        token = match.group()
        forms += depth == 0
        depth += (token in _OPENING) - (token in _CLOSING)
        if depth < 0 or forms > 1:
            return False
    return True


def _line_in_short(line: bytes) -> str:
    return shown(line.decode(errors="replace").strip()[:60])
