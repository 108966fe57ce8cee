"""The build that performs a run: commit, uncommitted changes, versions. Read once, by the command line."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct

from highwater import __version__

_LIBRARIES = ("msgspec", "polars", "pyarrow")


class Build(Struct, frozen=True, kw_only=True):
    """The build of the code. `commit` is empty if the code is not in a git repository; `dirty` means uncommitted changes."""

    commit: str
    dirty: bool
    versions: dict[str, str]


def present_build() -> Build:
    """The build of the running code."""
    libraries = {library: version(library) for library in _LIBRARIES}
    versions = {"python": platform.python_version(), "highwater": __version__, **libraries}
    return Build(commit=_git("rev-parse", "HEAD"), dirty=bool(_git("status", "--porcelain")), versions=versions)


def _git(*arguments: str) -> str:
    """The output of git for the repository of this file; empty without git, a repository or a commit."""
    try:
        completed = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return completed.stdout.strip()
