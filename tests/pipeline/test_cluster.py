"""A standalone cluster whose executor and Python workers are killed while it works."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.local_spark import CONF, LocalSpark, local_spark
from pipeline.ledger import Ledger
from pipeline.session import missing
from pipeline.storage import storage_at
from tests.pipeline.deeds import attempts

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ITEMS = 20
PROJECT = Path(__file__).parents[2]
ENDS_WITHIN_S = 180


def _submit(cluster: LocalSpark, script: Path, *arguments: str) -> "subprocess.Popen[str]":
    conf = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    return subprocess.Popen(
        [str(cluster.submit), "--master", cluster.master, *conf, str(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def _wait_for(ledger: Ledger, rows: int, driver: "subprocess.Popen[str]") -> None:
    end_s = time.monotonic() + ENDS_WITHIN_S
    while len(ledger.keys()) < rows:
        assert driver.poll() is None
        assert time.monotonic() < end_s
        time.sleep(0.05)


def _wait_for_begin(trace: Path) -> None:
    """Wait until an item begins: it takes a second, so whoever does it is now busy."""
    before = set(trace.iterdir())
    end_s = time.monotonic() + ENDS_WITHIN_S
    while set(trace.iterdir()) == before:
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_work_on_a_cluster_survives_killed_processes(tmp_path: Path) -> None:
    """An executor and all Python workers are killed: every item has one row, and the user sees no stack trace."""
    lack = missing()
    if lack is not None:
        pytest.skip(lack)
    (tmp_path / "trace").mkdir()
    ledger = Ledger(storage_at(tmp_path / "ledger"))
    with local_spark() as cluster:
        driver = _submit(cluster, PROJECT / "tests" / "pipeline" / "driver.py", str(tmp_path), str(ITEMS))
        try:
            _wait_for(ledger, 3, driver)
            os.kill(cluster.executors()[0], signal.SIGKILL)
            _wait_for(ledger, 8, driver)
            _wait_for_begin(tmp_path / "trace")
            for worker in cluster.python_workers():
                os.kill(worker, signal.SIGKILL)
            printed, _ = driver.communicate(timeout=ENDS_WITHIN_S)
        finally:
            driver.kill()
    rows = list(ledger.rows())

    assert driver.returncode == 0, printed
    assert Counter(row.state for row in rows) == {"done": ITEMS}
    assert [row.key for row in rows] == [f"{number:02}" for number in range(ITEMS)]
    assert sum(attempts(tmp_path / "trace", row.key) for row in rows) > ITEMS
    assert [line for line in printed.splitlines() if line.startswith(("\tat ", "Traceback", "  File"))] == []
    assert (cluster.pids(), cluster.folder.exists()) == ([], False)
