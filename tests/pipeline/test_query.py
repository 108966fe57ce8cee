"""`highwater query`, `diff` and `triage`: forms of the answer, exit codes, bad input."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from highwater.cli.main import run_command_line
from pipeline.questions.catalogue import QUESTIONS
from tests.pipeline.datasets import Made, write_dataset
from tests.pipeline.engines import ENGINES

ONE = Made(campaign="one", seeds=range(12))
TWO = replace(ONE, campaign="two", invalid=400, slower=500)


@pytest.fixture(params=ENGINES)
def engine_options(request: pytest.FixtureRequest) -> list[str]:
    """The options that choose an engine."""
    if request.param == "in process":
        return []
    request.getfixturevalue("spark")
    return ["--spark", "local[2]"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_dataset(tmp_path_factory.mktemp("dataset"), (ONE, TWO)))


def test_query_without_a_name_lists_the_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["query"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*(question.name for question in QUESTIONS), "all", "--sql"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "detection"],
        ["query", "weather", "--dataset", "."],
        ["query", "detection", "--sql", "select 1", "--dataset", "."],
        ["query", "detection", "--dataset", ".", "--format", "parquet"],
        ["query", "all", "--dataset", ".", "--format", "csv"],
        ["query", "detection", "--dataset", ".", "--page", "."],
        ["query", "detection", "--dataset", ".", "--spark", "locale"],
        ["diff", "one"],
    ],
)
def test_bad_query_is_refused_before_spark_starts(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_command_line(arguments) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "command", [["query", "detection"], ["query", "--sql", "select * from runs"], ["diff", "one", "two"], ["triage"]]
)
def test_damaged_dataset_is_refused_before_spark_starts(
    command: list[str], dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdicts were rewritten, INVALID to VALID: the comparison would say that nothing is worse."""
    copied = tmp_path / "dataset"
    shutil.copytree(dataset, copied)
    for file in (copied / "runs").rglob("*.parquet"):
        rows = pl.read_parquet(file, hive_partitioning=False)
        rows.with_columns(verdict=pl.lit("VALID")).write_parquet(file)

    assert run_command_line([*command, "--dataset", str(copied)]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert "not the file that its manifest names (SHA-256); nothing is read from a damaged dataset" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["query", "detection", "--dataset", "{empty}"], "no dataset is stored here"),
        (["query", "detection", "--dataset", "{dataset}", "--campaign", "three"], "has no campaign 'three'; known: one, two"),
        (["query", "--sql", "select from", "--dataset", "{dataset}"], "the statement is refused"),
        (["query", "--sql", "select nothing from runs", "--dataset", "{dataset}"], "the statement is refused"),
        (["query", "--sql", "select 1; select 2", "--dataset", "{dataset}"], "the statement is refused"),
        (["diff", "one", "three", "--dataset", "{dataset}"], "has no campaign 'three'"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    arguments: list[str], words: str, engine_options: list[str], dataset: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([*(part.format(dataset=dataset, empty=tmp_path) for part in arguments), *engine_options]) == 2

    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith("highwater: ")
    assert words in error


def test_forms_of_an_answer_hold_the_same_rows(
    engine_options: list[str], dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["query", "detection", "--dataset", dataset, "--campaign", "two", *engine_options]
    parquet, page = tmp_path / "answer.parquet", tmp_path / "answer.html"

    assert run_command_line([*command, "--format", "parquet", "--output", str(parquet), "--page", str(page)]) == 0
    assert run_command_line([*command, "--json"]) == 0
    as_json = json.loads(capsys.readouterr().out.splitlines()[-1])["answers"][0]["rows"]
    assert run_command_line([*command, "--format", "csv"]) == 0
    as_csv = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))

    assert pl.read_parquet(parquet).to_dicts() == as_json
    assert [row["campaign"] for row in as_json] == ["two"]
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in as_json] == as_csv
    assert "Seeds to detect" in page.read_text(encoding="utf-8")


def test_folder_may_be_named_like_a_pattern(
    engine_options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_dataset(tmp_path / "D[1] {x,y} 'q' *", (replace(ONE, seeds=range(3)),))

    assert run_command_line(["query", "--sql", "select count(*) n from runs", "--dataset", str(folder), *engine_options]) == 0
    assert capsys.readouterr().out.splitlines() == ["n", "3"]


def test_sql_answers_over_the_tables(engine_options: list[str], dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    statement = "select campaign, count(*) runs, collect_set(profile) p from runs group by campaign order by campaign"

    assert run_command_line(["query", "--sql", statement, "--dataset", dataset, *engine_options]) == 0
    assert capsys.readouterr().out.splitlines() == ["campaign  runs  p", "one         12  within", "two         12  within"]


def test_diff_exits_with_the_worst_finding(
    engine_options: list[str], dataset: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "diff.html"

    assert run_command_line(["diff", "one", "two", "--dataset", dataset, "--page", str(page), *engine_options]) == 10
    lines = capsys.readouterr().out.splitlines()
    assert run_command_line(["diff", "two", "two", "--dataset", dataset, "--json", *engine_options]) == 0
    equal = json.loads(capsys.readouterr().out)

    assert lines[0].startswith("one and two: worse, invalid; ")
    assert [finding["worse"] for finding in equal["findings"]].count(True) == 0
    assert "Worse, invalid" in page.read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
def test_triage_names_causes_with_their_commands(
    engine_options: list[str], dataset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["triage", "--dataset", dataset, "--campaign", "two"]) == 0

    lines = capsys.readouterr().out.splitlines()
    failed, causes = int(lines[0].split()[2]), int(lines[0].split()[5])
    assert sum(int(line.split()[0]) for line in lines if " runs  " in line) == failed
    assert sum("repeat: highwater run --seed" in line for line in lines) == causes


def test_large_dataset_is_answered_with_the_advice_to_use_spark(
    dataset: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["query", "--sql", "select count(*) n from runs", "--dataset", dataset, "--campaign", "two"]
    assert run_command_line(command) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("pipeline.questions.ask.ROWS_HERE_MAX", 10)

    assert run_command_line(command) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["n", "12"]
    assert re.fullmatch(r"highwater: .*: [\d,]+ rows for one process; Spark would rather answer: --spark MASTER\n", printed.err)
