"""Importing the wire leaves nothing behind: kio would import Hypothesis, which writes a folder where the node was started."""

import subprocess
import sys
from pathlib import Path

from tests.tidy.sources import ROOT

SCRIPT = "import sys, server.wire.replication; print('hypothesis' in sys.modules)"


def test_importing_the_wire_imports_no_hypothesis(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )

    assert (done.stdout, [*tmp_path.iterdir()]) == ("False\n", [])
