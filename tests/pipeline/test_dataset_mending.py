"""A damaged dataset is set aside part by part and taken in again; until then nobody answers without the runs that it lost."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from shutil import copytree

import msgspec
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from history.seed import Rng
from pipeline import dataset, inventory
from pipeline.dataset import Entry, Part, commit, committed, compact, ingest, parts_of
from pipeline.dataset_mending import mend
from pipeline.errors import PipelineError
from pipeline.owner import owned
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD
from pipeline.verification import verify, whole_parts
from tests.pipeline.damages import FILES, PLAIN, VERDICTS
from tests.pipeline.datasets import without_inventory
from tests.pipeline.records import record
from tests.pipeline.test_dataset import _killed_everywhere

DRAWS = 60
_RECORDS = {seed: record(seed) for seed in range(12)}
CAMPAIGNS = {"one": range(9), "two": range(6, 12)}
_OF_A_TABLE = FILES | {name: VERDICTS[name] for name in ("INVALID made VALID", "unknown word")}


def _entries(seeds: Iterable[int]) -> list[Entry]:
    return [Entry(_RECORDS[seed].run, partial(_RECORDS.__getitem__, seed)) for seed in seeds]


def _take_in(storage: Storage, of: Sequence[str] = tuple(CAMPAIGNS)) -> None:
    """Three runs a part, or fewer."""
    for campaign in of:
        seeds = CAMPAIGNS[campaign]
        for first in range(seeds.start, seeds.stop, 3):
            ingest(storage, campaign, _entries(range(first, first + 3)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two campaigns in five parts. Nothing of it is changed."""
    place = tmp_path_factory.mktemp("whole")
    _take_in(storage_at(place))
    return place


@pytest.fixture
def storage(whole: Path, tmp_path: Path) -> Storage:
    copytree(whole, tmp_path, dirs_exist_ok=True)
    return storage_at(tmp_path)


def _rows(storage: Storage) -> dict[str, Counter[str]]:
    """The rows of each table, with their campaign."""
    return {
        table: Counter(
            f"{name.split('/')[1]} {row}"
            for name in committed(storage, table)
            for row in pq.ParquetFile(storage.path(name)).read().to_pylist()
        )
        for table in OF_A_RECORD
    }


def _runs(storage: Storage) -> set[tuple[str, str]]:
    return {(part.campaign, run) for part in parts_of(storage) for run in part.runs}


def _hurt(draws: Rng, folder: Path) -> set[str]:
    """Damage up to three files; returns the ids of the parts whose files are others now, or gone."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    hurt = set[str]()
    while not hurt:  # of two equal files one may be in the place of the other
        for _ in range(draws.between(1, 3)):
            _hurt_one(draws, folder)
        hurt = {path.stem for path, data in before.items() if not path.exists() or path.read_bytes() != data}
    return hurt


def _hurt_one(draws: Rng, folder: Path) -> None:
    kinds, pattern = (PLAIN, "parts/*.json") if draws.ratio(1, 3) else (_OF_A_TABLE, "*/*/*/*.parquet")
    name = draws.pick(sorted(kinds))
    kinds[name](draws, sorted(folder.glob("runs/*/*/*.parquet" if name in VERDICTS else pattern)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(DRAWS))
def test_mended_dataset_is_as_before_or_refused(seed: int, whole: Path, storage: Storage) -> None:
    """Who deleted damaged parts would answer without their runs, and say that nothing is worse."""
    wanted, runs = _rows(storage_at(whole)), _runs(storage_at(whole))
    hurt = _hurt(Rng(seed).fork("damage"), Path(storage.location))
    with pytest.raises(PipelineError):
        whole_parts(storage)

    mended = mend(storage)

    aside = {(part.campaign, run) for part in mended.aside for run in part.runs}
    assert mended.left == ()
    assert aside | _runs(storage) == runs
    assert not aside & _runs(storage)
    assert {part.part for part in mended.aside} == hurt
    for campaign in CAMPAIGNS:
        if any(of == campaign for of, _ in aside):
            with pytest.raises(PipelineError, match=f"runs of campaign {campaign} are lost"):
                whole_parts(storage, campaigns=(campaign,))
        else:
            assert whole_parts(storage, campaigns=(campaign,))
    _take_in(storage)
    assert (verify(storage), _rows(storage)) == ([], wanted)


@pytest.mark.slow
def test_mending_that_was_killed_forgets_no_run(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Between the note of a part and its manifest, and everywhere else."""
    wanted = _rows(storage_at(whole))

    def started() -> Storage:
        storage = storage_at(copytree(whole, tmp_path_factory.mktemp("killed"), dirs_exist_ok=True))
        first, second = parts_of(storage)[1:3]
        storage.delete([first.path("calls")])
        storage.write(f"parts/{second.id}.json", b"{}")
        return storage

    killed = list(_killed_everywhere(started, mend))
    for storage in killed:
        with pytest.raises(PipelineError):
            whole_parts(storage)
        assert mend(storage).left == ()
        with pytest.raises(PipelineError, match="are lost"):
            whole_parts(storage)
        _take_in(storage)
        assert (verify(storage), _rows(storage)) == ([], wanted)
    assert len(killed) > 2 * len(OF_A_RECORD)


def test_part_that_the_inventory_alone_proves_goes(storage: Storage) -> None:
    part = parts_of(storage)[0]
    for name in [name for name in storage.names() if part.id in name]:
        storage.write(name, b"")

    mended = mend(storage)

    assert [(of.part, sorted(of.runs)) for of in mended.aside] == [(part.id, sorted(part.runs))]
    assert mended.left == ()
    _take_in(storage)
    assert verify(storage) == []


def test_part_whose_runs_nothing_proves_stays(storage: Storage) -> None:
    """Of a dataset from before it had an inventory."""
    part = without_inventory(storage)[0]
    for name in [name for name in storage.names() if part.id in name]:
        storage.write(name, b"")

    mended = mend(storage)

    assert mended.aside == ()
    assert {damage.name for damage in mended.left} == {f"parts/{part.id}.json"}
    with pytest.raises(PipelineError, match="not the manifest of a part"):
        whole_parts(storage)


# --- the inventory --------------------------------------------------------------------------------------------------------------


def _remove(storage: Storage, *parts: Part) -> None:
    """Nothing stays of these parts."""
    storage.delete([name for name in storage.names() if any(part.id in name for part in parts)])


_TO_BE_GONE: dict[str, Callable[[Storage], list[Part]]] = {
    "one part": lambda storage: parts_of(storage)[:1],
    "a campaign": lambda storage: [part for part in parts_of(storage) if part.campaign == "one"],
    "all parts": lambda storage: parts_of(storage),
}


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("gone", _TO_BE_GONE)
def test_part_of_which_nothing_is_left_is_missed(gone: str, compacted: bool, storage: Storage) -> None:
    if compacted:
        compact(storage)
    wanted = _rows(storage)
    parts = _TO_BE_GONE[gone](storage)
    _remove(storage, *parts)

    for campaigns in ((), ("one", "two"), (parts[0].campaign,)):
        with pytest.raises(PipelineError, match=rf"{len(parts[0].runs)} runs of campaign {parts[0].campaign} are lost"):
            whole_parts(storage, ("calls",), campaigns)
    assert {damage.name for damage in verify(storage)} == {f"parts/{part.id}.json" for part in parts}

    mended = mend(storage)

    assert ({part.part for part in mended.aside}, mended.left) == ({part.id for part in parts}, ())
    with pytest.raises(PipelineError, match="are lost"):
        whole_parts(storage)
    _take_in(storage)
    assert (verify(storage), _rows(storage)) == ([], wanted)


def test_inventory_is_renewed_by_a_writer_to_an_earlier_dataset(storage: Storage) -> None:
    part = without_inventory(storage)[0]
    assert verify(storage) == []
    ingest(storage, "three", _entries([0]))
    _remove(storage, part)

    with pytest.raises(PipelineError, match="are lost"):
        whole_parts(storage, campaigns=(part.campaign,))


@pytest.mark.parametrize("work", [compact, lambda storage: ingest(storage, "two", _entries([6]))], ids=["compact", "ingest"])
def test_works_on_other_runs_do_not_forget_lost_ones(work: Callable[[Storage], object], storage: Storage) -> None:
    part = next(part for part in parts_of(storage) if part.campaign == "one")
    _remove(storage, part)
    work(storage)
    work(storage)

    assert whole_parts(storage, campaigns=("two",))
    with pytest.raises(PipelineError, match="3 runs of campaign one are lost"):
        whole_parts(storage)


def _changed(data: bytes) -> bytes:
    return data.replace(b"seed-3", b"seed-4", 1)


_CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
    "another run": _changed,
    "no JSON": lambda data: b"{" + data,
}


@pytest.mark.parametrize("change", _CHANGES)
def test_damaged_inventory_is_refused(change: str, storage: Storage) -> None:
    """It would forget the runs that it names."""
    storage.write(inventory.NAME, _CHANGES[change](storage.read(inventory.NAME)))

    for work in (whole_parts, compact, mend, lambda storage: ingest(storage, "one", _entries(CAMPAIGNS["one"]))):
        with pytest.raises(PipelineError, match=rf"{inventory.NAME}: not as it was written.*delete it"):
            work(storage)
    assert [damage.name for damage in verify(storage)] == [inventory.NAME]


def test_missing_inventory_is_refused_until_it_is_mended(storage: Storage) -> None:
    """A copy that was interrupted may lack it, and parts with it. To delete it gives lost runs up."""
    part = parts_of(storage)[0]
    _remove(storage, part)
    storage.delete([inventory.NAME])

    for work in (whole_parts, compact, lambda storage: ingest(storage, "one", _entries(CAMPAIGNS["one"]))):
        with pytest.raises(PipelineError, match=rf"{inventory.NAME}: missing.*highwater store mend"):
            work(storage)
    assert [damage.name for damage in verify(storage)] == [inventory.NAME]
    assert mend(storage) == ((), ())
    assert len(whole_parts(storage)) == 4


def test_note_of_lost_runs_of_an_earlier_version_is_refused(storage: Storage) -> None:
    storage.write("lost/0.json", b"{}")

    with pytest.raises(PipelineError, match=r"lost/0\.json: .*earlier version"):
        whole_parts(storage)
    assert [damage.name for damage in verify(storage)] == ["lost/0.json"]


def test_lost_manifest_is_missed_after_any_ingest(storage: Storage) -> None:
    """The ingest of another campaign deletes the files that no manifest names, and with them the only trace of their runs."""
    part = next(part for part in parts_of(storage) if part.campaign == "two")
    storage.delete([f"parts/{part.id}.json"])
    ingest(storage, "one", _entries(CAMPAIGNS["one"]))

    assert not any(part.path(table) in storage.names() for table in OF_A_RECORD)
    assert whole_parts(storage, campaigns=("one",))
    with pytest.raises(PipelineError, match=r"3 runs of campaign two are lost .*: take them in again"):
        whole_parts(storage, campaigns=("two",))
    compact(storage)
    with pytest.raises(PipelineError, match="runs of campaign two are lost"):
        whole_parts(storage)


def test_runs_that_come_back_one_by_one_are_missed_no_more(storage: Storage) -> None:
    part = next(part for part in parts_of(storage) if part.campaign == "two")
    storage.delete([part.path("verdicts")])
    mend(storage)
    seeds = [seed for seed, of in _RECORDS.items() if of.run in part.runs]
    told = []
    for seed in seeds:
        told += [damage.words.partition(" are")[0].removeprefix("missing: ") for damage in verify(storage)]
        ingest(storage, "two", _entries([seed]))

    assert told == [f"{count} runs of campaign two" for count in range(len(seeds), 0, -1)]
    assert verify(storage) == []
    assert part.id not in (inventory.lines(storage) or {})


def test_parts_that_a_damaged_one_had_taken_over_are_mended_too(storage: Storage) -> None:
    """An older copy was put over a compacted dataset, in part."""
    wanted, earlier = _rows(storage), {name: storage.read(name) for name in storage.names()}
    old = parts_of(storage)[0]
    compact(storage)
    (taker,) = (part for part in parts_of(storage) if old.id in part.replaces)
    for name, data in earlier.items():
        if name not in (inventory.NAME, old.path("calls")):
            storage.write(name, data)
    storage.delete([taker.path("runs")])

    assert [of.part for of in mend(storage).aside] == sorted([taker.id, old.id])
    _take_in(storage)
    assert (verify(storage), _rows(storage)) == ([], wanted)


def test_lost_manifest_is_missed_whatever_the_clock_says(storage: Storage) -> None:
    """Files that are newer than the beginning of a work are taken for its own, and the clock may have gone back since."""
    part = parts_of(storage)[0]
    storage.delete([f"parts/{part.id}.json"])
    with owned(storage):
        for table in part.files:
            os.utime(storage.path(part.path(table)), (2**32, 2**32))
        with pytest.raises(PipelineError, match="are lost"):
            whole_parts(storage)


def test_dataset_of_another_version_is_not_mended(storage: Storage) -> None:
    """All of its parts would be set aside."""
    part = replace(parts_of(storage)[0], version=9)
    commit(storage, replace(part, seal=dataset._seal(part)))
    before = storage.names()

    with pytest.raises(PipelineError, match="dataset version 9, this program reads"):
        mend(storage)
    assert storage.names() == before


def test_part_is_not_taken_over_by_a_lie_about_runs(storage: Storage) -> None:
    """Also where nobody asked for the runs, as the driver of an ingest on Spark does: it would delete the part."""
    first, second = parts_of(storage)[:2]
    wrong = replace(first, replaces=(second.id,))
    commit(storage, replace(wrong, seal=dataset._seal(wrong)))

    kept = [part.id for part in parts_of(storage, with_runs=False)]

    assert kept == [part.id for part in parts_of(storage)]
    assert second.id in kept


def test_inventory_is_plain_to_read(storage: Storage) -> None:
    head, *lines = storage.read(inventory.NAME).splitlines()
    first = parts_of(storage)[0]

    assert msgspec.json.decode(head).keys() == {"seal"}
    assert [msgspec.json.decode(line)["part"] for line in lines] == [part.id for part in parts_of(storage)]
    assert msgspec.json.decode(lines[0]) == {
        "part": first.id,
        "campaign": first.campaign,
        "protocol": first.protocol,
        "runs": sorted(first.runs),
    }


@pytest.mark.parametrize("command", ["verify", "compact", "mend"])
def test_folder_that_is_no_dataset_is_left_alone(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine" / "letter.txt"
    mine.parent.mkdir()
    mine.write_text("dear", encoding="utf-8")

    assert run_command_line(["store", command, str(tmp_path)]) == 2
    assert run_command_line(["store", command, str(mine)]) == 2

    first, second = capsys.readouterr().err.splitlines()
    assert ("no dataset is stored here" in first, "this is a file" in second) == (True, True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
