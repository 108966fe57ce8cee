"""Reads simple lines of an EDN history many at a time: they are translated to JSON, which a decoder in C reads.

A simple line is one record, `{:type :ok, :process 3, :value [[:append 1 2] [:r 2 [1 2]]]}`: names, whole numbers, nil, booleans
and strings without escapes, in vectors, lists, sets and maps. `history.foreign.edn` reads every other line token by token, and
defines what a line means: this module may leave any line to it, but must read what it reads.

The translation works on many lines at once, by operations on bytes that take no step of Python for a token. It need not recognise
what it cannot translate: every text that it gets wrong becomes text that is not JSON, or JSON of another shape. The reasons:

* a pattern lets through only lines of `{…}` in ASCII (but for the insides of strings), without comments, tags and escapes;
* record, map, list and set become JSON objects whose ends name the bracket, so the decoder sees each bracket that does not fit,
  and as many objects as lines;
* a word is replaced with the separators around it. If that hits the middle of another word, two JSON values stand side by side
  without a comma;
* numbers stay as they are, and the decoder takes whole numbers only, of at most 62 bits and without a zero in front.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from history.foreign.step import FALSE, TRUE, Atom, pairs_of

_LINES = re.compile(
    r"""(?:
        [ \t,]* (?:\#jepsen\.history\.Op)? \{
        (?: [\t !$-:<-\[\]-~]+ | "[^\x00-\x1f"\\]*" | (?<=[\t\ ,(\[{])\#(?=\{) )*+
        \r?\n
    )*+""",
    re.VERBOSE,
)
_BETWEEN = re.compile(r"[ \t\r\n,]*")
_MARGIN = re.compile(rb"[ \t\r,]*\n[ \t,]*(?:#jepsen\.history\.Op)?(?=[{\n]|\Z)")
_WORDS = re.compile(rb"(?:,*[^-0-9,\[\](){}\x01-\x05][^,\[\](){}\x01-\x05]*)+,*")
# These stand during the translation for `}\n{`, a string, `#{`, true and false.
_RECORD, _STRING, _SET, _TRUE, _FALSE = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"
_SEPARATORS = bytes.maketrans(b" \t\r", b",,,")
_WORDS_MAX = 48  # runs of words that are replaced by a pass over the text each; if there are more, each is looked up
_WORDS_CACHED = 4096
_KEYS_MAX = 1024  # different sets of keys that are remembered
_NO_JSON = b"\x06"
_LINES_CHARS_MAX = 1 << 16
_BITS = 1 << 62
_DEPTH = 8  # of nested forms in a line
_Item = TypeVar("_Item")
Keys = tuple[Hashable, ...]
Fields = tuple[Keys, tuple[Hashable, ...]]  # of a map: its keys (equal ones are one object) and its values


class _NotSimple(Exception):  # noqa: N818 - no error: the exact reader decides then
    """Raised for lines that this module leaves to the exact reader."""


class _Form(Struct, Generic[_Item], forbid_unknown_fields=True):
    """What JSON has no form for: a string, a boolean, a map, a list in parentheses, a set."""

    begin: str
    items: tuple[_Item, ...] = ()
    text: str = ""
    end: str = ""


class _Record(Struct, Generic[_Item], forbid_unknown_fields=True):
    """One line: keys and values in turn."""

    items: tuple[_Item, ...]


def _new_decoder(names: Sequence[str], *, nested: bool) -> msgspec.json.Decoder[list[_Record[Hashable]]]:
    """A decoder of lines with these names, of which each is one object; if there are none, with any names.

    Unless `nested`, a form with another form in it, such as a map of strings, is refused.
    """
    name: Any = Literal[tuple(names)] if names else str
    leaf: Any = Annotated[int, Meta(ge=-_BITS, le=_BITS)] | name | None
    value: Any = leaf
    inner: Any = leaf
    for _ in range(_DEPTH):
        value = leaf | tuple[value, ...] | _Form[value if nested else inner]  # type: ignore[misc]
        inner = leaf | tuple[inner, ...]
    return msgspec.json.Decoder(list[_Record[value]])


_FORMS = (
    (b"{", b'{"begin":"{","items":['),
    (b"}", b'],"end":"}"}'),
    (b"(", b'{"begin":"(","items":['),
    (b")", b'],"end":")"}'),
    (_SET, b'{"begin":"#{","items":['),
    (_TRUE, b'{"begin":"true"}'),
    (_FALSE, b'{"begin":"false"}'),
)
_FORM = re.compile(rb"[{(\x02-\x05]")
_KNOWN = {b"": b"", b"nil": b"null", b"true": _TRUE, b"false": _FALSE}


class SimpleLines:
    """Reads runs of simple lines. It remembers the words of the lines before."""

    def __init__(self) -> None:
        self._words: list[tuple[bytes, bytes]] = []  # runs of words with their separators, and the same as JSON
        self._decoders: dict[bool, msgspec.json.Decoder[list[_Record[Hashable]]]] = {}
        self._nested = False  # the lines before had forms inside of forms
        self._chars = _LINES_CHARS_MAX  # how much to try at once: half as much after each failure, twice after each success
        self._keys: dict[Keys, Keys] = {}  # the keys of a map, none of them twice

    def read(self, text: str, at: int) -> Iterator[tuple[int, int, list[Fields]]]:
        """Yield the beginning, the end and the maps of runs of simple lines, one a line, from a place between records.

        Ends at the first line that is not simple.
        """
        at = _end_of_match(_BETWEEN, text, at)
        end = _end_of_match(_LINES, text, at)
        while at < end:
            stop = text.rfind("\n", at, min(end, at + self._chars)) + 1 or text.index("\n", at) + 1
            fields = self._fields_of_lines(text[at:stop])
            if fields is not None:
                yield at, stop, fields
                at, self._chars = stop, min(2 * self._chars, _LINES_CHARS_MAX)
            elif text.index("\n", at) + 1 == stop:
                return
            else:
                self._chars = (stop - at) // 2

    def _fields_of_lines(self, lines: str) -> list[Fields] | None:
        """The steps of these lines; None if one is not simple, or a word is new."""
        parts = lines.encode().split(b'"')
        text = _joined_lines(_STRING.join(parts[::2]))
        if text is None:
            return None
        try:
            rows = self._decoded_lines(text, parts[1::2])
            if rows is None and self._learn_words(text):
                rows = self._decoded_lines(text, parts[1::2])
            return None if rows is None else [self._keys_and_values(items) for items in rows]
        except _NotSimple:
            return None

    def _decoded_lines(self, text: bytes, strings: list[bytes]) -> list[tuple[Hashable, ...]] | None:
        """Keys and values of each line, by JSON; None if the JSON has another number of lines or cannot be read."""
        text = self._with_words(text)
        lines = text.split(_RECORD)
        forms = [(sign, json) for sign, json in _FORMS if sign in text]
        for sign, json in forms:
            text = text.replace(sign, json)
        text = b'[{"items":[' + text.replace(_RECORD, b']},{"items":[') + b"]}]"
        if strings:
            text = _with_string_forms(text, strings)
        if not forms and not strings:
            records = self._decode_json(text, nested=False)
            return None if records is None or len(records) != len(lines) else [record.items for record in records]
        records = self._decode_json(text, nested=self._nested)
        if records is None:
            records = self._decode_json(text, nested=not self._nested)
            if records is not None:
                self._nested = not self._nested
        if records is None or len(records) != len(lines):
            return None
        return [
            _plain_values(record.items, nested=self._nested) if _FORM.search(line) else record.items
            for record, line in zip(records, lines, strict=True)
        ]

    def _decode_json(self, text: bytes, *, nested: bool) -> list[_Record[Hashable]] | None:
        """Decode the JSON with a decoder that knows the keywords met so far; None if that fails."""
        if nested not in self._decoders:
            keywords = {word for words, _ in self._words for word in words.split(b",") if word[:1] == b":"}
            names = ["", *sorted(word[1:].decode() for word in keywords)] if len(self._words) <= _WORDS_MAX else []
            self._decoders[nested] = _new_decoder(names, nested=nested)
        try:
            return self._decoders[nested].decode(text)
        except msgspec.DecodeError:
            return None

    def _with_words(self, text: bytes) -> bytes:
        """Replace words of EDN by their JSON."""
        if len(self._words) > _WORDS_MAX:
            return _WORDS.sub(_json_of_word, text)
        for words, json in self._words:
            text = text.replace(words, json)
        return text

    def _learn_words(self, text: bytes) -> bool:
        """Remember the words of these lines. False if all were known."""
        if len(self._words) > _WORDS_MAX:
            return False
        learned = {words for words, _ in self._words}
        new = {words: _json_of_words(words) for words in set(_WORDS.findall(text)) - learned}
        new = {words: json for words, json in new.items() if _NO_JSON not in json}
        # A longer run first, for it may contain a shorter one.
        self._words = sorted([*self._words, *new.items()], key=lambda pair: len(pair[0]), reverse=True)
        if new:
            self._decoders.clear()
        return bool(new)

    def _keys_and_values(self, items: tuple[Hashable, ...]) -> Fields:
        """Keys and values of a line, with one tuple for all equal keys. Raises _NotSimple if they are no map."""
        keys = items[::2]
        shared = self._keys.get(keys)
        if shared is None:
            if len(items) % 2 or len(set(keys)) < len(keys):
                raise _NotSimple
            if len(self._keys) == _KEYS_MAX:
                self._keys.clear()
            shared = self._keys.setdefault(keys, keys)
        return shared, items[1::2]


def _end_of_match(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, pattern  # every part of it may be absent
    return match.end()


def _joined_lines(text: bytes) -> bytes | None:
    """The lines as one, without the outer braces, separators being single commas; None if not every line is `{…}`."""
    count = text.count(b"\n")
    if text.count(b"}\n{") != count - 1 or text[:1] != b"{" or text[-2:] != b"}\n":
        text = _MARGIN.sub(b"\n", b"\n" + text)[1:]
        if text.count(b"}\n{") != count - 1 or text[:1] != b"{" or text[-2:] != b"}\n":
            return None
    if b"null" in text:  # a symbol to EDN
        return None
    text = text[1:-2].replace(b"}\n{", _RECORD).replace(b"#{", _SET)
    text = text.translate(_SEPARATORS, b"," if text.count(b",") == text.count(b", ") else b"")
    while b",," in text:
        text = text.replace(b",,", b",")
    return text


@lru_cache(maxsize=_WORDS_CACHED)
def _json_of_words(words: bytes) -> bytes:
    return b",".join(_KNOWN.get(word) or _json_of_keyword(word) for word in words.split(b","))


def _json_of_keyword(word: bytes) -> bytes:
    return b'"' + word[1:] + b'"' if word[:1] == b":" and len(word) > 1 and word[1:2] != b":" else word and _NO_JSON


def _json_of_word(match: re.Match[bytes]) -> bytes:
    return _json_of_words(match.group())


def _with_string_forms(text: bytes, strings: list[bytes]) -> bytes:
    """The JSON with a form for each string, in the places that stand for them."""
    pieces = [b""] * (2 * len(strings) + 1)
    pieces[::2] = text.split(_STRING)
    pieces[1::2] = [b'{"begin":"string","text":"' + string + b'"}' for string in strings]
    return b"".join(pieces)


def _plain_values(items: tuple[Hashable, ...], *, nested: bool) -> tuple[Hashable, ...]:
    """The items with their forms as values."""
    values: list[Hashable] = []
    for item in items:
        if type(item) is _Form:
            values.append(_value_of_form(item, nested=nested))
        else:
            values.append(_plain_values(item, nested=nested) if type(item) is tuple and item else item)
    return tuple(values)


def _value_of_form(form: _Form[Hashable], *, nested: bool) -> Hashable:
    """The value of a form that JSON cannot hold by itself. Raises _NotSimple for other forms."""
    items = _plain_values(form.items, nested=True) if nested else form.items
    match form.begin, form.end:
        case "string", "":
            return Atom("string", form.text)
        case "true", "":
            return TRUE
        case "false", "":
            return FALSE
        case "(", ")":
            return items
        case "#{", "}":
            found = frozenset(items)
            if len(found) < len(items):
                raise _NotSimple
            return found
        case "{", "}":
            try:
                return pairs_of(items)
            except ValueError as error:
                raise _NotSimple from error
        case _:
            raise _NotSimple
