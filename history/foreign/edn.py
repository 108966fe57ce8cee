"""A reader of Jepsen's EDN histories: it yields the maps of a file one after another, in bounded memory.

A file is a vector or a list of maps, or maps one after another. Values are as `history.foreign.step` says: two are equal if they
are equal by `=` of Clojure. Keywords become text, whole numbers (`1`, `1N`, `0x1F`) int, vectors and lists tuples, sets frozen
sets, maps `Pairs` and at the top level dicts; strings, floats, decimals, ratios, characters, symbols, booleans and tagged
literals (`#inst "…"`) become atoms. The tag of a map, list or set is dropped (`#jepsen.history.Op{…}`). `#_` drops the next form.
docs/decisions/0008-edn.md says why this is not a library.
"""

import io
import math
import re
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import BinaryIO, TypeVar

from history.errors import HistoryError
from history.foreign.edn_lines import Keys, SimpleLines
from history.foreign.step import Atom, map_of, pairs_of, shown
from history.foreign.text import DEPTH_MAX, DIGITS_MAX, RECORD_CHARS_MAX, Text

_TOKEN = re.compile(
    r"""
    (?P<atom>[^\s,\[\](){}";\\#][^\s,\[\](){}";]*|\#\#-?\w*)  # first, for most are
  | ;[^\r\n]*(?P<comment>[\r\n])           # a comment ends with its line
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
_SIMPLE_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")  # converted at once
_NUMBER = re.compile(r"[+-]?[0-9]")  # what begins so
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)N?\Z")  # Clojure reads a number behind a 0 as octal
_HEX = re.compile(r"[+-]?0[xX][0-9a-fA-F]+N?\Z")
_RATIO = re.compile(r"[+-]?[0-9]+/[0-9]+\Z")
_FLOAT = re.compile(r"[+-]?[0-9]+(\.[0-9]*([eE][+-]?[0-9]+)?M?|[eE][+-]?[0-9]+M?|M)\Z")
_KINDS = {"true": "boolean", "false": "boolean", "##Inf": "float", "##-Inf": "float", "##NaN": "symbol"}
_NO_NAME = frozenset("^'@`~")  # Clojure forms that are not EDN begin with these: metadata, quotes
_CHARACTERS = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r", "backspace": "\b", "formfeed": "\f"}
_UNICODE = re.compile(r"u[0-9a-fA-F]{4}\Z")
_OCTAL = re.compile(r"o[0-3]?[0-7]{1,2}\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_OPEN_ENDED = ("atom", "char", "tag", "open", "discard")
_CACHE_MAX = 100_000
_LINE_CHARS_MIN = 1 << 16  # wait for the end of a line that is shorter than this

Row = tuple[int, Keys, tuple[Hashable, ...]]  # the line of a map, its keys and its values
_Map = TypeVar("_Map")


@dataclass(frozen=True, slots=True)
class _Prefix:
    """Stands in a form before the value that it applies to: `#_`, or a tag such as `#inst`."""

    text: str


_DISCARD = _Prefix("#_")


def rows(file: BinaryIO, *, exact: bool = False) -> Iterator[Row]:
    """Yield the line number, the keys and the values of each map of an EDN history.

    Simple lines are read many at a time by `history.foreign.edn_lines`; `exact` reads all token by token. Both give the same.
    """
    return _Reader(Text(file), None if exact else SimpleLines()).rows()


def value(text: str) -> Hashable:
    """Parse the text of one EDN value that a user wrote, for instance an initial value. Raises HistoryError."""
    refusal = f"{text!r} is not one EDN value"
    try:
        maps = list(rows(io.BytesIO(b"{:value " + text.encode() + b"\n}"), exact=True))
    except (HistoryError, UnicodeEncodeError) as error:
        raise HistoryError(refusal) from error
    if len(maps) != 1 or maps[0][1] != ("value",):
        raise HistoryError(refusal)
    return maps[0][2][0]


class _Reader:
    def __init__(self, text: Text, lines: SimpleLines | None) -> None:
        self._text = text
        self._lines = lines
        self._open_brackets: list[tuple[str, list[Hashable], int]] = []  # bracket, items so far, line
        self._atoms: dict[str, Hashable] = {"nil": None}
        self._outer: str | None = None  # the bracket around all records
        self._seen = False
        self._dropping = 0  # forms to leave out, for as many `#_` were read between records
        self._closed = False

    def rows(self) -> Iterator[Row]:
        """Yield the maps of the file. Raises HistoryError with the line where the file is cut or not EDN."""
        while self._text.more():
            yield from self._rows_of_piece()
        left = self._text.rest.lstrip(" \t\r\n,")
        if left and not left.startswith(";"):
            raise HistoryError(f"line {self._text.line_of_rest()}: the file is cut inside {left[:20]!r}")
        if self._open_brackets:
            opened, _, line = self._open_brackets[0]
            raise HistoryError(f"line {line}: the file is cut inside a form: nothing closes the {opened} of this line")
        self._refuse_dropping(self._text.line_of_rest())
        if self._outer is not None and not self._closed:
            raise HistoryError(f"line {self._text.line_of_rest()}: the file is cut: no {_CLOSES[self._outer]} at its end")

    def _refuse_dropping(self, line: int) -> None:
        """A `#_` between records needs a form, which it leaves out."""
        if self._dropping:
            raise HistoryError(f"line {line}: {_prefix_in_words(_DISCARD)} without a form after it")

    def _rows_of_piece(self) -> Iterator[Row]:
        """The maps that end in the present piece of text; simple lines are read many at a time."""
        at = 0
        while True:
            if self._lines is not None and not (self._open_brackets or self._dropping or self._closed):
                at = yield from self._rows_of_simple_lines(self._lines, at)
                if self._ends_in_next_piece(at):
                    break
            record, at = self._next_row(at)
            if record is None:
                break
            yield record
        self._text.keep_from(at)

    def _rows_of_simple_lines(self, lines: SimpleLines, at: int) -> Generator[Row, None, int]:
        """Yield the records of the simple lines from this position on, and return the position after them."""
        text = self._text
        for first, end, decoded in lines.read(text.rest, at):
            self._seen = True
            line = text.line_at(first)
            for keys, values in decoded:
                yield line, keys, values
                line += 1
            at = end
        return at

    def _ends_in_next_piece(self, at: int) -> bool:
        """The rest of the piece is the beginning of one line, whose end is in the next piece."""
        text = self._text
        return not text.whole and len(text.rest) - at < _LINE_CHARS_MIN and text.rest.find("\n", at) < 0

    def _next_row(self, at: int) -> tuple[Row | None, int]:
        """Read tokens up to the end of a record. Return it, or None at the end of the piece, and the position reached."""
        text, atoms = self._text, self._atoms
        whole = text.whole
        size = len(text.rest)
        items = self._open_brackets[-1][1] if self._open_brackets else None
        for match in _TOKEN.finditer(text.rest, at):
            # Fast path: most tokens are known names or short numbers inside a form.
            if items is not None and match.end() < size and not (items and type(items[-1]) is _Prefix):
                token = match.group()
                atom = atoms.get(token, _DISCARD)
                if atom is _DISCARD and _SIMPLE_NUMBER.match(token):
                    atom = int(token)
                if atom is not _DISCARD:
                    items.append(atom)
                    continue
            kind = match.lastgroup
            # A token that touches the end of the buffer may continue in the next piece.
            if match.group() == "#" and match.end() < size:  # no set, tag or comment: these go on behind it
                raise HistoryError(f"line {text.line_at(match.start())}: '#' is not EDN")
            if kind == "cut" or (match.end() == size and not whole and kind in _OPEN_ENDED):
                if size - match.start() > RECORD_CHARS_MAX:
                    raise HistoryError(f"line {text.line_at(match.start())}: no end of {match.group()!r}")
                return None, match.start()
            if match.group() == ":" and not whole and not text.rest[match.end() :].strip():
                return None, match.start()  # a cut name if the file ends here: the next piece tells
            record = self._take_token(kind, match.group(), match.start())
            if record is not None:
                return record, match.end()
            items = self._open_brackets[-1][1] if self._open_brackets else None
        return None, size

    def _take_token(self, kind: str | None, token: str, at: int) -> Row | None:
        """Take in one token; the map that it completes, if any."""
        match kind:
            case "open":
                self._open_form(token, at)
            case "close":
                return self._close_form(token, at)
            case "discard" | "tag":
                if self._open_brackets:
                    self._open_brackets[-1][1].append(_DISCARD if kind == "discard" else _Prefix(token))
                elif kind == "discard":
                    self._dropping += 1
            case "comment":
                pass
            case _:
                self._add_to_form(self._value_of_token(kind, token, at), at)
        return None

    def _open_form(self, bracket: str, at: int) -> None:
        """Open a form, or the vector that holds the whole history."""
        if self._closed:
            raise HistoryError(f"line {self._text.line_at(at)}: unexpected content after the end of the history")
        if not (self._open_brackets or self._dropping or self._seen) and self._outer is None and bracket in "[(":
            self._outer = bracket
            return
        if len(self._open_brackets) == DEPTH_MAX:
            raise HistoryError(f"line {self._text.line_at(at)}: forms are nested deeper than {DEPTH_MAX}")
        self._open_brackets.append((bracket, [], self._text.line_at(at) if not self._open_brackets else 0))

    def _close_form(self, bracket: str, at: int) -> Row | None:
        """Close the innermost form: the step if it was a top-level map, else None."""
        if not self._open_brackets:
            if self._outer is None or self._closed or _CLOSES[self._outer] != bracket:
                raise HistoryError(f"line {self._text.line_at(at)}: {bracket} without an opening bracket")
            self._refuse_dropping(self._text.line_at(at))
            self._closed = True
            return None
        opened, items, line = self._open_brackets.pop()
        if _CLOSES[opened] != bracket:
            raise HistoryError(f"line {self._text.line_at(at)}: {bracket} closes {opened}")
        if items and isinstance(items[-1], _Prefix):
            raise HistoryError(f"line {self._text.line_at(at)}: {_prefix_in_words(items[-1])} without a form after it")
        if self._open_brackets:
            self._add_to_form(self._closed_form(opened, items, at), at)
            return None
        if self._dropping:
            self._dropping -= 1
            return None
        self._seen = True
        if opened != "{":
            raise HistoryError(f"line {line}: a step must be a map, not {opened}…{bracket}")
        fields = self._map_of_items(map_of, items, at)
        return line, tuple(fields), tuple(fields.values())

    def _closed_form(self, opened: str, items: list[Hashable], at: int) -> Hashable:
        """The value of an inner form with these items: a map, a list or a set. HistoryError for a set with one value twice."""
        if opened == "{":
            return self._map_of_items(pairs_of, items, at)
        if opened != "#{":
            return tuple(items)
        found = frozenset(items)
        if len(found) < len(items):
            raise HistoryError(f"line {self._text.line_at(at)}: a set has one value twice")
        return found

    def _map_of_items(self, make: Callable[[Sequence[Hashable]], _Map], items: list[Hashable], at: int) -> _Map:
        try:
            return make(items)
        except ValueError as error:
            raise HistoryError(f"line {self._text.line_at(at)}: a map has {error}") from error

    def _add_to_form(self, value: Hashable, at: int) -> None:
        """Put a value into the innermost form, after the discards and tags before it."""
        if not self._open_brackets:
            if self._dropping:
                self._dropping -= 1
                return
            raise HistoryError(f"line {self._text.line_at(at)}: a step must be a map, not {shown(value)[:60]}")
        items = self._open_brackets[-1][1]
        while items and isinstance(items[-1], _Prefix):
            prefix = items.pop()
            if prefix is _DISCARD:
                return
            if not isinstance(value, tuple | frozenset):  # the tag of a record or an ordered set is dropped
                assert isinstance(prefix, _Prefix)
                value = Atom(prefix.text, f":{value}" if isinstance(value, str) else shown(value))
        items.append(value)

    def _value_of_token(self, kind: str | None, token: str, at: int) -> Hashable:
        """The value of a string, character or other token; equal atoms are one object."""
        if kind == "string":
            return Atom("string", self._parse_string(token[1:-1], at) if "\\" in token else token[1:-1])
        if kind == "char":
            return Atom("character", self._parse_character(token[1:], at))
        if token in self._atoms:
            return self._atoms[token]
        value = self._parse_atom(token, at)
        if len(self._atoms) < _CACHE_MAX:
            self._atoms[token] = value
        return value

    def _parse_atom(self, token: str, at: int) -> Hashable:
        """The value of a number, keyword or symbol. Raises HistoryError for what EDN does not allow."""
        line, number = self._text.line_at(at), token.removesuffix("N")
        if len(token) > DIGITS_MAX and token[0] in "+-0123456789":
            raise HistoryError(f"line {line}: a number has {len(token)} digits; at most {DIGITS_MAX} are allowed")
        if _INTEGER.match(token):
            return int(number)
        if _HEX.match(token):
            return int(number, 16)
        if _RATIO.match(token) and int(token.partition("/")[2]):
            ratio = Fraction(token)
            return int(ratio) if ratio.denominator == 1 else Atom("ratio", str(ratio))
        if _FLOAT.match(token):
            return self._parse_decimal(token[:-1], line) if token.endswith("M") else _float_atom(float(token))
        if _NUMBER.match(token):
            raise HistoryError(f"line {line}: {token!r} is not a number")
        is_cut = token == ":" and not self._text.rest[at + 1 :].strip()  # a name at the end of the file
        is_name = token[0] not in _NO_NAME and not token.startswith("::") and (token[0] != "#" or token in _KINDS)
        if not is_name or (token == ":" and not is_cut):
            raise HistoryError(f"line {line}: {token[:60]!r} is not EDN")
        if token[0] == ":":
            return token[1:]
        return Atom(_KINDS.get(token, "symbol"), token)

    def _parse_decimal(self, token: str, line: int) -> Atom:
        try:
            return Atom("decimal", _without_end_zeros(Decimal(token)))
        except InvalidOperation as error:
            raise HistoryError(f"line {line}: '{token}M' has too large an exponent") from error

    def _parse_string(self, escaped: str, at: int) -> str:
        """Decode the escapes of a string, and join the surrogate pairs of characters beyond 16 bits."""
        try:
            text = _ESCAPE.sub(_character_of_escape, escaped)
        except KeyError as error:
            raise HistoryError(
                f"line {self._text.line_at(at)}: a string has \\{error.args[0]}, which is no escape of EDN"
            ) from error
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    def _parse_character(self, name: str, at: int) -> str:
        """The character of this name."""
        if _UNICODE.match(name):
            return chr(int(name[1:], 16))
        if _OCTAL.match(name):
            return chr(int(name[1:], 8))
        if len(name) > 1 and name not in _CHARACTERS:
            raise HistoryError(f"line {self._text.line_at(at)}: there is no character \\{name[:60]}")
        return _CHARACTERS.get(name, name)


def _prefix_in_words(prefix: Hashable) -> str:
    """A discard or a tag in words."""
    assert isinstance(prefix, _Prefix), prefix
    return "#_ (leave out the next form)" if prefix is _DISCARD else f"the tag {prefix.text}"


def _float_atom(number: float) -> Atom:
    if math.isinf(number):
        return Atom("float", "##Inf" if number > 0 else "##-Inf")
    return Atom("float", repr(number or 0.0))  # -0.0 equals 0.0


def _without_end_zeros(number: Decimal) -> str:
    """A decimal without the zeros at its end, whatever the precision of Python's decimals is."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), number
    digits_kept = max((place + 1 for place, digit in enumerate(digits) if digit), default=0)
    return str(Decimal((sign, digits[:digits_kept], exponent + len(digits) - digits_kept))) if digits_kept else "0"


def _character_of_escape(match: re.Match[str]) -> str:
    """The character of an escape. KeyError, with what stands behind the backslash, if there is none."""
    escape = match.group(1)
    if len(escape) == 5:
        return chr(int(escape[1:], 16))
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPES[escape]
