"""The course (docs/course): its commands print what the chapters show."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from history.packages import PACKAGES
from tests.shown import examples, is_shown
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.slow

_COURSE = ROOT / "docs" / "course"
_LAST = "8-your-own-change.md"
_CHAPTERS = sorted(path.name for path in _COURSE.glob("[1-8]-*.md"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the plans of this checkout, and nothing that a command may overwrite."""
    for name in ("corpus", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("chapter", [name for name in _CHAPTERS if name != _LAST])
def test_commands_of_a_chapter_print_what_it_shows(chapter: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = list(examples((_COURSE / chapter).read_text()))

    assert shown
    for command, output in shown:
        capsys.readouterr()
        run_command_line(shlex.split(command)[1:])
        printed = capsys.readouterr()
        assert printed.err == ""
        assert is_shown(output, printed.out), (command, printed.out)


def test_change_of_the_last_chapter_is_found_by_its_gate(place: Path) -> None:
    """In a copy of the code, because the chapter edits the protocol."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__"))
    commit = "git init -q && git add reference && git -c user.name=x -c user.email=x commit -q -m before"
    subprocess.run(commit, shell=True, cwd=place, check=True)
    environment = {**os.environ, "PYTHONPATH": str(place)}
    shown = list(examples((_COURSE / _LAST).read_text()))

    assert len(shown) == 4
    for command, output in shown:
        command_line = command.replace("highwater ", f"{sys.executable} -P -m highwater ", 1) if output else command
        completed = subprocess.run(
            command_line, shell=True, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
        assert completed.stderr == ""
        assert is_shown(output, completed.stdout), (command, completed.stdout)


def test_course_has_eight_chapters_in_its_list() -> None:
    listed = (_COURSE / "index.md").read_text()

    assert len(_CHAPTERS) == 8
    assert [name for name in _CHAPTERS if f"]({name})" not in listed] == []
