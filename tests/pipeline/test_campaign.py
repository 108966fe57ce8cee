"""Whole campaigns whose workers and drivers are killed: the runs equal those of a campaign that nobody disturbed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from highwater.campaigns.campaign import Campaign, Limits, Watch
from highwater.campaigns.folder import CampaignFolder, CampaignOrder
from highwater.campaigns.order import Order
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs.provenance import Build
from highwater.runs.summary import Summary
from history.store import EVENTS, MANIFEST, OPERATIONS
from pipeline.storage import storage_at
from pipeline.work import perform

pytestmark = pytest.mark.slow

HERE = Build(commit="abc", dirty=False, versions={"python": "3"})
# Runs of two seconds: short, and `v3` fails in some of them.
ORDER = Order(first=0, last=3, protocols=("v3",), seconds=2)
PATIENCE_S = 300  # on a machine with more work than cores


def _new_campaign(store: Path) -> CampaignFolder:
    folder = CampaignFolder(storage_at(store), CampaignOrder(order=ORDER, build=HERE))
    folder.begin()
    return folder


def _perform(folder: CampaignFolder, *, jobs: int = 1, spark: SparkSession | None = None) -> Campaign:
    return folder.perform(partial(perform, jobs=jobs, spark=spark), Watch(Limits()), lambda runs, words: None, deadline_s=600)


def _runs(campaign: Campaign) -> list[Summary]:
    """The summaries without what differs when a run is repeated."""
    return [replace(summary, wall_seconds=0.0, cpu_seconds=0.0) for summary in campaign.summaries]


def _evidence(store: Path) -> dict[str, bytes]:
    """The files of all stored runs; manifests without the seconds by the clock."""
    names = (MANIFEST, OPERATIONS, EVENTS, "verdict.json", "report.html")
    files = [path for name in names for path in sorted(store.rglob(name))]
    return {str(path.relative_to(store)): re.sub(rb'"wall_seconds": [^,]+', b"", path.read_bytes()) for path in files}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Summary]]:
    """The store and the runs of the campaign `ORDER` in this process, without any interruption."""
    store = tmp_path_factory.mktemp("local")
    return store, _runs(_perform(_new_campaign(store)))


@contextmanager
def _killing(times: int) -> Iterator[None]:
    """Kill a worker below this process once a second, at least once."""
    killed: list[int] = []
    over = Event()

    def kill() -> None:
        while not over.wait(1) and len(killed) < times:
            with suppress(OSError):
                for pid in _python_workers(os.getpid())[-1:]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    thread = Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert killed


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in (task / "children").read_text().split()]


def _python_workers(pid: int) -> list[int]:
    """Local workers below a process, or Spark's Python workers, which are children of a daemon below a JVM."""
    found = []
    for child in _children(pid):
        with suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_text()
            parent = Path(f"/proc/{pid}/cmdline").read_text()
            is_worker = "spawn_main" in words or ("pyspark.daemon" in words and "pyspark.daemon" in parent)
            found += [child] if is_worker else _python_workers(child)
    return found


def test_killed_local_workers_lose_and_double_no_run(local: tuple[Path, list[Summary]], tmp_path: Path) -> None:
    folder = _new_campaign(tmp_path)
    with _killing(times=3):
        campaign = _perform(folder, jobs=2)

    assert _runs(campaign) == local[1]
    assert _evidence(tmp_path) == _evidence(local[0])
    assert not list(tmp_path.rglob(".aside"))


def test_killed_campaign_is_resumed_with_equal_runs(local: tuple[Path, list[Summary]], tmp_path: Path) -> None:
    """The driver is killed -9 after its second run, and what its workers left is done again."""
    arguments = [
        "campaign",
        "--seeds",
        "0..3",
        "--protocol",
        "v3",
        "--seconds",
        "2",
        "--jobs",
        "2",
        "--shrink",
        "0",
        "--store",
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "-m", "highwater", *arguments], env=environment, stdout=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + PATIENCE_S
        try:
            while len(list(tmp_path.rglob("ledger/*.json"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            driver.kill()
    finished = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("ledger/*.json")}

    assert run_command_line([*arguments, "--resume"]) == ExitCode.INVALID

    rows = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("ledger/*.json")}
    assert len(rows) == 4 > len(finished)
    assert finished.items() <= rows.items()
    (runs,) = tmp_path.rglob("runs.jsonl")
    second_result = [msgspec.json.decode(line, type=Summary) for line in runs.read_bytes().splitlines()]
    assert [replace(summary, wall_seconds=0.0, cpu_seconds=0.0) for summary in second_result] == local[1]
    assert _evidence(tmp_path).keys() == _evidence(local[0]).keys()
    assert not list(tmp_path.rglob(".aside"))


@pytest.mark.spark
def test_spark_campaign_with_a_killed_worker_equals_local(
    local: tuple[Path, list[Summary]], spark: SparkSession, tmp_path: Path
) -> None:
    folder = _new_campaign(tmp_path)
    with _killing(times=2):
        campaign = _perform(folder, spark=spark)

    assert _runs(campaign) == local[1]
    assert _evidence(tmp_path) == _evidence(local[0])


def test_campaign_in_an_object_store_equals_local(local: tuple[Path, list[Summary]], s3: str, tmp_path: Path) -> None:
    """The store is read from another folder, so no name in it may be a path of this machine."""
    storage = storage_at(s3)
    folder = CampaignFolder(storage, CampaignOrder(order=ORDER, build=HERE))
    folder.begin()

    campaign = _perform(folder, jobs=2)
    storage.fetch_folder("", tmp_path)

    assert _runs(campaign) == local[1]
    assert _evidence(tmp_path) == _evidence(local[0])
    assert folder.is_resumable()
    assert [b"/tmp" in (tmp_path / name).read_bytes() for name in storage.names() if name.endswith("json")].count(True) == 0
