"""Identifies the code that a process runs: the driver and the executors of a Spark job must run the same.

Otherwise a verdict would depend on the machine that judged. A digest of highwater's files covers the commit, changes that are not
committed, and the wheel.
"""

import hashlib
import platform
import socket
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

from history.packages import PACKAGES
from pipeline.errors import PipelineError

_LIBRARIES = ("msgspec", "numpy", "polars", "pyarrow")
MISMATCH = "and driver differ"  # in the error's words
_ROOT = Path(__file__).parents[1]


class Stamp(Struct, frozen=True, kw_only=True):
    """What a process runs: `code` is a digest of highwater's files, equal for a checkout and for the wheel built from it."""

    code: str
    versions: dict[str, str]  # of Python and of the libraries that results depend on


@cache
def present_stamp() -> Stamp:
    """The stamp of this process. It takes some 50 ms, once."""
    versions = {"Python": platform.python_version(), **{library: _version_of(library) for library in _LIBRARIES}}
    return Stamp(code=_code_digest(_ROOT), versions=versions)


def _version_of(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "missing"


def _code_digest(root: Path) -> str:
    """A digest of the files of our packages."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and path.suffix != ".pyc" and not any(part.startswith(".") for part in name.parts):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name.as_posix()} {content}\n".encode())
    return digest.hexdigest()[:12]


def check_stamp(driver: Stamp) -> None:
    """Raise PipelineError if this process, an executor's, runs other code than the driver."""
    here = present_stamp()
    pairs = {"highwater's code": (driver.code, here.code)}
    pairs |= {name: (words, here.versions.get(name, "missing")) for name, words in driver.versions.items()}
    differences = [f"{name} {here} and {there}" for name, (there, here) in pairs.items() if there != here]
    if differences:
        raise PipelineError(f"executor on {socket.gethostname()} {MISMATCH}: {', '.join(differences)}; install the same on both")
