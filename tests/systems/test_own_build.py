"""A Kafka that its user has changed is run from its jars: a release loses nothing, and loses records with one mistake in it."""

import subprocess
import tarfile
from pathlib import Path

import pytest

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import release_named
from tests.systems.conftest import need
from tests.systems.test_kafka import EXAMPLES, last_run_with

VERSION = "3.9.1"  # with ZooKeeper: a last replica is elected, so that `kip101` shows the mistake
BROKER = f"kafka_2.13-{VERSION}.jar"
ASM = "java.base/jdk.internal.org.objectweb.asm=ALL-UNNAMED"
JAVA_S = 60

pytestmark = pytest.mark.slow


@pytest.fixture
def release() -> Path:
    """The folder with the jars of the release."""
    need(VERSION)
    return jars.folder_of(release_named(VERSION))


@pytest.fixture
def patched(release: Path, tmp_path: Path) -> Path:
    """The release with another jar of its broker, in which followers truncate to their high watermark."""
    folder = tmp_path / "truncates"
    folder.mkdir()
    for jar in release.glob("*.jar"):
        (folder / jar.name).symlink_to(jar)
    (folder / BROKER).unlink()
    program = ["java", "--add-exports", ASM, str(EXAMPLES / "TruncateToHw.java")]
    subprocess.run([*program, str(release / BROKER), str(folder / BROKER)], check=True, timeout=JAVA_S)
    return folder


@pytest.mark.systems
def test_build_that_truncates_to_the_hw_again_loses_records(patched: Path, tmp_path: Path) -> None:
    code, summary = last_run_with("kip101", "--system", "kafka", "--jars", str(patched), folder=tmp_path / "store", loses=True)

    assert (code, summary["verdict"], summary["system"]) == (10, "INVALID", f"kafka:{VERSION}-truncates")
    assert "lost-write" in {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems_all
def test_tarball_of_an_unchanged_release_keeps_all_records(release: Path, tmp_path: Path) -> None:
    archive = tmp_path / f"kafka_2.13-{VERSION}.tgz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for jar in release.glob("*.jar"):
            tar.add(jar, f"kafka_2.13-{VERSION}/libs/{jar.name}")

    code, summary = last_run_with("kip101", "--system", "kafka", "--jars", str(archive), folder=tmp_path / "store")

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)
