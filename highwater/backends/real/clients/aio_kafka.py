"""aiokafka as the client of a run: the program in `aio`, on any release of aiokafka that pip installs for this Python.

Each release has a folder of its own in the cache, beside the environment of highwater, whose packages the program does not see.
"""

import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from highwater.backends.real.systems.kafka import jars
from highwater.errors import HarnessError, UsageError
from workloads.parameters import CommitsAfter
from workloads.registry import SHARE_GROUPS

NAME = "aiokafka"
FIRST = (0, 10)  # needs no kafka-python
COMMITS_AFTER: CommitsAfter = "delivery"  # it commits where the application is, at any time
_PROGRAM = Path(__file__).parent / "aio"
_INSTALL_S_MAX = 300.0
# The program is a package that stands alone; its neighbours, which have names of other packages, are not to be found.
_START = """\
import importlib.util, sys
library, program = sys.argv[1:]
sys.path.insert(0, library)
spec = importlib.util.spec_from_file_location("aio", program + "/__init__.py", submodule_search_locations=[program])
sys.modules["aio"] = importlib.util.module_from_spec(spec)
from aio.worker import main
main()
"""


def check(version: str) -> None:
    """Raise UsageError if no release can have this version, or if it is too old."""
    if not version:
        raise UsageError(f"client {NAME} needs a version, such as {NAME}:0.12.0")
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.\d+(?:\.\d+)*", version)
    if numbers is None:
        raise UsageError(f"client {NAME}: a version is numbers, such as 0.12.0, not {version!r}")
    if (int(numbers[1]), int(numbers[2])) < FIRST:
        raise UsageError(f"{NAME} must be {'.'.join(map(str, FIRST))} or later, not {version}")


def lacks(version: str) -> tuple[str, ...]:
    """The workloads and memberships that the release does not perform: it knows neither KIP-429 nor KIP-848."""
    return (SHARE_GROUPS, "cooperative", "consumer")


def missing(version: str) -> str | None:
    """Why the release cannot run on this machine, in a sentence; None if it can. Installs it, unless it is in the cache."""
    folder = _folder_of(version)
    if folder.is_dir():
        return None
    try:
        distribution("pip")
    except PackageNotFoundError:
        return f"client {NAME}:{version} is installed with pip, which is not here: python -m ensurepip"
    reason = _install(version, folder)
    return None if reason is None else f"client {NAME}:{version} cannot be installed: {reason}"


def command(version: str) -> list[str]:
    """The command line of the process that performs calls with this release. HarnessError if it cannot be installed."""
    reason = missing(version)
    if reason is not None:
        raise HarnessError(reason)
    return command_for(_folder_of(version))


def command_for(folder: Path) -> list[str]:
    """The command line of the process, for a release that is installed in this folder."""
    return [sys.executable, "-I", "-S", "-c", _START, str(folder), str(_PROGRAM)]


def _folder_of(version: str) -> Path:
    """The folder of a release for this Python, whose compiled modules are of one Python alone."""
    return jars.cache_folder() / "clients" / f"{NAME}-{version}-{sys.implementation.cache_tag}"


def _install(version: str, folder: Path) -> str | None:
    """Install the release into the folder; what pip says if it cannot."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        target = Path(temporary) / "packages"
        options = ("--quiet", "--disable-pip-version-check", "--no-input", "--target", str(target))
        line = [sys.executable, "-m", "pip", "install", *options, f"{NAME}=={version}"]
        try:
            completed = subprocess.run(line, capture_output=True, text=True, check=False, timeout=_INSTALL_S_MAX)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if completed.returncode:
            errors = [said.removeprefix("ERROR: ") for said in completed.stderr.splitlines() if said.startswith("ERROR: ")]
            return (errors or ["pip failed"])[-1]
        if not folder.exists():
            target.rename(folder)
    return None
