"""Where an edit belongs that does not fit any more: in a moved or renamed function, or at code that reads nearly the same."""

import ast
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from mutation.aims.aim import Aim, AimError, dotted, fragment
from mutation.aims.change import changes
from mutation.aims.match import spots
from mutation.aims.scope import NAMES, scope_of
from mutation.trees import ROOT

_NEAR = 0.6  # at least so much of two texts is the same
_PACKAGES = ("reference", "server", "nemesis", "workloads", "checkers", "highwater", "history", "pipeline", "reports")


class Proposal(Struct, frozen=True):
    """`how` an edit could fit again, and the edit that does; None if a reader must write it."""

    how: str
    aim: Aim | None = None


def reaimed(aim: Aim, root: Path = ROOT) -> Proposal | None:
    """Where an edit belongs now; None if it fits."""
    path = root / aim.file
    complaint = f"{aim.file} is gone"
    if path.is_file():
        try:
            changes(aim, path.read_text(encoding="utf-8"))
            return None
        except AimError as error:
            complaint = str(error)
    name = aim.scope.rpartition(".")[2]
    places_in_file = [place for place in _places(path, root) if place.scope != aim.scope] if path.is_file() else []
    elsewhere = [
        p for package in _PACKAGES for f in sorted((root / package).rglob("*.py")) if f != path for p in _places(f, root)
    ]
    moved = [place for place in elsewhere if place.scope == aim.scope] or [
        p for p in elsewhere if p.scope.endswith(name) and name
    ]
    for words, places in (("moved", moved), ("renamed", places_in_file), ("moved and renamed", elsewhere if not moved else [])):
        fits = [place for place in places if place.takes(aim)]
        if len(fits) == 1:
            return Proposal(f"{words}: {complaint}", replace(aim, at=fits[0].at))
    return _near(aim, path, complaint) or Proposal(f"nowhere: {complaint}")


class _Place(Struct, frozen=True):
    """A function of a file, or the code of a class or module outside of functions."""

    file: Path
    at: str
    scope: str

    def takes(self, aim: Aim) -> bool:
        """Whether the edit fits here."""
        try:
            changes(replace(aim, at=self.at), self.file.read_text(encoding="utf-8"))
        except AimError:
            return False
        return True


def _places(path: Path, root: Path) -> Iterator[_Place]:
    name = path.relative_to(root).as_posix()
    for scope in ("", *_scopes(ast.parse(path.read_text(encoding="utf-8")), "")):
        yield _Place(path, dotted(name, scope), scope)


def _scopes(node: ast.AST, prefix: str) -> Iterator[str]:
    """The names of functions, classes and methods below a node."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, NAMES):
            yield prefix + child.name
            if isinstance(child, ast.ClassDef):
                yield from _scopes(child, f"{prefix}{child.name}.")


def _near(aim: Aim, path: Path, complaint: str) -> Proposal | None:
    """The code of the same function that reads most like the old code, with the words of the new code changed in the same way."""
    try:
        scope = scope_of(ast.parse(path.read_text(encoding="utf-8")), aim.scope)
    except (OSError, AimError):
        return None
    old, _ = fragment(aim.old, aim.new)
    texts = {("\n" if isinstance(old[0], ast.stmt) else "").join(map(ast.unparse, spot)) for spot in spots(old, scope)}
    before = "\n".join(map(ast.unparse, old))
    nearest = max(texts, key=lambda text: (SequenceMatcher(None, before, text).ratio(), text), default="")
    if SequenceMatcher(None, before, nearest).ratio() < _NEAR:
        return None
    words, others = (re.findall(r"\w+|\W", text) for text in (before, nearest))
    same_length = [op for op in SequenceMatcher(None, words, others, autojunk=False).get_opcodes() if op[0] == "replace"]
    changed = {a: b for _, i, j, k, m in same_length if j - i == m - k for a, b in zip(words[i:j], others[k:m], strict=True)}
    new = "".join(changed.get(word, word) for word in re.findall(r"\w+|\W", aim.new))
    near = Aim(aim.at, nearest, new, aim.where)
    try:
        changes(near, path.read_text(encoding="utf-8"))
    except AimError:
        return Proposal(f"near `{' '.join(nearest.split())}`: {complaint}")
    return Proposal(f"near: {complaint}", near)
