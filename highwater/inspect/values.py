"""Values of the protocol as numbers and as words, so that two processes can compare theirs: states, effects, arguments, results.

Two processes with the same PYTHONHASHSEED give equal values the same number. A value of another package, such as a function that
the harness hands to the protocol, counts by its type alone. Fields that only one of two trees has may be left out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from textwrap import shorten
from typing import Any

from msgspec import Struct

LeftOut = Mapping[str, tuple[str, ...]]  # by class: its fields that do not count
Tree = Any  # words, or a dict of trees by the step to each: ".hw", "[t-0]"; `_KIND`: the class of a value
_KNOWN_MAX = 200_000  # frozen values whose numbers are kept
_DEPTH_MAX = 8
_WIDTH = 160
_NOTHING = "nothing"
_KIND = ""  # the step to the class of a value, which tells the members of a union apart


class Numbers:
    """Numbers of values. Those of frozen ones are kept: a log has hundreds of batches, which never change."""

    def __init__(self, left_out: LeftOut) -> None:
        self._left_out = left_out
        self._frozen_known: dict[int, tuple[object, int]] = {}
        self._ways: dict[type, Callable[[Any], int]] = {
            int: lambda value: hash(("negative", -value)) if value < 0 else value,  # Python's hash of -1 is that of -2
            bool: hash,
            str: hash,
            bytes: hash,
            float: hash,
            type(None): lambda _: 1,
            tuple: self._of_sequence,
            list: self._of_sequence,
            dict: lambda value: hash((3, self._of_sequence(value), self._of_sequence(value.values()))),
            set: self._of_set,
            frozenset: self._of_set,
            partial: lambda value: hash((5, self.of(value.func), self.of(value.args))),
        }

    def of(self, value: Any) -> int:
        """The number of a value: 64 bits with a sign."""
        kind = value.__class__
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way(kind)
        return way(value)

    def _of_sequence(self, values: Iterable[Any]) -> int:
        return hash((2, *map(self.of, values)))

    def _of_set(self, values: Iterable[Any]) -> int:
        return hash((4, *sorted(map(self.of, values))))

    def _way(self, kind: type) -> Callable[[Any], int]:
        """How values of a class are numbered."""
        salt = hash(_name(kind))
        if issubclass(kind, Enum):
            return lambda value: hash((salt, value.name))
        names = _fields(kind, self._left_out)
        if names is None:
            return lambda _: salt
        if issubclass(kind, Struct) and kind.__struct_config__.frozen:
            return lambda value: self._of_frozen(value, salt, names)
        return lambda value: hash((salt, *[self.of(getattr(value, name, None)) for name in names]))

    def _of_frozen(self, value: object, salt: int, names: tuple[str, ...]) -> int:
        held = self._frozen_known.get(id(value))
        if held is not None:
            return held[1]
        number = hash((salt, *[self.of(getattr(value, name)) for name in names]))
        if len(self._frozen_known) >= _KNOWN_MAX:
            self._frozen_known.clear()
        self._frozen_known[id(value)] = value, number  # with the value, so that no other one gets its id
        return number


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def fields_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of the protocol; None if its values have none that are known."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    if kind.__module__.startswith("reference.") and not issubclass(kind, BaseException):
        return tuple(getattr(kind, "__slots__", ()))
    return None


def _fields(kind: type, left_out: LeftOut) -> tuple[str, ...] | None:
    names, gone = fields_of(kind), left_out.get(_name(kind), ())
    return None if names is None else tuple(name for name in names if name not in gone)


def tree_of(value: Any, left_out: LeftOut, *, depth: int = _DEPTH_MAX) -> Tree:
    """A value in words, part by part; the same in every process."""

    def inner(part: Any) -> Tree:
        return tree_of(part, left_out, depth=depth - 1)

    names = _fields(value.__class__, left_out)
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return str(value) if value != "" else "''"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(text(inner(part)) for part in value))}}}"
    if depth and isinstance(value, dict) and value:
        return {f"[{text(inner(key))}]": inner(part) for key, part in value.items()}
    if depth and isinstance(value, list | tuple) and value:
        return {f"[{number}]": inner(part) for number, part in enumerate(value)}
    if names is not None and (depth or not names):
        return {_KIND: _kind_in_words(value), **{f".{name}": inner(getattr(value, name, None)) for name in names}}
    if isinstance(value, list | tuple | dict) and not value:
        return "{}" if isinstance(value, dict) else "[]"
    return f"a {_kind_in_words(value)}"


def _kind_in_words(value: object) -> str:
    """The class of a value as words: "ask logs" for AskLogs."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", value.__class__.__name__).lower()


def text(tree: Tree) -> str:
    """A tree in one line, the first words of a long one."""
    return shorten(_whole(tree), _WIDTH, placeholder=" …")


def _whole(tree: Tree) -> str:
    if isinstance(tree, str):
        return tree
    if all(step.startswith("[") for step in tree) and list(tree) == [f"[{number}]" for number in range(len(tree))]:
        return f"[{', '.join(map(_whole, tree.values()))}]"
    parts = [f"{step.strip('.[]')}: {_whole(part)}" for step, part in tree.items() if step != _KIND]
    if not parts:
        return str(tree[_KIND])
    return f"{{{', '.join(parts)}}}"


def differences(ours: Tree, theirs: Tree, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The parts in which two trees differ, the smallest that both have: (path, ours, theirs)."""
    if ours == theirs:
        return
    if not isinstance(ours, dict) or not isinstance(theirs, dict) or not ours.keys() & theirs.keys():
        yield path, text(ours), text(theirs)
        return
    for step in dict.fromkeys((*ours, *theirs)):
        if step in ours and step in theirs:
            yield from differences(ours[step], theirs[step], f"{path}{step}")
        else:
            yield f"{path}{step}", text(ours.get(step, _NOTHING)), text(theirs.get(step, _NOTHING))
