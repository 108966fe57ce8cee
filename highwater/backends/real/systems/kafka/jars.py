"""The jars of Apache Kafka: fetched by their Maven coordinates into a cache folder, and checked against their pins.

A release that is not on the tested list is pinned at its first fetch, file by file, beside its jars.

`get` needs `mvn`, configured as its user wants, and the network; afterwards neither is needed. A jar whose SHA-256 is not the
pinned one (a download that was cut off, another build) is named and never used.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from highwater.backends.real.systems.kafka.releases import (
    KRAFT,
    PINNED_BESIDE,
    TESTED,
    Pins,
    Release,
    artifacts_of,
    can_have_both,
    pins_of,
    release_named,
)
from highwater.backends.real.zookeeper.local import INSTALL_JAVA
from highwater.errors import HarnessError, UsageError

JAVA_MAJOR = 17  # with which the releases were tried
FETCH_S_MAX = 600.0
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_PIECE_BYTES = 1 << 20

Stamp = tuple[str, int, int]  # of a jar: its name, size and time of change in ns


class Build(Struct, frozen=True, kw_only=True):
    """The jars that a broker runs: the folder that has them, and the SHA-256 of each by its name, in the order of the class path.

    `stamps`: how jars of the user's own looked when they were read; none of those that are ours.
    """

    folder: Path
    files: dict[str, str]
    stamps: tuple[Stamp, ...] = ()


def cache_folder() -> Path:
    """Where fetched systems are kept: HIGHWATER_CACHE, else `highwater` in the user's cache folder."""
    folder = os.environ.get("HIGHWATER_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) if folder else Path(home) / "highwater"


def folder_of(release: Release) -> Path:
    """The folder of a release's jars, which may be missing."""
    return cache_folder() / "systems" / f"kafka-{release.jars}"


def fetched_beside() -> list[Release]:
    """The releases in the cache that are not on the tested list, oldest first; one that can have two modes twice."""
    folders = (cache_folder() / "systems").glob(f"kafka-*/{PINNED_BESIDE}")
    listed = {release.jars for release in TESTED}
    versions = {path.parent.name.removeprefix("kafka-") for path in folders} - listed
    releases = []
    for version in versions:
        with suppress(UsageError):  # a folder of another name, or of a release that an earlier version took
            releases.append(release_named(version))
    releases += [release_named(release.jars + KRAFT) for release in releases if can_have_both(release)]
    return sorted(releases, key=lambda release: (tuple(map(int, release.jars.split("."))), release.version))


def missing(release: Release) -> str | None:
    """What this machine lacks to run a release, in a sentence; None if nothing."""
    java = java_missing(release)
    if java is not None:
        return java
    folder = folder_of(release)
    pins = pins_of(release, folder)
    wrong = [] if pins is None else wrong_jars(folder, pins)
    if pins is not None and not wrong:
        return None
    if not folder.is_dir() or not wrong:
        return f"the jars of kafka {release.version} are not here: highwater systems get kafka:{release.version}"
    return f"{folder}: {wrong[0]}; fetch it again: highwater systems get kafka:{release.version}"


def java_missing(release: Release) -> str | None:
    """Why a release cannot run on the Java of this machine, in a sentence; None if it can."""
    java = java_major()
    if java == JAVA_MAJOR:
        return None
    present = "there is no java on the PATH" if java is None else f"the java on the PATH is version {java}"
    return f"kafka {release.version} needs Java {JAVA_MAJOR}, but {present}: {INSTALL_JAVA}"


def java_major() -> int | None:
    """The major version of the java on the PATH; None if there is none."""
    java = shutil.which("java")
    if java is None:
        return None
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    return None if version is None else int(version[1])


def wrong_jars(folder: Path, pins: Pins) -> list[str]:
    """What is wrong with the jars in this folder, in words: missing ones and those with another SHA-256; empty if nothing."""
    wrong = []
    for name, pinned in pins.jars.items():
        path = folder / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif sha256_of(path) != pinned:
            wrong.append(f"{name} is damaged ({path.stat().st_size} bytes, not the pinned SHA-256)")
    return wrong


def fetched(release: Release) -> Build:
    """The jars of a release that is here, in the order of its pins."""
    return Build(folder=folder_of(release), files=digests(release))


def digests(release: Release) -> dict[str, str]:
    """The SHA-256 of each jar of a release that is here, by the jar's name."""
    pins = pins_of(release, folder_of(release))
    assert pins is not None, "`missing` was asked first"
    return pins.jars


def get(release: Release) -> tuple[Path, bool]:
    """Fetch a release unless it is here; returns its folder and whether it was fetched.

    What was never pinned is pinned as it comes. UsageError without `mvn`; HarnessError if Maven cannot fetch the jars or one is
    not as pinned.
    """
    folder = folder_of(release)
    pins = pins_of(release, folder)
    if pins is not None and not wrong_jars(folder, pins):
        return folder, False
    maven = shutil.which("mvn")
    if maven is None:
        raise UsageError("fetching jars needs Maven, but there is no mvn on the PATH (Debian, Ubuntu: apt install maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
        fetched = Path(temporary) / "jars"
        artifacts = artifacts_of(release) if pins is None else pins.artifacts
        _fetch_with_maven(maven, Path(temporary), fetched, artifacts, release)
        if pins is None:
            pins = Pins(artifacts=artifacts, jars={path.name: sha256_of(path) for path in sorted(fetched.glob("*.jar"))})
        wrong = wrong_jars(fetched, pins)
        if wrong:
            raise HarnessError(f"fetching kafka {release.jars}: {wrong[0]}")
        (fetched / PINNED_BESIDE).write_bytes(msgspec.json.format(msgspec.json.encode(pins)))
        shutil.rmtree(folder, ignore_errors=True)
        fetched.rename(folder)
    return folder, True


def _fetch_with_maven(maven: str, work: Path, to: Path, artifacts: tuple[str, ...], release: Release) -> None:
    """Fetch the jars of a release with Maven. Raises HarnessError with Maven's first error."""
    (work / "pom.xml").write_text(_maven_project(artifacts))
    command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), _PLUGIN, "-DincludeScope=runtime", f"-DoutputDirectory={to}"]
    try:
        completed = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=FETCH_S_MAX, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"fetching kafka {release.jars}: Maven took longer than {FETCH_S_MAX:.0f} s") from None
    if completed.returncode:
        errors = [line for line in completed.stdout.splitlines() if "ERROR" in line]
        reason = re.sub(
            r"\x1b\[[0-9;]*m", "", errors[0] if errors else completed.stderr.strip() or f"exit code {completed.returncode}"
        )
        raise HarnessError(f"fetching kafka {release.jars}: Maven said: {reason}")


def _maven_project(artifacts: tuple[str, ...]) -> str:
    """A Maven project that depends on these artifacts."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        for group, name, version in (artifact.split(":") for artifact in artifacts)
    )
    head = "<modelVersion>4.0.0</modelVersion><groupId>highwater</groupId><artifactId>jars</artifactId><version>1</version>"
    return f"<project>{head}<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"


def sha256_of(path: Path) -> str:
    """The digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()
