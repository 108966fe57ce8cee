"""The imports between folders: the drawing in docs/ARCHITECTURE.md, and the search for import circles.

An *entry* is a file or folder directly inside one of LEVELS. `python -m tests.tidy.import_graph --rewrite` rewrites it.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import grimp
import rustworkx as rx

from history.packages import PACKAGES
from tests.tidy.sources import OUTSIDE, ROOT, sources

DOCUMENT = ROOT / "docs" / "ARCHITECTURE.md"
MARKER = "<!-- generated: python -m tests.tidy.import_graph --rewrite -->\n"
# Folders whose entries must not import each other in a circle; "" is the top of the repository.
LEVELS = ("", "checkers", "highwater", "reference", "server")
Imports = Mapping[str, frozenset[str]]


def entries(level: str) -> Imports:
    """Each entry of a level -> the entries of the same level that it imports."""
    graph = grimp.build_graph(*PACKAGES, *OUTSIDE, cache_dir=None)
    inside = f"{level}." if level else ""
    found: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        if not module.startswith(inside) or module == level:
            continue
        entry = _entry(module, inside)
        found[entry] |= {
            _entry(imported, inside)
            for imported in graph.find_modules_directly_imported_by(module)
            if imported.startswith(inside) and imported != level
        }
    return {entry: frozenset(found[entry] - {entry}) for entry in sorted(found)}


def _entry(module: str, inside: str) -> str:
    return module.removeprefix(inside).split(".")[0]


def circles(imports: Imports) -> list[list[str]]:
    """Groups of entries each of which imports all others of its group, directly or through others."""
    graph, _ = _as_graph(imports)
    return sorted(sorted(graph[node] for node in group) for group in rx.strongly_connected_components(graph) if len(group) > 1)


def _as_graph(imports: Imports) -> tuple["rx.PyDiGraph[str, None]", dict[str, int]]:
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    index = {entry: graph.add_node(entry) for entry in imports}
    graph.add_edges_from([(index[entry], index[imported], None) for entry in imports for imported in sorted(imports[entry])])
    return graph, index


def drawing() -> str:
    """All levels: a Mermaid diagram without the arrows that follow from others, and a row for each entry."""
    return "\n".join(_level(level, entries(level)) for level in LEVELS)


def _level(level: str, imports: Imports) -> str:
    graph, _ = _as_graph(imports)
    reduced, new_index = rx.transitive_reduction(graph)
    names = {new: graph[old] for old, new in new_index.items()}
    arrows = sorted((names[a], names[b]) for a, b in reduced.edge_list())
    lines = [f"### {level + '/' if level else 'The repository'}", "", "```mermaid", "graph TD"]
    lines += [f"    {a} --> {b}" for a, b in arrows]
    lines += ["```", "", "| entry | what lives there | imports |", "|---|---|---|"]
    for entry in _from_the_top(imports):
        lines.append(f"| `{_path(level, entry)}` | {_first_sentence(level, entry)} | {', '.join(sorted(imports[entry]))} |")
    return "\n".join(lines) + "\n"


def _from_the_top(imports: Imports) -> list[str]:
    """Entries in topological order: each one before the entries that it imports."""
    graph, _ = _as_graph(imports)
    return list(rx.lexicographical_topological_sort(graph, key=str))


def _path(level: str, entry: str) -> str:
    path = Path(level, entry)
    return f"{path.as_posix()}/" if (ROOT / path).is_dir() else f"{path.as_posix()}.py"


def _first_sentence(level: str, entry: str) -> str:
    path = Path(level, entry)
    name = f"{path.as_posix()}/__init__.py" if (ROOT / path).is_dir() else f"{path.as_posix()}.py"
    source = next(source for source in sources(path.parts[0]) if source.name == name)
    text = " ".join((ast.get_docstring(source.tree) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".") + "."


def document() -> str:
    """docs/ARCHITECTURE.md with an up-to-date drawing."""
    head, _, _ = DOCUMENT.read_text(encoding="utf-8").partition(MARKER)
    return head + MARKER + "\n" + drawing()


def rewrite() -> None:
    """Write docs/ARCHITECTURE.md with an up-to-date drawing."""
    DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__" and "--rewrite" in sys.argv:
    rewrite()
