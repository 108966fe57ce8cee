"""The folder of a run is complete when its manifest says so, and keeps the recorded rows after a kill."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from msgspec.structs import replace

from history import jsonl, parquet, store
from history.columns import TableName
from history.errors import HistoryError
from history.event import EventKind
from history.history import History
from history.op import OpType
from history.recorder import Record, Recorder
from tests.strategies import MANIFEST, histories


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
@given(history=histories())
def test_saved_run_is_loaded_unchanged(history: History, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store") / "plan" / "run-1"
    store.save(folder, history)

    history_read = store.load_run(folder)

    stored = replace(
        history.manifest,
        operation_rows=len(history.operations),
        event_rows=len(history.events),
        files={name: store.sha256_of(folder / name) for name in (store.OPERATIONS, store.EVENTS)},
    )
    assert (history_read.manifest, history_read.operations, history_read.events) == (stored, history.operations, history.events)


def _small_history() -> History:
    """A run of two operations and two events, with its digest."""
    recorder = Recorder(lambda: 5)
    for value in ("a", "b"):
        recorder.operation(process=1, type=OpType.INVOKE, f="produce", records=[Record(value=value)])
        recorder.event(EventKind.HEALED)
    return recorder.history(replace(MANIFEST, digest=recorder.history(MANIFEST).digest))


@pytest.mark.parametrize(("name", "table"), [(store.OPERATIONS, "operations"), (store.EVENTS, "events")])
@pytest.mark.parametrize("counted", [True, False], ids=["by count", "by digest"])
def test_stored_run_with_missing_rows_is_refused(name: str, table: TableName, counted: bool, tmp_path: Path) -> None:
    """A good run without half of its events looks like a run that lost writes."""
    history = _small_history()
    store.save(tmp_path, history)
    if not counted:  # the form of manifests written before they counted rows
        store.write_file(tmp_path / store.MANIFEST, store.encode_manifest(history.manifest))
    store.write_file(tmp_path / name, parquet.encode(parquet.read(tmp_path / name, table).slice(0, 1)))

    with pytest.raises(HistoryError, match=r"the tables do not belong to the manifest: it says .*, they hold"):
        store.load_run(tmp_path)


def test_stored_run_with_tables_of_another_run_is_refused(tmp_path: Path) -> None:
    """The other tables have the same number of rows, and the manifest is from before it had SHA-256 of files."""
    history = _small_history()
    store.save(tmp_path / "a", history)
    changed_operations = [replace(op, value="c") for op in history.operations]
    store.save(tmp_path / "b", History(replace(MANIFEST, digest=""), operations=changed_operations, events=history.events))
    shutil.copy(tmp_path / "b" / store.OPERATIONS, tmp_path / "a" / store.OPERATIONS)
    store.write_file(tmp_path / "a" / store.MANIFEST, store.encode_manifest(history.manifest))

    with pytest.raises(HistoryError, match=f"it says rows of digest {history.digest}, they hold"):
        store.load_run(tmp_path / "a")


@pytest.mark.parametrize(("name", "table"), [(store.OPERATIONS, "operations"), (store.EVENTS, "events")])
def test_edited_table_with_the_old_digest_is_refused(name: str, table: TableName, tmp_path: Path) -> None:
    """The footer still has the digest of the manifest, and the pages have checksums."""
    history = _small_history()
    store.save(tmp_path, history)
    edited = parquet.read(tmp_path / name, table).take([1, 0])
    store.write_file(tmp_path / name, parquet.encode(edited, digest=history.digest))

    with pytest.raises(HistoryError, match=f"{name}: not the file of the manifest, whose SHA-256 is"):
        store.load_run(tmp_path)


def test_folder_that_cannot_be_listed_is_found_as_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run must be reported as unreadable and not left out."""
    store.save(tmp_path / "good", History(MANIFEST))
    closed = tmp_path / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)

    assert store.find_runs(tmp_path) == (closed, tmp_path / "good")


def test_manifest_that_is_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / store.MANIFEST).symlink_to(store.MANIFEST)

    assert store.find_runs(tmp_path) == (tmp_path,)
    with pytest.raises(HistoryError, match=r"manifest\.json: cannot be read: Too many levels of symbolic links"):
        store.load_run(tmp_path)


def test_killed_run_keeps_its_rows_and_is_incomplete(tmp_path: Path) -> None:
    """A run ended by Ctrl-C or a kill must never be judged VALID."""
    recorder = Recorder(lambda: 5)
    recorder.event(EventKind.HEALED)
    unfinished = replace(MANIFEST, outcome="incomplete")
    journal = jsonl.encode(recorder.history(unfinished)).splitlines(keepends=True)[:-1]  # without the end line
    store.write_file(tmp_path / store.MANIFEST, store.encode_manifest(unfinished))
    store.write_file(tmp_path / store.JOURNAL, b"".join(journal))

    history = store.load_run(tmp_path)

    assert history.manifest.outcome == "incomplete"
    assert [event.kind for event in history.events] == [EventKind.HEALED]


def test_run_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write_file(tmp_path / "a", b"old")

    def fill(path: Path, data: bytes) -> int:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(OSError, match="No space left"):
        store.write_file(tmp_path / "a", b"new")

    assert _files(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a b", "é", "x" * 129])
def test_invalid_folder_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="plan name"):
        store.run_directory(tmp_path, plan_name=name, run_id="1")


def test_runs_are_found_at_and_below_a_path(tmp_path: Path) -> None:
    runs = [tmp_path / plan / run for plan, run in (("a", "1"), ("a", "2"), ("b", "1"))]
    for run in runs:
        store.save(run, History(MANIFEST))

    assert store.find_runs(tmp_path) == tuple(runs)
    assert store.find_runs(tmp_path / "a") == tuple(runs[:2])
    assert store.find_runs(runs[2]) == (runs[2],)


def test_path_without_a_stored_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no run is stored here"):
        store.find_runs(tmp_path)
    with pytest.raises(HistoryError, match="no such folder"):
        store.find_runs(tmp_path / "none")


def test_history_is_loaded_from_any_of_its_paths(tmp_path: Path) -> None:
    store.save(tmp_path, History(MANIFEST))
    (tmp_path / "a.jsonl").write_bytes(jsonl.encode(History(MANIFEST)))

    names = [tmp_path, tmp_path / "operations.parquet", tmp_path / "events.parquet", tmp_path / "a.jsonl"]
    assert [store.load(name).manifest.run_id for name in names] == [MANIFEST.run_id] * 4


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not the manifest of a run: Input data was truncated"),
        (b"{}", "not the manifest of a run: Object missing required field `run_id`"),
        (store.encode_manifest(replace(MANIFEST, schema_version=9)), "schema version 9; this highwater reads 1 and 2"),
    ],
)
def test_manifest_of_another_format_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / store.MANIFEST).write_bytes(data)

    with pytest.raises(HistoryError, match=f"manifest.json: {words}$"):
        store.load_run(tmp_path)


def test_path_that_is_not_a_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    store.save(tmp_path / "run", History(MANIFEST))

    for name in ("notes.txt", "run/other.parquet", "absent/events.parquet"):
        with pytest.raises(HistoryError, match="expected the folder of a run"):
            store.load(tmp_path / name)
    with pytest.raises(HistoryError, match=r"manifest\.json: cannot be read: No such file"):
        store.load(tmp_path)
