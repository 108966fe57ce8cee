"""The protocol of another commit under this harness: `reference/` is taken from git, all else from this checkout.

It runs in a process of its own, because a process has one `reference`. `option` is the one of the command, for complaints.
"""

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.run_folder import temporary_folder

ROOT = Path(__file__).parents[2]
_PROBE = "import highwater.cli.main, highwater.backends.sim.backend"  # imports everything that a simulated run needs


class Revision(Struct, frozen=True, kw_only=True):
    """A commit of highwater, by a name that git knows, and in words for a reader."""

    name: str
    words: str


def accepted_before(snapshot: Path) -> Revision | None:
    """The last commit with another `reference` at which the behaviour was accepted; None if there is none, or no git.

    Uncommitted changes of the protocol are compared with the commit that is checked out, others with the last one that wrote the
    snapshot.
    """
    try:
        if _differs("HEAD"):
            return Revision(name="HEAD", words="HEAD")
        commit = _git("log", "-1", "--format=%H", "--", str(snapshot), what="git log").decode().strip()
        if commit and _differs(commit):
            return Revision(name=commit, words=f"{commit[:12]} (accepted last)")
    except UsageError:
        pass
    return None


def _differs(commit: str) -> bool:
    """Whether the present protocol is another one than that of a commit."""
    return bool(_git("diff", "--name-only", commit, "--", "reference", what="git diff"))


def commit_of(revision: str, *, option: str) -> str:
    """The full hash of a commit of highwater's repository. UsageError if there is none."""
    return _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", what=f"{option} {revision}").decode().strip()


@contextmanager
def protocol_of(revision: str, *, option: str, packages: Sequence[str] = ("reference",)) -> Iterator[Path]:
    """A temporary folder with the `reference` of a commit, or with other packages of it.

    UsageError if there is none, or it does not fit this harness.
    """
    what = f"{option} {revision}"
    commit = commit_of(revision, option=option)
    with temporary_folder("against") as folder:
        with zipfile.ZipFile(io.BytesIO(_archive(commit, *packages, what=what))) as files:
            files.extractall(folder)
        _run_python(folder, "-c", _PROBE, what=what)
        yield folder


def sources_at(revision: str, *, option: str) -> dict[str, str]:
    """The sources of the modules of `reference` at a commit, by their paths. UsageError if there is no such commit."""
    with zipfile.ZipFile(io.BytesIO(_archive(revision, "reference", what=f"{option} {revision}"))) as files:
        return {name: files.read(name).decode() for name in files.namelist() if name.endswith(".py")}


def _archive(revision: str, *packages: str, what: str) -> bytes:
    """Packages at a commit, as a zip file."""
    return _git("archive", "--format=zip", revision, *packages, what=what)


def environment(folder: Path | None) -> dict[str, str]:
    """The variable by which a process finds this harness, with the `reference` of a folder; None: with the present one."""
    return {"PYTHONPATH": os.pathsep.join(str(part) for part in (folder, ROOT) if part is not None)}


def highwater_on(folder: Path, *arguments: str, what: str) -> None:
    """Run a command of highwater with the `reference` of a folder. UsageError if it refuses its arguments or breaks."""
    _run_python(folder, "-m", "highwater", *arguments, what=what)


def _run_python(folder: Path, *arguments: str, what: str) -> None:
    """Run Python with the `reference` of a folder. UsageError, about the option `what`, if that does not fit this harness."""
    # -P keeps the working directory, which may be this checkout, from coming first.
    command = [sys.executable, "-P", *arguments]
    variables = {**os.environ, **environment(folder)}
    completed = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if completed.returncode == ExitCode.USAGE or "Traceback" in completed.stderr:
        last_line = completed.stderr.strip().splitlines()[-1]
        raise UsageError(f"{what}: its protocol does not fit this harness: {last_line.removeprefix('highwater: ')}")


def _git(*arguments: str, what: str) -> bytes:
    """The output of a git command. Raises UsageError if git is missing or refuses."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise UsageError(f"{what} needs git") from None
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or "no such revision"
        raise UsageError(f"{what}: {reason}") from None
