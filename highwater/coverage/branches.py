"""Branches of the protocol: their names, and a way to see which ones the code takes.

The modules of `reference` in `PARTS` are compiled a second time with a mark at each branch: the body of `if`, `for`, `while`,
`case` and `except`, what happens instead of an `if`, both sides of a conditional expression, each further operand of `and` and
`or`, and the start of a function without `if`. `counting` gives the functions their marked code for a while. Line numbers stay.

A branch is named by its function and the text of its condition, for example `replica.isr.maybe_shrink: if slow`; the second one
of the same name in a function ends with `#2`. So a name survives edits elsewhere. Impossible branches (`assert_never`) have none.
"""

import ast
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from importlib import import_module
from inspect import getsource
from pkgutil import walk_packages
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple, cast

import msgspec
from msgspec import Struct

from highwater.coverage.conditions import decided, is_taken, reads_switch
from highwater.errors import HarnessError
from reference.config import Variant

PARTS = ("broker", "client", "controller", "coordination", "log", "replica")  # packages of `reference`
MARKS = "__branches__"  # a bytearray, in the modules whose branches are counted
MARK = "__branch__"  # its __setitem__, which returns None


class _Need(NamedTuple):
    """A condition around a branch, and the value that it must have; for a `match` on a switch the case instead of a value."""

    test: ast.expr
    value: bool | ast.match_case


class Branch(Struct, frozen=True, kw_only=True):
    """One branch: its name, and where it is. `needs` are the conditions around it that read a switch of the protocol."""

    name: str  # replica.isr.maybe_shrink: if slow
    file: str  # reference/replica/isr.py
    line: int
    code: str  # the line of source that decides
    lines: range = range(0)  # of the statements or the value that it leads to, and that no other way comes to
    of_value: bool = False  # it leads to a part of an expression
    needs: tuple[_Need, ...] = ()

    @property
    def function(self) -> str:
        """The dotted name of the function, without `reference.`."""
        return self.name.partition(":")[0]


class Step(Struct, frozen=True, array_like=True):
    """Branches that a run took for the first time in one role and under one kind of fault: when, and at which broker.

    `at_ms` is after the start of the workload, and negative before it; broker 0 is a client or ZooKeeper.
    """

    at_ms: int
    broker: int
    context: str  # role and kind of fault, as in `leader pause-long`
    branches: tuple[int, ...]


class Reach(Struct, frozen=True, kw_only=True):
    """The branches that one run took; `steps_of` unpacks it. Some 30 kB."""

    packed: bytes


def packed(steps: Sequence[Step]) -> Reach:
    """Steps in the order of time as they are stored."""
    return Reach(packed=zlib.compress(msgspec.msgpack.encode(steps)))


def steps_of(reach: Reach) -> tuple[Step, ...]:
    """The steps of a run in the order of time."""
    return msgspec.msgpack.decode(zlib.decompress(reach.packed), type=tuple[Step, ...])


_Functions = tuple[tuple[FunctionType, CodeType, CodeType], ...]  # each with its own code and the code with marks


class _Program(Struct, frozen=True):
    """All branches in the order of their marks, and the functions that have them."""

    branches: tuple[Branch, ...]
    functions: _Functions
    modules: tuple[ModuleType, ...]


def branches() -> tuple[Branch, ...]:
    """All branches, in the order of modules and lines."""
    return _program().branches


def names_of(marks: Sequence[int]) -> tuple[str, ...]:
    """The names of the branches that are marked."""
    return tuple(branch.name for branch, mark in zip(branches(), marks, strict=True) if mark)


def names_in(reach: Reach) -> set[str]:
    """The names of the branches that a run took."""
    all_branches = branches()
    return {all_branches[number].name for step in steps_of(reach) for number in step.branches}


def is_excluded(branch: Branch, variant: Variant) -> bool:
    """Whether the switches of a protocol variant alone keep it from taking a branch."""
    for test, value in branch.needs:
        if isinstance(value, ast.match_case):
            if not is_taken(value, test, variant):
                return True
        elif decided(test, variant) is (not value):
            return True
    return False


@contextmanager
def counting(only: Set[str] | None = None) -> Iterator[bytearray]:
    """Mark branches in the body: byte i of the yielded array becomes 1 when branch i is taken. Not for two at a time.

    `only`: dotted names of the functions whose branches are marked; None: all.
    """
    program = _program()
    marks = bytearray(len(program.branches))
    for module in program.modules:
        vars(module).update({MARKS: marks, MARK: marks.__setitem__})
    functions = [one for one in program.functions if only is None or _dotted(one[0]) in only]
    for function, _, marked in functions:
        function.__code__ = marked
    try:
        yield marks
    finally:
        for function, own, _ in functions:
            function.__code__ = own


def _dotted(function: FunctionType) -> str:
    """The name of a function as branches have it."""
    return f"{function.__module__.removeprefix('reference.')}.{function.__qualname__}"


@cache
def _program() -> _Program:
    """The reference's code with marks, and all its branches; made once."""
    all_branches: list[Branch] = []
    functions: list[tuple[FunctionType, CodeType, CodeType]] = []
    modules = tuple(_modules())
    for module in modules:
        name = module.__name__.removeprefix("reference.")
        file = module.__file__ or module.__name__
        code, branches_of_module = marked(_source(module), module=name, file=file, first=len(all_branches))
        all_branches += branches_of_module
        codes = {inner.co_qualname: inner for inner in _codes(code)}
        functions += [(f, f.__code__, codes[f.__qualname__]) for f in _functions(module)]
    return _Program(tuple(all_branches), tuple(functions), modules)


def marked(source: str, *, module: str, file: str, first: int) -> tuple[CodeType, list[Branch]]:
    """The code of a module with marks, numbered from `first` on, and its branches. `module` is its name without `reference.`."""
    marker = _Marker(module, source, first=first)
    tree = ast.fix_missing_locations(marker.visit(ast.parse(source)))
    return compile(tree, file, "exec", dont_inherit=True), marker.branches


def _modules() -> Iterator[ModuleType]:
    """The modules of the protocol, part by part."""
    for part in PARTS:
        package = import_module(f"reference.{part}")
        names = sorted(module_info.name for module_info in walk_packages(package.__path__, f"{package.__name__}."))
        yield from map(import_module, names)


def _source(module: ModuleType) -> str:
    """The source of a module. HarnessError if it is not readable."""
    try:
        return getsource(module)
    except OSError as error:
        raise HarnessError(f"branches cannot be counted: the source of {module.__name__} is not readable: {error}") from error


def _codes(code: CodeType) -> Iterator[CodeType]:
    """All functions of a module or a class, without functions within functions."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that are written in a module."""
    owners: list[object] = [module, *(kind for kind in vars(module).values() if isinstance(kind, type))]
    for owner in owners:
        for member in list(vars(owner).values()):
            inner = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if type(inner) is FunctionType and inner.__code__.co_filename == module.__file__:
                yield inner


class _Marker(ast.NodeTransformer):
    """Adds the marks of one module, from number `first` on."""

    def __init__(self, module: str, source: str, *, first: int) -> None:
        self.branches: list[Branch] = []
        self._module = module
        self._lines = source.splitlines()
        self._first = first
        self._within: list[str] = []  # classes and functions around
        self._depth = 0  # of functions
        self._count_by_name: Counter[str] = Counter()
        self._needs: tuple[_Need, ...] = ()
        self._after: list[ast.stmt] = []  # the statements that follow an `if` whose body leaves

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Mark the function, if it has no `if` at its top."""
        self._within.append(node.name)
        self._depth += 1
        # Both ways of an `if` have marks, so a function with one needs no mark of its own.
        entered = (
            [] if any(isinstance(part, ast.If) for part in node.body) else [self._statement("called", node, _lines(node.body))]
        )
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body = self._marked_statements(node.body)
        node.body[start:start] = entered
        self._depth -= 1
        self._within.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        """Mark both ways of an `if`. If its body leaves, what follows is part of the other way."""
        test, others = deepcopy(node.test), [*node.orelse, *self._after]
        self._after = []
        node.test = self.visit(node.test)
        node.body = self._arm(_if(test), node, node.body, _Need(test, True))
        node.orelse = self._arm(_not(test), node, node.orelse, _Need(test, False), lines=_lines(others))
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        name = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        node.iter = self.visit(node.iter)
        node.body = self._arm(name, node, node.body)
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        test = deepcopy(node.test)
        node.test = self.visit(node.test)
        node.body = self._arm(f"while {ast.unparse(test)}", node, node.body, _Need(test, True))
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        """Mark each case."""
        subject = deepcopy(node.subject)
        node.subject = self.visit(node.subject)
        for case in node.cases:
            guard = "" if case.guard is None else f" if {ast.unparse(case.guard)}"
            name = f"case {ast.unparse(case.pattern)}{guard} of {ast.unparse(subject)}"
            case.guard = None if case.guard is None else self.visit(case.guard)
            case.body = self._arm(name, case.pattern, case.body, _Need(subject, case))
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.body = self._arm(f"except {'' if node.type is None else ast.unparse(node.type)}", node, node.body)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Mark both values of a conditional expression."""
        test = deepcopy(node.test)
        node.test = self.visit(node.test)
        node.body = self._side(_if(test), node, node.body, _Need(test, True))
        node.orelse = self._side(_not(test), node, node.orelse, _Need(test, False))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Mark each operand after the first, which the ones before may skip."""
        is_and, values = isinstance(node.op, ast.And), deepcopy(node.values)
        node.values[0] = self.visit(node.values[0])
        for place, value in enumerate(values[1:], 1):
            name = f"{'and' if is_and else 'or'} {ast.unparse(value)}"
            before = ast.BoolOp(op=node.op, values=values[:place])
            node.values[place] = self._side(name, value, node.values[place], _Need(before, is_and))
        return node

    def _marked_statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements with marks. What follows an `if` that leaves the body needs that its test is false."""
        outer_needs = self._needs
        statements = []
        for number, statement in enumerate(body, 1):
            leaving = statement.test if isinstance(statement, ast.If) and _leaves(statement.body) else None
            test = deepcopy(leaving)
            self._after = [] if leaving is None else body[number:]
            statements.append(self.visit(statement))
            self._needs = _with(self._needs, None if test is None else _Need(test, False))
        self._needs = outer_needs
        return statements

    def _arm(
        self, name: str, node: ast.AST, body: list[ast.stmt], need: "_Need | None" = None, *, lines: range | None = None
    ) -> list[ast.stmt]:
        """A body with its mark; without one outside of functions and where the body says that it is impossible.

        `lines`: those of the branch, if they are not those of the body.
        """
        if not self._depth or (body and _is_impossible(body[0])):
            return self._marked_statements(body)
        with self._needing(need):
            return [self._statement(name, node, _lines(body) if lines is None else lines), *self._marked_statements(body)]

    def _side(self, name: str, node: ast.AST, value: ast.expr, need: "_Need") -> ast.expr:
        """A part of an expression as `mark(number, 1) or value`."""
        if not self._depth:
            return cast(ast.expr, self.visit(value))
        with self._needing(need):
            number = self._number(name, node, _lines([value]), of_value=True)
            call = ast.Call(func=ast.Name(MARK, ast.Load()), args=[ast.Constant(number), ast.Constant(1)], keywords=[])
            return ast.copy_location(ast.BoolOp(op=ast.Or(), values=[call, self.visit(value)]), value)

    @contextmanager
    def _needing(self, need: "_Need | None") -> Iterator[None]:
        """What is numbered in the body needs this condition, if it reads a switch."""
        outer_needs = self._needs
        self._needs = _with(outer_needs, need)
        yield
        self._needs = outer_needs

    def _statement(self, name: str, node: ast.AST, lines: range) -> ast.stmt:
        """`marks[number] = 1`, before the statements of a branch."""
        number = ast.Constant(self._number(name, node, lines))
        target = ast.Subscript(value=ast.Name(MARKS, ast.Load()), slice=number, ctx=ast.Store())
        return ast.copy_location(ast.Assign(targets=[target], value=ast.Constant(1)), node)

    def _number(self, name: str, node: ast.AST, lines: range, *, of_value: bool = False) -> int:
        """The number of a new branch."""
        full = f"{self._module}.{'.'.join(self._within)}: {name}"
        self._count_by_name[full] += 1
        again = f" #{self._count_by_name[full]}" if self._count_by_name[full] > 1 else ""
        line: int = getattr(node, "lineno", 1)
        file = f"reference/{self._module.replace('.', '/')}.py"
        code = self._lines[line - 1].strip()
        branch = Branch(name=full + again, file=file, line=line, code=code, lines=lines, of_value=of_value, needs=self._needs)
        self.branches.append(branch)
        return self._first + len(self.branches) - 1


def _with(needs: tuple[_Need, ...], need: _Need | None) -> tuple[_Need, ...]:
    """With one more condition, if it reads a switch."""
    return (*needs, need) if need is not None and reads_switch(need.test) else needs


def _lines(parts: Sequence[ast.stmt | ast.expr]) -> range:
    """The lines from the first of these parts to the last."""
    return range(parts[0].lineno, (parts[-1].end_lineno or parts[-1].lineno) + 1) if parts else range(0)


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _if(test: ast.expr) -> str:
    return f"if {ast.unparse(test)}"


def _not(test: ast.expr) -> str:
    return ast.unparse(ast.UnaryOp(op=ast.Not(), operand=test))


def _is_impossible(statement: ast.stmt) -> bool:
    """Whether a body begins with `assert_never(…)` or `raise AssertionError`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="AssertionError"))):
            return True
        case _:
            return False
