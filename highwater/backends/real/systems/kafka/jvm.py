"""The JVM of one node of Kafka: the files that it reads, the command that starts it, and what it says when it ends."""

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from highwater.backends.real.systems.kafka import settings
from highwater.backends.real.systems.kafka.releases import Release

# 2.0 and later log no level FATAL.
_FATAL = re.compile(r"\] FATAL |Fatal error|Exiting Kafka|Shutdown broker because|^Exception in thread|^Error: ")


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
