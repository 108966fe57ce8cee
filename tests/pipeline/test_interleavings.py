"""Two works on one folder, the second forced into the first at its dangerous steps: nothing is mixed, nothing is lost.

Who writes finds the folder owned and is refused; who reads sees the rows as they were before or after, whole.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from pipeline import dataset, verification
from pipeline.dataset import committed, compact, ingest
from pipeline.dataset_mending import mend
from pipeline.errors import PipelineError
from pipeline.lease import StoredObjects
from pipeline.ledger import Ledger
from pipeline.questions.ask import Source, ask_sql
from pipeline.questions.in_process import InProcess
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD
from pipeline.verification import verify
from tests.pipeline.datasets import without_inventory
from tests.pipeline.records import SIX, six_entries

Act = Callable[[], object]


def _counts(storage: Storage) -> dict[str, Counter[str]]:
    """How many rows of each run are committed, by table."""
    tables = {table: [pq.ParquetFile(storage.path(name)).read() for name in committed(storage, table)] for table in OF_A_RECORD}
    return {table: Counter(run for rows in parts for run in rows["run"].to_pylist()) for table, parts in tables.items()}


def _wanted(first: int, last: int) -> dict[str, Counter[str]]:
    of = SIX[first:last]
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
    work = partial(compact, storage) if second == "compact" else partial(ingest, storage, "one", six_entries(2, 6))
    acted = INGESTING[step](monkeypatch, _expecting_refusal(work))
    ingested = ingest(storage, "one", six_entries(2, 5))

    assert acted
    assert (ingested.new, ingested.present) == (1, 2)
    assert (_counts(storage), verify(storage)) == (_wanted(0, 5), [])
    work()
    assert (_counts(storage), verify(storage)) == (_wanted(0, 5 if second == "compact" else 6), [])


@pytest.mark.parametrize("step", COMPACTING)
def test_ingest_within_a_compaction_is_refused(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    work = partial(ingest, storage, "one", six_entries(2, 6))
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
    ingest(storage, "one", six_entries(2, 6))

    assert acted
    assert answers == [_told(0, 6 if step == "after its manifest" else 4)]


ASKING: dict[str, Step] = {
    "after it listed the manifests": lambda patch, act: _force(patch, Storage, "names", act, at="parts", after=True),
    "after it read a manifest": lambda patch, act: _force(patch, Storage, "read", act, at="parts/", after=True),
    "before it reads the last manifest": lambda patch, act: _force(patch, Storage, "read", act, at="parts/", nth=3),
    "before it compares a file": lambda patch, act: _force_function(patch, verification, "_complaints_of_file", act),
    "after it compared some files": lambda patch, act: _force_function(patch, verification, "_complaints_of_file", act, nth=5),
    "before its first view": lambda patch, act: _force(patch, InProcess, "_make_view", act),
    "before its second view": lambda patch, act: _force(patch, InProcess, "_make_view", act, nth=1),
    "after its last view": lambda patch, act: _force(patch, InProcess, "_make_view", act, nth=1, after=True),
}


def _force_function(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, act: Act, *, nth: int = 0, after: bool = False
) -> list[bool]:
    """Act once, before (or after) the n-th call of a function."""
    function, left, done = getattr(module, name), [nth], list[bool]()

    def called(*given: Any, **named: Any) -> Any:
        is_it = left[0] == 0 and not done
        left[0] -= 1
        if is_it:
            done.append(True)
            if not after:
                act()
        result = function(*given, **named)
        if is_it and after:
            act()
        return result

    monkeypatch.setattr(module, name, called)
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
        ingest(storage, "one", six_entries(2, 6))
        compact(storage)

    acted = ASKING[step](monkeypatch, act)

    assert _asked(storage) in (_told(0, 4), _told(0, 6))
    assert acted


@pytest.mark.parametrize("step", COMPACTING)
def test_dataset_is_whole_to_who_verifies_a_compaction(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without a manifest are new ones, and a part that is gone is in another one."""
    told: list[object] = []
    acted = COMPACTING[step](monkeypatch, lambda: told.append(verify(storage)))
    compact(storage)

    assert acted
    assert told == [[]]


@pytest.mark.parametrize("step", INGESTING)
def test_dataset_is_whole_to_who_verifies_an_ingest(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    acted = INGESTING[step](monkeypatch, lambda: told.append(verify(storage)))
    ingest(storage, "one", six_entries(2, 6))

    assert acted
    assert told == [[]]


VERIFYING = {name: step for name, step in ASKING.items() if "view" not in name}


@pytest.mark.parametrize("step", VERIFYING)
def test_compaction_within_a_verification_is_no_damage(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    acted = VERIFYING[step](monkeypatch, lambda: compact(storage))

    assert verify(storage) == []
    assert acted


# --- the lease, and mending -----------------------------------------------------------------------------------------------------

OWNING: dict[str, Step] = {
    "before its lease": lambda patch, act: _force_function(patch, dataset, "owned", act),
    "after its lease": lambda patch, act: _force_function(patch, dataset, "sweep", act),
    "after its last manifest": lambda patch, act: _force_function(patch, dataset, "list_parts", act, nth=1),
    "after its lease is given back": lambda patch, act: _force_function(patch, dataset, "ingest", act, after=True),
}


@pytest.mark.parametrize("second", ["ingest", "compact", "mend"])
@pytest.mark.parametrize("step", OWNING)
def test_second_writer_at_a_lease_is_refused_or_whole(
    step: str, second: str, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes and goes before the lease is taken or after it is given back; between, it is refused."""
    works: dict[str, Act] = {
        "ingest": lambda: ingest(storage, "one", six_entries(3, 6)),
        "compact": lambda: compact(storage),
        "mend": lambda: mend(storage),
    }
    outside = step in ("before its lease", "after its lease is given back")
    acted = OWNING[step](monkeypatch, works[second] if outside else _expecting_refusal(works[second]))
    dataset.ingest(storage, "one", six_entries(2, 5))

    assert acted
    assert (_counts(storage), verify(storage)) == (_wanted(0, 6 if outside and second == "ingest" else 5), [])


@pytest.mark.parametrize("step", ["after its lease", "after its last manifest"])
def test_nobody_answers_without_the_runs_of_a_lost_manifest(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody writes, files without a manifest are new ones only if they are newer than the lease."""
    part = dataset.parts_of(storage)[1]
    storage.delete([f"parts/{part.id}.json"])
    told: list[str] = []

    def act() -> None:
        with pytest.raises(PipelineError) as refusal:
            _asked(storage)
        told.append(str(refusal.value))

    acted = OWNING[step](monkeypatch, act)
    dataset.ingest(storage, "two", six_entries(4, 6))

    assert acted
    assert len(told) == 1
    assert [damage.name for damage in verify(storage)] == [f"parts/{part.id}.json"]


MENDING: dict[str, Step] = {
    "before its inventory": lambda patch, act: _force(patch, Storage, "write", act, at="inventory"),
    "after its inventory": lambda patch, act: _force(patch, Storage, "write", act, at="inventory", after=True),
    "before the manifest goes": lambda patch, act: _force_between_deletes(patch, act, nth=0),
    "after the manifest went": lambda patch, act: _force_between_deletes(patch, act, nth=1),
    "while the files go": lambda patch, act: _force_between_deletes(patch, act, nth=4),
}


def _hurt_two_parts(storage: Storage) -> None:
    first, _, third, _ = without_inventory(storage)
    storage.write(first.path("calls"), b"")
    storage.write(f"parts/{third.id}.json", b"{}")


@pytest.mark.parametrize("step", MENDING)
def test_nobody_answers_within_the_mending_of_a_dataset(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part gone and its runs not yet noted, a question would be answered without them."""
    _hurt_two_parts(storage)
    told: list[str] = []

    def act() -> None:
        for work in (partial(ingest, storage, "one", six_entries(0, 6)), partial(compact, storage), partial(mend, storage)):
            _expecting_refusal(work)()
        with pytest.raises(PipelineError) as refusal:
            _asked(storage)
        told.append(str(refusal.value))

    acted = MENDING[step](monkeypatch, act)
    mended = mend(storage)

    assert acted
    assert len(told) == 1
    assert (len(mended.aside), mended.left) == (2, ())
    ingest(storage, "one", six_entries(0, 4))
    assert (_counts(storage), verify(storage), _asked(storage)) == (_wanted(0, 4), [], _told(0, 4))


@pytest.mark.parametrize("step", ["before its manifest", "after its manifest"])
def test_nobody_answers_until_lost_runs_are_back(step: str, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    _hurt_two_parts(storage)
    mend(storage)
    refused: list[bool] = []

    def act() -> None:
        try:
            assert _asked(storage) == _told(0, 4)
        except PipelineError as error:
            assert "are lost" in str(error)  # noqa: PT017 - the second run is not yet back
            refused.append(True)

    acted = INGESTING[step](monkeypatch, act)
    monkeypatch.setattr(dataset, "RUNS_OF_A_PART", 1)
    ingest(storage, "one", six_entries(0, 4))

    assert acted
    assert refused
    assert _asked(storage) == _told(0, 4)


@pytest.mark.slow
@pytest.mark.parametrize("call", ["numbers", "create", "write"])
def test_ingest_on_s3_within_the_taking_of_a_lease(call: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the conditional create another ingest comes and goes: one of both is refused, or both are whole."""
    storage = storage_at(s3)
    ingest(storage, "one", six_entries(0, 2))
    new: list[int] = []

    def other_owner() -> None:
        try:
            new.append(ingest(storage, "one", six_entries(2, 4)).new)
        except PipelineError as error:
            assert "writes here" in str(error)  # noqa: PT017 - it may also come before the lease is taken

    acted = _force(monkeypatch, StoredObjects, call, other_owner)
    try:
        new.append(ingest(storage, "one", six_entries(3, 6)).new)
    except PipelineError as error:
        assert "writes here" in str(error)  # noqa: PT017 - the other one was there first
    assert acted
    runs = [run for part in dataset.parts_of(storage) for run in part.runs]

    assert new
    assert len(runs) == len(set(runs)) == 2 + sum(new)
    assert verify(storage) == []
    ingest(storage, "one", six_entries(0, 6))
    assert sorted(run for part in dataset.parts_of(storage) for run in part.runs) == sorted(record.run for record in SIX)


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
