"""Spark Connect on this machine: a driver that has no JVM does the same work."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.local_spark import connect_server
from highwater.errors import HarnessError
from pipeline.blocks import Blocks, block_name
from pipeline.errors import PipelineError
from pipeline.ledger import Ledger
from pipeline.session import missing, missing_to_connect, session
from pipeline.storage import storage_at
from pipeline.verification import verify
from tests.pipeline.campaigns import ORDER, write_campaign

ITEMS = 130
PROJECT = Path(__file__).parents[2]
ENDS_WITHIN_S = 300


def test_missing_client_of_connect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.session.find_spec", lambda name: None if name == "grpc" else object())

    words = r"^Spark Connect needs its client: .*pip install 'highwater-harness\[connect\]'$"
    with pytest.raises(PipelineError, match=words), session("sc://127.0.0.1:1"):
        raise AssertionError("no session without grpc")


@pytest.mark.spark
@pytest.mark.slow
def test_work_on_spark_connect_is_complete(tmp_path: Path) -> None:
    """The server's executors do all kinds of work; what was stopped goes on."""
    lack = missing() or missing_to_connect()
    if lack is not None:
        pytest.skip(lack)
    (tmp_path / "trace").mkdir()
    (tmp_path / "stored").mkdir()
    write_campaign(tmp_path / "campaign")
    try:
        with connect_server() as address:
            script = PROJECT / "tests" / "pipeline" / "connected.py"
            environment = {**os.environ, "PYTHONPATH": str(PROJECT), "JAVA_HOME": "/nonexistent"}
            driver = subprocess.run(
                [sys.executable, str(script), address, str(tmp_path), str(ITEMS)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=ENDS_WITHIN_S,
                check=False,
            )
    except HarnessError as error:
        pytest.skip(f"no server of Spark Connect: {error}")

    assert driver.returncode == 0, driver.stderr[-2000:]
    assert (tmp_path / "stopped").exists()
    blocks = Blocks(storage_at(tmp_path / "series"))
    states = Counter(row.state for _, rows in blocks.whole(sorted(blocks.finished())) for row in rows)
    assert states == {"done": ITEMS}
    assert {path.name for path in (tmp_path / "stored").iterdir()} == {block_name(block) for block in blocks.finished()}
    assert (tmp_path / "told").read_text() == f"{ORDER.runs} new, 0 damages"
    assert verify(storage_at(tmp_path / "dataset")) == []
    assert Counter(row.state for row in Ledger(storage_at(tmp_path / "listed")).rows()) == {"done": ITEMS}
