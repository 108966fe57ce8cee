"""A reader of JSON histories: an array of objects, or objects one after another, in bounded memory.

Arrays become tuples, objects inside values become `Pairs`, booleans become atoms. Text is text, be it a name or a string. Numbers
are int or float, so 1 and 1.0 are equal: JSON has one kind of number, and programs that write JSON drop or add the fraction.
"""

import json
import math
from collections.abc import Hashable, Iterator
from fractions import Fraction
from typing import BinaryIO, NoReturn

from history.errors import HistoryError
from history.foreign.step import FALSE, TRUE, Pairs
from history.foreign.text import DEPTH_MAX, RECORD_CHARS_MAX, Text

_EXACT = 1 << 53  # doubles below it hold every whole number
_SPACE = " \t\r\n"
_FOLLOWS = {"[": ("step", "]"), "step": (",", "]"), ",": ("step",)}  # in an array: which tokens may follow


def records(file: BinaryIO) -> Iterator[tuple[int, dict[Hashable, Hashable]]]:
    """Yield the line number and the content of each object. Raises HistoryError with the line of a cut file or of bad JSON."""
    text = Text(file)
    decoder = json.JSONDecoder(parse_constant=_no_json, parse_float=_parse_number, object_pairs_hook=_object_of_pairs)
    inside = started = False
    before = "["
    while text.more():
        place = 0
        while True:
            place = _skip(text.rest, place)
            if place == len(text.rest):
                break
            sign = text.rest[place]
            if sign == "[" and not started:
                inside = started = True
                place += 1
                continue
            kind = sign if sign in ",]" else "step"
            if inside and kind not in _FOLLOWS[before]:
                raise HistoryError(f"line {text.line_at(place)}: the steps of an array must be separated by one comma")
            if sign == "]" and inside:
                _refuse_content_after(text, place + 1)
                return
            if sign == "," and inside:
                before = kind
                place += 1
                continue
            try:
                value, end = decoder.raw_decode(text.rest, place)
                fields = {key: frozen(inner) for key, inner in value.items()} if isinstance(value, dict) else None
            except RecursionError as error:
                raise HistoryError(f"line {text.line_at(place)}: values are nested deeper than {DEPTH_MAX}") from error
            except ValueError as error:
                if text.whole or len(text.rest) - place > RECORD_CHARS_MAX:
                    # The message of the decoder ends with a position in the current piece, not in the file, so only its first
                    # part is used.
                    reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                    raise HistoryError(f"line {text.line_at(place)}: cut, or not JSON: {reason}") from error
                break
            if fields is None:
                raise HistoryError(f"line {text.line_at(place)}: a step must be an object, not {text.rest[place:end][:40]}")
            yield text.line_at(place), fields
            started, before = True, kind
            place = end
        text.keep_from(place)
    if inside:
        raise HistoryError(f"line {text.line_of_rest()}: the file is cut: no ] at its end")


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _refuse_content_after(text: Text, place: int) -> None:
    """Refuse anything but white space after the array."""
    line = text.line_at(place)
    tail = text.rest[place:]
    while not tail.strip() and text.more():
        tail = text.rest[place:]
    if tail.strip():
        raise HistoryError(f"line {line}: unexpected content after the end of the history")


def _object_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("one key twice in an object")
    return fields


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _parse_number(text: str) -> int | float:
    """A number with a fraction or an exponent. A whole one that not every double holds is an int: it equals itself alone."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    if abs(number) < _EXACT:
        return number
    exact = Fraction(text)
    return int(exact) if exact.denominator == 1 else number


def frozen(value: object, depth: int = 0) -> Hashable:
    """Make a decoded JSON value hashable: lists become tuples. Raises RecursionError beyond the depth that EDN allows."""
    if depth > DEPTH_MAX:
        raise RecursionError
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, list):
        return tuple(frozen(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return Pairs(sorted(((key, frozen(item, depth + 1)) for key, item in value.items()), key=repr))
    assert value is None or isinstance(value, int | float | str), value
    return value
