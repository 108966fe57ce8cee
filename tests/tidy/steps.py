"""The tables of steps in docstrings of `reference`, and what its code assigns: for docs/protocol.md and test_steps.py.

A table begins with the line of `_HEAD` and ends with its paragraph; the columns stand where that line has them. A line whose
state is indented or empty continues the row above it. `by` are the functions that assign the step, with their module unless it is
this one. `new` and `gone` say that the step's struct is made and dropped, `any but …` means every other state.
"""

import ast
from collections.abc import Iterator
from enum import StrEnum
from importlib import import_module
from typing import NamedTuple

from reference.broker.broker import DirEvent, Registration
from reference.client.admin import CommandStep
from reference.controller.context import AdminStep, AgentStep, ChangeStep, ControllerStep, DirEventsStep, ListingStep, MoveStep
from reference.replica.partition import FollowerStep, IsrStep
from tests.tidy.sources import at, functions, sources

_INTRODUCTION = """\
From the docstrings of `reference`; tests compare them with the code.
A step is `new` where it begins and `gone` at its end; `by` names who makes the step.
"""
_HEAD = ("state", "event", "next", "effects", "by")
FOLDERS = ("reference/controller", "reference/broker", "reference/replica", "reference/client")
ATTRIBUTES = ("step", "registration", "dir_event")  # of structs, that hold one of these steps
MACHINES: dict[type[StrEnum], tuple[str, str]] = {
    ControllerStep: ("A broker becomes controller", "reference.controller.controller_election"),
    ChangeStep: ("Leader election of one partition", "reference.controller.leader_election"),
    ListingStep: ("The lists of brokers and of topics", "reference.controller.listings"),
    DirEventsStep: ("Notifications of failed log directories, in the controller", "reference.controller.log_dirs"),
    AdminStep: ("Requests of an administrator", "reference.controller.admin"),
    AgentStep: ("The reassignment agent", "reference.controller.reassign.reassignment"),
    MoveStep: ("The move of one partition", "reference.controller.reassign.move"),
    IsrStep: ("A leader's ISR change", "reference.replica.isr"),
    FollowerStep: ("A follower", "reference.replica.follower"),
    Registration: ("A broker registers and learns what it holds", "reference.broker.startup"),
    DirEvent: ("Notification of a failed log directory, by its broker", "reference.broker.log_dirs"),
    CommandStep: ("A command of an administrator, in the client", "reference.client.admin"),
}


class Row(NamedTuple):
    """A row of a table, with its cells as written and as read."""

    cells: tuple[str, ...]
    states: frozenset[str]
    next: frozenset[str]
    by: frozenset[str]


def rows(steps: type[StrEnum]) -> list[Row]:
    """The table of these steps."""
    module = MACHINES[steps][1]
    text = import_module(module).__doc__ or ""
    lines = text.splitlines()
    begin = next(at for at, line in enumerate(lines) if tuple(line.split()) == _HEAD)
    starts = [lines[begin].index(f"{name}") for name in _HEAD]
    found: list[list[str]] = []
    for line in lines[begin + 1 :]:
        if not line.strip():
            break
        cells = [line[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
        if cells[0].startswith(" "):
            found[-1] = [f"{old} {new.strip()}".strip() for old, new in zip(found[-1], cells, strict=True)]
        else:
            found.append([cell.strip() for cell in cells])
    return [_row_of(steps, module.rpartition(".")[2], tuple(cells)) for cells in found]


def _row_of(steps: type[StrEnum], module: str, cells: tuple[str, ...]) -> Row:
    state, _, then, _, by = cells
    names_found = frozenset(state.removeprefix("any but ").split(", "))
    states = {step.value for step in steps} - names_found if state.startswith("any") else names_found
    functions = frozenset(name if "." in name else f"{module}.{name}" for name in by.split(", "))
    return Row(cells, frozenset(states), frozenset(then.split(", ")), functions)


class Assigned(NamedTuple):
    """One assignment of a step: the function that makes it, as module.function, and the step; None if it is computed."""

    by: str
    step: StrEnum | None


def assigned() -> Iterator[Assigned]:
    """Every step that the code assigns, or gives to a struct that it makes."""
    for name, function in functions_by_name():
        for value in (value for node in ast.walk(function) for value in _values(node)):
            names_found: list[StrEnum | None] = [*_steps_named(value)]
            yield from (Assigned(name, step) for step in names_found or [None])


def functions_by_name() -> Iterator[tuple[str, ast.AST]]:
    """The functions and methods of the modules that have steps, as module.function."""
    for source in sources(*FOLDERS):
        module = source.name.removesuffix(".py").rpartition("/")[2]
        yield from ((f"{module}.{function.name}", function) for function in functions(source))


def _values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            yield from (value for target, value in zip(targets, values, strict=True) if _is_step(target))
        case ast.Assign(targets=targets, value=value) if any(map(_is_step, targets)):
            yield value
        case ast.keyword(arg="step", value=value):
            yield value


def _is_step(target: ast.AST) -> bool:
    return isinstance(target, ast.Attribute) and target.attr in ATTRIBUTES


def _steps_named(value: ast.expr) -> Iterator[StrEnum]:
    by_name = {steps.__name__: steps for steps in MACHINES}
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in by_name:
            yield by_name[node.value.id][node.attr]


def bare() -> list[str]:
    """The comparisons and cases of a step with a string, as file:line."""
    return [
        at(source, node) for source in sources(*FOLDERS) for node in ast.walk(source.tree) if any(map(_has_word, _compared(node)))
    ]


def _compared(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, comparators=others) if any(map(_is_step, (left, *others))):
            yield from (left, *others)
        case ast.Match(subject=subject, cases=cases) if _is_step(subject):
            yield from (case.pattern for case in cases)
        case ast.Call(func=ast.Attribute(value=value), args=words) if _is_step(value):
            yield from words


def _has_word(side: ast.AST) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(side))


def document() -> str:
    """The tables, for docs/protocol.md."""
    parts = [_INTRODUCTION]
    for steps, (title, module) in MACHINES.items():
        head = "".join(f"| {' | '.join(line)} |\n" for line in (_HEAD, ["---"] * len(_HEAD)))
        path = module.removeprefix("reference.").replace(".", "/")
        parts.append(f"### {title} (`{path}`)\n\n{head}" + "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows(steps)))
    return "\n".join(parts)


def _cells(row: Row) -> Iterator[str]:
    for name, cell in zip(_HEAD, row.cells, strict=True):
        yield ", ".join(f"`{part}`" for part in cell.split(", ")) if name == "by" else cell
