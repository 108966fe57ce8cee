"""The edit that makes one text of a module of another: the shortest `Aim` that finds the change again.

The change is the innermost node, or run of statements, in which the two trees differ. It grows by the code around it, with `...`
for what does not matter, until it stands once in its function, whatever the local names are.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from mutation.aims.aim import Aim, AimError, bound_by, dotted, ends, fragment, names_of, place, read_by, same
from mutation.aims.change import applied
from mutation.aims.match import matches_with
from mutation.aims.scope import COMPREHENSION, FUNCTION, NAMES, Scope, inside, locals_of, outer_of, scope_of

_NEIGHBOURS = 2  # statements that stay, before and after those that change
# What counts as so many characters when the shortest edit is chosen: a `...`, and old code that is a mere name or number.
_GAP = 8
_BARE = 90
_RUNS = ("body", "orelse", "args", "elts", "values", "cases")  # fields in which `...` may stand


class _Step(NamedTuple):
    """A node of the old tree, the one in its place in the new tree, and the field in which they differ."""

    old: ast.AST
    new: ast.AST
    field: str = ""


def aimed(file: str, before: str, after: str) -> Aim:
    """The edit that makes `after` of `before`. Raises AimError if none does."""
    old, new = ast.parse(before), ast.parse(after)
    if same(old, new):
        raise AimError(f"{file}: the two texts are the same program")
    path = list(_path(old, new))
    at, depth = _scope(file, path)
    scope, outer = scope_of(old, place(at)[1]), outer_of(old, place(at)[1])
    texts = {old: before, new: after}
    pairs = {(_text(nodes, texts[old]), _text(new_nodes, texts[new])) for nodes, new_nodes in _fragments(path[depth:])}
    teller = _Teller(scope, outer)
    aims = [Aim(at, *pair, teller.where(*pair)) for pair in pairs if pair[0]]
    aims.sort(key=lambda aim: (_cost(aim), aim))
    for variables in (locals_of(outer), frozenset[str]()):
        for aim in aims:
            if len(matches_with(fragment(aim.old, aim.new)[0], scope, outer, variables)) == 1 and _gives(aim, before, new):
                return aim
    raise AimError(f"{file}: no fragment of {at} holds the change and stands once")


def _cost(aim: Aim) -> int:
    is_bare = re.fullmatch(r"""\w+|-?\d+|"[^"]*"|'[^']*'""", aim.old) is not None
    return len(aim.words) + _GAP * aim.old.count("...") + _BARE * is_bare


def _gives(aim: Aim, before: str, new: ast.Module) -> bool:
    try:
        return same(ast.parse(applied(aim, before)), new)
    except (AimError, SyntaxError):
        return False


class _Teller:
    """Finds the short expressions of a scope that tell the local names of new code which the old code does not have."""

    def __init__(self, scope: Scope, outer: Scope) -> None:
        parts = [node for node in inside(scope) if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant)]
        texts = [(ast.unparse(node), node) for node in parts if not isinstance(node, ast.Slice | ast.Starred | ast.Lambda)]
        self._parts = [(text, read_by(node)) for text, node in sorted(texts, key=lambda pair: (len(pair[0]), pair[0]))]
        self._scope, self._outer, self._locals = scope, outer, locals_of(outer)
        self._found: dict[str, str] = {}

    def where(self, old: str, new: str) -> str:
        """Expressions for all such names."""
        before, after = fragment(old, new)
        own = bound_by(*(node for part in after for node in ast.walk(part) if isinstance(node, COMPREHENSION)))
        parts = dict.fromkeys(map(self._tell, sorted(names_of(*after) & self._locals - names_of(*before) - own)))
        # One tuple is not several expressions.
        return ", ".join(parts) + ("," if len(parts) == 1 and next(iter(parts)).startswith("(") else "")

    def _tell(self, name: str) -> str:
        if name not in self._found:
            telling = (text for text, names in self._parts if name in names and self._tells(text, name))
            self._found[name] = next(telling, name)
        return self._found[name]

    def _tells(self, text: str, name: str) -> bool:
        hits = matches_with(fragment(text, text)[0], self._scope, self._outer, self._locals)
        return {hit.names[name] for hit in hits} == {name}


def _path(old: ast.AST, new: ast.AST) -> Iterator[_Step]:
    """From the roots to the innermost nodes that differ in one place."""
    while type(old) is type(new):
        fields = [name for name in old._fields if not same(getattr(old, name, None), getattr(new, name, None))]
        if len(fields) != 1 or isinstance(old, ast.JoinedStr):
            break
        yield _Step(old, new, fields[0])
        before, after = getattr(old, fields[0]), getattr(new, fields[0])
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            differ = [pair for pair in zip(before, after, strict=True) if not same(*pair)]
            before, after = differ[0] if len(differ) == 1 else (None, None)
        if not isinstance(before, ast.AST) or not isinstance(after, ast.AST):
            return
        old, new = before, after
    yield _Step(old, new)


def _scope(file: str, path: Sequence[_Step]) -> tuple[str, int]:
    """The dotted name of the outermost function that holds the change, else of its class or module, and its place on the path."""
    names: list[str] = []
    depth = 0
    for n, (old, *_) in enumerate(path):
        if isinstance(old, NAMES):
            names.append(old.name)
            depth = n
        if isinstance(old, FUNCTION):
            break
    return dotted(file, ".".join(names)), depth


def _fragments(path: Sequence[_Step]) -> Iterator[tuple[list[ast.AST], list[ast.AST]]]:
    """Old and new code, from the innermost to the whole scope, in full and with `...`."""
    for n, (old, new, field) in enumerate(path):
        needed = [_needed_nodes(path[n:], 0), _needed_nodes(path[n:], 1)]
        if (isinstance(old, ast.expr) and not isinstance(old, ast.Slice)) or (
            isinstance(old, ast.stmt | ast.match_case) and type(old) is type(new)
        ):
            yield [old], [new]
            yield [_sketch(old, needed[0])], [_sketch(new, needed[1])]
        old_body, new_body = getattr(old, field, None), getattr(new, field, None)
        if (
            isinstance(old_body, list)
            and isinstance(new_body, list)
            and old_body
            and isinstance(old_body[0], ast.stmt | ast.match_case)
        ):
            head, tail = ends(old_body, new_body)
            for before, after in product(range(min(head, _NEIGHBOURS) + 1), range(min(tail, _NEIGHBOURS) + 1)):
                yield (
                    old_body[head - before : len(old_body) - tail + after],
                    new_body[head - before : len(new_body) - tail + after],
                )
                old_run, new_run = (
                    [
                        *(_sketch(node, stays) for node in run[head - before : head]),
                        *_gaps("body", run[head : len(run) - tail], stays),
                        *(_sketch(node, stays) for node in run[len(run) - tail : len(run) - tail + after]),
                    ]
                    for run, stays in ((old_body, needed[0]), (new_body, needed[1]))
                )
                yield old_run, new_run


class _Kept(NamedTuple):
    """The nodes that lead to the change, those that change, and the first one after these."""

    way: set[int]
    changed: set[int]
    after: int = 0


def _needed_nodes(path: Sequence[_Step], side: int) -> _Kept:
    """The nodes that the shortest edit has to show, of one side."""
    way = {id(step[side]) for step in path}
    last = path[-1]
    if not last.field:
        return _Kept(way - {id(last[side])}, {id(last[side])})
    before, after = getattr(last.old, last.field), getattr(last.new, last.field)
    side_nodes = (before, after)[side]
    if not isinstance(before, list) or not isinstance(after, list):
        return _Kept(way, {id(side_nodes)})
    if len(before) == len(after):
        return _Kept(way, {id(pair[side]) for pair in zip(before, after, strict=True) if not same(*pair)})
    head, tail = ends(before, after)
    return _Kept(way, {id(node) for node in side_nodes[head : len(side_nodes) - tail]}, id(side_nodes[-tail]) if tail else 0)


def _sketch(node: ast.AST, needed: _Kept) -> ast.AST:
    """A copy with `...` for blocks, arguments and elements in which nothing changes."""
    is_block = isinstance(getattr(node, "body", None), list)
    if id(node) in needed.changed or isinstance(node, ast.JoinedStr) or (id(node) not in needed.way and not is_block):
        return node
    copy = type(node)(**dict(ast.iter_fields(node)))
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST) and id(value) in needed.way:
            setattr(copy, field, _sketch(value, needed))
        elif isinstance(value, list) and (field in _RUNS or (field == "keywords" and isinstance(node, ast.Call))):
            setattr(copy, field, _gaps(field, value, needed))
    if (
        isinstance(copy, ast.Call)
        and len(copy.keywords) < len(getattr(node, "keywords", ()))
        and ... not in map(_constant, copy.args)
    ):
        copy.args = [*copy.args, ast.Constant(...)]
    return ast.fix_missing_locations(copy)


def _constant(node: ast.AST) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _gaps(field: str, items: Sequence[ast.AST], needed: _Kept) -> list[ast.AST]:
    """A list of nodes with `...` for the ones that need not be shown."""
    sketched: list[ast.AST] = []
    gap = False
    for item in items:
        stays = id(item) in needed.way | needed.changed
        if stays or not isinstance(item, ast.expr | ast.stmt | ast.keyword):
            sketched.append(_sketch(item, needed))
        elif (not gap or id(item) == needed.after) and field != "keywords":
            sketched.append(ast.Expr(ast.Constant(...)) if isinstance(item, ast.stmt) else ast.Constant(...))
        gap = not stays
    return sketched


# --- text ---------------------------------------------------------------------------------------------------------------------


def _text(nodes: Sequence[ast.AST], source: str) -> str:
    """Code on one line if it can be."""
    words = [_line(node, source) for node in nodes]
    one_line = "; ".join(words)
    return one_line if len(words) < 2 or _parses(one_line, nodes) else "\n".join(words)


def _line(node: ast.AST, source: str) -> str:
    """A node as one line of text that parses to the same tree."""
    segment = ast.get_source_segment(source, node) or "" if isinstance(node, ast.expr | ast.stmt) else ""
    joined = re.sub(r"(?<=[(\[{]) | (?=[)\]}])", "", " ".join(segment.split()))
    plain = ast.unparse(node)
    quoted = re.sub(r"'([^'\"\\]*)'", r'"\1"', plain)
    head, *lines = quoted.split("\n")
    short = f"{head} {'; '.join(line.strip() for line in lines)}".rstrip()
    return next((text for text in (re.sub(r",(?=[)\]}])", "", joined), joined, short, quoted) if _parses(text, [node])), plain)


def _parses(text: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether the text is these nodes."""
    try:
        parsed, _ = fragment(text, text if isinstance(nodes[0], ast.expr) else "")
    except AimError:
        return False
    return same(parsed, list(nodes))
