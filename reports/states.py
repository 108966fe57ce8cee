"""The states before and after the action of a row, as a page shows them: what each process held, changed words marked.

    before   orders-0  follower of b1 in epoch 1, truncating; LEO 780, HW 777
    after    orders-0  follower of b1 in epoch 1, fetching; LEO 777, HW 777

Times that only run on ("caught up 12 ms ago") are not marked. This module compares words and knows no machine.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_WORDS = re.compile(r"\d+(?:\.\d+)? ms\b|[^\s,;{}]+|\s+|[,;{}]")
_RUNNING = re.compile(r"^[\d.]+ ms$")

Marked = tuple[tuple[str, bool], ...]  # a line in parts, each with whether it changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one process held before and after an action."""

    name: str
    before: tuple[Marked, ...]
    after: tuple[Marked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a process that an action changed, with its values."""

    process: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStates:
    """The states around one row. `fields_left_out`: how many changed fields are not listed."""

    index: int
    words: str  # the row in one line
    held: tuple[Held, ...]
    fields: tuple[Field, ...]
    fields_left_out: int
    called: tuple[str, ...]  # functions of the system under test, in the order of their first calls in the action


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The states around some rows of a run, or the sentence that says why there are none."""

    rows: tuple[RowStates, ...] = ()
    missing: str = ""


def held_by(name: str, before: Sequence[str], after: Sequence[str]) -> Held:
    """Compare the lines that tell of a process before and after an action."""
    old: list[Marked] = []
    new: list[Marked] = []
    keys = [[_key(line) for line in lines] for lines in (before, after)]
    for tag, a, b, c, d in SequenceMatcher(a=keys[0], b=keys[1], autojunk=False).get_opcodes():
        was, now = before[a:b], after[c:d]
        if tag == "replace" and len(was) == len(now):
            pairs = [_compared(*pair) for pair in zip(was, now, strict=True)]
            old += [pair[0] for pair in pairs]
            new += [pair[1] for pair in pairs]
        else:
            old += [((line, tag != "equal"),) for line in was]
            new += [((line, tag != "equal"),) for line in now]
    return Held(name=name, before=tuple(old), after=tuple(new))


def _key(line: str) -> tuple[str, ...]:
    return tuple("ms" if _RUNNING.match(word) else word for word in _WORDS.findall(line))


def _compared(before: str, after: str) -> tuple[Marked, Marked]:
    """Two forms of one line, with the words in which they differ marked."""
    words = _WORDS.findall(before), _WORDS.findall(after)
    same = SequenceMatcher(a=_key(before), b=_key(after), autojunk=False).get_opcodes()
    return (
        _joined((words[0][a:b], tag != "equal") for tag, a, b, _, _ in same),
        _joined((words[1][c:d], tag != "equal") for tag, _, _, c, d in same),
    )


def _joined(parts: Iterable[tuple[list[str], bool]]) -> Marked:
    """The parts with words; a space between two changed parts is marked with them."""
    joined: list[tuple[str, bool]] = []
    for words, changed in parts:
        text = "".join(words)
        if changed and len(joined) > 1 and joined[-1][0].isspace() and joined[-2][1]:
            (first, _), (space, _) = joined.pop(-2), joined.pop()
            text = f"{first}{space}{text}"
        if text:
            joined.append((text, changed))
    return tuple(joined)
