"""Drawn damages of a campaign as Spark leaves it, in blocks: refused or done again, and no run is lost without a word."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shutil import copytree
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from highwater.campaigns.folder import LEDGER, RECORDS, CampaignFolder, order_in
from highwater.campaigns.mending import mend
from highwater.campaigns.records import CampaignRecords, entries_of_unit
from history import parquet
from history.seed import Rng
from pipeline.blocks import Blocks
from pipeline.dataset import Ingested, committed, ingest
from pipeline.dataset_on_spark import Units, ingest_on_spark
from pipeline.ledger import Row
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD
from pipeline.tasks import results_on_spark
from pipeline.verification import verify
from tests.pipeline.campaigns import ORDER, write_campaign
from tests.pipeline.damages import PLAIN, Damage, with_value

pytestmark = pytest.mark.slow

DRAWS = 30
DRAWS_ON_SPARK = 6
PLACE = f"campaigns/{ORDER.name}"
_COMPARED = ("runs", "verdicts", "anomalies")  # of the other tables the rows are counted
_Rows = dict[str, dict[str, str]]  # of each run in each table, as text


# --- damages of blocks ----------------------------------------------------------------------------------------------------------


def _of_rows(change: Callable[[list[Row]], list[Row]]) -> Damage:
    """Change the rows of a block, by a program that seals what it writes."""

    def damage(draws: Rng, files: Sequence[Path]) -> Path:
        path = draws.pick(files)
        blocks, number = Blocks(storage_at(path.parents[1])), int(path.stem.removeprefix("block-"))
        total = bytes(blocks.header(number).total)
        blocks.write(number, change(blocks.rows(number)), total)
        return path

    return damage


def _with_result(change: Callable[[dict[str, object]], object]) -> Callable[[list[Row]], list[Row]]:
    def changed(rows: list[Row]) -> list[Row]:
        result = msgspec.json.decode(rows[0].result)
        change(result)
        return [replace(rows[0], result=msgspec.Raw(msgspec.json.encode(result)), seal=""), *rows[1:]]

    return changed


def _edited(before: bytes, after: bytes) -> Damage:
    def damage(draws: Rng, files: Sequence[Path]) -> Path:
        path = draws.pick([path for path in files if before in path.read_bytes()])
        path.write_bytes(path.read_bytes().replace(before, after, 1))
        return path

    return damage


def _of_records(change: Callable[[pa.Table], pa.Table]) -> Damage:
    """Change the records of a block under their checksums."""

    def damage(draws: Rng, files: Sequence[Path]) -> Path:
        path = draws.pick(files)
        rows = pq.read_table(pa.BufferReader(path.read_bytes()))
        path.write_bytes(parquet.encode(change(rows).replace_schema_metadata(rows.schema.metadata)))
        return path

    return damage


def _with_verdict(word: str | None) -> Callable[[pa.Table], pa.Table]:
    def change(rows: pa.Table) -> pa.Table:
        for table in ("runs", "verdicts"):
            lists = rows[table].combine_chunks()
            of = pa.Table.from_struct_array(lists.flatten())
            changed = with_value(of, "verdict", word).to_struct_array().combine_chunks()
            rows = rows.set_column(rows.column_names.index(table), table, pa.ListArray.from_arrays(lists.offsets, changed))
        return rows

    return change


ROWS = PLAIN | {
    "edited": _edited(b"INVALID", b"VALID"),
    "edited state": _edited(b'"done"', b'"late"'),
    "verdict VALID, sealed": _of_rows(_with_result(lambda result: result.update(verdict="VALID", acked=7))),
    "unknown word, sealed": _of_rows(_with_result(lambda result: result.update(verdict="PERHAPS"))),
    "dropped field, sealed": _of_rows(_with_result(lambda result: result.pop("verdict"))),
    "a row less, sealed": _of_rows(lambda rows: rows[:1]),
    "a row twice, sealed": _of_rows(lambda rows: [rows[0], rows[0]]),
    "rows exchanged, sealed": _of_rows(lambda rows: rows[::-1]),
    "lost, sealed": _of_rows(
        lambda rows: [replace(rows[0], state="lost", words="a full disk", result=msgspec.Raw(b"null"), seal=""), *rows[1:]]
    ),
    "late with a result, sealed": _of_rows(lambda rows: [replace(rows[0], state="late", words="late", seal=""), *rows[1:]]),
}
OF_RECORDS = PLAIN | {
    "verdict VALID": _of_records(_with_verdict("VALID")),
    "null verdict": _of_records(_with_verdict(None)),
    "unknown word": _of_records(_with_verdict("PERHAPS")),
    "a record less": _of_records(lambda rows: rows.slice(1)),
    "a record twice": _of_records(lambda rows: pa.concat_tables([rows, rows])),
    "dropped table": _of_records(lambda rows: rows.drop_columns(["verdicts"])),
    "keys exchanged": _of_records(
        lambda rows: rows.set_column(0, "key", pa.array(rows["key"].to_pylist()[::-1], pa.string())),
    ),
}


def _hurt(draws: Rng, campaign: Path) -> list[str]:
    """Damage up to three files; returns what was done."""
    words: list[str] = []
    for _ in range(draws.between(1, 3)):
        kinds, pattern = draws.pick([(ROWS, f"{LEDGER}/blocks/*.rows"), (OF_RECORDS, f"{RECORDS}/block-*.parquet")])
        name = draws.pick(sorted(kinds))
        files = sorted(path for path in campaign.glob(pattern) if path.name not in {w.split(": ")[0] for w in words})
        words.append(f"{kinds[name](draws, files).name}: {name}")
    return words


# --- what becomes of them -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a campaign of 180 runs in blocks of two, all finished, and a dataset of it. Nothing of it is changed."""
    place = tmp_path_factory.mktemp("whole")
    write_campaign(place / PLACE)
    _take_in(None, place, storage_at(place / "dataset"))
    return place


def _take_in(spark: SparkSession | None, store: Path, dataset: Storage) -> Ingested:
    """As `highwater store ingest`, here or on Spark."""
    records = CampaignRecords(storage_at(store / PLACE))
    if spark is None:
        return ingest(dataset, "one", records.entries(records.keys))
    unit = records.unit
    entries = partial(entries_of_unit, records.location, str(uuid4()))
    return ingest_on_spark(spark, dataset, "one", Units(count=-(-records.wanted // unit), runs=unit, entries=entries))


def _rows(dataset: Storage) -> _Rows:
    found: _Rows = {}
    for table in OF_A_RECORD:
        for name in committed(dataset, table):
            rows = pq.ParquetFile(dataset.path(name)).read(columns=None if table in _COMPARED else ["run"])
            for row in rows.to_pylist():
                of_run = found.setdefault(row["run"], {})
                of_run[table] = of_run.get(table, "") + str(row)
    return found


def _with_rows(campaign: Path) -> int:
    """How many runs have a row that says how they ended, damaged or not."""
    runs = 0
    for path in campaign.glob(f"{LEDGER}/blocks/*.rows"):
        try:
            rows = Blocks(storage_at(path.parents[1])).rows(int(path.stem.removeprefix("block-")))
            runs += 2 - sum(row.state == "lost" for row in rows)
        except Exception:  # noqa: BLE001 - whatever a damage does to it
            runs += 2
    return runs


@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        *(("here", seed) for seed in range(DRAWS)),
        *(pytest.param("spark", seed, marks=pytest.mark.spark) for seed in range(100, 100 + DRAWS_ON_SPARK)),
    ],
)
def test_damaged_blocks_are_refused_and_done_again(
    engine: str, seed: int, whole: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    spark: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    wanted = _rows(storage_at(whole / "dataset"))
    copytree(whole / "campaigns", tmp_path / "campaigns")
    campaign = tmp_path / PLACE
    damages = _hurt(Rng(seed).fork("damage"), campaign)
    finished = _with_rows(campaign)

    first = _take_in(spark, tmp_path, storage_at(tmp_path / "first"))

    assert first.new + first.present + first.refused == finished, damages
    taken = _rows(storage_at(tmp_path / "first"))
    assert len(taken) == first.new
    assert {run: wanted[run] for run in taken} == taken, damages

    folder = CampaignFolder(storage_at(tmp_path), order_in(storage_at(tmp_path), PLACE))
    mended = mend(folder, None if spark is None else partial(results_on_spark, spark))
    second = _take_in(spark, tmp_path, storage_at(tmp_path / "second"))

    assert bool(mended) or finished < ORDER.runs or first.new == ORDER.runs, damages
    assert second.refused == 0, damages
    assert second.new == len(CampaignRecords(folder.place).keys)
    assert ORDER.runs - 2 * 2 * len(damages) <= second.new <= ORDER.runs
    kept = _rows(storage_at(tmp_path / "second"))
    assert {run: wanted[run] for run in kept} == kept

    # Done again: the workers write the same blocks.
    for path in (*campaign.glob(f"{LEDGER}/*.json"), *campaign.glob(f"{RECORDS}/[!b]*.parquet")):
        path.unlink()
    for done in (f"{LEDGER}/blocks", RECORDS):
        copytree(whole / PLACE / done, campaign / done, dirs_exist_ok=True)
    third = _take_in(spark, tmp_path, storage_at(tmp_path / "second"))
    assert (third.new + third.present, third.refused) == (ORDER.runs, 0)
    assert _rows(storage_at(tmp_path / "second")) == wanted
    assert verify(storage_at(tmp_path / "second")) == []
