"""The project's Python files as text and trees, read once for all tidy tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from history.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ("proof", "bench", "mutation")  # in the repository, not in the wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One Python file; `name` is its path within the repository."""

    name: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def sources(*folders: str) -> tuple[Source, ...]:
    """All Python files under these folders of the repository, by name."""
    return tuple(source for source in _all() if source.name.startswith(tuple(f"{folder}/" for folder in folders)))


@cache
def _all() -> tuple[Source, ...]:
    paths = sorted(path for folder in (*PACKAGES, *OUTSIDE, "tests") for path in (ROOT / folder).rglob("*.py"))
    texts = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]
    return tuple(Source(name=name, text=text, tree=ast.parse(text, name)) for name, text in texts)


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def at(source: Source, node: ast.AST) -> str:
    """`file:line`, as editors understand it."""
    return f"{source.name}:{getattr(node, 'lineno', 1)}"
