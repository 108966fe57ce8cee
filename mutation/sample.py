"""The sample of mutants: drawn once by a fixed seed, before any of them is run, and stored as text in mutation/sample.yaml.

Each module of the protocol has a share by its number of candidate edits; within a module the operators take turns, and no two
mutants edit the same statement. The mutants beyond `SIZE` are a reserve: the first of them takes the place of a mutant that does
not serve at all (`gate.SERVES`), or whose code is gone: where a mutant showed that code is redundant, that code is deleted.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

import yaml
from msgspec import Struct

from mutation.edits import OPERATORS, ROOT, Edit, applied, candidates
from nemesis.text import Document, TextError

HERE = Path(__file__).parent
SAMPLE = HERE / "sample.yaml"
BY_HAND = HERE / "by_hand.yaml"  # mistakes that people made up; no part of the score
MODULES = ("log", "replica", "broker", "controller", "coordination", "client")
SIZE = 160
RESERVE = 40
SEED = "highwater mutation 1"

_HEAD = """# Mutants of the protocol (mutation/sample.py), drawn by `python -m mutation --draw` before any of them was run.
# `line` is the line at that time, or after a later edit; a mutant applies wherever its file has the text `old` exactly once.
# `gone` says why the code of a mutant was redundant; it is deleted, and the next mutant of the reserve takes its place.
"""


class MutationError(Exception):
    """A mutant cannot be read or applied; the message is one line."""


class Mutant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One mutant: the text `old`, whole lines that occur once in `file`, becomes `new`."""

    id: str
    file: str
    line: int
    operator: str
    old: str
    new: str
    harm: str = ""  # what a user loses; of edits by hand
    gone: str = ""  # why the code that it edits was redundant: that code is deleted

    @property
    def module(self) -> str:
        """The module of the protocol that it edits, such as `controller`."""
        return self.file.split("/")[1]

    def applied_to(self, text: str) -> str:
        """The file's text with the edit. Raises MutationError unless `old` occurs exactly once."""
        if text.count(self.old) != 1:
            raise MutationError(f"{self.id}: the text that it replaces is in {self.file} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


def texts_with(mutants: Iterable[Mutant]) -> dict[str, str]:
    """The text of each edited file with the edits of all mutants. Raises MutationError where one edit hides another."""
    found: dict[str, str] = {}
    for mutant in mutants:
        text = found[mutant.file] if mutant.file in found else (ROOT / mutant.file).read_text(encoding="utf-8")
        found[mutant.file] = mutant.applied_to(text)
    return found


def load_sample(path: Path = SAMPLE) -> tuple[Mutant, ...]:
    """The stored mutants whose code is there, the reserve last. Raises MutationError as `load_drawn`."""
    return tuple(mutant for mutant in load_drawn(path) if not mutant.gone)


@cache
def load_drawn(path: Path = SAMPLE) -> tuple[Mutant, ...]:
    """The stored mutants, the reserve last. Raises MutationError with file and line if the file is malformed."""
    try:
        document = Document(path.read_text(encoding="utf-8"), path.name)
        return document.convert(tuple[Mutant, ...], document.value)
    except (OSError, TextError) as error:
        raise MutationError(str(error)) from error


def draw(size: int = SIZE, reserve: int = RESERVE, seed: str = SEED) -> tuple[Mutant, ...]:
    """Draw a sample and its reserve from the protocol's code as it is."""
    rng = Random(seed)
    files = {module: sorted((ROOT / "reference" / module).rglob("*.py")) for module in MODULES}
    texts = {path: path.read_bytes() for paths in files.values() for path in paths}
    edits = {module: [(path, edit) for path in paths for edit in candidates(texts[path])] for module, paths in files.items()}
    queues = {module: _in_turns(edits[module], texts, rng) for module in MODULES}
    drawn: list[tuple[Path, Edit]] = []
    for count in (size, reserve):
        shares = _shares({module: len(found) for module, found in edits.items()}, count)
        part = [next(queues[module]) for module, share in shares.items() for _ in range(share)]
        rng.shuffle(part)
        drawn += part
    return tuple(_mutant(number, path, texts[path], edit) for number, (path, edit) in enumerate(drawn, start=1))


def _in_turns(edits: Sequence[tuple[Path, Edit]], texts: Mapping[Path, bytes], rng: Random) -> Iterator[tuple[Path, Edit]]:
    """The edits of a module, its operators in turn, each operator's in a drawn order; at most one edit of each statement."""
    queues = {o: [row for row in edits if row[1].operator == o] for o in OPERATORS}
    for queue in queues.values():
        rng.shuffle(queue)
    used = set()
    while any(queues.values()):
        for queue in queues.values():
            while queue:
                path, edit = queue.pop()
                place = (path, statement_at(texts[path], edit.start))
                if place not in used:
                    used.add(place)
                    yield path, edit
                    break


def _shares(weights: Mapping[str, int], count: int) -> dict[str, int]:
    """Divide a count by weight; what rounding leaves goes to the largest remainders."""
    total = sum(weights.values())
    exact = {name: count * weight / total for name, weight in weights.items()}
    shares = {name: int(share) for name, share in exact.items()}
    for name in sorted(exact, key=lambda name: (shares[name] - exact[name], name))[: count - sum(shares.values())]:
        shares[name] += 1
    return shares


def _mutant(number: int, path: Path, source: bytes, edit: Edit) -> Mutant:
    """The edit as whole lines, with lines above it until they occur only once."""
    first = source.rfind(b"\n", 0, edit.start) + 1
    last = source.find(b"\n", edit.end) + 1
    while source.count(source[first:last]) > 1:
        first = source.rfind(b"\n", 0, first - 1) + 1
    result = applied(source, edit)
    return Mutant(
        id=f"M-{number:03}",
        file=path.relative_to(ROOT).as_posix(),
        line=source.count(b"\n", 0, edit.start) + 1,
        operator=edit.operator,
        old=source[first:last].decode(),
        new=result[first : last + len(result) - len(source)].decode(),
    )


# --- where a mutant can be noticed ----------------------------------------------------------------------------------------------


def statement_at(source: bytes, offset: int) -> tuple[int, int] | None:
    """The first and last line of the innermost statement around a byte; of a statement with a body, the lines before the body.

    None outside of functions: such code runs when the module is imported. None, too, for a comment in the body of a function: an
    edit that begins there goes on in another statement.
    """
    line = source.count(b"\n", 0, offset) + 1
    found, in_function = None, False
    node: ast.AST | None = ast.parse(source)
    while node is not None:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        in_function = in_function or is_function
        node = next((child for child in _blocks(node) if _first(child) <= line <= _last(child)), None)
        if node is None:
            return found if in_function and not is_function else None
        found = _heading(node)
        if line <= found[1]:
            break
    return found if in_function else None


def _blocks(node: ast.AST) -> list[ast.stmt | ast.match_case | ast.ExceptHandler]:
    children = [child for name in ("body", "orelse", "finalbody", "handlers", "cases") for child in getattr(node, name, ())]
    return [child for child in children if isinstance(child, ast.stmt | ast.match_case | ast.ExceptHandler)]


def _first(node: ast.stmt | ast.match_case | ast.ExceptHandler) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _last(node: ast.stmt | ast.match_case | ast.ExceptHandler) -> int:
    last = node.body[-1] if isinstance(node, ast.match_case) else node
    assert last.end_lineno is not None
    return last.end_lineno


def _heading(node: ast.stmt | ast.match_case | ast.ExceptHandler) -> tuple[int, int]:
    inner = _blocks(node)
    return (_first(node), max(_first(node), _first(inner[0]) - 1)) if inner else (_first(node), _last(node))


def lines_of(mutant: Mutant, text: str) -> tuple[int, int] | None:
    """The lines of the statement that a mutant edits: a run that executes none of them cannot tell it from the original.

    None if any run may.
    """
    mutated = mutant.applied_to(text)
    before, after = text.encode(), mutated.encode()
    offset = next(i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    return statement_at(before, offset)


# --- the file -----------------------------------------------------------------------------------------------------------------


class _Text(str):
    """A text that YAML shows as a block of lines."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


_Dumper.add_representer(_Text, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))


def store_sample(mutants: Sequence[Mutant], path: Path = SAMPLE) -> None:
    """Write a drawn sample to mutation/sample.yaml."""
    rows = [{**_plain(mutant), "old": _Text(mutant.old), "new": _Text(mutant.new)} for mutant in mutants]
    path.write_text(_HEAD + yaml.dump(rows, Dumper=_Dumper, sort_keys=False, width=10_000), encoding="utf-8")
    load_drawn.cache_clear()


def _plain(mutant: Mutant) -> dict[str, object]:
    return {name: getattr(mutant, name) for name in mutant.__struct_fields__}
