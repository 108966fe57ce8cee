"""Blocks: the rows of a series of items, on Spark and here; what is killed, cut or lost is done again."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from pipeline.blocks import ITEMS_MAX, Blocks, Header, Series, block_name, finished_parts, finished_rows
from pipeline.errors import PipelineError
from pipeline.items import Item, Job
from pipeline.ledger import Ledger, Row
from pipeline.storage import Storage, storage_at
from pipeline.tasks import perform_block
from pipeline.work import perform
from tests.pipeline.deeds import Deeds, attempts, do_deed, numbered

COUNT = 130  # blocks of two


class Place:
    """A series in a folder, its job and its ledger."""

    def __init__(self, folder: Path, misdeeds: dict[int, str] | None = None, *, count: int = COUNT) -> None:
        self.trace = folder / "trace"
        self.trace.mkdir()
        (folder / "stored").mkdir()
        item = partial(numbered, self.trace, misdeeds or {})
        self.series = Series(count=count, item=item, batch=partial(Deeds, folder / "stored"))
        self.job = Job(function=do_deed, ledger=str(folder / "ledger"), deadline_s=60)
        self.storage: Storage = storage_at(self.job.ledger)
        self.blocks, self.ledger = Blocks(self.storage), Ledger(self.storage)

    def do_block(self, block: int, *, attempt: int = 1, one_by_one: bool = False) -> None:
        perform_block(self.series, self.job, block, attempt=attempt, one_by_one=one_by_one)

    def perform(self, spark: SparkSession | None = None, on_block: Callable[[Header], None] = lambda header: None) -> None:
        perform(self.series, self.job, spark=spark, on_block=on_block)

    @property
    def rows(self) -> list[Row]:
        return list(finished_rows(self.series, self.storage))

    @property
    def keys(self) -> list[str]:
        return [row.key for row in self.rows]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def _keys(numbers: range) -> list[str]:
    return [f"{number:04}" for number in numbers]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 130, 6_399, 6_400, 1_000_001])
def test_blocks_of_a_series_have_each_number_once(count: int) -> None:
    series = Series(count=count, item=Item, batch=Deeds)  # type: ignore[arg-type] # neither is called

    assert series.size <= ITEMS_MAX
    assert [number for block in series.blocks for number in series.numbers(block)] == list(range(count))


def test_block_holds_the_rows_of_its_items(place: Place) -> None:
    place.do_block(3)

    assert place.blocks.finished() == {3}
    assert [row.key for row in place.blocks.rows(3)] == ["0006", "0007"]
    assert place.keys == ["0006", "0007"]
    assert place.ledger.keys() == set()
    assert (place.trace.parent / "stored" / block_name(3)).read_text() == "0006 0007"


def test_finished_block_is_not_done_again(place: Place) -> None:
    place.do_block(3)
    place.do_block(3, attempt=2, one_by_one=True)

    assert attempts(place.trace, "0006") == 1


def test_second_attempt_keeps_the_rows_of_the_first(place: Place) -> None:
    """A worker died within the block: what it had finished is in rows of their own."""
    perform([place.series.item(6)], place.job)
    place.do_block(3, attempt=2, one_by_one=True)

    assert [row.key for row in place.blocks.rows(3)] == ["0006", "0007"]
    assert attempts(place.trace, "0006") == 1
    assert place.ledger.keys() == set()


def test_item_that_raises_is_a_row_of_its_block(tmp_path: Path) -> None:
    place = Place(tmp_path, {7: "raise"})
    place.do_block(3)

    assert [row.state for row in place.blocks.rows(3)] == ["done", "failed"]


def test_local_work_leaves_finished_blocks_alone(place: Place) -> None:
    """A campaign begun on Spark may be resumed without it, and the other way round."""
    place.do_block(0)
    place.perform()

    assert place.keys == _keys(range(COUNT))
    assert Counter(attempts(place.trace, key) for key in place.keys) == {1: COUNT}


_OTHER = b"the block of other runs"
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "0 bytes": lambda whole: b"",
    "no header": lambda whole: b"{}",
    "cut off": lambda whole: whole[: len(whole) // 2],
    "other rows": lambda whole: whole.replace(b'"key":"0001"', b'"key":"0009"'),
    "another total": lambda whole: whole.replace(b'["0000","0001"]', b'["0000"]'),
    "the block of other runs": lambda whole: _OTHER,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_block_is_deleted_and_done_again(damage: str, place: Place, tmp_path: Path) -> None:
    place.do_block(0)
    place.do_block(1)
    path, other_path = (next((tmp_path / "ledger").rglob(f"{block_name(block)}.*")) for block in (0, 1))
    before = path.read_bytes()
    hurt = DAMAGES[damage](before)
    path.write_bytes(other_path.read_bytes() if hurt == _OTHER else hurt)
    assert path.read_bytes() != before

    with pytest.raises(PipelineError, match=block_name(0)):
        place.blocks.rows(0)
    (damage_words,) = place.blocks.mend()

    assert damage_words.startswith(str(path))
    assert damage_words.endswith("done again")
    assert place.blocks.finished() == {1}


def test_lost_item_of_a_block_is_done_again_alone(place: Place) -> None:
    """The environment failed for one item: the other rows of the block are kept."""
    place.do_block(0)
    done, lost = place.blocks.rows(0)
    place.blocks.write(0, [done, replace(lost, state="lost", words="a full disk", result=msgspec.Raw(b"null"), seal="")])
    place.blocks.mend()

    assert place.keys == ["0000"]
    place.perform()
    assert place.keys == _keys(range(COUNT))
    assert (attempts(place.trace, "0000"), attempts(place.trace, "0001")) == (1, 2)


def test_block_of_other_code_is_done_again(place: Place) -> None:
    place.do_block(0)

    (damage_words,) = place.blocks.mend("other")

    assert "written by other code" in damage_words
    assert place.blocks.finished() == set()


def test_parts_of_a_series_are_headers_of_blocks_and_rows(place: Place) -> None:
    """Who counts does not read the rows of blocks."""
    perform([place.series.item(1)], place.job)
    place.do_block(2)

    row, header = finished_parts(place.series, place.storage)

    assert isinstance(row, Row)
    assert row.key == "0001"
    assert isinstance(header, Header)
    assert (header.block, header.rows, bytes(header.total)) == (2, 2, b'["0004","0005"]')


@pytest.mark.spark
@pytest.mark.slow
def test_series_on_spark_gets_a_row_for_each_number(spark: SparkSession, place: Place) -> None:
    seen: list[str] = []
    place.do_block(5)
    place.perform(spark, lambda header: seen.extend(msgspec.json.decode(header.total)))

    assert place.keys == _keys(range(COUNT))
    assert sorted(seen) == sorted({*place.keys} - {"0010", "0011"})
    assert Counter(attempts(place.trace, key) for key in place.keys) == {1: COUNT}
    assert place.ledger.keys() == set()


@pytest.mark.spark
@pytest.mark.slow
def test_item_that_kills_its_worker_ends_as_lost_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Each item is blamed for itself: its neighbour in the block is done."""
    place = Place(tmp_path, {6: "die", 40: "raise"})
    place.perform(spark)
    states = {row.key: row.state for row in place.rows}

    assert {key: state for key, state in states.items() if state != "done"} == {"0006": "lost", "0040": "failed"}
    assert len(states) == COUNT
    assert place.ledger.keys() == place.ledger.marks().keys() == set()


@pytest.mark.spark
@pytest.mark.slow
def test_stopped_series_keeps_its_blocks_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A limit cancels the Spark job; the next one does the other blocks."""
    place = Place(tmp_path, dict.fromkeys(range(0, COUNT, 2), "slow"))

    class EnoughError(Exception):
        pass

    def stop(header: Header) -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        place.perform(spark, stop)
    before = place.keys
    place.perform(spark)

    assert 0 < len(before) < COUNT
    assert place.keys == _keys(range(COUNT))
    assert {attempts(place.trace, key) for key in before} == {1}
