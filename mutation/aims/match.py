"""Where the old code of an edit stands in its function, and which local names stand for its variables."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from mutation.aims.aim import NAMED, AimError, fragment, is_any, names_of
from mutation.aims.scope import FUNCTION, NAMES, Scope, inside, locals_of

_RUN_MAX = 12  # statements from the first to the last of a fragment with `...` between them


class Match(NamedTuple):
    """A way in which code fits: the nodes there for each of its nodes, and the local name for each of its variables."""

    names: Mapping[str, str]
    nodes: Mapping[int, list[ast.AST]]

    def with_nodes(self, mine: ast.AST, theirs: Sequence[ast.AST]) -> "Match":
        """The same with the nodes for one more."""
        return Match(self.names, {**self.nodes, id(mine): list(theirs)})


class _Fitter:
    """Finds every way in which a fragment fits; some of its names are variables, which may stand for `allowed` names."""

    def __init__(self, variables: frozenset[str], allowed: frozenset[str]) -> None:
        self._variables, self._allowed = variables, allowed

    def one(self, mine: ast.AST | None, theirs: ast.AST | None, so_far: Match) -> list[Match]:
        """The ways for a node."""
        if mine is None or theirs is None:
            return [so_far] if mine is theirs else []
        if not (is_any(mine) and isinstance(theirs, ast.expr)) and type(mine) is not type(theirs):
            return []
        fits = [so_far.with_nodes(mine, [theirs])]
        for field in () if is_any(mine) else mine._fields:
            fits = [after for match in fits for after in self._field(mine, theirs, field, match)]
        return fits

    def _field(self, mine: ast.AST, theirs: ast.AST, field: str, so_far: Match) -> list[Match]:
        """How a field of the pattern fits that of a node."""
        own, its = getattr(mine, field, None), getattr(theirs, field, None)
        if (
            field == "keywords"
            and isinstance(mine, ast.Call)
            and (any_argument := next(filter(is_any, mine.args), None)) is not None
        ):
            named = {keyword.arg for keyword in mine.keywords}
            others = [keyword for keyword in its or () if keyword.arg not in named]
            so_far = so_far.with_nodes(any_argument, [*so_far.nodes[id(any_argument)], *others])
            its = [keyword for keyword in its or () if keyword.arg in named]
        if isinstance(own, list) and any(isinstance(item, ast.AST) for item in own):
            return self.run(own, its or [], so_far)
        if isinstance(own, ast.AST):
            return self.one(own, its, so_far)
        if field == NAMED.get(type(mine)) and own in self._variables and isinstance(its, str):
            return self._name(own, its, so_far)
        return [so_far] if type(own) is type(its) and own == its else []

    def _name(self, mine: str, theirs: str, so_far: Match) -> list[Match]:
        """How a name of the pattern fits a name of the code: a variable stands for one local name."""
        if mine in so_far.names:
            return [so_far] if so_far.names[mine] == theirs else []
        if theirs not in self._allowed or theirs in so_far.names.values():
            return []
        return [Match({**so_far.names, mine: theirs}, so_far.nodes)]

    def run(self, mine: Sequence[ast.AST | None], theirs: Sequence[ast.AST], so_far: Match) -> list[Match]:
        """The ways for a list of nodes."""
        if not mine:
            return [] if theirs else [so_far]
        first = mine[0]
        if first is None or not is_any(first):
            begun = self.one(first, theirs[0], so_far) if theirs else []
            return [after for match in begun for after in self.run(mine[1:], theirs[1:], match)]
        cuts = range(len(theirs) + 1)
        return [after for n in cuts for after in self.run(mine[1:], theirs[n:], so_far.with_nodes(first, theirs[:n]))]


def matches(old: Sequence[ast.AST], scope: Scope, outer: Scope) -> list[Match]:
    """Each way in which old code fits: as it is, or else with its unknown names as variables."""
    fits = matches_with(old, scope, outer, frozenset())
    unknown = names_of(*old) - names_of(outer)
    return matches_with(old, scope, outer, unknown) if unknown and not fits else fits


def matches_with(
    old: Sequence[ast.AST], scope: Scope, outer: Scope, variables: frozenset[str], names: Mapping[str, str] | None = None
) -> list[Match]:
    """Each way in which old code fits if some of its names may stand for local names; for `names` it is known for which."""
    allowed = locals_of(outer) - (names_of(*old) - variables) if variables else frozenset[str]()
    fitter = _Fitter(variables, allowed)
    return [match for spot in spots(old, scope) for match in fitter.run(old, spot, Match(names or {}, {}))]


def spots(old: Sequence[ast.AST], scope: Scope) -> Iterator[Sequence[ast.AST]]:
    """The nodes of the same kind, or runs of statements or cases."""
    if isinstance(old[0], ast.expr):
        yield from ([node] for node in inside(scope) if type(node) is type(old[0]))
        return
    kind = ast.match_case if isinstance(old[0], ast.match_case) else ast.stmt
    lengths = range(1, _RUN_MAX + 1) if any(map(is_any, old)) else (len(old),)
    if not isinstance(scope, ast.Module):
        yield [scope]
    for node in inside(scope):
        if isinstance(node, NAMES) and node is not scope and not isinstance(scope, FUNCTION):
            continue
        for _, items in ast.iter_fields(node):
            if isinstance(items, list) and items and isinstance(items[0], kind):
                yield from (items[start : start + n] for start in range(len(items)) for n in lengths if start + n <= len(items))


def named(where: str, match: Match, scope: Scope, outer: Scope) -> dict[str, str]:
    """The local names of a match, and those that the expressions of `where` tell. Raises AimError if they leave a choice."""
    (expression,), _ = fragment(where, where)
    names = dict(match.names)
    for part in expression.elts if isinstance(expression, ast.Tuple) else [expression]:
        variables = names_of(part) - names_of(outer)
        if not variables - names.keys():
            continue
        names_told = {tuple(sorted(hit.names.items())) for hit in matches_with([part], scope, outer, variables, names)}
        if len(names_told) != 1:
            raise AimError(f"`{ast.unparse(part)}` tells {len(names_told)} ways, not one, to name {', '.join(sorted(variables))}")
        names |= dict(names_told.pop())
    return names
