"""What an aimed edit is, and how it is written: AT OLD => NEW where NAMES.

AT names a module, class, function or method with dots: `controller.leader_selection._among` of `reference`, or the whole name of
one in another package. OLD is an expression, or statements, or a `case`, that stands there once; NEW takes its place. Without NEW
the statements go. `...` in OLD stands for any expression, or any run of arguments, elements or statements; the first `...` of NEW
is the first of OLD, and so on. Syntax trees are compared, so layout and comments do not matter.

If OLD is not found as it is, its names that the function does not have are variables: each stands for one local name (of a
parameter, of a variable), and NEW gets the same ones. So an edit outlives new names of locals, new parameters, and changes beside
it. If NEW needs a local name that OLD does not have, NAMES are expressions of the function that tell it.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from textwrap import dedent, indent

from msgspec import Struct

from mutation.trees import ROOT

# Nodes that hold a name which a function may choose.
NAMED: dict[type[ast.AST], str] = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


class AimError(Exception):
    """An edit cannot be read, or does not fit the code; the message is one line."""


class Aim(Struct, frozen=True, order=True):
    """In `at`, `old` becomes `new`; `where` has the local names that only `new` has."""

    at: str
    old: str
    new: str
    where: str = ""

    @property
    def file(self) -> str:
        """The path of the module within the repository."""
        return place(self.at)[0]

    @property
    def scope(self) -> str:
        """The name of the class or function within its module; empty for the module itself."""
        return place(self.at)[1]

    @property
    def words(self) -> str:
        """The edit as it is written; `read` gives it back."""
        gap = "\n" if "\n" in self.old + self.new else " "
        scope_text = f"{gap}where {self.where}" if self.where else ""
        return f"{self.at}{gap}{self.old}{gap}=>{gap}{self.new}".rstrip() + scope_text


@cache
def read(words: str) -> Aim:
    """Read an edit. Raises AimError."""
    match = re.fullmatch(r"(\S+)\s+(.+?)\s+=>(?:\s+(.+?))??(?:\s+where (.+))?", words.strip(), re.DOTALL)
    if match is None:
        raise AimError(f"`{' '.join(words.split())}` is not of the form AT OLD => NEW")
    at, old, new, scope_text = match.groups(default="")
    fragment(old, new)
    return Aim(at, old, new, scope_text)


@cache
def place(at: str) -> tuple[str, str]:
    """The file of a dotted name, and the name within the file."""
    parts = at.split(".")
    for n in range(len(parts), 0, -1):
        for folder in ("reference/", ""):
            name = f"{folder}{'/'.join(parts[:n])}.py"
            if (ROOT / name).is_file():
                return name, ".".join(parts[n:])
    # A module that is gone. Only the last part is taken for a name in it, unless a class comes before.
    end = next((n for n, part in enumerate(parts) if part.lstrip("_")[:1].isupper()), max(len(parts) - 1, 1))
    return f"reference/{'/'.join(parts[:end])}.py", ".".join(parts[end:])


def dotted(file: str, scope: str) -> str:
    """The dotted name of what has this name in a file; `place` gives both back."""
    module = file.removeprefix("reference/").removesuffix(".py").replace("/", ".")
    return f"{module}.{scope}" if scope else module


@cache
def fragment(old: str, new: str) -> tuple[list[ast.AST], list[ast.AST]]:
    """Both sides as syntax trees: an expression each, or else statements or cases. Raises AimError if they are no Python."""
    try:
        if old.startswith("case "):
            return _cases(old), _cases(new)
        try:
            return [ast.parse(old, mode="eval").body], [ast.parse(new, mode="eval").body]
        except SyntaxError:
            return list(ast.parse(dedent(old)).body), list(ast.parse(dedent(new)).body)
    except SyntaxError as error:
        raise AimError(f"`{' '.join(old.split())} => {' '.join(new.split())}`: {error.msg}") from error


def _cases(text: str) -> list[ast.AST]:
    """The cases of a `match`, from their text."""
    if not text:
        return []
    (match,) = ast.parse(f"match _:\n{indent(dedent(text), '    ')}").body
    assert isinstance(match, ast.Match)
    return list(match.cases)


def is_any(node: ast.AST) -> bool:
    """Whether a node of a fragment is `...`."""
    inner = node.value if isinstance(node, ast.Expr) else node
    return isinstance(inner, ast.Constant) and inner.value is ...


def anys(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Each `...` in some trees, in the order of the text."""
    for node in nodes:
        if is_any(node):
            yield node
        else:
            yield from anys(*ast.iter_child_nodes(node))


def same(first: object, second: object) -> bool:
    """Whether two syntax trees, or lists of them, are equal."""
    if isinstance(first, ast.AST) and isinstance(second, ast.AST):
        return type(first) is type(second) and ast.dump(first) == ast.dump(second)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and first == second


def ends(first: Sequence[ast.AST], second: Sequence[ast.AST]) -> tuple[int, int]:
    """How many nodes are the same at the beginning and at the end."""
    shorter = min(len(first), len(second))
    head = next((n for n in range(shorter) if not same(first[n], second[n])), shorter)
    return head, next((n for n in range(shorter - head) if not same(first[-1 - n], second[-1 - n])), shorter - head)


def name_of(node: ast.AST) -> str:
    """The name that a node reads or gives to a local; empty if it does neither."""
    field = NAMED.get(type(node))
    return getattr(node, field) or "" if field else ""


def names_of(*nodes: ast.AST) -> frozenset[str]:
    """The names in these trees, without attributes and keywords."""
    return frozenset(map(name_of, _walk(*nodes))) - {""}


def bound_by(*nodes: ast.AST) -> frozenset[str]:
    """The names that these trees give to something."""
    giving = (node for node in _walk(*nodes) if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)))
    return frozenset(map(name_of, giving)) - {""}


def read_by(*nodes: ast.AST) -> frozenset[str]:
    """The names that these trees read and do not give."""
    return frozenset(node.id for node in _walk(*nodes) if isinstance(node, ast.Name)) - bound_by(*nodes)


def _walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    for node in nodes:
        yield from ast.walk(node)
