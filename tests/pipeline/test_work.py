"""Work: every item ends as one row, whatever its function and its workers do."""

import os
import signal
import threading
from pathlib import Path
from time import sleep

import msgspec
import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.items import ATTEMPTS_MAX, Item, Job
from pipeline.ledger import Ledger, Row
from pipeline.storage import storage_at
from pipeline.work import perform
from tests.pipeline.deeds import attempts, do_deed, item_of_deed

PLACES = [
    "here",
    pytest.param("processes", marks=pytest.mark.slow),
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark]),
]
# Places where an item has a worker process that may die.
APART = PLACES[1:]


class Bench:
    """A ledger and a folder of traces in a test's folder, and the place where work is done."""

    def __init__(self, folder: Path, place: str, request: pytest.FixtureRequest) -> None:
        self.trace = folder / "trace"
        self.trace.mkdir()
        self.ledger = Ledger(storage_at(folder / "ledger"))
        self._spark: SparkSession | None = request.getfixturevalue("spark") if place == "spark" else None
        self._jobs = 1 if place == "here" else 2

    def item(self, name: str, what: str = "count", *, times: int = 99) -> Item:
        """An item that leaves its traces here."""
        return item_of_deed(name, self.trace, what, times=times)

    def perform(self, *items: Item, deadline_s: float | None = None, per_task: int | None = None) -> list[Row]:
        """Do the items and return the rows that were seen, by key."""
        job = Job(function=do_deed, ledger=self.ledger.location, deadline_s=deadline_s, grace_s=1)
        seen_rows: list[Row] = []
        perform(items, job, spark=self._spark, jobs=self._jobs, on_row=seen_rows.append, per_task=per_task)
        return sorted(seen_rows, key=lambda row: row.key)


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    return Bench(tmp_path, request.param, request)


def _states(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.key, row.state) for row in rows]


@pytest.mark.parametrize("bench", PLACES, indirect=True)
def test_every_item_gets_one_row_with_its_result(bench: Bench) -> None:
    rows = bench.perform(*(bench.item(f"item-{n}") for n in range(9)), per_task=2)

    assert rows == list(bench.ledger.rows())
    assert [msgspec.json.decode(row.result) for row in rows] == [f"item-{n}" for n in range(9)]


@pytest.mark.parametrize("bench", PLACES, indirect=True)
def test_item_in_the_ledger_is_not_done_again(bench: Bench) -> None:
    bench.perform(bench.item("old"))

    seen_rows = bench.perform(bench.item("old"), bench.item("new"))

    assert _states(seen_rows) == [("new", "done")]
    assert attempts(bench.trace, "old") == 1


@pytest.mark.slow
@pytest.mark.parametrize("bench", PLACES, indirect=True)
def test_item_that_raises_or_hangs_ends_as_a_row(bench: Bench) -> None:
    good, hung, raising = bench.perform(
        bench.item("good"), bench.item("hung", "hang"), bench.item("raising", "raise"), deadline_s=1
    )

    assert _states([good, hung, raising]) == [("good", "done"), ("hung", "late"), ("raising", "failed")]
    assert (hung.words, raising.words) == ("not ready after 1 s", "ValueError: two lines")


@pytest.mark.slow
@pytest.mark.parametrize("bench", PLACES, indirect=True)
def test_deadline_is_raised_again_if_it_is_lost(bench: Bench) -> None:
    (hung,) = bench.perform(bench.item("hung", "hang twice"), deadline_s=1)

    assert _states([hung]) == [("hung", "late")]


@pytest.mark.parametrize("bench", APART, indirect=True)
def test_item_that_ignores_its_deadline_ends_as_late(bench: Bench) -> None:
    """A library without Python code does not see the alarm; the watchdog ends its worker."""
    rows = bench.perform(bench.item("good"), bench.item("hung", "hang in C"), deadline_s=1)

    assert _states(rows) == [("good", "done"), ("hung", "late")]
    assert attempts(bench.trace, "hung") == 1


@pytest.mark.parametrize("bench", APART, indirect=True)
def test_item_whose_worker_is_killed_is_done_again(bench: Bench) -> None:
    rows = bench.perform(bench.item("a"), bench.item("killed", "die", times=ATTEMPTS_MAX - 1), bench.item("z"))

    assert _states(rows) == [("a", "done"), ("killed", "done"), ("z", "done")]
    assert rows[1].attempt == ATTEMPTS_MAX


@pytest.mark.parametrize("bench", APART, indirect=True)
def test_item_that_always_kills_its_worker_ends_as_lost(bench: Bench) -> None:
    """Two such items, so that an aborted Spark job is followed by another one; the others in the task are not lost."""
    items = [bench.item(f"{n:02}", "die" if n in (3, 8) else "count") for n in range(12)]

    rows = bench.perform(*items, per_task=3)

    assert [row.key for row in rows if row.state == "lost"] == ["03", "08"]
    assert rows == list(bench.ledger.rows())
    assert len(rows) == 12
    assert rows[3].words.startswith("its worker process died")
    assert bench.ledger.marks() == {}


@pytest.mark.slow
@pytest.mark.parametrize("bench", PLACES, indirect=True)
def test_work_stops_when_the_watcher_raises(bench: Bench) -> None:
    class EnoughError(Exception):
        pass

    def stop(row: Row) -> None:
        raise EnoughError

    job = Job(function=do_deed, ledger=bench.ledger.location)
    items = [bench.item(f"{n:02}", "slow") for n in range(20)]
    with pytest.raises(EnoughError):
        perform(items, job, spark=bench._spark, jobs=bench._jobs, on_row=stop)

    kept = bench.ledger.keys()
    assert 1 <= len(kept) < 20
    assert {row.key for row in bench.perform(*items[:4])} == {"00", "01", "02", "03"} - kept


@pytest.mark.slow
def test_ctrl_c_stops_local_work_and_keeps_its_rows(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    bench = Bench(tmp_path, "processes", request)

    def interrupt() -> None:
        while not bench.ledger.keys():
            sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        bench.perform(*(bench.item(f"{n:02}", "slow") for n in range(60)))

    assert 1 <= len(bench.ledger.keys()) < 60


@pytest.mark.slow
@pytest.mark.spark
def test_work_that_spark_cannot_begin_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    """The ledger of another machine: no item can begin, so the work must not try for ever."""
    (tmp_path / "file").touch()
    job = Job(function=do_deed, ledger=str(tmp_path / "ledger"))
    (tmp_path / "ledger").mkdir()
    broken = Job(function=do_deed, ledger=str(tmp_path / "file" / "ledger"))
    with pytest.raises((PipelineError, OSError)) as failure:
        perform([item_of_deed("a", tmp_path)], broken, spark=spark)

    assert "\n" not in str(failure.value)
    assert Ledger(storage_at(job.ledger)).keys() == set()
