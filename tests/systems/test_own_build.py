"""A Kafka that its user has changed is run from its jars: a release loses nothing, and loses records with one mistake in it."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import release_named
from tests.systems.conftest import EXAMPLES, KEPT, need, outcome
from tests.systems.test_kafka import last_run_with

VERSION = "3.9.1"
ASM = "java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
JAVA_S = 60

pytestmark = pytest.mark.slow


def folder_of(version: str) -> Path:
    """The folder with the jars of a release."""
    need(version)
    return jars.folder_of(release_named(version))


def patched(version: str, folder: Path) -> Path:
    """A release with another jar of its broker, in which followers truncate to their high watermark."""
    release = folder_of(version)
    broker = f"kafka_2.13-{version}.jar"
    folder.mkdir()
    for jar in release.glob("*.jar"):
        (folder / jar.name).symlink_to(jar)
    (folder / broker).unlink()
    program = ["java", "--add-exports", ASM, str(EXAMPLES / "TruncateToHw.java")]
    subprocess.run([*program, str(release / broker), str(folder / broker)], check=True, timeout=JAVA_S)
    return folder


@pytest.mark.parametrize(
    ("version", "plan", "mode"),
    [
        # With ZooKeeper the last replica is elected, with KRaft only while two controllers of three are up.
        pytest.param("3.9.1", "kip101", "", marks=pytest.mark.systems),
        pytest.param("4.1.0", "kip101-quorum", "", marks=pytest.mark.systems_all),
        pytest.param("4.1.0", "kip101", "kraft-apart3", marks=pytest.mark.systems_all),
    ],
)
def test_build_that_truncates_to_the_hw_again_loses_records(version: str, plan: str, mode: str, tmp_path: Path) -> None:
    folder = patched(version, tmp_path / "truncates")
    system = f"kafka:{mode}" if mode else "kafka"

    code, summary = last_run_with(plan, "--system", system, "--jars", str(folder), folder=tmp_path / "store", loses=True)

    called = "-".join(filter(None, (version, "truncates", mode)))
    assert (code, summary["verdict"], summary["system"]) == (10, "INVALID", f"kafka:{called}")
    assert "lost-write" in {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems_all
def test_tarball_of_an_unchanged_release_keeps_all_records(tmp_path: Path) -> None:
    archive = tmp_path / f"kafka_2.13-{VERSION}.tgz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for jar in folder_of(VERSION).glob("*.jar"):
            tar.add(jar, f"kafka_2.13-{VERSION}/libs/{jar.name}")

    code, summary = last_run_with("kip101", "--system", "kafka", "--jars", str(archive), folder=tmp_path / "store")

    assert outcome(code, summary) == KEPT
