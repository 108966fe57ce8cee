"""The sample of mutants: drawn once by a fixed seed, before any of them is run, and stored in mutation/register/drawn.yaml.

Each module of the protocol has a share by its number of candidate edits; within a module the operators take turns, and no two
mutants edit the same statement. The mutants beyond `SIZE` are a reserve: the first of them takes the place of a mutant that does
not serve at all (`gate.SERVES`), or whose code is gone: where a mutant showed that code is redundant, that code is deleted.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

from mutation.aims.change import changes
from mutation.aims.shortest import aimed
from mutation.edits import OPERATORS, Edit, applied, candidates
from mutation.rows import Row
from mutation.trees import ROOT

MODULES = ("log", "replica", "broker", "controller", "coordination", "client")
SIZE = 160
RESERVE = 40
SEED = "highwater mutation 1"


def draw(size: int = SIZE, reserve: int = RESERVE, seed: str = SEED) -> tuple[Row, ...]:
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


def _mutant(number: int, path: Path, source: bytes, edit: Edit) -> Row:
    aim = aimed(path.relative_to(ROOT).as_posix(), source.decode(), applied(source, edit).decode())
    return Row(id=f"M-{number:03}", text=edit.operator, edit=aim.words)


# --- where a mutant can be noticed ----------------------------------------------------------------------------------------------


def statement_at(source: bytes, offset: int) -> tuple[int, int] | None:
    """The first and last line of the innermost statement around a byte; of a statement with a body, the lines before the body.

    None outside of functions: such code runs when the module is imported. None, too, for a comment in the body of a function.
    """
    line = source.count(b"\n", 0, offset) + 1
    lines_found, in_function = None, False
    node: ast.AST | None = ast.parse(source)
    while node is not None:
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        in_function = in_function or is_function
        node = next((child for child in _blocks(node) if _first(child) <= line <= _last(child)), None)
        if node is None:
            return lines_found if in_function and not is_function else None
        lines_found = _heading(node)
        if line <= lines_found[1]:
            break
    return lines_found if in_function else None


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


def lines_of(row: Row, text: str) -> list[tuple[int, int]] | None:
    """The lines of the statements that a mutant edits: a run that executes none of them cannot tell it from the original.

    None if any run may.
    """
    spans = [statement_at(text.encode(), change.reach) for change in changes(row.aim, text)]
    known_spans = [lines for lines in spans if lines is not None]
    return known_spans if len(known_spans) == len(spans) else None
