"""Which changed code of the protocol a run reaches: what no run of a gate reaches, the gate has not judged.

Two sources of a module are compared function by function, by their syntax: comments, docstrings and spaces do not count. Of a
changed function the branches are watched (`highwater.coverage.branches`). Constants, fields of classes, and modules outside of
its `PARTS`, such as `reference/node.py`, are not compared.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct

from highwater.coverage.branches import PARTS, Branch, is_excluded, marked
from highwater.errors import UsageError
from reference.config import VARIANTS

_SAFE = VARIANTS["safe"]
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class Changed(Struct, frozen=True, kw_only=True):
    """A function that was changed or is new, and its branches.

    `own` are those with a changed line, or a new condition, but for those that the switches of `safe` alone keep it from taking.
    """

    name: str  # replica.isr.maybe_shrink
    file: str  # reference/replica/isr.py
    line: int
    branches: frozenset[str]
    own: tuple[Branch, ...]

    @property
    def place(self) -> str:
        """Its name, and where it is."""
        return f"{self.name} ({self.file}:{self.line})"


def sources_under(folder: Path) -> dict[str, str]:
    """The sources of the modules with marks below a folder that holds `reference`, by their paths from there."""
    files = [file for part in PARTS for file in sorted((folder / "reference" / part).rglob("*.py"))]
    return {file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8") for file in files}


def changed_functions(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[Changed, ...]:
    """The functions that are other ones here than there, in the order of files and lines; sources by path."""
    return tuple(
        changed
        for file, source in sorted(here.items())
        if source != there.get(file)
        for changed in _changed_in(file, source, there.get(file, ""))
    )


def unreached(changed: Sequence[Changed], taken: Set[str]) -> tuple[str, ...]:
    """What no run reached, in lines: functions that were not called, and changed branches of others that were not taken.

    `taken` are the names of the branches that runs took.
    """
    not_called = [f"{function.place} was not called" for function in changed if not function.branches & taken]
    not_reached = [
        f"{function.place}: {branch.name.partition(': ')[2]} (line {branch.line}) was not reached"
        for function in changed
        if function.branches & taken
        for branch in function.own
        if branch.name not in taken
    ]
    return (*not_called, *not_reached)


def _changed_in(file: str, source: str, before: str) -> Iterator[Changed]:
    """The changed functions of one module: all, if the earlier source is no Python. UsageError if the present one is none."""
    module = file.removeprefix("reference/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    try:
        _, branches = marked(source, module=module, file=file, first=0)
    except SyntaxError as error:
        raise UsageError(f"{file}:{error.lineno}: {error.msg}") from None
    try:
        _, branches_before = marked(before, module=module, file=file, first=0)
    except SyntaxError:
        before, branches_before = "", []
    names_before = {branch.name for branch in branches_before}
    functions, functions_before = dict(_functions_in(source)), dict(_functions_in(before))
    lines = _changed_lines(before.splitlines(), source.splitlines())
    for name, node in functions.items():
        earlier = functions_before.get(name)
        if earlier is not None and _syntax(earlier) == _syntax(node):
            continue
        full = f"{module}.{name}"
        inside = [branch for branch in branches if f"{branch.function}.".startswith(f"{full}.")]
        own = [branch for branch in inside if branch.name not in names_before or lines & _own_lines(branch, inside)]
        own = [branch for branch in own if not is_excluded(branch, _SAFE)]
        yield Changed(
            name=full,
            file=file,
            line=node.lineno,
            branches=frozenset(branch.name for branch in inside),
            own=tuple(own),
        )


def _functions_in(source: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions and methods of a module by their dotted names; a function within a function is a part of that."""
    for node in ast.parse(source).body:
        if isinstance(node, _FUNCTIONS):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{part.name}", part) for part in node.body if isinstance(part, _FUNCTIONS))


def _syntax(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The syntax of a function without its docstring."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return " ".join(map(ast.dump, [node.args, *node.decorator_list, *body]))


def _changed_lines(before: Sequence[str], now: Sequence[str]) -> set[int]:
    """The numbers, from 1 on, of the lines that were changed or are new; where lines were deleted, of a line beside them."""
    numbers: set[int] = set()
    for tag, first_before, _, first, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            numbers.update(range(first + 1, end + 1))
        elif tag == "delete":
            neighbours = [number for number in (first, first + 1) if 1 <= number <= len(now)]
            beside = [number for number in neighbours if _indent(now[number - 1]) == _indent(before[first_before])]
            numbers.update(beside[:1] or neighbours[:1])
    return numbers


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _own_lines(branch: Branch, inside: Sequence[Branch]) -> set[int]:
    """The lines of a branch that belong to no other statements within it. Values share their lines with their statement."""
    lines = set(branch.lines)
    for other in inside:
        if not other.of_value and set(other.lines) < set(branch.lines):
            lines -= set(other.lines)
    return lines
