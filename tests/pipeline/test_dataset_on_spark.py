"""Ingest and verification by the workers of Spark: the same rows, refusals and damages as in this process."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from highwater.campaigns.records import CampaignRecords, entries_of_unit
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from pipeline import tasks
from pipeline.dataset import Entry, Ingested, Refused, committed, compact, ingest, parts_of
from pipeline.dataset_on_spark import Units, ingest_on_spark, verify_on_spark
from pipeline.errors import PipelineError
from pipeline.ledger import Row
from pipeline.owner import owned
from pipeline.storage import Storage, below, storage_at
from pipeline.tables import OF_A_RECORD
from pipeline.verification import verify
from tests.pipeline.campaigns import ORDER, put_row, spoil, write_campaign
from tests.pipeline.test_dataset import _ALL, _DAMAGES, _entries

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENDS_WITHIN_S = 300


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """The folder of a campaign of 180 runs, all finished."""
    write_campaign(tmp_path / "campaign")
    return tmp_path / "campaign"


def _here(campaign: Path, dataset: Path) -> Ingested:
    records = CampaignRecords(storage_at(campaign))
    return ingest(storage_at(dataset), "one", records.entries(records.keys))


def _on_spark(spark: SparkSession, campaign: Path, dataset: Path, ingest_name: str = "1") -> Ingested:
    records = CampaignRecords(storage_at(campaign))
    entries = partial(entries_of_unit, str(campaign), f"{dataset}-{ingest_name}")
    units = Units(count=-(-records.wanted // records.unit), runs=records.unit, entries=entries)
    assert units.count > 1
    return ingest_on_spark(spark, storage_at(dataset), "one", units)


def _taken_in(spark: SparkSession | None, campaign: Path, dataset: Path, ingest_name: str) -> Ingested:
    return _here(campaign, dataset) if spark is None else _on_spark(spark, campaign, dataset, ingest_name)


@pytest.fixture(params=["here", "on Spark"])
def on(request: pytest.FixtureRequest) -> SparkSession | None:
    """A session of Spark, or None for this process."""
    session: SparkSession | None = request.getfixturevalue("spark") if request.param == "on Spark" else None
    return session


def _rows(dataset: Path | str) -> dict[str, list[tuple[object, ...]]]:
    storage = storage_at(dataset)
    frames = {
        table: pl.concat([_file(storage.read(name), *name.split("/")[1:3]) for name in committed(storage, table)])
        for table in OF_A_RECORD
    }
    return {table: sorted(frame.rows(), key=str) for table, frame in frames.items()}


def _file(data: bytes, *folders: str) -> pl.DataFrame:
    """The rows of a file with the columns that are in the names of its folders."""
    return pl.read_parquet(data).with_columns(
        pl.lit(value).alias(name) for name, value in (folder.split("=") for folder in folders)
    )


def test_ingest_on_spark_takes_in_the_same_rows(campaign: Path, spark: SparkSession, tmp_path: Path) -> None:
    """Blocks, rows of their own, a run that met its deadline; what is damaged is refused with the same words."""
    refused_runs = spoil(campaign)
    here, there = tmp_path / "here", tmp_path / "there"
    ingested, told_by_spark = _here(campaign, here), _on_spark(spark, campaign, there)

    assert told_by_spark._replace(parts=0, words=()) == ingested._replace(parts=0, words=())
    assert sorted(told_by_spark.words) == sorted(ingested.words)
    assert (ingested.new, ingested.refused) == (ORDER.runs - refused_runs - 4, refused_runs)
    assert _rows(there) == _rows(here)
    assert verify(storage_at(there)) == []
    compact(storage_at(there))
    assert _rows(there) == _rows(here)


def test_ingest_on_spark_skips_what_is_there(campaign: Path, spark: SparkSession, tmp_path: Path) -> None:
    """Also what this process took in, and a compaction has joined."""
    dataset = tmp_path / "dataset"
    records = CampaignRecords(storage_at(campaign))
    for keys in (records.keys[10:30], records.keys[60:61]):
        ingest(storage_at(dataset), "one", records.entries(keys))
    compact(storage_at(dataset))

    assert _on_spark(spark, campaign, dataset)[:2] == (ORDER.runs - 21, 21)
    assert _on_spark(spark, campaign, dataset, "2")[:4] == (0, ORDER.runs, 0, 0)
    assert verify(storage_at(dataset)) == []
    _here(campaign, tmp_path / "here")
    assert _rows(dataset) == _rows(tmp_path / "here")


def test_lost_run_is_taken_in_when_it_was_done_again(campaign: Path, on: SparkSession | None, tmp_path: Path) -> None:
    """The environment failed: its row is no result, and must not stand in the way of the result."""
    put_row(campaign, 5, Row(key="", state="lost", attempt=4, seconds=0.0, words="its worker process died 4 times"))
    dataset = tmp_path / "dataset"
    first = _taken_in(on, campaign, dataset, "1")
    put_row(campaign, 5)
    second = _taken_in(on, campaign, dataset, "2")

    assert [ingested._replace(parts=0) for ingested in (first, second)] == [Ingested(ORDER.runs - 1), Ingested(1, ORDER.runs - 1)]
    assert pl.concat([pl.read_parquet(storage_at(dataset).path(n)) for n in committed(storage_at(dataset), "runs")])[
        "outcome"
    ].unique().to_list() == ["completed"]


def _failing_at(campaign: str, ingest_name: str, fails: int, unit: int) -> Iterator[Entry | Refused]:
    if unit == fails:
        raise PipelineError("the bucket is gone")
    return entries_of_unit(campaign, ingest_name, unit)


def test_ingest_that_ends_early_is_resumed(
    campaign: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "RESULTS_MAX", 1)
    dataset = tmp_path / "dataset"
    units = Units(count=2, runs=100, entries=partial(_failing_at, str(campaign), str(dataset), 1))
    with pytest.raises(PySparkException, match="the bucket is gone"):
        ingest_on_spark(spark, storage_at(dataset), "one", units)
    taken = sum(len(part.runs) for part in parts_of(storage_at(dataset)))

    assert 0 < taken < ORDER.runs
    assert verify(storage_at(dataset)) == []
    assert _on_spark(spark, campaign, dataset)[:2] == (ORDER.runs - taken, taken)
    assert verify(storage_at(dataset)) == []


def test_killed_ingest_on_spark_leaves_nothing_half_in(campaign: Path, tmp_path: Path) -> None:
    """Driver and workers are killed while files are written: nothing of them counts, and the same command does all."""
    dataset = tmp_path / "dataset"
    command = ["store", "ingest", str(campaign), "--dataset", str(dataset), "--campaign", "one", "--spark", "local[1]"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-m", "highwater", *command], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        end_s = time.monotonic() + ENDS_WITHIN_S
        while not list(dataset.glob("runs/**/*.parquet")):
            assert time.monotonic() < end_s
            assert driver.poll() is None
            time.sleep(0.002)
        driver.kill()
    storage = storage_at(dataset)
    assert {damage.words.partition(":")[0] for damage in verify(storage)} <= {"in no part"}
    before = sum(len(part.runs) for part in parts_of(storage))

    assert run_command_line(command) == ExitCode.VALID
    assert before < ORDER.runs
    assert verify(storage) == []
    _here(campaign, tmp_path / "here")
    assert _rows(dataset) == _rows(tmp_path / "here")


def _asked(*arguments: str) -> dict[str, Any]:
    """What a command on Spark prints as JSON, from a process of its own: workers have the environment of their JVM's start."""
    command = [sys.executable, "-m", "highwater", "store", *arguments, "--spark", "local[2]", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=ENDS_WITHIN_S)
    assert completed.stdout, completed.stderr
    summary: dict[str, Any] = msgspec.json.decode(completed.stdout)
    return summary


def test_ingest_on_spark_from_s3_into_s3(campaign: Path, s3: str, tmp_path: Path) -> None:
    """The workers read the campaign and write the parts on the server; a second ingest finds all runs there."""
    refused_runs = spoil(campaign)
    _here(campaign, tmp_path / "here")
    source, dataset = below(s3, "campaign"), below(s3, "dataset")
    storage_at(s3).put_folder(campaign, "campaign", last="request.json")

    summary, second_result = (_asked("ingest", source, "--dataset", dataset, "--campaign", "one") for _ in range(2))
    verified = _asked("verify", dataset)

    new = ORDER.runs - refused_runs - 4
    assert (summary["new"], len(summary["refused"]), summary["unfinished"]) == (new, refused_runs, 4)
    assert (second_result["new"], second_result["present"], len(second_result["refused"])) == (0, new, refused_runs)
    assert verified == {"damages": []}
    assert _rows(dataset) == _rows(tmp_path / "here")


def test_second_owner_is_refused_on_spark(campaign: Path, spark: SparkSession, tmp_path: Path) -> None:
    with owned(storage_at(tmp_path / "dataset")), pytest.raises(PipelineError, match="writes here; wait for its end"):
        _on_spark(spark, campaign, tmp_path / "dataset")


@pytest.mark.parametrize("name", ["no damage", *_DAMAGES])
def test_spark_finds_the_same_damage(name: str, spark: SparkSession, tmp_path: Path) -> None:
    storage: Storage = storage_at(tmp_path / "dataset")
    ingest(storage, "first", _entries(_ALL[::2][:3]))
    ingest(storage, "first", _entries(_ALL[1::2][:2]))
    if name in _DAMAGES:
        _DAMAGES[name][0](storage)

    assert verify_on_spark(spark, storage) == verify(storage)
