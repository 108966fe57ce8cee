"""The script of docs/brokers.md: a cluster of processes that obeys commands on stdin."""

import subprocess
import sys
from pathlib import Path

import pytest

import highwater

pytestmark = pytest.mark.zookeeper

ROOT = Path(next(iter(highwater.__path__))).parent
COMMANDS = "controller\ncut b4 b1\ncut b4 b9\njoin b4 b1\n"


def test_cluster_by_hand_obeys_commands_and_cleans_up() -> None:
    """A reader of the page can repeat it: b1 is the controller, links are cut and joined, and the folder goes at the end."""
    script = ROOT / "docs" / "examples" / "cluster.py"
    completed = subprocess.run([sys.executable, script], input=COMMANDS, capture_output=True, text=True, timeout=240, check=False)
    zookeeper, brokers, data, _, controller, cut, wrong, joined = completed.stdout.splitlines()

    assert (completed.returncode, completed.stderr) == (0, "")
    assert zookeeper.startswith("zookeeper 127.0.0.1:")
    assert brokers.count(",") == 5
    assert controller == '{"version":1,"brokerid":1}'
    assert cut.startswith("b4>b1: nothing arrived")
    assert wrong.startswith("one of: controller | cut")
    assert joined.startswith("b4>b1: a packet arrived")
    assert not Path(data.split()[1]).exists()
