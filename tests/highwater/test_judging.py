"""Many stored histories are judged once each; what cannot be judged is a row that says why."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from checkers.engine.verdict import Verdict
from highwater.cli.main import run_command_line
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.foreign.files import LOG, ModelChoice
from highwater.runs import judging, run
from highwater.runs.judging import digest_of, find, judge_all, judge_item, ledger_beside
from history import jsonl, store
from history.history import History
from history.op import Operation, OpType
from pipeline.items import Item
from pipeline.ledger import Ledger
from pipeline.storage import storage_at
from tests.checkers.corpus import history as told
from tests.checkers.linearizability.test_published import _published_histories as published
from tests.pipeline.faults import OLD, store_history, stored_before_hashes
from tests.strategies import MANIFEST
from tests.tidy.sources import ROOT

OURS = ModelChoice(model=LOG)
VALID, INVALID = "ok/vacuity-something-happened", "bad/acked-loss-read-past"
_WRITE = "{:process 0 :type :invoke :f :write :value 1}\n{:process 0 :type :ok :f :write :value 1}\n"
GOOD, BAD = (
    f"{_WRITE}{{:process 0 :type :invoke :f :read :value nil}}\n{{:process 0 :type :ok :f :read :value {read}}}\n"
    for read in (1, 2)
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with a VALID and an INVALID run."""
    store_history(tmp_path / "runs" / "good", told(VALID))
    store_history(tmp_path / "runs" / "lost", told(INVALID))
    return tmp_path / "runs"


def _judge(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, dict[str, object]]]:
    """The exit code and the rows by the last name of their path."""
    capsys.readouterr()
    code = run_command_line(["judge", *map(str, arguments), "--json"])
    rows = json.loads(capsys.readouterr().out)["runs"]
    return code, {Path(row["run"]).name: row for row in rows}


def _news(rows: dict[str, dict[str, object]]) -> dict[str, object]:
    return {name: row["new"] for name, row in rows.items()}


def test_run_is_judged_once_by_the_same_checkers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = _judge(capsys, place)
    second = _judge(capsys, place)
    third = _judge(capsys, place, "--again")

    assert [code for code, _ in (first, second, third)] == [ExitCode.INVALID] * 3
    assert [_news(rows) for _, rows in (first, second, third)] == [
        {"good": True, "lost": True}, {"good": False, "lost": False}, {"good": True, "lost": True},
    ]  # fmt: skip
    assert {name: row["verdict"] for name, row in second[1].items()} == {"good": "VALID", "lost": "INVALID"}


def test_changed_checkers_judge_again(place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _judge(capsys, place)
    monkeypatch.setattr(judging, "digest_of_judges", lambda: "other")

    assert _news(_judge(capsys, place)[1]) == {"good": True, "lost": True}


def test_digest_of_judges_covers_each_of_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[Path] = set()
    of_the_files = judging.digest_of_judges()

    def record(path: Path) -> str:
        read.add(path)
        return "0"

    monkeypatch.setattr(store, "sha256_of", record)
    digest = judging.digest_of_judges.__wrapped__()

    assert digest != of_the_files
    assert read >= {file for folder in ("checkers", "history") for file in (ROOT / folder).rglob("*.py")}
    assert ROOT / "highwater" / "foreign" / "files.py" in read


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: path.write_text("{}")], ids=["gone", "edited"])
def test_verdict_beside_a_run_is_restored(
    lose: Callable[[Path], object], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _judge(capsys, place)
    verdict = (place / "lost" / store.VERDICT).read_bytes()
    lose(place / "lost" / store.VERDICT)

    _, rows = _judge(capsys, place)

    assert not rows["lost"]["new"]
    assert (place / "lost" / store.VERDICT).read_bytes() == verdict
    assert msgspec.json.decode(verdict, type=Verdict) == run.judge(store.load_run(place / "lost"))


def test_verdict_that_cannot_be_written_is_in_the_ledger_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "good" / store.VERDICT).mkdir()

    assert run_command_line(["judge", str(place)]) == ExitCode.INVALID

    assert "1 verdicts are in the ledger alone" in capsys.readouterr().out
    assert _judge(capsys, place)[1]["good"]["verdict"] == "VALID"


def test_damaged_run_is_refused_and_tried_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict of the whole run must not be taken for that of the damaged one."""
    _judge(capsys, place)
    events = place / "good" / store.EVENTS
    data = events.read_bytes()
    events.write_bytes(data[:100])
    damaged = _judge(capsys, place)[1], _judge(capsys, place)[1]
    events.write_bytes(data)
    _, repaired = _judge(capsys, place)

    for rows in damaged:
        assert (rows["good"]["verdict"], rows["good"]["new"], rows["lost"]["new"]) == ("refused", True, False)
    assert (repaired["good"]["verdict"], repaired["good"]["new"]) == ("VALID", False)


def test_refused_run_alone_is_unknown_and_says_how_to_repeat(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "good" / store.EVENTS).unlink()

    code = run_command_line(["judge", str(place / "good")])

    message = capsys.readouterr().out
    assert code == ExitCode.UNKNOWN
    assert "  events.parquet: no such file\n" in message
    assert f"  repeat: highwater check {place / 'good'}\n" in message
    assert "1 histories: 1 refused; unknown\n" in message


def test_run_that_changes_while_it_is_judged_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(history: History) -> Verdict:
        (place / "good" / store.EVENTS).touch()
        shutil.copy(place / "lost" / store.OPERATIONS, place / "good" / store.OPERATIONS)
        return judge(history)

    judge = run.judge
    monkeypatch.setattr(run, "judge", changing)

    _, rows = _judge(capsys, place, "--jobs", 1)

    assert (rows["good"]["verdict"], rows["lost"]["verdict"]) == ("refused", "INVALID")


def _hang(history: History) -> Verdict:
    time.sleep(60)
    raise AssertionError


def _fail(history: History) -> Verdict:
    raise ZeroDivisionError("by a checker")


@pytest.mark.parametrize(
    ("broken", "outcome", "words", "code"),
    [
        (_hang, "late", "not ready after 1.0 s", ExitCode.UNKNOWN),
        (_fail, "failed", "ZeroDivisionError: by a checker", ExitCode.LABORATORY_FAILED),
    ],
    ids=["hang", "fail"],
)
@pytest.mark.slow
def test_judge_that_hangs_or_fails_costs_one_verdict(
    broken: Callable[[History], Verdict],
    outcome: str,
    words: str,
    code: ExitCode,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = run.judge
    monkeypatch.setattr(run, "judge", lambda history: (broken if history.manifest.run_id == "lost" else judge)(history))
    first = _judge(capsys, place, "--deadline", 1, "--jobs", 1)
    monkeypatch.undo()
    second = _judge(capsys, place, "--jobs", 1)

    assert (first[0], first[1]["lost"]["verdict"], first[1]["lost"]["words"]) == (code, outcome, words)
    assert first[1]["good"]["verdict"] == "VALID"
    assert (second[1]["lost"]["verdict"], _news(second[1])) == ("INVALID", {"good": False, "lost": True})


def test_refused_master_keeps_the_verdicts_of_the_ledger(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(capsys, place)

    assert run_command_line(["judge", str(place), "--again", "--spark", "nonsense"]) == ExitCode.USAGE

    assert _news(_judge(capsys, place)[1]) == {"good": False, "lost": False}


def test_history_without_a_row_has_failed(place: Path, tmp_path: Path) -> None:
    ledger = Ledger(storage_at(tmp_path / "ledger"))

    cases = judge_all(find([str(place)], OURS), OURS, ledger, again=False, perform=lambda items: None)

    assert [(case.outcome, case.exit_code) for case in cases] == [("failed", ExitCode.LABORATORY_FAILED)] * 2


def test_worker_with_other_checkers_judges_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = find([str(place / "good")], OURS)
    item = judging.item_of(source, OURS)
    monkeypatch.setattr(judging, "digest_of_judges", lambda: "other")

    with pytest.raises(HarnessError, match="are not those of the driver"):
        judge_item(item.payload)


def test_damaged_row_of_the_ledger_is_done_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _judge(capsys, place)
    for row in (place / judging.LEDGER).iterdir():
        row.write_text("{")

    assert _news(_judge(capsys, place)[1]) == {"good": True, "lost": True}


def test_equal_runs_are_judged_once(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "good", place / "copy")
    done = []

    def perform(items: list[Item]) -> None:
        done.extend(items)

    judge_all(find([str(place)], OURS), OURS, Ledger(storage_at(tmp_path / "ledger")), again=False, perform=perform)

    assert len(done) == 2


@pytest.mark.parametrize("fault", ["unknown-type", "null-function", "bit-in-plain-page", "bit-in-zstd-page"])
def test_damage_of_a_history_read_by_columns_is_refused(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A history of 20,000 rows is screened, so most of its columns are never read as a whole."""
    rows = [Operation(index=n, process=1, type=OpType.INVOKE, f="poll", topic="t", partition=0, time_ns=n) for n in range(20_001)]
    OLD[fault][0](stored_before_hashes(tmp_path / "large", History(MANIFEST, operations=rows)))

    code, found = _judge(capsys, tmp_path / "large")

    assert (code, found["large"]["verdict"]) == (ExitCode.UNKNOWN, "refused")


# --- histories of other systems -------------------------------------------------------------------------------------


def test_foreign_files_are_judged_by_their_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("good.edn", GOOD), ("bad.edn", BAD), ("broken.edn", "{:process"), ("notes.md", "no history")):
        (tmp_path / name).write_text(text)
    _judge(capsys, tmp_path, "--model", "register")

    code, rows = _judge(capsys, tmp_path, "--model", "register")
    _, others = _judge(capsys, tmp_path, "--model", "cas-register")

    assert code == ExitCode.INVALID
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "good.edn": "VALID", "bad.edn": "INVALID", "broken.edn": "refused",
    }  # fmt: skip
    assert _news(rows) == {"good.edn": False, "bad.edn": False, "broken.edn": True}
    assert all(_news(others).values())
    assert rows["bad.edn"]["repeat"] == f"highwater check {tmp_path / 'bad.edn'} --model register"


def test_run_is_judged_by_the_model_of_the_call(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdict.json is that of the log's checkers, so the judgement of another model stays in the ledger."""
    expected = run_command_line(["check", str(place / "good"), "--model", "kafka"])

    code, rows = _judge(capsys, place / "good", "--model", "kafka")

    assert (code, rows["good"]["verdict"]) == (expected, "UNKNOWN")
    assert not (place / "good" / store.VERDICT).exists()


def test_history_of_ours_in_one_file_is_judged_as_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lost.jsonl").write_bytes(jsonl.encode(told(INVALID)))

    code, rows = _judge(capsys, tmp_path / "lost.jsonl")

    assert (code, rows["lost.jsonl"]["kinds"]) == (ExitCode.INVALID, ["lost-write"])


@pytest.mark.slow
def test_published_histories_are_judged_as_check_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = published()
    if not chosen:
        pytest.skip("no published histories beside the project")
    wrong = []
    for path, model, _, _ in chosen:
        code, rows = _judge(capsys, path, "--model", model, "--ledger", tmp_path / "ledger")
        single = run_command_line(["check", path, "--model", model, "--json"])
        said = json.loads(capsys.readouterr().out)
        (row,) = rows.values()
        if (code, row["verdict"], row["anomalies"]) != (single, said["verdict"], len(said["anomalies"])):
            wrong.append(path)

    assert wrong == []


# --- places ---------------------------------------------------------------------------------------------------------


def test_ledger_lies_beside_the_runs_by_default(place: Path) -> None:
    (place / "a.edn").touch()

    assert ledger_beside([str(place)]) == str(place / "judged")
    assert ledger_beside([str(place / "good")]) == str(place / "judged")
    assert ledger_beside([str(place / "good"), str(place / "lost")]) == str(place / "judged")
    assert ledger_beside([str(place / "a.edn")]) == str(place / "judged")
    assert ledger_beside(["s3://bucket/store?region=x"]) == "s3://bucket/store/judged?region=x"


@pytest.mark.parametrize("paths", [["s3://bucket/a", "runs"], ["/usr", "/tmp"]], ids=["remote", "root"])
def test_paths_without_a_common_place_need_a_ledger(paths: list[str]) -> None:
    with pytest.raises(UsageError, match="say with --ledger"):
        ledger_beside(paths)


def test_ledger_that_cannot_be_written_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / judging.LEDGER).write_text("a file")

    assert run_command_line(["judge", str(place)]) == ExitCode.USAGE

    assert "say with --ledger where the verdicts are kept" in capsys.readouterr().err
    assert _judge(capsys, place, "--ledger", place.parent / "elsewhere")[0] == ExitCode.INVALID


def test_digest_of_a_run_follows_its_files_and_not_its_place(place: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(place / "good", tmp_path / "copy"))
    before = digest_of(str(copy))
    (copy / store.VERDICT).write_text("{}")

    assert digest_of(str(copy)) == before == digest_of(str(place / "good")) != digest_of(str(place / "lost"))
    (copy / store.EVENTS).unlink()
    assert digest_of(str(copy)) != before
