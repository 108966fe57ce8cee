"""A Kafka build of the user's own: a folder of jars, or a tarball as `./gradlew releaseTarGz` makes it.

The jars of a folder are read where they lie, so they must not change while brokers run; `is_unchanged` says whether they did.
Those of a tarball are unpacked into the cache once, below the tarball's digest. Either may have them in a folder `libs`.

The name of the broker's jar says the version, and its classes say how the build coordinates: with ZooKeeper where it can.
"""

import gzip
import hashlib
import lzma
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath

from highwater.backends.real.systems.kafka.jars import JAVA_MAJOR, Build, Stamp, cache_folder, sha256_of
from highwater.backends.real.systems.kafka.releases import Mode, Release, has_quorum, is_too_old, release_of
from highwater.errors import UsageError
from highwater.plans.systems import OwnJars, SystemSpec

LIBS = "libs"
JARS_BYTES_MAX = 4 << 30  # of one tarball; a release of Kafka has 130 MB
BUILDS_CACHED_MAX = 64  # digests that one process remembers
_GIVE = f"give a folder with the jars of a broker, such as {LIBS} of a release, or a tarball as ./gradlew releaseTarGz makes it"
_BROKER = re.compile(r"kafka_2\.\d+-(\d+\.\d+\.\d+(?:\.\d+)?)([A-Za-z0-9.-]*)\.jar")
_ASIDE = re.compile(r"-(test|test-sources|test-fixtures|src|sources|scaladoc|javadoc)\.jar$")  # kafka-run-class leaves them out
ARCHIVES = (".tgz", ".tar.gz", ".tar", ".tar.xz", ".tar.bz2")  # how the name of a tarball ends
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")  # what a name of a run may not have
_MODES: dict[Mode, str] = {"zookeeper": "kafka/server/KafkaServer.class", "kraft": "kafka/server/KafkaRaftServer.class"}
_MAIN = "kafka/Kafka.class"
_JAVA_1 = 44  # the major version of class files of Java 1


def digest_of(build: Build) -> str:
    """32 hex digits over the names and contents of all jars."""
    listed = "".join(f"{digest} {name}\n" for name, digest in build.files.items())
    return hashlib.blake2b(listed.encode(), digest_size=16).hexdigest()


def is_unchanged(build: Build) -> bool:
    """Whether the jars of a build look as they did when they were read."""
    return _stamps(build.folder) == build.stamps


def named(path: Path) -> OwnJars:
    """The build at this path, with its version and digest. UsageError if it is none that runs here."""
    build = build_at(path)
    number, rest = _version_of(build, path)
    return OwnJars(path=str(path), version=f"{number}{rest}-{_name_of(path)}", digest=digest_of(build))


def build_of(own: OwnJars) -> Build:
    """The build that a plan names. UsageError if there is none, or another one than the plan says."""
    build = build_at(Path(own.path))
    if own.digest and own.digest != digest_of(build):
        present = f"{own.path} has the digest {digest_of(build)}, and the plan was made for {own.digest}"
        raise UsageError(f"{present}: another build; --system kafka --jars {own.path} takes it as it is")
    return build


def build_at(path: Path) -> Build:
    """Read the jars at this path, and unpack them first if it is a tarball. UsageError if it has no jars that can be read."""
    if path.is_dir():
        folder = path if any(path.glob("*.jar")) else path / LIBS
    elif path.is_file():
        folder = _unpack(path)
    else:
        raise UsageError(f"{path}: no such folder or tarball of jars")
    folder = folder.resolve()
    if ":" in str(folder):
        raise UsageError(f"{folder}: a class path cannot have a folder with a colon in its name")
    stamps = _stamps(folder)
    if not stamps:
        raise UsageError(f"{path} has no jars; {_GIVE}")
    return _build_in(folder, stamps)


def release_in(build: Build, system: SystemSpec) -> Release:
    """The release that a build stands for, in the mode that the system asks for, else with ZooKeeper if the build can.

    UsageError if it cannot, or does not run on Java 17.
    """
    assert isinstance(system.jars, OwnJars)
    path = Path(system.jars.path)
    number, rest = _version_of(build, path)
    offered = _modes_of(build, path, number)
    if system.version not in ("", *_MODES):
        raise UsageError(
            f"--jars is a build of its own, so the system is kafka, kafka:zookeeper or kafka:kraft, not kafka:{system.version}"
        )
    mode = next((mode for mode in offered if system.version in ("", mode)), None)
    if mode is None:
        raise UsageError(f"{path} (kafka {number}) cannot run with {system.version or 'ZooKeeper or KRaft'}")
    name = system.jars.version or f"{number}{rest}-{_name_of(path)}"
    return release_of("-".join(filter(None, (name, system.version))), number, mode)


def _version_of(build: Build, path: Path) -> tuple[str, str]:
    """The number of the broker in a build, and what follows it, such as -SNAPSHOT."""
    found = [read for name in build.files if (read := _BROKER.fullmatch(name)) is not None]
    if not found:
        raise UsageError(f"{path} has {len(build.files)} jars, but no broker (kafka_2.13-VERSION.jar); {_GIVE}")
    if len(found) > 1:
        raise UsageError(f"{path} has more than one broker: {', '.join(read[0] for read in found)}")
    number = found[0][1]
    if is_too_old(number):
        raise UsageError(f"{path}: kafka {number} has no listeners with names, which came with 0.10.2 (KIP-103)")
    return number, found[0][2]


def _modes_of(build: Build, path: Path, number: str) -> list[Mode]:
    """How a build can coordinate. UsageError if its broker needs another Java."""
    name = next(name for name in build.files if _BROKER.fullmatch(name))
    with zipfile.ZipFile(build.folder / name) as jar:
        classes = set(jar.namelist())
        if _MAIN not in classes:
            raise UsageError(f"{path}: {name} has no class kafka.Kafka, which starts a broker")
        needed = int.from_bytes(jar.read(_MAIN)[6:8], "big") - _JAVA_1
    if needed > JAVA_MAJOR:
        raise UsageError(f"{path}: {name} was compiled for Java {needed}; brokers run on Java {JAVA_MAJOR} here")
    return [mode for mode, of in _MODES.items() if of in classes and (mode == "zookeeper" or has_quorum(number))]


def _name_of(path: Path) -> str:
    """The name of a build: that of its folder or tarball, as far as it may be part of the name of a run."""
    path = path.absolute()
    plain = (path.parent if path.name == LIBS else path).name
    for suffix in ARCHIVES:
        plain = plain.removesuffix(suffix)
    return _UNFIT.sub("-", plain)[:60] or "own"


def _stamps(folder: Path) -> tuple[Stamp, ...]:
    """How the jars of a class path look, by name."""
    jars = sorted(path for path in folder.glob("*.jar") if not _ASIDE.search(path.name))
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in jars)


@lru_cache(maxsize=BUILDS_CACHED_MAX)
def _build_in(folder: Path, stamps: tuple[Stamp, ...]) -> Build:
    """The build in this folder, whose jars look like this."""
    for name, _, _ in stamps:
        if not zipfile.is_zipfile(folder / name):
            raise UsageError(f"{folder / name} is no jar, or was cut off")
    return Build(folder=folder, files={name: sha256_of(folder / name) for name, _, _ in stamps}, stamps=stamps)


def _unpack(archive: Path) -> Path:
    """The folder in the cache with the jars of a tarball, which are unpacked unless they are there."""
    to = cache_folder() / "builds" / sha256_of(archive)
    if to.is_dir():
        return to
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=to.parent) as temporary:
        jars = Path(temporary) / "jars"
        jars.mkdir()
        try:
            with tarfile.open(archive) as tar:
                for member in _jars_in(tar, archive):
                    content = tar.extractfile(member)
                    assert content is not None, "only files are jars"
                    with (jars / PurePosixPath(member.name).name).open("xb") as file:
                        shutil.copyfileobj(content, file)
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, FileExistsError) as error:
            raise UsageError(f"{archive} is no tarball of jars that can be read: {error}") from error
        with suppress(OSError):  # another process was faster
            jars.rename(to)
    return to


def _jars_in(tar: tarfile.TarFile, archive: Path) -> Iterator[tarfile.TarInfo]:
    """The jars of a tarball: those in a folder `libs` if there is one at its top or one below, else those at its top."""
    members = tar.getmembers()
    for member in members:
        parts = PurePosixPath(member.name).parts
        if ".." in parts or member.name.startswith("/"):
            raise UsageError(f"{archive} has the member {member.name!r}, which lies outside of the tarball")
    files = [member for member in members if member.name.endswith(".jar")]
    below = [member for member in files if LIBS in PurePosixPath(member.name).parts[:-1]]
    chosen = below or files
    for member in chosen:
        if not member.isfile():
            raise UsageError(f"{archive} has the member {member.name!r}, which is no file")
    if sum(member.size for member in chosen) > JARS_BYTES_MAX:
        raise UsageError(f"{archive} has more than {JARS_BYTES_MAX >> 30} GB of jars")
    yield from chosen
