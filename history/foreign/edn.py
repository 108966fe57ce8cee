"""A reader of Jepsen's EDN histories: it yields the maps of a file one after another, in bounded memory.

A file is a vector or a list of maps, or maps one after another. Keywords, symbols and booleans become `Named`. Vectors and lists
become tuples, sets become frozen sets. Maps become dicts at the top level and tuples of pairs inside. Tags are dropped and their
form is kept (`#jepsen.history.Op{…}`, `#inst "…"`). `#_` drops the next form. Ratios become fractions. docs/decisions/0008-edn.md
says why this is not a library.
"""

import io
import math
import re
from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import BinaryIO

from history.errors import HistoryError
from history.foreign.step import Named, Pairs
from history.foreign.text import DEPTH_MAX, DIGITS_MAX, RECORD_CHARS_MAX, Text

_TOKEN = re.compile(
    r"""
    (?P<atom>[^\s,\[\](){}";\\#][^\s,\[\](){}";]*|\#\#-?\w+)  # first, for most are
  | ;[^\n]*(?P<comment>\n)                  # a comment ends with its line
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<open>\#\{|[\[({])
  | (?P<close>[\])}])
  | (?P<discard>\#_)
  | (?P<tag>\#[A-Za-z][^\s,\[\](){}";]*)
  | (?P<char>\\(?:[A-Za-z0-9]+|.))
  | (?P<cut>["\#;\\])                      # the beginning of something that goes on beyond the buffer
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?[0-9]+N?\Z")
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+N?\Z")
_RATIO = re.compile(r"[+-]?[0-9]+/[0-9]+\Z")
_FLOAT = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?M?\Z")
_NO_NAME = frozenset("^'@`~")  # Clojure forms that are not EDN begin with these: metadata, quotes
_SPECIAL = {"##Inf": math.inf, "##-Inf": -math.inf}  # ##NaN stays a name: as a number it would not equal itself
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_DISCARD = object()  # stands in a form for a `#_` whose form was not read yet
_OPEN_ENDED = ("atom", "char", "tag", "open", "discard")
_CACHE_MAX = 100_000
_SHORT = 19  # a number with fewer digits is converted at once

Record = tuple[int, dict[Hashable, Hashable]]


def records(file: BinaryIO) -> Iterator[Record]:
    """Yield the line number and the content of each map of an EDN history."""
    return _Reader(Text(file)).records()


def value(text: str) -> Hashable:
    """Parse the text of one EDN value that a user wrote, for instance an initial value. Raises HistoryError."""
    refusal = f"{text!r} is not one EDN value"
    try:
        found = list(records(io.BytesIO(b"{:value " + text.encode() + b"\n}")))
    except (HistoryError, UnicodeEncodeError) as error:
        raise HistoryError(refusal) from error
    if len(found) != 1 or len(found[0][1]) != 1:
        raise HistoryError(refusal)
    return found[0][1][Named("value")]


class _Reader:
    def __init__(self, text: Text) -> None:
        self._text = text
        self._open: list[tuple[str, list[object], int]] = []  # bracket, items so far, line
        self._atoms: dict[str, Hashable] = {"nil": None}
        self._outer: str | None = None  # the bracket around all records
        self._seen = False
        self._dropping = False  # a `#_` was read between records
        self._closed = False

    def records(self) -> Iterator[Record]:
        """Yield the maps of the file. Raises HistoryError with the line where the file is cut or not EDN."""
        while self._text.more():
            yield from self._tokens()
        left = self._text.rest.lstrip(" \t\r\n,")
        if left and not left.startswith(";"):
            raise HistoryError(f"line {self._text.line_of_rest()}: the file is cut inside {left[:20]!r}")
        if self._open:
            raise HistoryError(f"line {self._open[0][2]}: the file is cut inside a form")
        if self._outer is not None and not self._closed:
            raise HistoryError(f"line {self._text.line_of_rest()}: the file is cut: no {_CLOSES[self._outer]} at its end")

    def _tokens(self) -> Iterator[Record]:
        text, atoms = self._text, self._atoms
        whole, size = text.whole, len(text.rest)
        items = self._open[-1][1] if self._open else None
        for match in _TOKEN.finditer(text.rest):
            # Fast path: most tokens are known names or short numbers inside a form.
            if items is not None and match.end() < size and not (items and items[-1] is _DISCARD):
                token = match.group()
                known = atoms.get(token, _DISCARD)
                if known is _DISCARD and len(token) < _SHORT and token.isdecimal() and token.isascii():
                    known = int(token)
                if known is not _DISCARD:
                    items.append(known)
                    continue
            kind = match.lastgroup
            # A token that touches the end of the buffer may continue in the next piece.
            if kind == "cut" or (
                match.end() == len(text.rest) and not whole and kind in ("atom", "char", "tag", "open", "discard")
            ):
                if len(text.rest) - match.start() > RECORD_CHARS_MAX:
                    raise HistoryError(f"line {text.line_at(match.start())}: no end of {match.group()!r}")
                text.keep_from(match.start())
                return
            if kind == "open":
                self._begin(match.group(), match.start())
            elif kind == "close":
                record = self._end(match.group(), match.start())
                if record is not None:
                    yield record
            elif kind == "discard":
                if self._open:
                    self._open[-1][1].append(_DISCARD)
                else:
                    self._dropping = True
            elif kind not in ("comment", "tag"):
                self._add(self._value(kind, match.group(), match.start()), match.start())
            items = self._open[-1][1] if self._open else None
        text.keep_from(len(text.rest))

    def _begin(self, bracket: str, at: int) -> None:
        if self._closed:
            raise HistoryError(f"line {self._text.line_at(at)}: unexpected content after the end of the history")
        if not self._open and self._outer is None and not self._seen and bracket in "[(":
            self._outer = bracket
            return
        if len(self._open) == DEPTH_MAX:
            raise HistoryError(f"line {self._text.line_at(at)}: forms are nested deeper than {DEPTH_MAX}")
        self._open.append((bracket, [], self._text.line_at(at) if not self._open else 0))

    def _end(self, bracket: str, at: int) -> Record | None:
        if not self._open:
            if self._outer is None or self._closed or _CLOSES[self._outer] != bracket:
                raise HistoryError(f"line {self._text.line_at(at)}: {bracket} without an opening bracket")
            self._closed = True
            return None
        opened, items, line = self._open.pop()
        if _CLOSES[opened] != bracket:
            raise HistoryError(f"line {self._text.line_at(at)}: {bracket} closes {opened}")
        if _DISCARD in items:
            raise HistoryError(f"line {self._text.line_at(at)}: #_ (leave out the next form) without a form after it")
        if self._open:
            self._add(self._form(opened, items, at), at)
            return None
        self._seen = True
        if self._dropping:
            self._dropping = False
            return None
        if opened != "{":
            raise HistoryError(f"line {line}: a step must be a map, not {opened}…{bracket}")
        return line, self._map(items, at)

    def _form(self, opened: str, items: list[object], at: int) -> Hashable:
        if opened == "{":
            return Pairs(sorted(self._map(items, at).items(), key=repr))
        return frozenset(items) if opened == "#{" else tuple(items)

    def _map(self, items: list[object], at: int) -> dict[Hashable, Hashable]:
        if len(items) % 2:
            raise HistoryError(f"line {self._text.line_at(at)}: a map has a key without a value")
        found: dict[Hashable, Hashable] = dict(zip(items[::2], items[1::2], strict=True))
        if len(found) * 2 != len(items):
            raise HistoryError(f"line {self._text.line_at(at)}: a map has one key twice")
        return found

    def _add(self, value: Hashable, at: int) -> None:
        if not self._open:
            if self._dropping:
                self._dropping = False
                return
            raise HistoryError(f"line {self._text.line_at(at)}: not a step: {repr(value)[:60]}")
        items = self._open[-1][1]
        if items and items[-1] is _DISCARD:
            items.pop()
        else:
            items.append(value)

    def _value(self, kind: str | None, token: str, at: int) -> Hashable:
        if kind == "string":
            return _text(token[1:-1]) if "\\" in token else token[1:-1]
        if kind == "char":
            return token[1:]
        if token in self._atoms:
            return self._atoms[token]
        value = self._atom(token, at)
        if len(self._atoms) < _CACHE_MAX:
            self._atoms[token] = value
        return value

    def _atom(self, token: str, at: int) -> Hashable:
        line, number = self._text.line_at(at), token.removesuffix("N")
        if len(token) > DIGITS_MAX and token[0] in "+-0123456789":
            raise HistoryError(f"line {line}: a number has {len(token)} digits; at most {DIGITS_MAX} are allowed")
        if _INTEGER.match(token):
            return int(number)
        if _HEX.match(token):
            return int(number, 16)
        if _RATIO.match(token) and int(token.partition("/")[2]):
            ratio = Fraction(token)
            return int(ratio) if ratio.denominator == 1 else ratio
        if _FLOAT.match(token):
            return float(token.removesuffix("M"))
        if token[0] in "0123456789":
            raise HistoryError(f"line {line}: {token!r} is not a number")
        if token in _SPECIAL:
            return _SPECIAL[token]
        if token[0] in _NO_NAME:
            raise HistoryError(f"line {line}: {token[:60]!r} is not EDN")
        return Named(token[1:] if token[0] == ":" else token)


def _text(escaped: str) -> str:
    """Decode the escapes of a string, and join the surrogate pairs of characters beyond 16 bits."""
    return _ESCAPE.sub(_unescaped, escaped).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _unescaped(match: re.Match[str]) -> str:
    escape = match.group(1)
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)
