"""Copies of the tree in which code is broken on purpose; the tree itself is never edited."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_of_the_tree(to: Path) -> None:
    """Copy every file of the repository that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)


@contextmanager
def mutated(path: Path, text: str) -> Iterator[None]:
    """Give a module another text for a while."""
    before = path.read_text(encoding="utf-8")
    _write(path, text)
    try:
        yield
    finally:
        _write(path, before)


def _write(path: Path, text: str) -> None:
    """Write a module. Its bytecode goes: Python would believe it where size and second of the text are the same."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()
