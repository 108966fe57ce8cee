"""Calls on worker processes."""

import signal
import subprocess
import sys

import pytest

FIRST_WORKER = """
from pipeline.local import call_on_processes
from tests.pipeline.deeds import blocked

print(*call_on_processes(blocked, ["item"], jobs=1, died=lambda *_: []))
"""


@pytest.mark.slow
def test_first_worker_blocks_the_signals_of_its_group() -> None:
    """It starts beside Python's resource tracker, which unblocks signals. A fresh interpreter: the tracker starts once."""
    completed = subprocess.run([sys.executable, "-c", FIRST_WORKER], capture_output=True, text=True, check=True)

    assert completed.stdout.strip() == str(sorted(map(int, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))))
