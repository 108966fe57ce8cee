"""Fetched jars are used only if each is the pinned one; what is missing is named in one sentence."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from highwater.backends.real.systems.kafka import jars
from highwater.backends.real.systems.kafka.releases import TESTED, Pins, Release, artifacts_of, pins_of, release_named
from highwater.cli.main import run_command_line
from highwater.errors import HarnessError, UsageError
from tests.tidy.sources import ROOT

RELEASE = TESTED[0]
UNLISTED = release_named("3.7.0")
CONTENT = b"a jar"
PINS = Pins(artifacts=("g:a:1",), jars={"a.jar": hashlib.sha256(CONTENT).hexdigest()})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "pins_of", lambda release, folder: PINS)
    monkeypatch.setattr(jars, "java_major", lambda: jars.JAVA_MAJOR)
    return tmp_path / "cache"


def maven(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put an `mvn` on the PATH that does this."""
    folder.mkdir()
    program = folder / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


FETCHES = 'for a; do case $a in -DoutputDirectory=*) d=${a#*=};; esac; done; mkdir -p "$d"; printf "%s" "$JAR" > "$d/a.jar"'


def test_fetched_jars_are_complete_and_not_fetched_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven(tmp_path / "bin", monkeypatch, FETCHES)
    monkeypatch.setenv("JAR", CONTENT.decode())

    found = [jars.get(RELEASE), jars.get(RELEASE)]

    assert found == [(jars.folder_of(RELEASE), True), (jars.folder_of(RELEASE), False)]
    assert jars.missing(RELEASE) is None
    assert [path.name for path in (cache / "systems").iterdir()] == [f"kafka-{RELEASE.jars}"]


def test_jar_cut_in_half_is_refused_and_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven(tmp_path / "bin", monkeypatch, FETCHES)
    monkeypatch.setenv("JAR", "a j")

    with pytest.raises(HarnessError, match=r"a\.jar is damaged \(3 bytes, not the pinned SHA-256\)$"):
        jars.get(RELEASE)
    assert list((cache / "systems").iterdir()) == []


def test_jar_damaged_after_the_fetch_is_named_before_a_run(cache: Path) -> None:
    folder = jars.folder_of(RELEASE)
    folder.mkdir(parents=True)
    (folder / "a.jar").write_bytes(CONTENT[:2])

    message = jars.missing(RELEASE)

    assert message is not None
    assert message.endswith(f"fetch it again: highwater systems get kafka:{RELEASE.version}")
    assert "a.jar is damaged (2 bytes" in message


def test_run_with_a_damaged_jar_is_refused_in_one_line(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = jars.folder_of(RELEASE)
    folder.mkdir(parents=True)
    (folder / "a.jar").write_bytes(CONTENT[:2])
    plan = str(ROOT / "corpus" / "real" / "kip101.yaml")

    code = run_command_line(["run", "--plan", plan, "--system", f"kafka:{RELEASE.version}", "--store", str(tmp_path / "store")])

    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert "a.jar is damaged (2 bytes" in error
    assert not (tmp_path / "store").exists()


def test_release_off_the_list_is_pinned_as_it_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "java_major", lambda: jars.JAVA_MAJOR)
    maven(tmp_path / "bin", monkeypatch, FETCHES)
    monkeypatch.setenv("JAR", CONTENT.decode())
    folder = jars.folder_of(UNLISTED)

    assert "are not here: highwater systems get kafka:3.7.0" in str(jars.missing(UNLISTED))
    assert jars.get(UNLISTED) == (folder, True)
    assert (jars.missing(UNLISTED), jars.get(UNLISTED)) == (None, (folder, False))
    assert jars.digests(UNLISTED) == {"a.jar": hashlib.sha256(CONTENT).hexdigest()}
    for name in ("kafka-0.10.0.1", "kafka-mine"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "pins.json").write_text("{}")
    assert [release.version for release in jars.fetched_beside()] == ["3.7.0", "3.7.0-kraft"]
    assert run_command_line(["systems"]) == 0
    assert "fetched here, and pinned then" in capsys.readouterr().out

    (folder / "a.jar").write_bytes(b"another build")
    assert "a.jar is damaged (13 bytes, not the pinned SHA-256)" in str(jars.missing(UNLISTED))
    monkeypatch.setenv("JAR", "another build")
    with pytest.raises(HarnessError, match=r"a\.jar is damaged"):
        jars.get(UNLISTED)
    (folder / "pins.json").write_text("{")
    with pytest.raises(HarnessError, match="remove the folder, and fetch the release again"):
        jars.missing(UNLISTED)


@pytest.mark.parametrize(
    ("version", "mode", "artifacts"),
    [
        ("0.11.0.0", "zookeeper", "kafka_2.11:0.11.0.0 jaxb-api:2.3.1"),
        ("1.0.2", "zookeeper", "kafka_2.11:1.0.2 slf4j-reload4j:1.7.36"),
        ("2.2.2", "zookeeper", "kafka_2.11:2.2.2 zookeeper:3.4.10"),
        ("2.4.1", "zookeeper", "kafka_2.13:2.4.1 slf4j-reload4j:1.7.36"),
        ("3.7.0-kraft", "kraft", "kafka_2.13:3.7.0 slf4j-reload4j:1.7.36"),
        ("4.0.0", "kraft", "kafka_2.13:4.0.0 log4j-slf4j-impl:2.24.3"),
    ],
)
def test_what_a_release_needs_follows_from_its_version(version: str, mode: str, artifacts: str) -> None:
    release = release_named(version)

    assert (release.mode, " ".join(artifact.partition(":")[2] for artifact in artifacts_of(release))) == (mode, artifacts)


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("", "is no version of kafka, such as 3.7.0 or 3.7.0-kraft, or 4.1.0-apart3, with 1 to 9"),
        ("3.7", "is no version of kafka"),
        ("3.7.0-zookeeper", "is no version of kafka"),
        ("0.10.1.1", "has no listeners with names, which came with 0.10.2 (KIP-103)"),
        ("3.2.0-kraft", "has no KRaft for production, which came with 3.3 (KIP-833)"),
        ("4.1.0-kraft", "has KRaft alone: name it kafka:4.1.0"),
    ],
)
def test_release_that_cannot_run_is_refused_with_a_reason(version: str, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        release_named(version)


def test_offline_maven_ends_in_one_sentence(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven(tmp_path / "bin", monkeypatch, 'echo "[ERROR] Cannot access central in offline mode"; echo "[ERROR] more"; exit 1')

    with pytest.raises(HarnessError, match=r"Maven said: \[ERROR\] Cannot access central in offline mode$"):
        jars.get(RELEASE)


def test_missing_maven_is_named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match=r"no mvn on the PATH"):
        jars.get(RELEASE)


@pytest.mark.parametrize("major", [None, 21])
def test_other_java_is_named_as_what_is_missing(cache: Path, monkeypatch: pytest.MonkeyPatch, major: int | None) -> None:
    monkeypatch.setattr(jars, "java_major", lambda: major)

    message = jars.missing(RELEASE)

    assert message is not None
    assert message.startswith(f"kafka {RELEASE.version} needs Java 17, but ")


@pytest.mark.parametrize("release", TESTED, ids=lambda release: release.version)
def test_release_pins_its_own_broker_and_all_digests(release: Release) -> None:
    pins = pins_of(release, Path("/nowhere"))

    assert pins is not None
    assert pins.artifacts == artifacts_of(release)

    assert any(name.startswith("kafka_2.1") and name.endswith(f"-{release.jars}.jar") for name in pins.jars)
    assert all(len(digest) == 64 for digest in pins.jars.values())
    assert [artifact for artifact in pins.artifacts if len(artifact.split(":")) != 3] == []
