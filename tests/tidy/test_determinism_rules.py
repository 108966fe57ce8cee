"""Finds code that could make two runs of one seed differ: order of sets, entropy, clocks, open matches."""

import ast
from collections.abc import Iterator

import pytest

from history.packages import PACKAGES
from tests.tidy.sources import Source, at, functions, sources

HARNESS = tuple(f"highwater/{folder}" for folder in ("plans", "rig", "backends/sim", "explore"))
SIMULATED = ("reference", "nemesis", "workloads", *HARNESS)
# Calls whose result does not depend on the order of their argument.
ORDERLESS = {"sorted", "any", "all", "sum", "min", "max", "len", "set", "frozenset"}
# Forms that turn an order into a result.
ORDERED_CALLS = {"list", "tuple", "enumerate", "iter", "next", "zip", "map", "filter"}
# `file:function` -> why the order cannot matter there.
UNORDERED: dict[str, str] = {}
# Matches over a part of a union on purpose: `file:function` -> why.
OPEN_MATCHES: dict[str, str] = {}
UNIONS = {
    "reference/messages.py": "AnyMessage",
    "reference/events.py": "AnyEvent",
    "reference/effects.py": "AnyEffect",
    "nemesis/faults.py": "AnyFault",
    "nemesis/targets.py": "AnyTarget",
}
ENTROPY_CALLS = {"hash", "id"}
ENTROPY_MODULES = {"random", "secrets", "uuid", "time", "datetime"}
# Names that read no clock: kio's schemas have durations among their defaults.
TIMELESS = {"timedelta"}


def _is_set(node: ast.expr, names: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Name(id=name):
            return name in names
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, names) or _is_set(right, names)
        case ast.Call(func=ast.Attribute(value=value, attr="union" | "intersection" | "difference" | "copy")):
            return _is_set(value, names)
        case _:
            return False


def _names_set(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Subscript(value=ast.Name(id=name)) | ast.Name(id=name):
            return name in {"set", "frozenset", "Set", "AbstractSet"}
        case _:
            return False


def _set_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    names = {a.arg for a in arguments if _names_set(a.annotation)}
    for node in ast.walk(function):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _names_set(annotation):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value, names):
                names.add(name)
            case _:
                pass
    return names


def _set_iterations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    names = _set_names(function)
    excused: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ORDERLESS:
            excused |= {id(a) for a in node.args if isinstance(a, ast.GeneratorExp | ast.ListComp)}
    for node in ast.walk(function):
        match node:
            case ast.For(iter=source) if _is_set(source, names):
                yield node
            case ast.GeneratorExp() | ast.ListComp() | ast.DictComp() if id(node) not in excused:
                if any(_is_set(g.iter, names) for g in node.generators):
                    yield node
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in ORDERED_CALLS:
                if any(_is_set(a, names) for a in arguments):
                    yield node
            case ast.Call(func=ast.Attribute(attr="join"), args=[argument]) if _is_set(argument, names):
                yield node
            case _:
                pass


def _iterations(source: Source) -> list[str]:
    return [
        f"{at(source, node)} in {function.name}"
        for function in functions(source)
        if f"{source.name}:{function.name}" not in UNORDERED
        for node in _set_iterations(function)
    ]


def test_simulated_code_never_iterates_over_a_set() -> None:
    assert [line for source in sources(*SIMULATED) for line in _iterations(source)] == []


@pytest.mark.parametrize(
    "body",
    [
        "for x in {1, 2}: pass",
        "a = set(b)\n    for x in a: pass",
        "return [x for x in b | {1}]",
        "return tuple(frozenset(b))",
        "return ','.join({str(x) for x in b})",
    ],
)
def test_rule_against_set_order_finds_ordered_uses(body: str) -> None:
    text = f"def f(b: set[int]) -> object:\n    {body}\n"

    assert _iterations(Source(name="x.py", text=text, tree=ast.parse(text))) != []


@pytest.mark.parametrize("body", ["return sorted(b)", "return any(x for x in b)", "return {x for x in b}", "return 1 in b"])
def test_rule_against_set_order_accepts_other_uses(body: str) -> None:
    text = f"def f(b: set[int]) -> object:\n    {body}\n"

    assert _iterations(Source(name="x.py", text=text, tree=ast.parse(text))) == []


def test_simulated_code_uses_no_entropy_and_no_clock() -> None:
    """Time and random draws are arguments; only a backend measures how long the machine took."""
    violations = []
    for source in sources(*SIMULATED, "checkers"):
        if source.name.endswith("/backend.py"):
            continue
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in ENTROPY_CALLS:
                    violations.append(f"{at(source, node)} {name}()")
                case ast.Import(names=names) if {n.name.split(".")[0] for n in names} & ENTROPY_MODULES:
                    violations.append(f"{at(source, node)} import")
                case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in ENTROPY_MODULES:
                    if {n.name for n in names} - TIMELESS:
                        violations.append(f"{at(source, node)} from {module}")
                case _:
                    pass

    assert violations == []


def test_probabilities_are_ratios_of_integers() -> None:
    """`ratio(3, 100)`, never 0.03: with a float a digest would depend on a machine's rounding."""
    violations = [
        at(source, node)
        for source in sources(*SIMULATED)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("ratio", "below", "between")
        for a in node.args
        if isinstance(a, ast.Constant) and isinstance(a.value, float)
    ]

    assert violations == []


def _union_members() -> set[str]:
    members: set[str] = set()
    for source in sources("reference", "nemesis"):
        aliases = {
            target.id: {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            for node in source.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        found = aliases.get(UNIONS.get(source.name, ""), set())
        while source.name == "nemesis/faults.py" and found & aliases.keys():  # the union of its families
            found = (found - aliases.keys()).union(*(aliases[name] for name in found & aliases.keys()))
        members |= found
    return members


def _is_closed(node: ast.Match) -> bool:
    """True if the last case catches the rest and fails: by `assert_never` for mypy, or at run time for a part of a union."""
    last = node.cases[-1]
    called = {n.func.id for n in ast.walk(last) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    return isinstance(last.pattern, ast.MatchAs) and bool(called & {"assert_never", "AssertionError"})


def test_match_statements_cover_every_class_of_a_union() -> None:
    """A new message, event, effect, fault or target must break the build wherever it is dispatched."""
    members = _union_members()
    assert len(members) > 40
    open_matches = []
    for source in sources(*PACKAGES):
        for function in functions(source):
            for node in ast.walk(function):
                if not isinstance(node, ast.Match) or f"{source.name}:{function.name}" in OPEN_MATCHES:
                    continue
                names_found = {n.cls.id for n in ast.walk(node) if isinstance(n, ast.MatchClass) and isinstance(n.cls, ast.Name)}
                if len(names_found & members) > 1 and not _is_closed(node):
                    open_matches.append(f"{at(source, node)} in {function.name}")

    assert open_matches == []
