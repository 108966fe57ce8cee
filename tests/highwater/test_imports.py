"""A tree with a file that cannot be imported, such as an edited `reference/`: one line, and not a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.cli.imports import failed_import
from highwater.exit_codes import ExitCode
from tests.tidy.sources import ROOT


def _broken(folder: Path, text: str, name: str = "reference/config.py") -> None:
    """A tree in which the package of this file is that of this repository, except for the file."""
    package, file = name.split("/")
    (folder / package).mkdir()
    for entry in (ROOT / package).iterdir():
        if entry.name not in (file, "__pycache__"):
            (folder / package / entry.name).symlink_to(entry)
    (folder / name).write_text(text)


def _highwater(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the `reference` of a folder."""
    variables = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-P", "-m", "highwater", *arguments]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\ndef f(:\n", "reference/config.py:2: SyntaxError: invalid syntax"),
        ("import os\nfrom os import nowhere\n", "reference/config.py:2: ImportError: cannot import name 'nowhere' from 'os'"),
        ("import reference.nowhere\n", "reference/config.py:1: ModuleNotFoundError: No module named 'reference.nowhere'"),
        ("\n\nX = y\n", "reference/config.py:3: NameError: name 'y' is not defined"),
        ("X = {}['y']\n", "reference/config.py:1: KeyError: 'y'"),
        ("raise RuntimeError('no config')\n", "reference/config.py:1: RuntimeError: no config"),
    ],
)
def test_broken_protocol_is_told_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    _broken(tmp_path, text)

    completed = _highwater(tmp_path, "protocols")

    assert completed.stderr.startswith(f"highwater: {line}")
    assert (completed.returncode, completed.stdout, completed.stderr.count("\n")) == (ExitCode.USAGE, "", 1)


def test_broken_file_that_every_command_needs_is_told(tmp_path: Path) -> None:
    """The command line itself cannot be imported then."""
    _broken(tmp_path, "def f(:\n", "history/errors.py")

    completed = _highwater(tmp_path, "protocols")

    assert completed.stderr == "highwater: history/errors.py:1: SyntaxError: invalid syntax\n"
    assert (completed.returncode, completed.stdout) == (ExitCode.USAGE, "")


def test_broken_protocol_is_told_as_json_too(tmp_path: Path) -> None:
    _broken(tmp_path, "X = y\n")

    completed = _highwater(tmp_path, "run", "--seed", "1", "--json")

    line = "reference/config.py:1: NameError: name 'y' is not defined"
    assert json.loads(completed.stdout) == {"error": line, "exit": ExitCode.USAGE}


def test_error_of_a_running_command_is_no_failed_import() -> None:
    """It is a bug of the harness, whose traceback is needed."""
    with pytest.raises(AttributeError) as raised:
        failed_import(1)  # type: ignore[arg-type]

    assert failed_import(raised.value) is None
