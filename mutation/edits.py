"""Candidate edits of a module of the protocol: realistic mistakes of one or two lines, each with the operator that made it.

An edit replaces a part of the text. Positions come from `ast`, so all other text stays as it is (docs/decisions/0029). Left out:
docstrings, annotations, assertions, errors, notes, formatted texts, `__repr__`, and code that protocol `safe` does not execute.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

from msgspec import Struct

from mutation.switches import decided, is_taken, reads_switch
from mutation.trees import ROOT

OPERATORS = (
    "comparison",  # another relation
    "boolean",  # and for or, a dropped operand, a dropped `not`
    "constant",  # one more, one less, 0, True for False
    "statement",  # a dropped statement that changes state
    "effect",  # a dropped effect, or a dropped call that adds effects
    "order",  # two neighbouring effects swapped
    "epoch",  # an epoch, version or id that is not raised
    "set",  # ISR, ELR, replicas, target … one for another
    "return",  # an early return, or another value returned
    "guard",  # a negated condition, or one that never or always holds
)

_RELATIONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
}
_SET_WORDS: dict[type[ast.operator], str] = {ast.BitOr: "|", ast.BitAnd: "&", ast.Sub: "-"}
_RELATION = re.compile(rb"\b(?:not\s+in|is\s+not|in|is)\b|[<>=!]=|[<>]")
_ORDERED = re.compile(r"epoch|version|leo|hw|offset|end|incarnation|sequence|ms\b")
_COUNTED = re.compile(r"epoch|version|incarnation|sequence|correlation|\bids\b|life|known|zxid|next")
_MADE_OF = ("reference/effects.py", "reference/coordination/api.py")
_NO_EFFECTS = ("zk_id", "correlation", "flush_id")  # methods of Turn that add no effect
_NOTES = ("note", "Note", "note_of")  # effects that only record a row in the history


class Edit(Struct, frozen=True, order=True):
    """Replace the bytes from `start` to `end` of a module by `new`."""

    start: int
    end: int
    new: str
    operator: str


def applied(source: bytes, edit: Edit) -> bytes:
    """The module's bytes after the edit."""
    return source[: edit.start] + edit.new.encode() + source[edit.end :]


def candidates(source: bytes) -> tuple[Edit, ...]:
    """All edits of a module that compile, one for each different result, in the order of the text."""
    tree = ast.parse(source)
    finder = _Finder(source)
    return tuple(edit for node in tree.body for edit in _distinct(source, finder, node))


def _distinct(source: bytes, finder: "_Finder", node: ast.stmt) -> Iterator[Edit]:
    # Only the function or class of the edit is compiled again: a module with a hundred edits takes a hundred times as long.
    start, end = finder.span(node)
    dumps = {ast.dump(ast.parse(source[start:end]))}
    for edit in sorted(finder.edits(node)):
        try:
            result = ast.parse(source[start : edit.start] + edit.new.encode() + source[edit.end : end])
            compile(result, "mutant", "exec")
        except SyntaxError:
            continue
        if (key := ast.dump(result)) not in dumps:
            dumps.add(key)
            yield edit


class _Finder:
    """Walks a module and yields its edits."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._types: Mapping[str, str] = {}  # annotated parameters of the present function, with the name of their class

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        """The edits within a node."""
        match node:
            case ast.Assert() | ast.Raise() | ast.Import() | ast.ImportFrom() | ast.pattern():
                return
            case ast.FunctionDef(name="__repr__"):
                return
            case ast.Expr(value=ast.Constant(value=str())):
                return
            case ast.JoinedStr():
                return
            case ast.Call() if _name_called(node).lstrip("_") in _NOTES:
                return
            case ast.FunctionDef():
                yield from self._function(node)
            case ast.If() | ast.IfExp() if decided(node.test) is not None:
                yield from self._all(_listed_nodes(node.body if decided(node.test) else node.orelse))
            case ast.Match():
                yield from self.edits(node.subject)
                yield from self._all(case for case in node.cases if is_taken(case, node.subject))
            case ast.AnnAssign(value=value):
                yield from self.edits(value) if value is not None else ()
            case _ if isinstance(node, ast.expr) and decided(node) is not None:
                return  # an edit would turn a switch
            case _:
                for own in _OWN:
                    yield from own(self, node)
                yield from self._all(ast.iter_child_nodes(node))

    def _all(self, nodes: Iterator[ast.AST] | Sequence[ast.AST]) -> Iterator[Edit]:
        for node in nodes:
            yield from self.edits(node)

    def _function(self, node: ast.FunctionDef) -> Iterator[Edit]:
        """The edits of a function: its order, returns, reassignments and body."""
        outer = self._types
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self._types = {**outer, **{a.arg: a.annotation.id for a in arguments if isinstance(a.annotation, ast.Name)}}
        yield from self._all([*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)])
        yield from self._order(node)
        yield from self._early_returns(node)
        yield from self._reassignments(node)
        yield from self._all(node.body)
        self._types = outer

    # --- text ----------------------------------------------------------------------------------------------------------------

    def span(self, node: ast.stmt) -> tuple[int, int]:
        """Where a statement begins and ends, with its decorators, in bytes."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        return self._lines[first - 1], self._end(node)

    def _start(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt)
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.AST) -> int:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _instead(self, operator: str, node: ast.AST, new: str) -> Edit:
        return Edit(self._start(node), self._end(node), new, operator)

    def _exchange(self, first: ast.AST, second: ast.AST) -> Edit:
        between = self._source[self._end(first) : self._start(second)].decode()
        return Edit(self._start(first), self._end(second), self._text(second) + between + self._text(first), "order")

    # --- operators -----------------------------------------------------------------------------------------------------------

    def _comparison(self, node: ast.AST) -> Iterator[Edit]:
        """Another relation in a comparison."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            return
        start = self._end(node.left)
        token = _RELATION.search(self._source, start, self._start(node.comparators[0]))
        assert token is not None, ast.unparse(node)
        others = _RELATIONS[type(node.ops[0])]
        if isinstance(node.ops[0], ast.Eq | ast.NotEq) and _ORDERED.search(self._text(node.left)):
            others = (*others, "<=", ">=") if isinstance(node.ops[0], ast.Eq) else (*others, "<", ">")
        for operator in others:
            yield Edit(token.start(), token.end(), operator, "comparison")

    def _boolean(self, node: ast.AST) -> Iterator[Edit]:
        """`not` taken away, `and` for `or`, an operand left out."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield self._instead("boolean", node, f"({self._text(node.operand)})")
        if not isinstance(node, ast.BoolOp):
            return
        word, opposite = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
        texts = [f"({self._text(v)})" if isinstance(v, _LOOSE) else self._text(v) for v in node.values]
        switches = [reads_switch(value) for value in node.values]
        if not any(switches):
            yield self._instead("boolean", node, f"({opposite.join(texts)})")
        for index, switch in enumerate(switches):
            if not switch:
                others = texts[:index] + texts[index + 1 :]
                yield self._instead("boolean", node, f"({word.join(others)})")

    def _constant(self, node: ast.AST) -> Iterator[Edit]:
        """Another boolean or number."""
        match node:
            case ast.Constant(value=bool() as value):
                yield self._instead("constant", node, str(not value))
            case ast.Constant(value=int() as value):
                for new in {value + 1, max(value - 1, 0), 0} - {value}:
                    yield self._instead("constant", node, str(new))

    def _statement(self, node: ast.AST) -> Iterator[Edit]:
        """An effect or statement left out."""
        match node:
            case ast.Expr(value=ast.Yield()):
                yield self._instead("effect", node, "yield from ()")
            case ast.Expr(value=ast.Call() as call):
                if _name_called(call).lstrip("_") not in _NOTES:
                    yield self._instead("effect" if _adds_effects(call) else "statement", node, "pass")
            case (
                ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign(target=ast.Attribute() | ast.Subscript())
            ):
                operator = (
                    "epoch" if isinstance(node, ast.AugAssign) and _COUNTED.search(self._text(node.target)) else "statement"
                )
                yield self._instead(operator, node, "pass")
            case ast.Delete() | ast.Continue() | ast.Break():
                yield self._instead("statement", node, "pass")

    def _reassignments(self, function: ast.FunctionDef) -> Iterator[Edit]:
        # A local variable that is not assigned at all would only give a NameError.
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        assigned = {a.arg for a in arguments}
        for node in function.body:
            for part in ast.walk(node):
                match part:
                    case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                        if name in assigned and decided(part.value) is None:
                            yield self._instead("statement", part, "pass")
            assigned |= {t.id for part in _plain(node) for t in ast.walk(part) if isinstance(t, ast.Name) and _is_stored(t)}

    def _elements(self, node: ast.AST) -> Iterator[Edit]:
        """An effect left out of a list, or two exchanged."""
        if not isinstance(node, ast.List | ast.Tuple) or not isinstance(node.ctx, ast.Load):
            return
        for element in node.elts:
            if _is_effect(element):
                yield self._instead("effect", element, "*()")
        for first, second in pairwise(node.elts):
            if _is_effect(first) and _is_effect(second):
                yield self._exchange(first, second)

    def _order(self, node: ast.AST) -> Iterator[Edit]:
        """Two neighbouring statements with effects exchanged."""
        for body in (getattr(node, name, None) for name in ("body", "orelse")):
            if not isinstance(body, list):
                continue
            for first, second in pairwise(body):
                match first, second:
                    case ast.Expr(value=ast.Call() as a), ast.Expr(value=ast.Call() as b) if _adds_effects(a) and _adds_effects(
                        b
                    ):
                        yield self._exchange(first, second)

    def _epoch(self, node: ast.AST) -> Iterator[Edit]:
        """An epoch or counter that is not raised."""
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1) | ast.IfExp()) if _COUNTED.search(
                self._text(left)
            ):
                yield self._instead("epoch", node, self._text(left))

    def _set(self, node: ast.AST) -> Iterator[Edit]:
        """Another set of brokers: the ISR for the replicas, and so on."""
        match node:
            case ast.Attribute(value=owner, attr=name, ctx=ast.Load()):
                kind = self._types.get(owner.id) if isinstance(owner, ast.Name) else None
                for member in _others(name, kind):
                    yield self._instead("set", node, f"{self._text(owner)}.{member}")
                if b"brokers_of" in self._source and kind in _with("isr", "replicas") and name == "replicas":
                    yield self._instead("set", node, f"brokers_of({self._text(owner)}.isr)")
            case ast.Call(
                func=ast.Name(id="brokers_of"), args=[ast.Attribute(value=ast.Name(id=owner_name), attr="isr" | "elr")]
            ):
                if self._types.get(owner_name) in _with("isr", "replicas"):
                    yield self._instead("set", node, f"{owner_name}.replicas")
            case ast.BinOp(left=left, right=right) if type(node.op) in _SET_WORDS and (_is_set(left) or _is_set(right)):
                for op, word in _SET_WORDS.items():
                    if op is not type(node.op):
                        yield self._instead("set", node, f"({self._text(left)} {word} {self._text(right)})")

    def _early_returns(self, function: ast.FunctionDef) -> Iterator[Edit]:
        """A return of another value, or before the end."""
        parts = [part for node in function.body for part in ast.walk(node)]
        if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in parts):
            return
        match function.returns:
            case ast.Constant(value=None):
                for node in function.body[1:]:
                    yield self._instead("return", node, "return")
            case ast.Name(id="bool"):
                for part in parts:
                    if isinstance(part, ast.Return) and part.value is not None and decided(part.value) is None:
                        yield self._instead("return", part, "return True")
                        yield self._instead("return", part, "return False")
            case ast.Subscript(value=ast.Name(id="tuple" | "Sequence")):
                for part in parts:
                    if isinstance(part, ast.Return) and part.value is not None:
                        yield self._instead("return", part, "return ()")

    def _guard(self, node: ast.AST) -> Iterator[Edit]:
        """A condition negated, or always true or false."""
        tests: list[ast.expr] = []
        match node:
            case ast.If(test=test):
                tests = [test]
            case ast.comprehension(ifs=ifs):
                tests = ifs
            case ast.match_case(guard=ast.expr() as test):
                tests = [test]
            case ast.IfExp(test=test):
                yield self._instead("guard", test, f"not ({self._text(test)})")
        for test in tests:
            yield self._instead("guard", test, f"not ({self._text(test)})")
            if not reads_switch(test):
                yield self._instead("guard", test, "True")
                yield self._instead("guard", test, "False")


_OWN: tuple[Callable[[_Finder, ast.AST], Iterator[Edit]], ...] = (
    _Finder._comparison,
    _Finder._boolean,
    _Finder._constant,
    _Finder._statement,
    _Finder._elements,
    _Finder._order,
    _Finder._epoch,
    _Finder._set,
    _Finder._guard,
)
_LOOSE = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.UnaryOp)


def _listed_nodes(body: Sequence[ast.stmt] | ast.expr) -> Sequence[ast.AST]:
    return [body] if isinstance(body, ast.expr) else body


def _plain(node: ast.stmt) -> Sequence[ast.AST]:
    """The statement itself, unless it has a body: what a branch assigns may be missing later."""
    return [] if hasattr(node, "body") or isinstance(node, ast.Match) else [node]


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _name_called(call: ast.Call) -> str:
    """The name of the function that is called."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _adds_effects(call: ast.Call) -> bool:
    """Whether a call is one of Turn's that adds an effect, or gets the turn and so may add some."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name) if name.lstrip("_") in _NOTES:
            return False
        case ast.Attribute(value=ast.Name(id="turn"), attr=name):
            return name not in _NO_EFFECTS
        case ast.Attribute(value=ast.Attribute(attr="effects"), attr="append" | "extend"):
            return True
        case _:
            return any(isinstance(argument, ast.Name) and argument.id == "turn" for argument in call.args)


def _is_effect(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _name_called(node) in _effects()


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (isinstance(node, ast.Call) and _name_called(node) in ("set", "frozenset"))


@cache
def _effects() -> frozenset[str]:
    """The names of effects and of ZooKeeper's operations, without notes."""
    classes = [node for name in _MADE_OF for node in ast.parse((ROOT / name).read_bytes()).body if isinstance(node, ast.ClassDef)]
    bases = {node.name: {base.id for base in node.bases if isinstance(base, ast.Name)} for node in classes}
    return frozenset(name for name, above in bases.items() if above & {"Effect", "ZkOp"}) - set(_NOTES)


@cache
def _fields() -> Mapping[str, Mapping[str, str]]:
    """Each class of the protocol with its fields and their annotations."""
    fields_by_class = {}
    for path in sorted((ROOT / "reference").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                rows = [row for row in node.body if isinstance(row, ast.AnnAssign) and isinstance(row.target, ast.Name)]
                fields_by_class[node.name] = {
                    row.target.id: ast.unparse(row.annotation) for row in rows if isinstance(row.target, ast.Name)
                }
    return fields_by_class


@cache
def _with(*fields: str) -> frozenset[str]:
    return frozenset(name for name, has in _fields().items() if set(fields) <= has.keys())


_MEMBERS = re.compile(r"^(?:tuple|list|set|frozenset)\[(?:IsrMember|BrokerId)")


@cache
def _others(field: str, owner: str | None) -> tuple[str, ...]:
    """The fields with members of the same type that every possible owner of this field has as well."""
    owners = [name for name, has in _fields().items() if field in has]
    if owner is not None and owner in owners:
        owners = [owner]
    choices: defaultdict[str, int] = defaultdict(int)
    for name in owners:
        has = _fields()[name]
        for other_field, annotation in has.items():
            if other_field != field and annotation == has[field] and _MEMBERS.match(annotation):
                choices[other_field] += 1
    return tuple(sorted(other_field for other_field, count in choices.items() if count == len(owners)))
