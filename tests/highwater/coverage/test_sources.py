"""Pages name the code that makes a row: each named function exists, and each kind of note has one."""

import ast
from pathlib import Path

import pytest

from highwater.catalogue.trace import stored
from highwater.coverage.sources import SOURCES

ROOT = Path(__file__).parents[3]


def functions_of(module: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_each_named_source_function_exists() -> None:
    for source in SOURCES.values():
        for function in source.functions:
            module, _, name = function.rpartition(".")
            assert name in functions_of(ROOT / f"{module}.py"), function


@pytest.mark.slow
def test_each_note_of_the_reference_has_a_source() -> None:
    """A new kind of note would have no code beside its rows."""
    noted: set[str] = set()
    for module in sorted((ROOT / "reference").rglob("*.py")):
        for call in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id != "Metric":
                kinds = [keyword.value for keyword in call.keywords if keyword.arg == "kind"]
                noted.update(str(kind.value) for kind in kinds if isinstance(kind, ast.Constant))
    named = {kind.partition(":")[0] for kind in SOURCES}
    assert noted >= {"append", "truncate", "fenced"}
    assert noted - named == set()


def test_statements_of_a_source_are_cited_by_its_module() -> None:
    """The trace is gathered anew from the code; a statement that moved elsewhere must leave the page."""
    code = stored().code
    for kind, source in SOURCES.items():
        modules = tuple(f"{function.rpartition('.')[0]}." for function in source.functions)
        for number in source.statements:
            assert any(place.startswith(modules) for place in code[f"R-{number:03d}"]), (kind, number)


def test_source_of_a_truncation_names_its_statement() -> None:
    assert SOURCES["truncate:to its high watermark"].words == f"R-{37:03d}, follower.become"
