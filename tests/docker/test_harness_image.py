"""The image of the harness (`make image`): it judges a file of the user's folder and writes its page there."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.images import HARNESS, build_harness
from tests.packaging.conftest import SAMPLE

pytestmark = pytest.mark.docker


def test_image_of_the_harness_judges_a_file_of_the_user(engine: Engine, tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("needs the command docker, as a user types it")
    build_harness(engine)
    shutil.copy(SAMPLE / "history.edn", tmp_path)
    mounted = ["-u", f"{os.getuid()}:{os.getgid()}", "-v", f"{tmp_path}:/data"]

    completed = subprocess.run(
        ["docker", "run", "--rm", *mounted, HARNESS, "check", "history.edn", "--report", "out.html"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (completed.returncode, completed.stderr) == (10, "")
    assert "INVALID: history.edn: 3 operations" in completed.stdout
    assert "<svg" in (tmp_path / "out.html").read_text()
