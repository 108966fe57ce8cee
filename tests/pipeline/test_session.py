"""A machine without the requirements of Spark gets one sentence."""

from pathlib import Path

import pytest

from pipeline import session as module
from pipeline.errors import PipelineError
from pipeline.session import missing, session


def _java(folder: Path, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "java").chmod(0o755)


def test_missing_java_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or later: install it .*; no java was found$"), session():
        raise AssertionError("no session without Java")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("""echo 'openjdk version "11.0.2" 2019-01-15' >&2""", r"bin/java is Java 11$"),
        ("""echo 'java version "1.8.0_392"' >&2""", r"bin/java is Java 8$"),
        ("exit 1", r"bin/java does not report its version$"),
    ],
)
def test_old_or_broken_java_is_named(script: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(PipelineError, match=words), session():
        raise AssertionError("no session with this Java")


def test_current_java_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _java(tmp_path, """echo 'openjdk version "21" 2023-09-19' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert missing() is None


def test_missing_pyspark_is_reported_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)

    with pytest.raises(PipelineError, match=r"^Spark needs PySpark: .*pip install 'highwater\[spark\]'$"), session():
        raise AssertionError("no session without PySpark")


@pytest.mark.parametrize("master", ["", "locale", "local[many]", "local[2", "spark:", "http://host"])
def test_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(PipelineError, match="is not a Spark master"), session(master):
        raise AssertionError("no session with this master")
