"""`make setup` tells what it does: it takes minutes, and a silent one looks hung."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT


def _stub(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_setup_announces_each_step_before_it(tmp_path: Path) -> None:
    """With stubs in the place of pip and Java."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "setup", tmp_path / ".ci")
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    _stub(tmp_path / ".venv" / "bin" / "python", '[ "$1" = -c ] || echo "python $1 $2 $3"')
    _stub(tmp_path / ".ci" / "java", "echo java")

    completed = subprocess.run(
        ["bash", str(tmp_path / ".ci" / "setup")],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )

    first, *rest = completed.stdout.splitlines()
    assert first.startswith(f"setup: Python {sys.version.split()[0]} ")
    packages = (ROOT / "constraints.txt").read_text().count("==")
    assert rest[0].startswith(f"setup: installing highwater and the {packages} packages that constraints.txt pins into .venv: ")
    assert rest[1:] == [
        "python -m pip install",
        "setup: looking for Java >= 17",
        "java",
        "setup: done; try: .venv/bin/highwater run --seed 1",
    ]
    assert (tmp_path / ".venv" / ".ready").is_file()
