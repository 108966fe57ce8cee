"""franz-go as the client of a run: the program in `go`, compiled with any version of the library from 1.20 on.

The module comes from where the user's Go fetches modules, and is checked as Go does; go.sum has the hashes of the versions that
were tried. What is compiled is kept in the cache, by the sources, the version of the library and that of Go.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import msgspec

from highwater.backends.real.systems.kafka import jars
from highwater.errors import HarnessError, UsageError
from workloads.parameters import CommitsAfter
from workloads.registry import SHARE_GROUPS

NAME = "franz-go"
COMMITS_AFTER: CommitsAfter = "next-poll"
FIRST = (1, 20, 0)  # of an older one nobody tried whether the program compiles
COORDINATOR_ASSIGNS_SINCE = (1, 22, 0)  # before, groups of KIP-848 are a beta that a context opts into
_MODULE = "github.com/twmb/franz-go"
_SOURCES = "go"  # the folder beside this module
_TAG = "kgo122"  # of the sources that need COORDINATOR_ASSIGNS_SINCE
_PROGRAM = "clients"
_INSTALLED = Path("/usr/local/go/bin/go")  # where Go's own installer puts it
_INSTALL = "Debian, Ubuntu: apt install golang-go"
_ASK_S_MAX = 120.0
_COMPILE_S_MAX = 500.0  # Go fetches four modules and compiles them first; on a busy machine that takes minutes


class _Module(msgspec.Struct, rename="pascal"):
    """What `go list` says of the library, of which each field may be missing."""

    go_version: str = ""  # the least Go that it needs
    error: "_Error | None" = None


class _Error(msgspec.Struct, rename="pascal"):
    err: str = ""


class _Go(msgspec.Struct):
    """What `go env` says."""

    version: str = msgspec.field(name="GOVERSION", default="")
    toolchain: str = msgspec.field(name="GOTOOLCHAIN", default="")


def check(version: str) -> None:
    """Raise UsageError if there is no version that is written so, or it is too old."""
    if not version:
        raise UsageError(f"client {NAME} needs a version, such as {NAME}:1.22.3")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise UsageError(f"the version of {NAME} must be three numbers, such as 1.22.3, not {version!r}")
    if _numbers(version)[0] != FIRST[0] or _numbers(version) < FIRST:
        raise UsageError(f"{NAME} must be {'.'.join(map(str, FIRST))} or later, and below 2, not {version}")


def lacks(version: str) -> tuple[str, ...]:
    """The workloads and memberships that this version does not perform."""
    return (SHARE_GROUPS,) if _assigns(version) else (SHARE_GROUPS, "consumer")


def missing(version: str) -> str | None:
    """What this machine lacks to run this version, in a sentence; None if nothing. Asks for the module if it is not compiled."""
    go = _go()
    if go is None:
        return f"client {NAME}:{version}: it is compiled here, and there is no go on the PATH ({_INSTALL})"
    try:
        if _compiled(go, version).exists():
            return None
        line = ["list", "-mod=mod", "-m", "-json", "-e", f"{_MODULE}@v{version}"]
        module = msgspec.json.decode(_asked(go, *line), type=_Module)
        here = msgspec.json.decode(_asked(go, "env", "-json"), type=_Go)
    except HarnessError as error:
        return f"client {NAME}:{version}: {error}"
    if module.error is not None:
        return f"client {NAME}:{version}: Go does not find this version: {_line(module.error.err)}"
    if here.toolchain == "local" and _numbers(module.go_version) > _numbers(here.version):
        return f"client {NAME}:{version}: it needs Go {module.go_version} or later, and {go} is {here.version.removeprefix('go')}"
    return None


def command(version: str) -> Sequence[str]:
    """The command line of the process that performs calls with this version. HarnessError if it cannot be compiled."""
    go = _go()
    if go is None:
        raise HarnessError(f"compiling {NAME}: there is no go on the PATH")
    program = _compiled(go, version)
    if not program.exists():
        _compile(go, version, program)
    return [str(program)]


def _go() -> str | None:
    """The path of the Go command; None if there is none."""
    return shutil.which("go") or (str(_INSTALLED) if os.access(_INSTALLED, os.X_OK) else None)


def _assigns(version: str) -> bool:
    """Whether this version has groups whose coordinator assigns (KIP-848)."""
    return _numbers(version) >= COORDINATOR_ASSIGNS_SINCE


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, such as 1.22.3 or go1.26.8."""
    return tuple(map(int, re.findall(r"\d+", version)))[:3]


def _sources() -> dict[str, bytes]:
    """The program's files by name."""
    folder = files(__package__).joinpath(_SOURCES)
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith((".go", ".mod", ".sum")))
    return {name: folder.joinpath(name).read_bytes() for name in names}


def _compiled(go: str, version: str) -> Path:
    """The path of the compiled program, which may be missing. HarnessError if Go does not answer."""
    here = _asked(go, "env", "GOVERSION", "GOOS", "GOARCH")
    key = hashlib.sha256(b"".join([here, *_sources().values()])).hexdigest()[:16]
    return jars.cache_folder() / "clients" / f"{NAME}-{version}-{key}" / _PROGRAM


def _compile(go: str, version: str, program: Path) -> None:
    """Compile the program against this version, in a folder of its own. HarnessError if that fails."""
    folder = program.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        for name, source in _sources().items():
            (Path(temporary) / name).write_bytes(source)
        with (Path(temporary) / "go.mod").open("a") as module:
            module.write(f"\nrequire {_MODULE} v{version}\n")
        tags = ["-tags", _TAG] if _assigns(version) else []
        built = Path(temporary) / "built"
        # -mod=mod: the versions that the library itself requires are entered, whatever GOFLAGS says of go.mod.
        _run([go, "build", "-mod=mod", *tags, "-o", f"{built}/{_PROGRAM}", "."], folder=Path(temporary), seconds=_COMPILE_S_MAX)
        if not folder.exists():
            built.rename(folder)


def _asked(go: str, *arguments: str) -> bytes:
    """What Go prints for these arguments, outside of any module. HarnessError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        return _run([go, *arguments], folder=Path(folder), seconds=_ASK_S_MAX)


def _run(line: Sequence[str], *, folder: Path, seconds: float) -> bytes:
    """What a command prints. HarnessError, with the line that says why, if it fails or takes longer."""
    try:
        completed = subprocess.run(line, cwd=folder, capture_output=True, check=False, timeout=seconds)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessError(f"compiling {NAME}: {error}") from error
    if completed.returncode:
        raise HarnessError(f"compiling {NAME}: {_line(completed.stderr.decode(errors='replace'))}")
    return completed.stdout


def _line(said: str) -> str:
    """The first line of what Go says that gives a reason."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith(("go: downloading", "#"))]
    return lines[0] if lines else "go failed"
