"""What an edit changes in the text of a module: only the bytes of what differs, so that layout and comments around it stay."""

import ast
import re
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from textwrap import indent
from typing import NamedTuple

from msgspec import Struct

from mutation.aims.aim import NAMED, Aim, AimError, anys, ends, fragment, is_any, name_of, read_by, same
from mutation.aims.match import Match, matches, named
from mutation.aims.scope import Scope, inside, known_in, outer_of, scope_of

_PLACED = ast.expr | ast.stmt | ast.pattern | ast.arg | ast.ExceptHandler
# Expressions that need parentheses in the place of another one.
_LOOSE = ast.BoolOp | ast.BinOp | ast.UnaryOp | ast.Compare | ast.IfExp | ast.Lambda | ast.NamedExpr | ast.Yield | ast.YieldFrom


class Change(Struct, frozen=True, order=True):
    """Replace the bytes from `start` to `end` of a module; `reach` is a byte of the statement through which a run comes here."""

    start: int
    end: int
    new: str
    reach: int


def applied(aim: Aim, source: str) -> str:
    """The module's text with the edit. Raises AimError if it does not fit exactly once."""
    return with_changes(source, changes(aim, source))


def with_changes(source: str, changes_made: Sequence[Change]) -> str:
    """A text with these changes. Raises AimError where one is in the way of another."""
    data = source.encode()
    end = 0
    parts: list[bytes] = []
    for change in sorted(changes_made):
        if parts and change.start <= end:
            raise AimError(f"two edits change line {data.count(bytes([10]), 0, change.start) + 1}")
        parts += [data[end : change.start], change.new.encode()]
        end = change.end
    return b"".join([*parts, data[end:]]).decode()


def changes(aim: Aim, source: str) -> tuple[Change, ...]:
    """What an edit changes in the module's text. Raises AimError if it does not fit exactly once."""
    old, new = fragment(aim.old, aim.new)
    text = _text(source)
    scope, outer = scope_of(text.tree, aim.scope), outer_of(text.tree, aim.scope)
    hits = matches(old, scope, outer)
    if len(hits) != 1:
        raise AimError(f"`{' '.join(aim.old.split())}` stands {len(hits)} times, not once, in {aim.at}")
    if aim.where:
        hits[0] = hits[0]._replace(names=named(aim.where, hits[0], scope, outer))
    if unknown_names := sorted(read_by(*new) - known_in(text.tree, aim.scope) - hits[0].names.keys()):
        raise AimError(f"{aim.at} does not know {', '.join(unknown_names)} of `{' '.join(aim.new.split())}`")
    return tuple(sorted(_Changer(text, scope, hits[0], old, new).run()))


class _Filler:
    """Gives new code the names of the place, and for each `...` the nodes that it stood for."""

    def __init__(self, match: Match, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> None:
        old_wildcards, new_wildcards = list(anys(*old)), list(anys(*new))
        if len(new_wildcards) not in (0, len(old_wildcards)):
            raise AimError(f"the new code has {len(new_wildcards)} times `...`, and the old one {len(old_wildcards)} times")
        self._names = match.names
        self._nodes = {
            id(node): match.nodes[id(other_node)] for node, other_node in zip(new_wildcards, old_wildcards, strict=False)
        }

    def filled(self, nodes: Sequence[ast.AST]) -> list[ast.AST]:
        """Copies of nodes of the new code."""
        return [copy for node in nodes for copy in self._fill(node)]

    def _fill(self, node: ast.AST) -> list[ast.AST]:
        """A copy of a node of the new code, with the nodes and names that the match found."""
        if id(node) in self._nodes:
            return deepcopy(self._nodes[id(node)])
        copy = type(node)(**{field: self._value(value) for field, value in ast.iter_fields(node)})
        if name_of(copy) in self._names:
            setattr(copy, NAMED[type(copy)], self._names[name_of(copy)])
        if isinstance(copy, ast.Call):  # `...` stands for keywords, too
            copy.keywords += [item for item in copy.args if isinstance(item, ast.keyword)]
            copy.args = [item for item in copy.args if not isinstance(item, ast.keyword)]
        return [ast.fix_missing_locations(copy)]

    def _value(self, value: object) -> object:
        """A field of a node, filled. Raises AimError if `...` stands for several expressions where one fits."""
        if isinstance(value, list):
            return [copy for item in value for copy in (self._fill(item) if isinstance(item, ast.AST) else [item])]
        if not isinstance(value, ast.AST):
            return value
        filled = self._fill(value)
        if len(filled) != 1:
            raise AimError(f"`...` stands for {len(filled)} expressions where one is needed")
        return filled[0]


class _Text(NamedTuple):
    """A module's text, its tree, and where its lines begin."""

    data: bytes
    tree: ast.Module
    lines: list[int]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte of a node, and the first after it."""
        if isinstance(node, ast.match_case):
            return self.data.rfind(b"case", 0, self.span(node.pattern)[0]), self.span(node.body[-1])[1]
        assert isinstance(node, _PLACED), node
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = min([node, *getattr(node, "decorator_list", [])], key=lambda part: part.lineno)
        start = self.lines[first.lineno - 1] + first.col_offset - (first is not node)
        return start, self.lines[node.end_lineno - 1] + node.end_col_offset

    def margin(self, start: int) -> str:
        """The blanks before a statement."""
        return " " * (start - self.data.rfind(b"\n", 0, start) - 1)


@cache
def _text(source: str) -> _Text:
    data = source.encode()
    return _Text(data, ast.parse(source), [0, *(line_end.end() for line_end in re.finditer(rb"\n", data))])


class _WholeError(Exception):
    """A change within a node that has to be replaced as a whole."""


class _Changer:
    """Turns the difference of old and new code into changes of the text in which the old code fits."""

    def __init__(self, text: _Text, scope: Scope, match: Match, old: list[ast.AST], new: list[ast.AST]) -> None:
        self._text, self._scope, self._match, self._old, self._new = text, scope, match, old, new
        self._filler = _Filler(match, old, new)

    def run(self) -> list[Change]:
        """What changes. Raises AimError if a block would be empty."""
        try:
            return self._lists(self._old, self._new)
        except _WholeError:
            raise AimError("the edit needs a statement beside it that stays") from None

    def _node(self, old: ast.AST, new: ast.AST) -> list[Change]:
        """The changes that make one node of another; the whole node if nothing smaller does."""
        try:
            return self._within(old, new)
        except _WholeError:
            if not isinstance(old, _PLACED | ast.match_case):
                raise
            return [self._instead([old], [new])]

    def _within(self, old: ast.AST, new: ast.AST) -> list[Change]:
        """The changes within two nodes of one kind. Raises _WholeError if they differ in more than parts."""
        if same(old, new):
            return []
        if type(old) is not type(new) or isinstance(old, ast.JoinedStr):
            raise _WholeError
        all_changes: list[Change] = []
        for field, value in ast.iter_fields(old):
            new_value = getattr(new, field)
            if isinstance(value, list) and isinstance(new_value, list):
                all_changes += self._lists(value, new_value)
            elif isinstance(value, ast.AST) and isinstance(new_value, ast.AST):
                all_changes += self._node(value, new_value)
            elif not same(value, new_value):
                raise _WholeError
        return all_changes

    def _lists(self, old: list[ast.AST], new: list[ast.AST]) -> list[Change]:
        """The changes of a list of nodes: a run of statements or cases may be replaced or added."""
        if same(old, new):
            return []
        if len(old) == len(new) and all(is_any(before) == is_any(after) for before, after in zip(old, new, strict=True)):
            return [change for before, after in zip(old, new, strict=True) for change in self._node(before, after)]
        if not all(isinstance(node, ast.stmt | ast.match_case) for node in (*old, *new)):
            raise _WholeError
        head, tail = ends(old, new)
        removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
        if self._theirs(removed) and (added or not self._is_block(removed)):
            return [self._instead(removed, added)]
        if not removed and old:
            return [self._beside(self._theirs(old[:head]), self._theirs(old[head:]), added)]
        raise _WholeError

    def _is_block(self, nodes: list[ast.AST]) -> bool:
        """Whether these are all statements of a block, which cannot be empty."""
        nodes_of_source = self._theirs(nodes)
        fields = (items for node in inside(self._scope) for _, items in ast.iter_fields(node))
        return any(
            isinstance(items, list) and items[:1] == nodes_of_source[:1] and len(items) == len(nodes_of_source)
            for items in fields
        )

    def _theirs(self, nodes: Sequence[ast.AST]) -> list[ast.AST]:
        return [theirs for node in nodes for theirs in self._match.nodes[id(node)]]

    def _instead(self, removed: Sequence[ast.AST], added: Sequence[ast.AST]) -> Change:
        """The change that puts nodes in the place of others."""
        nodes_of_source = self._theirs(removed)
        start, end = self._text.span(nodes_of_source[0])[0], self._text.span(nodes_of_source[-1])[1]
        if isinstance(removed[0], ast.stmt | ast.match_case):
            if added:
                return Change(start, end, self._lines(added, start), start)
            data = self._text.data
            return Change(data.rfind(b"\n", 0, start) + 1, data.find(b"\n", end) + 1 or len(data), "", start)
        new, *others = self._filler.filled(added)
        if others:
            raise AimError("`...` stands for several expressions where one is needed")
        # The parentheses of a call belong to a generator that is its only argument.
        bare = isinstance(nodes_of_source[0], ast.GeneratorExp) and not isinstance(new, ast.GeneratorExp)
        words = ast.unparse(new)
        return Change(start, end, f"({words})" if bare or isinstance(new, _LOOSE) else words, start)

    def _lines(self, come: Sequence[ast.AST], start: int) -> str:
        """The text of statements in the place of one that begins here."""
        words = "\n".join(map(ast.unparse, self._filler.filled(come)))
        if self._text.data.startswith(b"elif", start):
            words = f"el{words}" if words.startswith("if ") and len(come) == 1 else "else:\n" + indent(words, "    ")
        return indent(words, self._text.margin(start)).lstrip(" ")

    def _beside(self, before: Sequence[ast.AST], after: Sequence[ast.AST], come: Sequence[ast.AST]) -> Change:
        """New statements before or after one that stays."""
        if after:
            start = self._text.span(after[0])[0]
            return Change(start, start, f"{self._lines(come, start)}\n{self._text.margin(start)}", start)
        start, end = self._text.span(before[-1])
        return Change(end, end, f"\n{self._text.margin(start)}{self._lines(come, start)}", start)
