"""A dataset of runs: rows are written once, compaction keeps them, killed work is completed, damage is found."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from history import parquet
from history.errors import HistoryError
from pipeline import dataset, inventory
from pipeline.dataset import Entry, Ingested, Refused, commit, committed, compact, ingest, parts_of, with_evidence
from pipeline.errors import PipelineError
from pipeline.owner import owned
from pipeline.record import Record
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD, TABLES, Table
from pipeline.verification import verify, whole_parts
from tests.pipeline.datasets import without_inventory
from tests.pipeline.records import HISTORY, record

_RECORDS = {(seed, protocol): record(seed, protocol) for seed in range(7) for protocol in ("safe", "v3")}
_ALL = sorted(_RECORDS)


def _entries(keys: Sequence[tuple[int, str]]) -> Iterator[Entry]:
    for key in keys:
        yield Entry(_RECORDS[key].run, partial(_RECORDS.__getitem__, key))


def _rows(storage: Storage, table: Table) -> list[tuple[object, ...]]:
    """The committed rows, sorted, with the columns of the folder names."""
    files = [storage.path(name) for name in committed(storage, table)]
    frame = pl.concat([pl.read_parquet(file, hive_partitioning=True) for file in files])
    return sorted(frame.rows(), key=str)


def _all_rows(storage: Storage) -> dict[Table, list[tuple[object, ...]]]:
    return {table: _rows(storage, table) for table in OF_A_RECORD}


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """An empty place for a dataset."""
    return storage_at(tmp_path / "dataset")


def test_run_that_is_there_with_another_result_is_refused(storage: Storage) -> None:
    """A campaign that was performed anew, by other code: its results are not those that the dataset has."""
    of = _RECORDS[_ALL[0]]
    (result_row,) = of.tables["runs"].to_pylist()
    ingest(storage, "first", [Entry(of.run, lambda: of, result_row)])
    second_result = [
        Entry(of.run, lambda: of, result) for result in (result_row, result_row | {"verdict": "INVALID", "commit": "c0ffee"})
    ]

    ingested = ingest(storage, "first", second_result)

    assert ingested[:4] == (0, 1, 0, 1)
    (words,) = ingested.words
    assert words == (
        f"{of.run}: campaign first of the dataset has it with another result: commit {result_row['commit']}, now c0ffee, "
        f"verdict {result_row['verdict']}, now INVALID; give another --campaign"
    )
    assert ingest(storage, "second", second_result[1:]).new == 1


def test_runs_are_taken_in_once(storage: Storage) -> None:
    assert ingest(storage, "first", _entries(_ALL)) == Ingested(14, 0, 2)
    before = {name: storage.read(name) for name in storage.names()}
    assert ingest(storage, "first", _entries(_ALL)) == Ingested(0, 14, 0)

    assert {name: storage.read(name) for name in storage.names()} == before
    assert len(_rows(storage, "runs")) == 14
    assert verify(storage) == []


def test_run_may_be_in_several_campaigns(storage: Storage) -> None:
    ingest(storage, "first", _entries(_ALL))

    assert ingest(storage, "second", _entries(_ALL)).new == 14
    assert verify(storage) == []


def test_part_holds_up_to_fifty_runs(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "RUNS_OF_A_PART", 3)

    assert ingest(storage, "first", _entries(_ALL)) == Ingested(14, 0, 6)
    assert sorted(len(part.runs) for part in parts_of(storage)) == [1, 1, 3, 3, 3, 3]


def test_records_are_written_when_they_need_too_much_memory(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "ROWS_MAX", 1)

    assert ingest(storage, "first", _entries(_ALL)) == Ingested(14, 0, 14)
    assert verify(storage) == []


def test_evidence_is_kept_where_it_is_given(storage: Storage) -> None:
    with_rows, without = with_evidence(record(1), HISTORY), record(2)
    ingest(storage, "first", [Entry(with_rows.run, lambda: with_rows), Entry(without.run, lambda: without)])

    assert {row[0] for row in _rows(storage, "events")} == {"seed-1/sim-v3-0"}
    assert len(_rows(storage, "operations")) == HISTORY.operation_rows
    assert verify(storage) == []


def test_refused_run_costs_no_other_and_can_come_later(storage: Storage) -> None:
    new_record = record(1)

    def damaged() -> Record:
        raise HistoryError("one")

    entries: list[Entry | Refused] = [Entry(new_record.run, damaged), Refused("two"), *_entries(_ALL[:1])]
    assert ingest(storage, "first", entries) == Ingested(1, 0, 1, refused=2, words=("one", "two"))
    assert ingest(storage, "first", [Entry(new_record.run, lambda: new_record)]) == Ingested(1, 0, 1)


def test_reasons_of_refused_runs_are_counted_when_too_many(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "WORDS_MAX", 2)

    assert ingest(storage, "first", [Refused(words) for words in "abc"]) == Ingested(refused=3, words=("a", "b"))


@pytest.mark.parametrize("name", ["", "2026", "a/b", "..", "a b", "ä", "x" * 129])
def test_name_that_is_no_folder_or_is_a_number_is_refused(storage: Storage, name: str) -> None:
    """Readers would take the campaign 2026 for a number, and join it with no other campaign."""
    with pytest.raises(PipelineError, match="campaign"):
        ingest(storage, name, _entries(_ALL))
    odd = record(1, name)
    with pytest.raises(PipelineError, match="protocol"):
        ingest(storage, "first", [Entry(odd.run, lambda: odd)])
    assert storage.names() == [inventory.NAME]


def test_names_that_differ_in_capitals_only_are_refused(storage: Storage) -> None:
    """Where a file system takes them for one, they share a folder, and each ingest would delete the files of the other."""
    ingest(storage, "now", _entries(_ALL[:1]))

    with pytest.raises(PipelineError, match="has a campaign now; 'Now' differs in capitals only"):
        ingest(storage, "Now", _entries(_ALL[1:2]))
    assert verify(storage) == []


# --- properties -----------------------------------------------------------------------------------------------------------------

_BATCHES = st.lists(st.lists(st.sampled_from(_ALL), max_size=6), max_size=5)


@pytest.mark.slow
@settings(max_examples=25)
@given(_BATCHES, st.integers(1, 5))
def test_any_order_of_ingests_gives_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[int, str]]], runs: int
) -> None:
    """Compaction in between and batches that overlap change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "RUNS_OF_A_PART", runs)
        piecemeal, at_once = (storage_at(tmp_path_factory.mktemp("dataset")) for _ in range(2))
        for batch in batches:
            ingest(piecemeal, "first", _entries(batch))
        ingest(at_once, "first", _entries([key for batch in batches for key in batch]))
        if not any(batches):
            assert parts_of(piecemeal) == []
            return
        before = _all_rows(piecemeal)
        compact(piecemeal)

        assert before == _all_rows(piecemeal) == _all_rows(at_once)
        assert verify(piecemeal) == verify(at_once) == []


class _Killed(Exception):  # noqa: N818 - not an error: the process ends
    """Stands for a process that ends here."""


class _Dying:
    """A storage whose process is killed at its n-th change."""

    def __init__(self, storage: Storage, changes: int) -> None:
        self._storage, self._left = storage, changes
        self.read, self.names, self.path, self.exists = storage.read, storage.names, storage.path, storage.exists
        self.folder = storage.folder

    def _step(self) -> None:
        if self._left == 0:
            raise _Killed
        self._left -= 1

    def write(self, name: str, data: bytes) -> None:
        self._step()
        self._storage.write(name, data)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._step()
            self._storage.delete([name])


def _killed_everywhere(storage: Callable[[], Storage], work: Callable[[Storage], object]) -> Iterator[Storage]:
    """The storages that a work leaves that is killed before its first change, its second, ... until it completes."""
    for changes in range(1000):
        place = storage()
        try:
            work(_Dying(place, changes))  # type: ignore[arg-type] # it offers what the work needs
        except _Killed:
            yield place
        else:
            return


@pytest.mark.slow
def test_ingest_that_was_killed_is_completed_by_the_next(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Between part and manifest, and everywhere else: the committed rows are whole runs, and nothing is counted twice."""
    complete = storage_at(tmp_path_factory.mktemp("whole"))
    ingest(complete, "first", _entries(_ALL[:3]))
    wanted = _all_rows(complete)

    def started() -> Storage:
        storage = storage_at(tmp_path_factory.mktemp("killed"))
        ingest(storage, "first", _entries(_ALL[:1]))
        return storage

    killed = list(_killed_everywhere(started, lambda storage: ingest(storage, "first", _entries(_ALL[:3]))))
    for storage in killed:
        runs = {part.runs for part in parts_of(storage)}
        assert {damage.words.partition(":")[0] for damage in verify(storage)} <= {"in no part"}
        assert (_RECORDS[_ALL[0]].run,) in runs
        ingest(storage, "first", _entries(_ALL[:3]))

        assert verify(storage) == []
        assert _all_rows(storage) == wanted
    assert len(killed) > 2 * len(OF_A_RECORD)


@pytest.mark.slow
def test_compaction_that_was_killed_loses_and_doubles_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    def started() -> Storage:
        storage = storage_at(tmp_path_factory.mktemp("killed"))
        for key in _ALL[:4]:
            ingest(storage, "first", _entries([key]))
        return storage

    wanted = _all_rows(started())
    killed = list(_killed_everywhere(started, compact))
    for storage in killed:
        assert _all_rows(storage) == wanted
        compact(storage)

        assert (_all_rows(storage), verify(storage)) == (wanted, [])
        assert len(parts_of(storage)) == 2
    assert len(killed) > 4 * len(OF_A_RECORD)


# --- damage ---------------------------------------------------------------------------------------------------------------------


def _file(storage: Storage, table: str) -> str:
    return next(name for name in storage.names() if name.startswith(f"{table}/"))


def _flip(storage: Storage, name: str) -> None:
    data = bytearray(storage.read(name))
    data[len(data) // 2] ^= 1
    storage.write(name, bytes(data))


def _change_manifest(storage: Storage, change: Callable[[dict[str, object]], None]) -> None:
    name = _file(storage, "parts")
    content = json.loads(storage.read(name))
    change(content)
    part = msgspec.convert(content, dataset.Part)
    storage.write(name, msgspec.json.encode(replace(part, seal=dataset._seal(part))))


def _rewrite(storage: Storage, table: Table, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    """Change the rows of a file, and the SHA-256 in its manifest with it."""
    part = parts_of(storage)[0]
    rows = change(pl.from_arrow(pq.read_table(storage.path(part.path(table)), partitioning=None)))  # type: ignore[arg-type]
    arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    wanted = _RECORDS[_ALL[0]].tables[table].schema
    data = parquet.encode(arrow.cast(wanted) if arrow.column_names == wanted.names else arrow)
    storage.write(part.path(table), data)
    digest = sha256(data).hexdigest()
    _change_manifest(storage, lambda content: content["files"][table].update(sha256=digest))  # type: ignore[index]


def _twice(storage: Storage) -> None:
    part = parts_of(storage)[0]
    tables = {table: pq.read_table(storage.path(part.path(table)), partitioning=None) for table in part.files}
    extra = record(6, part.protocol).tables
    both = {table: pa.concat_tables([tables[table], extra[table]]) for table in tables}
    commit(storage, dataset._write_part(storage, part.campaign, part.protocol, both))


_DAMAGES: dict[str, tuple[Callable[[Storage], object], str, str]] = {
    "a flipped bit": (lambda s: _flip(s, _file(s, "calls")), "calls/", "SHA-256"),
    "a missing file": (lambda s: s.delete([_file(s, "windows")]), "windows/", "missing"),
    "a file cut off": (lambda s: s.write(_file(s, "runs"), s.read(_file(s, "runs"))[:-8]), "runs/", "SHA-256"),
    "a file of another part": (
        lambda s: s.write(_file(s, "faults"), s.read(_file(s, "coverage"))),
        "faults/",
        "SHA-256",
    ),
    "a file without a manifest": (lambda s: s.delete([_file(s, "parts")]), "anomalies/", "in no part"),
    "a foreign file": (lambda s: s.write("README", b""), "README", "no file of a dataset"),
    "a manifest cut off": (lambda s: s.write(_file(s, "parts"), b'{"id"'), "parts/", "not the manifest of a part"),
    "a manifest that was edited": (
        lambda s: s.write(_file(s, "parts"), s.read(_file(s, "parts")).replace(b'"campaign": "first"', b'"campaign": "other"')),
        "parts/",
        "its checksum is another",
    ),
    "a manifest without checksum": (
        lambda s: s.write(_file(s, "parts"), re.sub(rb',\s*"seal": "\w+"', b"", s.read(_file(s, "parts")))),
        "parts/",
        "a manifest without checksum, of an earlier version",
    ),
    "a manifest of another version": (
        lambda s: _change_manifest(s, lambda c: c.update(version=9)),
        "parts/",
        "dataset version 9",
    ),
    "a manifest under another name": (
        lambda s: s.write("parts/x.json", s.read(_file(s, "parts"))),
        "parts/x.json",
        "another part",
    ),
    "a manifest that names too few files": (
        lambda s: _change_manifest(s, lambda c: c["files"].pop("calls")),  # type: ignore[attr-defined]
        "parts/",
        "names no file of calls",
    ),
    "other rows than counted": (
        lambda s: _change_manifest(s, lambda c: c["files"]["calls"].update(rows=3)),  # type: ignore[index]
        "calls/",
        "the manifest says 3",
    ),
    "another schema": (lambda s: _rewrite(s, "runs", lambda rows: rows.drop("seed")), "runs/", "not the schema of runs"),
    "rows of a foreign run": (
        lambda s: _rewrite(s, "calls", lambda rows: rows.with_columns(run=pl.lit("x/y"))),
        "calls/",
        "rows of x/y, which is not in the part",
    ),
    "a run twice in its part": (
        lambda s: _rewrite(s, "runs", lambda rows: pl.concat([rows[:1], rows[:1], rows[2:]])),
        "runs/",
        "not one row for each run",
    ),
    "a run in two parts": (_twice, "parts/", "is in part"),
}


@pytest.mark.parametrize("name", _DAMAGES)
def test_damage_is_named_by_file(storage: Storage, name: str) -> None:
    damage, file, words = _DAMAGES[name]
    ingest(storage, "first", _entries(_ALL[::2][:3]))
    assert verify(storage) == []
    damage(storage)

    damages = verify(storage)

    assert any(one.name.startswith(file) and words in one.words for one in damages), damages


# Without any manifest there is no dataset.
_UNSEEN = {"a file without a manifest", "a foreign file"}


@pytest.mark.parametrize("name", [name for name in _DAMAGES if name not in _UNSEEN])
def test_nothing_is_read_from_a_damaged_dataset(storage: Storage, name: str) -> None:
    damage, file, words = _DAMAGES[name]
    ingest(storage, "first", _entries(_ALL[::2][:3]))
    assert whole_parts(storage) == parts_of(storage)
    damage(storage)

    with pytest.raises(PipelineError, match=f"{file}.*{re.escape(words)}"):
        whole_parts(storage)


@pytest.mark.parametrize("campaigns", [(), ("first",)])
def test_dataset_that_lost_a_manifest_is_not_read(campaigns: tuple[str, ...], storage: Storage) -> None:
    """Its runs would be missing without a word. While somebody writes, files without a manifest are new ones."""
    ingest(storage, "first", _entries(_ALL[::2][:3]))
    ingest(storage, "first", _entries(_ALL[1::2][:3]))
    before = without_inventory(storage)
    storage.delete([f"parts/{before[0].id}.json"])

    with pytest.raises(PipelineError, match=rf"parts/{before[0].id}\.json: missing, though there are files of its part"):
        whole_parts(storage, campaigns=campaigns)
    with owned(storage):
        with pytest.raises(PipelineError, match="missing, though there are files of its part"):
            whole_parts(storage, campaigns=campaigns)
        for table in before[0].files:
            name = before[0].path(table)
            storage.write(name, storage.read(name))
        assert whole_parts(storage, campaigns=campaigns) == before[1:]
    ingest(storage, "first", _entries([*_ALL[::2][:3], *_ALL[1::2][:3]]))
    assert [part.runs for part in whole_parts(storage, campaigns=campaigns)] == [part.runs for part in before]


def test_part_is_taken_over_only_with_all_of_its_runs(storage: Storage) -> None:
    """Whoever writes a manifest wrongly must not make the runs of other parts disappear."""
    for keys in (_ALL[::2][:3], _ALL[1::2][:3]):
        ingest(storage, "first", _entries(keys))
    first_part, second_part = parts_of(storage)
    for part, old in ((first_part, second_part), (second_part, first_part)):
        wrong = replace(part, replaces=(part.id, old.id))
        commit(storage, replace(wrong, seal=dataset._seal(wrong)))

    assert [part.id for part in parts_of(storage)] == [first_part.id, second_part.id]


def test_no_drawn_damage_of_a_file_is_read(storage: Storage) -> None:
    ingest(storage, "first", _entries(_ALL[::2][:3]))
    names, draws = storage.names(), random.Random(11)
    for _ in range(60):
        name = draws.choice(names)
        good = storage.read(name)
        data = bytearray(good)
        at = draws.randrange(len(data))
        data[at : at + draws.randint(0, 9)] = draws.randbytes(draws.randint(0, 9))
        storage.write(name, bytes(data))
        if bytes(data) != good and not (name.endswith(".json") and _says_the_same(good, bytes(data))):
            with pytest.raises(PipelineError):
                whole_parts(storage)
        storage.write(name, good)
    assert whole_parts(storage) == parts_of(storage)


def _says_the_same(good: bytes, data: bytes) -> bool:
    """Whether a changed manifest still has the same content: only blanks differ."""
    try:
        return bool(json.loads(good) == json.loads(data))
    except ValueError:
        return False


def test_compaction_under_a_reader_is_no_damage(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader has the names of small parts, and a compaction deletes these before it opens them."""
    for key in _ALL[::2][:2]:
        ingest(storage, "first", _entries([key]))
    early = parts_of(storage)
    compact(storage)
    looks = iter([early])
    monkeypatch.setattr(dataset, "parts_of", lambda storage: next(looks, None) or parts_of(storage))

    assert [len(part.runs) for part in whole_parts(storage)] == [2]


def test_damaged_part_is_not_compacted(storage: Storage) -> None:
    for key in _ALL[::2][:2]:
        ingest(storage, "first", _entries([key]))
    _flip(storage, _file(storage, "calls"))
    before = storage.names()

    with pytest.raises(PipelineError, match="SHA-256"):
        compact(storage)
    assert [name for name in before if name not in storage.names()] == []


def test_dataset_with_a_damaged_manifest_takes_nothing_in(storage: Storage) -> None:
    """It would delete the files of that part as left over."""
    ingest(storage, "first", _entries(_ALL[:1]))
    before = storage.names()
    storage.write(_file(storage, "parts"), b"{}")

    with pytest.raises(PipelineError, match="not the manifest of a part"):
        ingest(storage, "first", _entries(_ALL))
    assert storage.names() == before


def test_error_of_a_source_leaves_whole_parts(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "RUNS_OF_A_PART", 1)

    def broken() -> Record:
        raise MemoryError

    with pytest.raises(MemoryError):
        ingest(storage, "first", [*_entries(_ALL[:2]), Entry("a/b", broken)])
    assert (len(parts_of(storage)), verify(storage)) == (2, [])


def test_tables_are_those_of_a_record_and_the_evidence() -> None:
    assert set(TABLES) - set(OF_A_RECORD) == {"operations", "events"}
    assert replace(record(1), protocol="x").run == record(1).run


def test_manifest_from_before_the_inventory_is_whole(tmp_path: Path) -> None:
    """These bytes were written by the last version without an inventory; a new field must not change what its checksum covers."""
    name, storage = "parts/06464df2b503d226.json", storage_at(str(tmp_path))
    storage.write(
        name,
        b'{"id":"06464df2b503d226","version":1,"campaign":"c","protocol":"safe","runs":["r1","r2"],'
        b'"files":{"runs":{"rows":2,"sha256":"ab"}},"replaces":[],"seal":"d1b734d9940da30d"}',
    )

    part = dataset.manifest_at(storage, name)
    assert (part.runs, bool(part.listed)) == (("r1", "r2"), False)
