"""The table of the guided search: medians, what counts as rare, and what is done already."""

from pathlib import Path

import msgspec
import pytest

from bench import guided
from bench.guided import FIRSTS, Mode, Row, counts_of, faults_of, is_done, page, read_rows, variants
from highwater.runs.findings import FoundAnomaly
from highwater.runs.summary import Summary
from highwater.runs.workers import Task

RARE, FREQUENT, NEVER, WORSE, HALF_DONE, OPEN, *_ = variants()
BUDGET = 60


def _row(variant: str, mode: Mode, first: int, runs: int | None) -> Row:
    caught = runs is not None
    return Row(
        variant=variant,
        mode=mode,
        first=first,
        caught=caught,
        runs=BUDGET if runs is None else runs,
        by="lost-write" if caught else "",
        plan="",
        cpu_s=1.0,
    )


def _rows(variant: str, mode: Mode, *runs: int | None) -> list[Row]:
    return [_row(variant, mode, first, count) for first, count in zip(FIRSTS, runs, strict=False)]


def test_median_counts_an_escape_as_above_the_budget() -> None:
    counts = counts_of(_rows(RARE, "plain", 9, None, 30, None, 20), "plain", BUDGET)

    assert counts is not None
    assert counts.runs == (9, 20, 30, None, None)
    assert counts.words == "30 (9 to > 60)"


def test_median_of_mostly_escapes_is_above_the_budget() -> None:
    counts = counts_of(_rows(RARE, "plain", None, None, 30, None, 20), "plain", BUDGET)

    assert counts is not None
    assert (counts.median, counts.words) == (None, "> 60 (20 to > 60)")


@pytest.mark.parametrize(
    ("row", "budget", "expected"),
    [
        (None, BUDGET, False),
        (_row(RARE, "plain", 1, 12), 200, True),
        (_row(RARE, "plain", first=1, runs=None), BUDGET, True),
        (_row(RARE, "plain", first=1, runs=None), 200, False),
    ],
)
def test_escape_within_a_smaller_budget_is_measured_again(row: Row | None, budget: int, expected: bool) -> None:
    assert is_done(row, budget) is expected


def test_page_counts_all_rarely_caught_variants() -> None:
    rows = [
        *_rows(RARE, "plain", 40, 50, 60, 30, 20),
        *_rows(RARE, "guided", 20, 9, 40, 8, 20),
        *_rows(FREQUENT, "plain", 1, 2, 3, 4, 50),
        *_rows(NEVER, "plain", None, None, None, None, None),
        *_rows(NEVER, "guided", None, None, None, None, None),
        *_rows(WORSE, "plain", 11, 12, 13, 14, 15),
        *_rows(WORSE, "guided", 11, 12, 13, 14, None),
        *_rows(HALF_DONE, "plain", 11, 12, 13, 14, 15),
        *_rows(HALF_DONE, "guided", 5, 7),
        *_rows(OPEN, "plain", 11, 12, 13, 14, 15),
    ]
    text = page(rows, BUDGET)

    assert "**On 2 of 5 rarely caught variants the guided search needs at most half the runs.**" in text
    assert f"| `{RARE}` | 5 | 40 (20 to 60) | 20 (8 to 40) | yes | lost-write |" in text
    assert f"| `{NEVER}` | 5 | > 60 | > 60 | neither |  |" in text
    assert f"| `{WORSE}` | 5 | 13 (11 to 15) | 13 (11 to > 60) | no | lost-write |" in text
    assert f"no search is needed: `{FREQUENT}` 3 (1 to 50)." in text
    assert f"| `{HALF_DONE}` | 2 | 11 (11 to 12) | 5 (5 to 7) | yes | lost-write |" in text
    assert f"Not measured yet: `{OPEN}`" in text


@pytest.mark.parametrize(("guided", "message"), [(30, "yes"), (31, "sooner"), (None, "neither")])
def test_escape_of_plain_runs_is_more_than_the_budget(guided: int | None, message: str) -> None:
    """Plain runs that catch nothing within 60 runs need at least 61."""
    text = page([*_rows(RARE, "plain", None), *_rows(RARE, "guided", guided)], BUDGET)

    assert f"| {message} |" in text


def test_rows_that_were_measured_again_replace_the_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [_row(RARE, "plain", first=1, runs=None), _row(RARE, "plain", 1, 70)]
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))

    assert read_rows(path) == rows[1:]
    assert read_rows(tmp_path / "none.jsonl") == []


def test_measurement_ends_with_the_first_run_that_catches(monkeypatch: pytest.MonkeyPatch) -> None:
    lost_write = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")
    third, fourth = ("seed-1002", "guided-1000-2"), ("seed-1003", "guided-1000-3")

    def perform(task: Task) -> Summary:
        # `safe` is red on the third plan, too: that run does not catch the variant.
        red = task.plan.name in third or (task.plan.name in fourth and task.plan.protocol == "v3")
        return Summary(
            seed=task.plan.seed,
            protocol=task.plan.protocol,
            verdict="INVALID" if red else "VALID",
            live=True,
            anomalies=(lost_write,) if red else (),
            plan=task.plan.name,
            plan_digest="",
            backend="sim",
            outcome="completed",
            repeat="",
        )

    monkeypatch.setattr(guided, "perform", perform)
    rows = [guided.measure("v3", mode, 1000, 10) for mode in guided.MODES]

    assert [(row.runs, row.by, row.plan, row.caught) for row in rows] == [(4, "lost-write", plan, True) for plan in fourth]
    assert guided.measure("v3", "plain", 1000, 3).caught is False


def test_variant_that_breaks_no_promise_is_not_measured() -> None:
    assert "lag-by-wall-clock" not in variants()


@pytest.mark.parametrize(("variant", "faults"), [("no-log-birth", ("all",)), ("no-elr", ())])
def test_variant_is_measured_with_faults_that_can_show_it(variant: str, faults: tuple[str, ...]) -> None:
    """KAFKA-3410 needs a disk that was swapped, which the default kinds leave out."""
    assert faults_of(variant) == faults
