"""Branches of the protocol: their names, and a way to see which ones the code takes.

The modules of `reference` in `PARTS` are compiled a second time with a mark at each branch: the body of `if`, `for`, `while`,
`case` and `except`, what happens instead of an `if`, both sides of a conditional expression, each further operand of `and` and
`or`, and the start of a function without `if`. `counting` gives the functions their marked code for a while. Line numbers stay.

A branch is named by its function and the text of its condition, for example `replica.isr.maybe_shrink: if slow`; the second one
of the same name in a function ends with `#2`. So a name survives edits elsewhere. Impossible branches (`assert_never`) have none.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from inspect import getsource
from pkgutil import walk_packages
from types import CodeType, FunctionType, ModuleType

from msgspec import Struct

from highwater.errors import HarnessError

PARTS = ("broker", "client", "controller", "coordination", "log", "replica")  # packages of `reference`
MARKS = "__branches__"  # a bytearray, in the modules whose branches are counted
MARK = "__branch__"  # its __setitem__, which returns None


class Branch(Struct, frozen=True, kw_only=True):
    """One branch: its name, and where it is."""

    name: str  # replica.isr.maybe_shrink: if slow
    file: str  # reference/replica/isr.py
    line: int
    code: str  # the line of source that decides

    @property
    def function(self) -> str:
        """The dotted name of the function, without `reference.`."""
        return self.name.partition(":")[0]


class Moment(Struct, frozen=True, array_like=True):
    """When a run first took a branch after the start of the workload, and at which broker; 0: at a client or in ZooKeeper."""

    branch: int
    at_ms: int
    broker: int


class Reach(Struct, frozen=True, kw_only=True):
    """The branches that one run took.

    `taken` has for each role and kind of fault in effect, as in `leader pause-long`, the set of branches as a hexadecimal number:
    bit i is branch i of `branches()`. `moments` are in the order of time.
    """

    taken: dict[str, str]
    moments: tuple[Moment, ...]


_Functions = tuple[tuple[FunctionType, CodeType, CodeType], ...]  # each with its own code and the code with marks


class _Program(Struct, frozen=True):
    """All branches in the order of their marks, and the functions that have them."""

    branches: tuple[Branch, ...]
    functions: _Functions
    modules: tuple[ModuleType, ...]


def branches() -> tuple[Branch, ...]:
    """All branches, in the order of modules and lines."""
    return _program().branches


@contextmanager
def counting() -> Iterator[bytearray]:
    """Mark branches in the body: byte i of the yielded array becomes 1 when branch i is taken. Not for two at a time."""
    program = _program()
    marks = bytearray(len(program.branches))
    for module in program.modules:
        vars(module).update({MARKS: marks, MARK: marks.__setitem__})
    for function, _, marked in program.functions:
        function.__code__ = marked
    try:
        yield marks
    finally:
        for function, own, _ in program.functions:
            function.__code__ = own


def numbers_in(bits: str) -> Iterator[int]:
    """The branches of a set in `Reach.taken`, in their order."""
    left = int(bits, 16)
    while left:
        lowest = left & -left
        yield lowest.bit_length() - 1
        left ^= lowest


@cache
def _program() -> _Program:
    found: list[Branch] = []
    functions: list[tuple[FunctionType, CodeType, CodeType]] = []
    modules = tuple(_modules())
    for module in modules:
        name, file = module.__name__.removeprefix("reference."), module.__file__ or module.__name__
        code, there = marked(_source(module), module=name, file=file, first=len(found))
        found += there
        codes = {inner.co_qualname: inner for inner in _codes(code)}
        functions += [(f, f.__code__, codes[f.__qualname__]) for f in _functions(module)]
    return _Program(tuple(found), tuple(functions), modules)


def marked(source: str, *, module: str, file: str, first: int) -> tuple[CodeType, list[Branch]]:
    """The code of a module with marks, numbered from `first` on, and its branches. `module` is its name without `reference.`."""
    marker = _Marker(module, source, first=first)
    tree = ast.fix_missing_locations(marker.visit(ast.parse(source)))
    return compile(tree, file, "exec", dont_inherit=True), marker.branches


def _modules() -> Iterator[ModuleType]:
    for part in PARTS:
        package = import_module(f"reference.{part}")
        names = sorted(found.name for found in walk_packages(package.__path__, f"{package.__name__}."))
        yield from map(import_module, names)


def _source(module: ModuleType) -> str:
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
        for held in list(vars(owner).values()):
            inner = getattr(held, "__func__", None) or getattr(held, "fget", None) or held
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
        self._seen: Counter[str] = Counter()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._within.append(node.name)
        self._depth += 1
        # Both ways of an `if` have marks, so a function with one needs no mark of its own.
        entered = [] if any(isinstance(part, ast.If) for part in node.body) else [self._statement("called", node)]
        start = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body = [self.visit(statement) for statement in node.body]
        node.body[start:start] = entered
        self._depth -= 1
        self._within.pop()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        taken, instead = self._arm(_if(node.test), node, node.body), self._arm(_not(node.test), node, node.orelse)
        self.generic_visit(node)
        node.body, node.orelse = [*taken, *node.body], [*instead, *node.orelse]
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        mark = self._arm(f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}", node, node.body)
        self.generic_visit(node)
        node.body = [*mark, *node.body]
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        mark = self._arm(f"while {ast.unparse(node.test)}", node, node.body)
        self.generic_visit(node)
        node.body = [*mark, *node.body]
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        subject = ast.unparse(node.subject)
        marks = []
        for case in node.cases:
            guard = "" if case.guard is None else f" if {ast.unparse(case.guard)}"
            marks.append(self._arm(f"case {ast.unparse(case.pattern)}{guard} of {subject}", case.pattern, case.body))
        self.generic_visit(node)
        for case, mark in zip(node.cases, marks, strict=True):
            case.body = [*mark, *case.body]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        mark = self._arm(f"except {'' if node.type is None else ast.unparse(node.type)}", node, node.body)
        self.generic_visit(node)
        node.body = [*mark, *node.body]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        taken, instead = self._number(_if(node.test), node), self._number(_not(node.test), node)
        self.generic_visit(node)
        if taken is not None and instead is not None:
            node.body, node.orelse = self._marked(taken, node.body), self._marked(instead, node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        word = "and" if isinstance(node.op, ast.And) else "or"
        numbers = [self._number(f"{word} {ast.unparse(value)}", value) for value in node.values[1:]]
        self.generic_visit(node)
        for place, number in enumerate(numbers, 1):
            if number is not None:
                node.values[place] = self._marked(number, node.values[place])
        return node

    def _arm(self, name: str, node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
        """The mark for a body; none outside of functions and where the body says that it is impossible."""
        if not self._depth or (body and _is_impossible(body[0])):
            return []
        return [self._statement(name, node)]

    def _statement(self, name: str, node: ast.AST) -> ast.stmt:
        """`marks[number] = 1`"""
        number = self._number(name, node)
        assert number is not None
        target = ast.Subscript(value=ast.Name(MARKS, ast.Load()), slice=ast.Constant(number), ctx=ast.Store())
        return ast.copy_location(ast.Assign(targets=[target], value=ast.Constant(1)), node)

    def _marked(self, number: int, value: ast.expr) -> ast.expr:
        """`mark(number, 1) or value`"""
        call = ast.Call(func=ast.Name(MARK, ast.Load()), args=[ast.Constant(number), ast.Constant(1)], keywords=[])
        return ast.copy_location(ast.BoolOp(op=ast.Or(), values=[call, value]), value)

    def _number(self, name: str, node: ast.AST) -> int | None:
        """The number of a new branch; None outside of functions."""
        if not self._depth:
            return None
        full = f"{self._module}.{'.'.join(self._within)}: {name}"
        self._seen[full] += 1
        again = f" #{self._seen[full]}" if self._seen[full] > 1 else ""
        line: int = getattr(node, "lineno", 1)
        file = f"reference/{self._module.replace('.', '/')}.py"
        self.branches.append(Branch(name=full + again, file=file, line=line, code=self._lines[line - 1].strip()))
        return self._first + len(self.branches) - 1


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
