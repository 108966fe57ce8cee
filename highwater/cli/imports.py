"""Which file of this tree cannot be imported, and why: a typing error in `reference/` breaks every command that needs it."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

from history.packages import PACKAGES


def failed_import(error: Exception) -> str | None:
    """Say in one line which file of this tree could not be imported, and where; None if the error has another origin."""
    folders = list(_folders())
    if isinstance(error, SyntaxError) and error.filename:
        place = (error.filename, error.lineno or 1)
        reason = error.msg
    else:
        frames = [(frame, line) for frame, line in walk_tb(error.__traceback__) if _is_below(frame.f_code.co_filename, folders)]
        if not any(frame.f_code.co_name == "<module>" and frame.f_globals["__name__"] != "__main__" for frame, _ in frames):
            return None
        place = (frames[-1][0].f_code.co_filename, frames[-1][1])
        reason = str(error)
    file, line = place
    return f"{os.path.relpath(file)}:{line}: {type(error).__name__}: {reason}" if _is_below(file, folders) else None


def _folders() -> Iterator[Path]:
    """The folders of the packages that Python finds; `reference` may be one of another tree."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None:
            yield from map(Path, spec.submodule_search_locations or ())


def _is_below(file: str, folders: list[Path]) -> bool:
    return any(Path(file).is_relative_to(folder) for folder in folders)
