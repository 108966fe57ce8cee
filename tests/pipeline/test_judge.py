"""Many stored histories are judged alike in process and on Spark; bad data is refused and costs no other history its verdict."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from pyspark.sql import SparkSession

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.foreign.files import LOG, ModelChoice, judge_file
from highwater.runs import judging
from highwater.runs.judging import Case, find, judge_all, judge_item
from highwater.runs.run import honest
from history import jsonl, store
from history.errors import HistoryError
from history.history import History
from history.seed import Rng
from pipeline.items import Item, Job
from pipeline.ledger import Ledger
from pipeline.storage import below, storage_at
from pipeline.work import perform
from tests.pipeline.faults import KILLED, LATE, NEW, OLD, store_history, stored_before_hashes
from tests.pipeline.runs import STORIES, corpus, random_run

OURS = ModelChoice(model=LOG)
VALID, INVALID = "ok/vacuity-something-happened", "bad/acked-loss-read-past"
Perform = Callable[[Job, list[Item]], None]


def _history(name: str) -> History:
    return jsonl.read(STORIES / f"{name}.jsonl")


def _here(job: Job, items: list[Item]) -> None:
    perform(items, job)


def _on(spark: SparkSession) -> Perform:
    return lambda job, items: perform(items, job, spark=spark, per_task=16)


def _cases_of(runs: Path, ledger: Path, perform: Perform, *, late: bool = False) -> dict[str, Case]:
    """The cases by the names of their folders."""
    sources = find([str(runs)], OURS)
    if late:
        for name, (damage, _) in LATE.items():
            damage(runs / "late" / name)
    job = Job(function=judge_item, ledger=str(ledger), deadline_s=60)
    cases = judge_all(sources, OURS, Ledger(storage_at(ledger)), again=False, perform=lambda items: perform(job, items))
    return {str(Path(case.source.location).relative_to(runs)): case for case in cases}


def _faulty(folder: Path) -> dict[str, tuple[str, str]]:
    """Store one run for each fault, and some that are good. Returns the outcome and the words that each must have."""
    valid = _history(VALID)
    for name in ("good/valid", *(f"late/{name}" for name in LATE)):
        store_history(folder / name, valid)
    store_history(folder / "good/invalid", _history(INVALID))
    stored_before_hashes(folder / "good/before-hashes", valid)
    for name, (damage, _) in NEW.items():
        damage(store_history(folder / "new" / name, valid))
    for name, (damage, _) in OLD.items():
        damage(stored_before_hashes(folder / "old" / name, valid))
    for name, (damage, _) in KILLED.items():
        damage(store_history(folder / "killed" / name, valid))
    expected = {"good/valid": ("VALID", ""), "good/invalid": ("INVALID", ""), "good/before-hashes": ("VALID", "")}
    expected |= {f"killed/{name}": (outcome, "") for name, (_, outcome) in KILLED.items()}
    for kind, faults in (("new", NEW), ("old", OLD), ("late", LATE)):
        expected |= {f"{kind}/{name}": ("refused", words) for name, (_, words) in faults.items()}
    return expected


def _assert_as_expected(cases: dict[str, Case], expected: dict[str, tuple[str, str]]) -> None:
    assert {name: case.outcome for name, case in cases.items()} == {name: outcome for name, (outcome, _) in expected.items()}
    unsaid = {name: case.words for name, case in cases.items() if not re.match(expected[name][1], case.words)}
    assert unsaid == {}


@pytest.mark.slow
def test_each_fault_is_refused_and_the_other_runs_judged(tmp_path: Path) -> None:
    expected = _faulty(tmp_path / "runs")

    cases = _cases_of(tmp_path / "runs", tmp_path / "ledger", _here, late=True)

    _assert_as_expected(cases, expected)
    assert {case.exit_code for case in cases.values() if case.outcome == "refused"} == {ExitCode.UNKNOWN}


def test_history_in_parts_is_judged_piece_by_piece(tmp_path: Path) -> None:
    """A worker must not need the memory of the whole history."""
    histories = {name: _history(name) for name in (VALID, INVALID)}
    for name, history in histories.items():
        store.save(tmp_path / "runs" / name, history, split_rows=-1, part_rows=1)
    done: list[str] = []

    def count(job: Job, items: list[Item]) -> None:
        done.extend(item.key for item in items)
        _here(job, items)

    cases = _cases_of(tmp_path / "runs", tmp_path / "ledger", count)

    expected = {name: honest(judge(history), history.manifest) for name, history in histories.items()}
    assert {name: case.ruling.verdict for name, case in cases.items()} == expected
    assert len(done) >= 2 * len(cases)
    assert len(Ledger(storage_at(tmp_path / "ledger")).keys()) == len(cases)


def test_history_in_parts_is_judged_by_the_model_asked_for(tmp_path: Path) -> None:
    """Its pieces are for the checkers of highwater's own histories alone."""
    run = tmp_path / "runs" / "a"
    store.save(run, _history(INVALID), split_rows=-1, part_rows=1)
    choice, ledger = ModelChoice(model="kafka"), Ledger(storage_at(tmp_path / "ledger"))
    job = Job(function=judge_item, ledger=ledger.location)

    (case,) = judge_all(find([str(run)], choice), choice, ledger, again=False, perform=lambda items: _here(job, items))

    assert case.ruling.verdict is None
    assert case.ruling.judgement == replace(judge_file(run, choice), longest=(), cycles=UNSET)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-9], "not a complete Parquet file"),
        (lambda data: data[:8] + bytes([data[8] ^ 1]) + data[9:], "not the file of the manifest"),
    ],
    ids=["cut", "flipped bit"],
)
def test_history_in_parts_is_refused_for_one_damaged_part(damage: Callable[[bytes], bytes], words: str, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "a"
    store.save(run, _history(VALID), split_rows=-1, part_rows=1)
    damaged = max((run / "events").iterdir())
    damaged.write_bytes(damage(damaged.read_bytes()))

    cases = _cases_of(run.parent, tmp_path / "ledger", _here)

    assert cases["a"].outcome == "refused"
    assert cases["a"].words.startswith(f"events/{damaged.name}: {words}")


@pytest.mark.spark
@pytest.mark.slow
def test_each_fault_is_refused_on_spark_in_the_same_words(spark: SparkSession, tmp_path: Path) -> None:
    expected = _faulty(tmp_path / "runs")

    here = _cases_of(tmp_path / "runs", tmp_path / "here", _here)
    there = _cases_of(tmp_path / "runs", tmp_path / "there", _on(spark), late=True)

    _assert_as_expected(there, expected)
    both = [name for name in expected if not name.startswith("late/")]
    assert [there[name].words for name in both] == [here[name].words for name in both]
    assert judging.digest_of_table([there[name] for name in both]) == judging.digest_of_table([here[name] for name in both])


@pytest.mark.spark
@pytest.mark.slow
def test_spark_judges_corpus_and_random_runs_as_one_process(spark: SparkSession, tmp_path: Path) -> None:
    histories = corpus() + [random_run(Rng(seed)) for seed in range(40)]
    runs = [tmp_path / "a b+c%20é" / f"{number:03}" for number in range(len(histories))]
    for number, (run, history) in enumerate(zip(runs, histories, strict=True)):
        store.save(run, history, split_rows=-1 if number % 16 == 0 else store.SPLIT_ROWS)

    here = _cases_of(runs[0].parent, tmp_path / "here", _here)
    there = _cases_of(runs[0].parent, tmp_path / "there", _on(spark))

    expected = [honest(judge(history), history.manifest) for history in histories]
    assert [case.ruling.verdict for case in here.values()] == expected
    assert judging.digest_of_table(list(there.values())) == judging.digest_of_table(list(here.values()))
    # The random runs must include every validity; otherwise equality proves little.
    assert {verdict.validity for verdict in expected[-40:]} == set(Validity)
    assert any(verdict.cuts for verdict in expected)


@pytest.mark.spark
@pytest.mark.slow
def test_command_prints_the_same_table_with_spark(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (VALID, INVALID):
        store_history(tmp_path / "runs" / name, _history(name))
    (tmp_path / "runs" / "cut").mkdir()
    (tmp_path / "runs" / "cut" / store.MANIFEST).touch()

    codes, tables = [], []
    for options in (["--jobs", "2"], ["--spark", "local[2,4]"], ["--spark", "local[2,4]"]):
        ledger = str(tmp_path / options[0])
        codes.append(run_command_line(["judge", str(tmp_path / "runs"), "--json", "--ledger", ledger, *options]))
        tables.append(json.loads(capsys.readouterr().out))

    assert codes == [ExitCode.INVALID] * 3
    assert len({table["digest"] for table in tables}) == 1
    assert [[row["new"] for row in table["runs"]] for table in tables] == [[True] * 3, [True] * 3, [False, True, False]]


@pytest.mark.slow
def test_runs_in_an_object_store_are_judged_into_its_ledger(s3: str, tmp_path: Path) -> None:
    for name, history in (("good", VALID), ("lost", INVALID)):
        store_history(tmp_path / name, _history(history))
        storage_at(s3).put_folder(tmp_path / name, f"plan/{name}", last=store.MANIFEST)
    storage_at(s3).delete(["plan/lost/events.parquet"])

    def cases() -> dict[str, Case]:
        ledger = Ledger(storage_at(judging.ledger_beside([s3])))
        job = Job(function=judge_item, ledger=ledger.location)

        def do(items: list[Item]) -> None:
            ledger.forget({item.key for item in items})
            _here(job, items)

        cases = judge_all(find([s3], OURS), OURS, ledger, again=False, perform=do)
        return {case.source.path: case for case in cases}

    first, second = cases(), cases()

    good, lost = below(s3, "plan/good"), below(s3, "plan/lost")
    assert {name: (case.outcome, case.words, case.new) for name, case in first.items()} == {
        good: ("VALID", "", True), lost: ("refused", "events.parquet: no such file", True),
    }  # fmt: skip
    assert {name: case.new for name, case in second.items()} == {good: False, lost: True}
    assert first[good].ruling.verdict == judge(_history(VALID))
    assert not judging.keep_verdict(first[good])
    assert judging.command(first[good].source, OURS).startswith("highwater judge --again ")
    with pytest.raises(HistoryError, match="no run is stored here"):
        find([below(s3, "empty")], OURS)
