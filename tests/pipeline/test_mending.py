"""A resumed campaign forgets what a dataset does not take in, and nothing else."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree

import pytest

from highwater.campaigns.folder import RECORDS, CampaignFolder, order_in
from highwater.campaigns.mending import Workers, mend
from highwater.campaigns.records import CampaignRecords
from pipeline.blocks import block_name
from pipeline.errors import PipelineError
from pipeline.storage import Storage, storage_at
from pipeline.tasks import results_on_spark
from tests.pipeline.campaigns import ORDER, spoil, write_campaign

pytestmark = pytest.mark.slow

PLACE = f"campaigns/{ORDER.name}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a campaign of 180 runs in blocks of two, all finished. Nothing of it is changed."""
    place = tmp_path_factory.mktemp("whole")
    write_campaign(place / PLACE)
    return place


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> CampaignFolder:
    copytree(whole, tmp_path, dirs_exist_ok=True)
    return CampaignFolder(storage_at(tmp_path), order_in(storage_at(tmp_path), PLACE))


@pytest.fixture(params=[None, pytest.param("spark", marks=pytest.mark.spark)], ids=["here", "on Spark"])
def on(request: pytest.FixtureRequest) -> Workers | None:
    """The workers of a session of Spark, or None for this process."""
    return partial(results_on_spark, request.getfixturevalue("spark")) if request.param else None


def _swap(first: Path, second: Path) -> None:
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "removed": lambda one, other: one.unlink(),
    "empty": lambda one, other: one.write_bytes(b""),
    "cut off": lambda one, other: one.write_bytes(one.read_bytes()[:-9]),
    "exchanged": _swap,
    "another block's": lambda one, other: one.write_bytes(other.read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_block_with_damaged_records_is_forgotten(damage: str, on: Workers | None, folder: CampaignFolder) -> None:
    first_block, second_block = (Path(folder.place.path(f"{RECORDS}/{block_name(block)}.parquet")) for block in (30, 31))
    DAMAGES[damage](first_block, second_block)

    damage_words = mend(folder, on)

    lost = {30, 31} if damage == "exchanged" else {30}
    assert [words.rpartition("; ")[2] for words in damage_words] == ["done again"] * 2 * len(lost)
    assert set(folder.series.blocks) - folder.blocks.finished() == lost
    assert not first_block.exists()
    assert mend(folder, on) == []


def test_whatever_an_ingest_refuses_is_forgotten(on: Workers | None, folder: CampaignFolder) -> None:
    """Blocks, rows of their own, lost and late runs: what is left is taken in without a word."""
    spoil(Path(folder.place.location))
    before = len(CampaignRecords(folder.place).keys)

    damage_words = mend(folder, on)
    left = CampaignRecords(folder.place)

    assert damage_words
    assert [entry for entry in left.entries(left.keys) if not hasattr(entry, "run")] == []
    assert [left.record(key).run for key in left.keys]
    assert before - len(left.keys) < 30
    assert mend(folder, on) == []


def test_damaged_rows_take_their_records_with_them(folder: CampaignFolder) -> None:
    """A run that is done alone gets a record of its own, and the damaged one of its block would be read in its place."""
    ledger, records = (Path(folder.place.path(name)) for name in ("ledger/blocks", RECORDS))
    (ledger / f"{block_name(30)}.rows").write_bytes(b"")
    (records / f"{block_name(30)}.parquet").write_bytes(b"")

    mend(folder)

    assert not (records / f"{block_name(30)}.parquet").exists()


def test_silent_store_forgets_no_record(folder: CampaignFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Storage.read

    def silent(storage: Storage, name: str) -> bytes:
        if name == f"{RECORDS}/{block_name(30)}.parquet":
            raise PipelineError("the server does not answer")
        return read(storage, name)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "read", silent)
        with pytest.raises(PipelineError, match="does not answer"):
            mend(folder)
    assert folder.blocks.finished() == set(folder.series.blocks)
