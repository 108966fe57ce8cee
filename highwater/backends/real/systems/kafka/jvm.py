"""The JVM of one node of Kafka: the files that it reads, the command that starts it, and what it says when it ends.

A node is a broker or a controller apart from the brokers; it may become another release in mid-run.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from highwater.backends.real.node.plain import ONE_DIR, PlainNode, Prepared, Shape
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.site import Probe, Proof
from highwater.backends.real.systems.kafka import builds, jars, settings
from highwater.backends.real.systems.kafka.releases import Release, protocol_of
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.rig.versions import Versions
from reference.types import Address

# 2.0 and later log no level FATAL.
_FATAL = re.compile(r"\] FATAL |Fatal error|Exiting Kafka|Shutdown broker because|^Exception in thread|^Error: ")

_SAYS = re.compile(r"\bKafka version ?: (\S+)")  # with a space up to 2.0


class Shared(Struct, frozen=True, kw_only=True):
    """What the nodes of a run share: its plan, its releases, and the jars of each by its version."""

    plan: Plan
    versions: Versions[Release]
    builds: Mapping[str, jars.Build]


class JvmNode(PlainNode):
    """One broker or controller through all its restarts, which may be of several releases."""

    def __init__(
        self,
        folder: Path,
        address: Address,
        runner: Runner,
        launch: Callable[[Prepared], Launch],
        shared: Shared,
        *,
        first: Release,
        shape: Shape = ONE_DIR,
    ) -> None:
        """`first` is what it is at its first start."""
        super().__init__(folder, address, runner, launch, shape=shape)
        self._plan = shared.plan
        self._versions = shared.versions
        self._release = first
        self._rolled = False
        self._builds = shared.builds
        self._jars = {version: runner.reads(build.folder) for version, build in shared.builds.items()}
        self._began: list[int] = []  # where the output of each life begins, in bytes

    async def start(self) -> Probe:
        """Start the process anew. After a roll the probe waits until its log says which release it is.

        HarnessError if the user's build is another one by now.
        """
        build = self._builds[self._release.version]
        if build.stamps and not builds.is_unchanged(build):
            raise HarnessError(f"the jars in {build.folder} were changed during the run")
        self._began.append(self._output.stat().st_size if self._output.exists() else 0)
        probe = await super().start()
        return self._probe_of_roll(probe, self._says_version) if self._rolled else probe

    def become(self, release: Release) -> None:
        """Run this release from the next start on."""
        self._release = release
        self._rolled = True

    def last_words(self) -> str:
        """The first line that says why the last process ended, of those in which its log names an error; else its last line."""
        return last_words(self._printed())

    def _command(self, prepared: Prepared, *formatted: str) -> tuple[str, ...]:
        """The command that starts this life's release. Its directories are formatted for the oldest release of the run."""
        level = ("--release-version", protocol_of(self._versions.oldest)) if self._versions.mixed else ()
        version = self._release.version
        class_path = [self._jars[version] / name for name in self._builds[version].files]
        return command(self._release, prepared.folder, class_path, formatted=(*level, *formatted))

    async def _says_version(self) -> Proof | None:
        """Whether the log says that it is its release; None if the log does not say which."""
        says = _SAYS.search(self._printed())
        if says is None:
            return None
        return Proof(re.match(rf"{re.escape(self._release.jars)}(?!\d)", says[1]) is not None, f"kafka {says[1]}")

    def _printed(self) -> str:
        """What the last process has printed so far."""
        begin = self._began[-1] if self._began else 0
        return self._output.read_bytes()[begin:].decode(errors="replace") if self._output.exists() else ""


def write_files(folder: Path, release: Release, *, hosts: str, settings_text: str) -> None:
    """Write the files that a node of this release reads from its folder."""
    files = {"hosts": hosts, "log4j.properties": settings.log4j(release.log4j), "server.properties": settings_text}
    for name, text in files.items():
        (folder / name).write_text(text)


def command(release: Release, folder: Path, class_path: Iterable[Path], *, formatted: Sequence[str] = ()) -> tuple[str, ...]:
    """The command that starts a node on the files of its folder; with KRaft its directories are formatted before, once.

    `formatted`: options of the format, for another metadata version than the release's own, and for voters that change.
    """
    virtual = java(release, folder, class_path)
    configuration = str(folder / "server.properties")
    start = (*virtual, "kafka.Kafka", configuration)
    if release.mode == "zookeeper":
        return start
    options = ("--ignore-formatted", "-t", settings.CLUSTER_ID, "-c", configuration, *formatted)
    tool = (*virtual, "kafka.tools.StorageTool", "format", *options)
    return ("sh", "-c", _once(tool, folder / "formatted", then=start))


def last_words(printed: str) -> str:
    """The first line that says why a process ended, of those in which its log names an error; else its last line."""
    lines = printed.strip().splitlines()
    for at, line in enumerate(lines):
        if _FATAL.search(line):
            caused = lines[at + 1] if at + 1 < len(lines) and not lines[at + 1].startswith(("[", "\t")) else ""
            return f"{line} {caused}".strip()
    return lines[-1] if lines else ""


def _once(first: Sequence[str], done: Path, *, then: Sequence[str]) -> str:
    """A shell script that performs a command, and before it `first`, unless an earlier process made the file `done`."""
    mark = shlex.quote(str(done))
    return f"[ -e {mark} ] || {{ {shlex.join(first)} && touch {mark}; }} && exec {shlex.join(then)}"


def java(release: Release, folder: Path, class_path: Iterable[Path]) -> tuple[str, ...]:
    """The command of a JVM with these jars of a release.

    `folder` has its hosts file and the configuration of its log. Times in the log are in UTC.
    """
    logging = f"-Dlog4j.configuration=file:{folder}/log4j.properties"
    if release.log4j == 2:
        logging = f"-Dlog4j2.configurationFile={folder}/log4j.properties"
    return (
        "java",
        f"-Xmx{release.heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djdk.net.hosts.file={folder}/hosts",
        f"-Djava.io.tmpdir={folder}",
        f"-Dkafka.logs.dir={folder}",
        "-Duser.timezone=UTC",
        logging,
        "-cp",
        os.pathsep.join(map(str, class_path)),
    )
