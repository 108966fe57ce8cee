"""The Java client as the client of a run: the program in `jvm`, compiled against the kafka-clients of any release of Kafka.

The client's jars are those of the release (`highwater systems get kafka:VERSION`). What is compiled is kept beside them.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import number_of, release_named
from highwater.errors import HarnessError, UsageError
from workloads.parameters import CommitsAfter
from workloads.registry import SHARE_GROUPS

NAME = "java"
COMMITS_AFTER: CommitsAfter = "next-poll"
FIRST = (2, 5)  # its producers commit with the generation of a group (KIP-447)
SHARES_SINCE = "4.2.0"  # the first release whose share consumer is stable (KIP-932)
_SOURCES = "jvm"  # the folder beside this module
_OF_SHARES = "shares"  # in that folder: what is compiled where the client has a share consumer
_COMPILE_S_MAX = 120.0


def release_of(version: str) -> str:
    """The release of Kafka whose client this is. UsageError if there is none that can be asked."""
    if not version:
        raise UsageError(f"client {NAME} needs a version, such as {NAME}:4.1.0")
    release = release_named(version)
    if tuple(map(int, release.jars.split(".")[:2])) < FIRST:
        raise UsageError(f"the Java client must be 2.5 or later, not {version}")
    return release.jars


def check(version: str) -> None:
    """Raise UsageError if there is no client of this version that can be asked."""
    release_of(version)


def lacks(version: str) -> tuple[str, ...]:
    """The workloads that the client of this version does not perform."""
    return () if _has_shares(version) else (SHARE_GROUPS,)


def _has_shares(version: str) -> bool:
    """Whether the Java client of this version has a share consumer that is stable."""
    return number_of(release_named(version)) >= number_of(release_named(SHARES_SINCE))


def missing(version: str) -> str | None:
    """What this machine lacks to run the Java client of this version, in a sentence; None if nothing."""
    lacked = jars.missing(release_named(release_of(version)))
    if lacked is None and shutil.which("javac") is None:
        lacked = "it is compiled here, and there is no javac on the PATH (Debian, Ubuntu: apt install default-jdk-headless)"
    return None if lacked is None else f"client {NAME}:{version}: {lacked}"


def command(version: str) -> list[str]:
    """The command line of the process that performs calls with this client. HarnessError if it cannot be compiled."""
    folder = jars.folder_of(release_named(release_of(version)))
    classes = _compile_worker(folder, shares=_has_shares(version))
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{classes}:{folder}/*", "Worker"]


def _compile_worker(folder: Path, *, shares: bool) -> Path:
    """The folder of the worker's classes for the jars of this folder; compiled unless they are there."""
    jvm = files(__package__).joinpath(_SOURCES)
    folders = (jvm, jvm.joinpath(_OF_SHARES)) if shares else (jvm,)
    found = (source for each in folders for source in each.iterdir() if source.name.endswith(".java"))
    sources = {source.name: source.read_bytes() for source in sorted(found, key=lambda source: source.name)}
    key = hashlib.sha256(b"".join(sources.values())).hexdigest()[:16]
    classes = jars.cache_folder() / "clients" / f"{folder.name}-{key}"
    if (classes / "Worker.class").exists():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{classes.name}-", dir=classes.parent) as temporary:
        for name, source in sources.items():
            (Path(temporary) / name).write_bytes(source)
        class_folder = Path(temporary) / "classes"
        line = ["javac", "-nowarn", "-d", str(class_folder), "-cp", f"{folder}/*", *(f"{temporary}/{name}" for name in sources)]
        try:
            completed = subprocess.run(line, capture_output=True, text=True, check=False, timeout=_COMPILE_S_MAX)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HarnessError(f"compiling the Java client: {error}") from error
        if completed.returncode:
            errors = [said for said in completed.stderr.splitlines() if re.search(r"\berror\b", said)]
            raise HarnessError(f"compiling the Java client: {(errors or ['javac failed'])[0]}")
        if not classes.exists():
            class_folder.rename(classes)
    return classes
