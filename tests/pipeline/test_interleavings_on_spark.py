"""Work on Spark with a second work forced into it at its dangerous steps: as `test_interleavings`, of drivers and workers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from highwater.campaigns.records import CampaignRecords, entries_of_unit
from pipeline import dataset, dataset_on_spark, tasks
from pipeline.dataset import compact, ingest, parts_of
from pipeline.dataset_mending import mend
from pipeline.dataset_on_spark import Units, ingest_on_spark, verify_on_spark
from pipeline.questions import on_spark
from pipeline.questions.ask import Source, ask_sql
from pipeline.storage import Storage, storage_at
from pipeline.verification import verify, whole_parts
from tests.pipeline.campaigns import ORDER, write_campaign
from tests.pipeline.records import SIX, six_entries
from tests.pipeline.test_interleavings import Act, Step, _expecting_refusal, _force_function

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_SQL = "select (select count(*) from runs) as runs, (select count(*) from calls) as calls"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign of 180 runs, all finished. Nothing of it is changed."""
    place = tmp_path_factory.mktemp("campaign")
    write_campaign(place)
    return place


# --- ingest ---------------------------------------------------------------------------------------------------------------------

INGESTING: dict[str, Step] = {
    "before its lease": lambda patch, act: _force_function(patch, dataset_on_spark, "writing", act),
    "after its lease": lambda patch, act: _force_function(patch, dataset, "sweep", act),
    "before its first job": lambda patch, act: _force_function(patch, dataset_on_spark, "results_on_spark", act),
    "between its files and their manifests": lambda patch, act: _force_function(patch, dataset_on_spark, "commit", act),
    "between two manifests": lambda patch, act: _force_function(patch, dataset_on_spark, "commit", act, nth=1),
    "between two jobs": lambda patch, act: _force_function(patch, tasks, "frame_of_numbers", act, nth=1),
    "after its last manifest": lambda patch, act: _force_function(patch, dataset, "list_parts", act, nth=1),
}


@pytest.mark.parametrize("step", INGESTING)
def test_works_within_an_ingest_on_spark(
    step: str, campaign: Path, storage: Storage, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers are refused, readers count whole parts, and nothing is called damaged."""
    monkeypatch.setattr(tasks, "RESULTS_MAX", 1)
    records = CampaignRecords(storage_at(campaign))
    entries = partial(entries_of_unit, str(campaign), str(uuid4()))
    units = Units(count=-(-records.wanted // records.unit), runs=records.unit, entries=entries)
    outside = step == "before its lease"
    writers: tuple[Act, ...] = (
        partial(ingest, storage, "one", six_entries(3, 6)),
        partial(compact, storage),
        partial(mend, storage),
    )
    counted: list[int] = []

    def act() -> None:
        for work in writers:
            work() if outside else _expecting_refusal(work)()
        counted.append(ask_sql(Source(dataset=storage.location), _SQL).table.to_pylist()[0]["runs"])
        assert sum(len(part.runs) for part in whole_parts(storage)) == counted[0]
        assert verify(storage) == []

    acted = INGESTING[step](monkeypatch, act)
    told = ingest_on_spark(spark, storage, "second", units)

    of_one = 6 if outside else 4
    assert acted
    assert (told.new, told.refused) == (ORDER.runs, 0)
    assert len(counted) == 1
    assert of_one <= counted[0] <= of_one + ORDER.runs
    assert verify(storage) == []
    assert sum(len(part.runs) for part in parts_of(storage)) == of_one + ORDER.runs


def test_lost_runs_come_back_by_an_ingest_on_spark(campaign: Path, tmp_path: Path, spark: SparkSession) -> None:
    """The note of a damaged part stays until the workers have taken its runs in, and `verify` on Spark tells of it."""
    storage = storage_at(tmp_path / "dataset")
    records = CampaignRecords(storage_at(campaign))
    ingest(storage, "one", records.entries(records.keys))
    part = parts_of(storage)[1]
    storage.write(part.path("verdicts"), b"")
    assert [damage.name for damage in verify_on_spark(spark, storage)] == [part.path("verdicts")]
    mended = mend(storage)

    told_here, told_on_spark = verify(storage), verify_on_spark(spark, storage)
    entries = partial(entries_of_unit, str(campaign), str(uuid4()))
    units = Units(count=-(-records.wanted // records.unit), runs=records.unit, entries=entries)
    ingested = ingest_on_spark(spark, storage, "one", units)

    assert [len(lost.runs) for lost in mended.aside] == [len(part.runs)]
    assert told_on_spark == told_here
    assert [damage.name for damage in told_here] == [f"parts/{part.id}.json"]
    assert ingested[:2] == (len(part.runs), ORDER.runs - len(part.runs))
    assert verify_on_spark(spark, storage) == []


# --- questions and verification -------------------------------------------------------------------------------------------------

ASKING: dict[str, Step] = {
    "before its first view": lambda patch, act: _force_function(patch, on_spark, "_frame_of_table", act),
    "before its second view": lambda patch, act: _force_function(patch, on_spark, "_frame_of_table", act, nth=1),
    "after its last view": lambda patch, act: _force_function(patch, on_spark, "_frame_of_table", act, nth=1, after=True),
}


def _compacting(storage: Storage) -> Act:
    return lambda: compact(storage)


def _taking_in_and_compacting(storage: Storage) -> Act:
    def act() -> None:
        ingest(storage, "one", six_entries(2, 6))
        compact(storage)

    return act


@pytest.mark.parametrize("works", [_compacting, _taking_in_and_compacting])
@pytest.mark.parametrize("step", ASKING)
def test_writers_within_a_question_on_spark(
    step: str, works: Callable[[Storage], Act], storage: Storage, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [of.tables["calls"].num_rows for of in SIX]
    acted = ASKING[step](monkeypatch, works(storage))
    (row,) = ask_sql(Source(dataset=storage.location, master="local[2]"), _SQL).table.to_pylist()

    assert acted
    assert (row["runs"], row["calls"]) in ((4, sum(calls[:4])), (6, sum(calls)))


VERIFYING: dict[str, Step] = {
    "before its workers compare": lambda patch, act: _force_function(patch, dataset_on_spark, "results_on_spark", act),
    "before its workers group the runs": lambda patch, act: _force_function(patch, dataset_on_spark, "_doubled_runs", act),
    "before it lists the files": lambda patch, act: _force_function(patch, dataset_on_spark, "orphaned_files", act),
}


@pytest.mark.parametrize("step", VERIFYING)
def test_compaction_within_a_verification_on_spark(
    step: str, storage: Storage, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    acted = VERIFYING[step](monkeypatch, lambda: compact(storage))

    assert verify_on_spark(spark, storage) == []
    assert acted
