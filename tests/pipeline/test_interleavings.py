"""Two works on one folder, the second forced into the first at its dangerous steps: nothing is mixed, nothing is lost.

Who writes finds the folder owned and is refused; who reads sees the rows as they were before or after, whole.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from pipeline import dataset, verification
from pipeline.dataset import Entry, committed, compact, ingest
from pipeline.errors import PipelineError
from pipeline.lease import StoredObjects
from pipeline.ledger import Ledger
from pipeline.questions.ask import Source, ask_sql
from pipeline.questions.in_process import InProcess
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD
from pipeline.verification import verify
from tests.pipeline.records import record

_RECORDS = [record(seed) for seed in range(6)]
Act = Callable[[], object]


def _entries(first: int, last: int) -> list[Entry]:
    return [Entry(one.run, partial(list.__getitem__, _RECORDS, number)) for number, one in list(enumerate(_RECORDS))[first:last]]


def _counts(storage: Storage) -> dict[str, Counter[str]]:
    """How many rows of each run are committed, by table."""
    tables = {table: [pq.ParquetFile(storage.path(name)).read() for name in committed(storage, table)] for table in OF_A_RECORD}
    return {table: Counter(run for rows in parts for run in rows["run"].to_pylist()) for table, parts in tables.items()}


def _wanted(first: int, last: int) -> dict[str, Counter[str]]:
    of = _RECORDS[first:last]
    return {table: Counter(run for one in of for run in one.tables[table]["run"].to_pylist()) for table in OF_A_RECORD}


def _asked(storage: Storage) -> tuple[int, int]:
    """What a question counts: runs, and calls."""
    sql = "select (select count(*) from runs) as runs, (select count(*) from calls) as calls"
    (row,) = ask_sql(Source(dataset=storage.location), sql).table.to_pylist()
    return row["runs"], row["calls"]


def _told(first: int, last: int) -> tuple[int, int]:
    wanted = _wanted(first, last)
    return sum(wanted["runs"].values()), sum(wanted["calls"].values())


def _force(
    monkeypatch: pytest.MonkeyPatch, kind: type, name: str, act: Act, *, at: str = "", nth: int = 0, after: bool = False
) -> list[bool]:
    """Act once, before (or after) the n-th call of a method whose first argument begins with `at`. Returns whether it acted."""
    method = getattr(kind, name)
    left, done = [nth], list[bool]()

    def called(*given: Any, **named: Any) -> Any:
        fits = not done and str(given[1] if len(given) > 1 else "").startswith(at)
        is_it = fits and left[0] == 0
        left[0] -= int(fits)
        if is_it:
            done.append(True)
            if not after:
                act()
        result = method(*given, **named)
        if is_it and after:
            act()
        return result

    monkeypatch.setattr(kind, name, called)
    return done


def _force_between_deletes(monkeypatch: pytest.MonkeyPatch, act: Act, *, nth: int) -> list[bool]:
    """Act once, before the n-th file is deleted."""
    method, left, done = Storage.delete, [nth], list[bool]()

    def delete(storage: Storage, names: Iterable[str]) -> None:
        for name in names:
            if left[0] == 0 and not done:
                done.append(True)
                act()
            left[0] -= 1
            method(storage, [name])

    monkeypatch.setattr(Storage, "delete", delete)
    return done


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A dataset of four runs in four parts."""
    place = storage_at(tmp_path / "dataset")
    for seed in range(4):
        ingest(place, "one", _entries(seed, seed + 1))
    return place


# Steps of a writer: each forces an act into it.
Step = Callable[[pytest.MonkeyPatch, Act], list[bool]]
INGESTING: dict[str, Step] = {
    "before its first file": lambda patch, act: _force(patch, Storage, "write", act, at="runs/"),
    "before its last file": lambda patch, act: _force(patch, Storage, "write", act, at="coverage/"),
    "before its manifest": lambda patch, act: _force(patch, Storage, "write", act, at="parts/"),
    "after its manifest": lambda patch, act: _force(patch, Storage, "write", act, at="parts/", after=True),
}
COMPACTING: dict[str, Step] = {
    **INGESTING,
    "before the first old manifest goes": lambda patch, act: _force_between_deletes(patch, act, nth=0),
    "after the first old manifest went": lambda patch, act: _force_between_deletes(patch, act, nth=1),
    "while the old files go": lambda patch, act: _force_between_deletes(patch, act, nth=9),
}


def _expecting_refusal(work: Act) -> Act:
    """An act that does the work of a second writer, and asserts that the dataset refuses it."""

    def act() -> None:
        with pytest.raises(PipelineError, match=r"process \d+ on .* writes here; wait for its end"):
            work()

    return act


@pytest.mark.parametrize("second", ["ingest", "compact"])
@pytest.mark.parametrize("step", INGESTING)
def test_writer_within_an_ingest_is_refused(step: str, second: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one would delete the files that have no manifest yet."""
    work = partial(compact, storage) if second == "compact" else partial(ingest, storage, "one", _entries(2, 6))
    acted = INGESTING[step](monkeypatch, _expecting_refusal(work))
    ingested = ingest(storage, "one", _entries(2, 5))

    assert acted
    assert (ingested.new, ingested.present) == (1, 2)
    assert (_counts(storage), verify(storage)) == (_wanted(0, 5), [])
    work()
    assert (_counts(storage), verify(storage)) == (_wanted(0, 5 if second == "compact" else 6), [])


@pytest.mark.parametrize("step", COMPACTING)
def test_ingest_within_a_compaction_is_refused(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    work = partial(ingest, storage, "one", _entries(2, 6))
    acted = COMPACTING[step](monkeypatch, _expecting_refusal(work))
    compact(storage)

    assert acted
    assert (_counts(storage), verify(storage)) == (_wanted(0, 4), [])
    work()
    assert (_counts(storage), verify(storage)) == (_wanted(0, 6), [])


@pytest.mark.parametrize("step", COMPACTING)
def test_question_within_a_compaction_counts_each_row_once(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[tuple[int, int]] = []
    acted = COMPACTING[step](monkeypatch, lambda: answers.append(_asked(storage)))
    compact(storage)

    assert acted
    assert answers == [_told(0, 4)]
    assert _asked(storage) == _told(0, 4)


@pytest.mark.parametrize("step", INGESTING)
def test_question_within_an_ingest_counts_whole_runs(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[tuple[int, int]] = []
    acted = INGESTING[step](monkeypatch, lambda: answers.append(_asked(storage)))
    ingest(storage, "one", _entries(2, 6))

    assert acted
    assert answers == [_told(0, 6 if step == "after its manifest" else 4)]


ASKING: dict[str, Step] = {
    "before it compares a file": lambda patch, act: _force_function(patch, "_complaints_of_file", act, nth=0),
    "after it compared some files": lambda patch, act: _force_function(patch, "_complaints_of_file", act, nth=5),
    "before its first view": lambda patch, act: _force(patch, InProcess, "_make_view", act),
    "before its second view": lambda patch, act: _force(patch, InProcess, "_make_view", act, nth=1),
    "after its last view": lambda patch, act: _force(patch, InProcess, "_make_view", act, nth=1, after=True),
}


def _force_function(monkeypatch: pytest.MonkeyPatch, name: str, act: Act, *, nth: int) -> list[bool]:
    function, left, done = getattr(verification, name), [nth], list[bool]()

    def called(*given: Any) -> Any:
        if left[0] == 0 and not done:
            done.append(True)
            act()
        left[0] -= 1
        return function(*given)

    monkeypatch.setattr(verification, name, called)
    return done


@pytest.mark.parametrize("step", ASKING)
def test_compaction_within_a_question_changes_no_count(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that the question was about to read are gone: it is asked again, of those that are there."""
    acted = ASKING[step](monkeypatch, lambda: compact(storage))

    assert _asked(storage) == _told(0, 4)
    assert acted


@pytest.mark.parametrize("step", ASKING)
def test_ingest_and_compaction_within_a_question(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        ingest(storage, "one", _entries(2, 6))
        compact(storage)

    acted = ASKING[step](monkeypatch, act)

    assert _asked(storage) in (_told(0, 4), _told(0, 6))
    assert acted


@pytest.mark.slow
@pytest.mark.parametrize("call", ["numbers", "create", "write"])
def test_ingest_on_s3_within_the_taking_of_a_lease(call: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the conditional create another ingest comes and goes: one of both is refused, or both are whole."""
    storage = storage_at(s3)
    ingest(storage, "one", _entries(0, 2))
    new: list[int] = []

    def other_owner() -> None:
        try:
            new.append(ingest(storage, "one", _entries(2, 4)).new)
        except PipelineError as error:
            assert "writes here" in str(error)  # noqa: PT017 - it may also come before the lease is taken

    acted = _force(monkeypatch, StoredObjects, call, other_owner)
    try:
        new.append(ingest(storage, "one", _entries(3, 6)).new)
    except PipelineError as error:
        assert "writes here" in str(error)  # noqa: PT017 - the other one was there first
    assert acted
    runs = [run for part in dataset.parts_of(storage) for run in part.runs]

    assert new
    assert len(runs) == len(set(runs)) == 2 + sum(new)
    assert verify(storage) == []
    ingest(storage, "one", _entries(0, 6))
    assert sorted(run for part in dataset.parts_of(storage) for run in part.runs) == sorted(record.run for record in _RECORDS)


# --- campaigns ------------------------------------------------------------------------------------------------------------------

_ORDER = ("campaign", "--seeds", "0..1", "--protocol", "v3", "--seconds", "1", "--jobs", "1", "--shrink", "0", "--json")
DRIVING: dict[str, Step] = {
    "before its request": lambda patch, act: _force(patch, Storage, "write", act, at="campaigns/v3"),
    "before its first row": lambda patch, act: _force(patch, Ledger, "commit", act),
    "after its first row": lambda patch, act: _force(patch, Ledger, "commit", act, after=True),
    "before its last row": lambda patch, act: _force(patch, Ledger, "commit", act, nth=1),
    "before its runs are listed": lambda patch, act: _force(patch, Storage, "write_lines", act),
}


def _performed(store: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[tuple[object, ...]], str]:
    capsys.readouterr()
    code = run_command_line([*_ORDER, "--store", str(store), *options])
    captured = capsys.readouterr()
    runs = json.loads(captured.out).get("runs", [])  # none where the command was refused
    return code, sorted((run["seed"], run["verdict"], run["digest"]) for run in runs), captured.err


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--resume",)], ids=["anew", "resumed"])
@pytest.mark.parametrize("step", DRIVING)
def test_driver_within_another_driver_is_refused(
    step: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would forget the rows of the first one. A campaign that is taken in meanwhile gives its finished runs."""
    others: list[tuple[int, str]] = []
    taken: list[dict[str, int]] = []

    def act() -> None:
        code, runs, words = _performed(tmp_path, capsys, *options)
        assert runs == []
        others.append((code, words))
        folder = next((tmp_path / "campaigns").glob("*"))
        if list(folder.glob("ledger/*.json")):
            assert run_command_line(["store", "ingest", str(folder), "--dataset", str(tmp_path / "dataset"), "--json"]) == 0
            taken.append(json.loads(capsys.readouterr().out))

    acted = DRIVING[step](monkeypatch, act)
    code, runs, _ = _performed(tmp_path, capsys)

    assert acted
    ((exit_code, words),) = others
    assert exit_code == ExitCode.USAGE
    assert "writes here; wait for its end" in words
    assert code == ExitCode.INVALID
    assert [seed for seed, *_ in runs] == [0, 1]
    assert all(counts["new"] + counts["unfinished"] == 2 for counts in taken)
    monkeypatch.undo()
    assert _performed(tmp_path, capsys, "--resume")[:2] == (code, runs)


@pytest.mark.slow
@pytest.mark.parametrize("nth", range(3))
def test_ingest_within_a_resume_counts_each_run(
    nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The resumed campaign forgets the row and the record of a damaged run, one after the other, before it does it again."""
    wanted = _performed(tmp_path, capsys)
    (folder,) = (tmp_path / "campaigns").glob("*")
    cut, *_ = sorted((folder / "records").iterdir())
    cut.write_bytes(cut.read_bytes()[:-9])
    taken: list[dict[str, Any]] = []

    def take_in() -> None:
        capsys.readouterr()
        run_command_line(["store", "ingest", str(folder), "--dataset", str(tmp_path / "dataset"), "--json"])
        taken.append(json.loads(capsys.readouterr().out))

    acted = _force_between_deletes(monkeypatch, take_in, nth=nth)
    resumed = _performed(tmp_path, capsys, "--resume")
    monkeypatch.undo()
    take_in()

    assert bool(acted) == (len(taken) == 2) == (nth < 2)
    assert resumed[:2] == wanted[:2]
    assert [counts["new"] + counts["present"] + len(counts["refused"]) + counts["unfinished"] for counts in taken] == [2] * len(
        taken
    )
    assert (taken[-1]["new"] + taken[-1]["present"], taken[-1]["refused"]) == (2, [])
    assert verify(storage_at(tmp_path / "dataset")) == []
