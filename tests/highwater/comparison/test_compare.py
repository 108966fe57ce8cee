"""`highwater compare`: what it prints, its page, and what it refuses."""

import json
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from highwater.plans.text import plan_to_yaml
from tests.highwater.shrink.plans import plan_with


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["safe", "safe", "--seeds", "1"], "safe is compared with itself: name two variants"),
        (["safe", "saef", "--seeds", "1"], "unknown protocol 'saef'; did you mean"),
        (["safe", "v3"], "give either --seeds A..B or --plan FILE; given: neither"),
        (["safe", "v3", "--seeds", "1", "--plan", "p.yaml"], "give either --seeds A..B or --plan FILE; given: both"),
        (["safe", "v3", "--plan", "none.yaml"], "none.yaml"),
        (["safe", "v3", "--seeds", "1", "--format", "parquet"], "--format parquet needs --output FILE"),
        (["safe", "v3", "--plan", "corpus/real/end-txn-late.yaml", "--draws", "1"], "end-txn-late: "),
    ],
)
def test_bad_comparison_is_refused_in_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["compare", *arguments])

    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert message in error


@pytest.mark.slow
def test_variants_are_weighed_on_a_plan_and_shown_on_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, page = tmp_path / "small.yaml", tmp_path / "page.html"
    plan.write_text(plan_to_yaml(plan_with(1)))
    command = ["compare", "safe", "isr-via-zookeeper", "--plan", str(plan), "--draws", "2"]

    assert run_command_line([*command, "--jobs", "1", "--json", "--page", str(page)]) == 0

    verdicts, measures = json.loads(capsys.readouterr().out)["answers"]
    assert [(row["protocol"], row["runs"]) for row in verdicts["rows"]] == [("safe", 2), ("isr-via-zookeeper", 2)]
    writes = next(row for row in measures["rows"] if row["measure"] == "zookeeper_writes")
    assert writes["pairs"] == 2
    assert writes["shown"] == "too few pairs"
    html = page.read_text()
    assert "safe and isr-via-zookeeper on the same plans" in html
    assert "zookeeper_writes · second" in html
    assert "Here safe is called first, and isr-via-zookeeper second." in html
    assert "<details open><summary>All figures" in html.partition('id="measures"')[2]
    table = html.partition('id="measures"')[2].partition("<thead>")[2]
    heads = [table.index(f">{name}</th>") for name in ("measure", "first", "second", "difference", "shown", "pairs", "second_q3")]
    assert heads == sorted(heads)  # what differs comes first
    assert f"highwater {' '.join(command)}" in html


@pytest.mark.slow
def test_two_workers_find_what_one_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "small.yaml"
    plan.write_text(plan_to_yaml(plan_with(1)))
    said = []
    for jobs in ("1", "2"):
        assert run_command_line(["compare", "safe", "v3", "--plan", str(plan), "--draws", "2", "--jobs", jobs]) == 0
        said.append(capsys.readouterr().out)

    assert said[0] == said[1]
