"""Where a run was made: commit, cleanliness of the tree, versions of what it stands on. Read once, by the command line."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

_PARTS = ("highwater", "msgspec", "polars", "pyarrow")


class Laboratory(Struct, frozen=True, kw_only=True):
    """`commit` is empty where the code does not lie in a git repository."""

    commit: str
    dirty: bool
    versions: dict[str, str]


def laboratory() -> Laboratory:
    """This place, now."""
    versions = {"python": platform.python_version(), **{part: version(part) for part in _PARTS}}
    return Laboratory(commit=_git("rev-parse", "HEAD"), dirty=bool(_git("status", "--porcelain")), versions=versions)


def _git(*arguments: str) -> str:
    """What git says of the repository around this file; empty where there is no git, no repository or no commit."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
