"""docs/mutation.md counts killed, surviving, equivalent and undecided mutants, and shows what each survivor changes."""

import pytest
from msgspec.structs import replace

from mutation import page as pages
from mutation.measure import Outcome
from mutation.page import Result, Review, changed, load_results, page, store_results
from mutation.sample import SIZE, Mutant, load_sample

MUTANTS = load_sample()


def result(number: int, outcome: Outcome, *, by: str = "", run: str = "") -> Result:
    return Result(id=MUTANTS[number].id, stamp="s", outcome=outcome, by=by, run=run)


def test_score_leaves_out_equivalent_and_undecided_mutants() -> None:
    rows = [
        result(0, "killed", by="acked-loss/lost-write", run="corpus/a"),
        result(1, "killed", by="hang", run="corpus/a"),
        result(2, "survived"),
        result(3, "survived"),
        result(4, "undecided"),
    ]
    text = page(
        rows, [Review(id=rows[2].id, made="equivalent", why="It is the same."), Review(id=rows[3].id, made="missing", why="x")]
    )

    assert f"**2 of {SIZE - 1} mutants are killed: 1 %.**" in text
    assert f"Of {SIZE} mutants, 2 are killed (1 by `hang`), 2 survived, {SIZE - 4} are undecided." in text
    assert "1 % is the least score and 99 % the most." in text
    assert "| acked-loss/lost-write | 1 |" in text
    assert "**equivalent:** It is the same." in text


def test_mutant_that_does_not_serve_is_listed_apart() -> None:
    text = page([result(0, "does not serve", by="crash", run="serves")], [])
    apart = text.index("## Does not serve")

    assert MUTANTS[0].id not in text[:apart]
    assert MUTANTS[0].id in text[apart:]
    assert MUTANTS[SIZE].id in text[:apart]  # the first of the reserve takes its place


def test_mutant_whose_code_is_gone_is_listed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = (replace(MUTANTS[0], gone="Another guard is enough."), *MUTANTS[1:])
    monkeypatch.setattr(pages, "load_drawn", lambda: drawn)
    monkeypatch.setattr(pages, "load_sample", lambda: drawn[1:])
    text = page([], [])
    apart = text.index("## Gone")

    assert "1 drawn mutants are gone" in text
    assert f"Of {SIZE} mutants" in text
    assert MUTANTS[0].id not in text[:apart]
    assert f"| {MUTANTS[0].id} |" in text[apart:]
    assert "Another guard is enough." in text[apart:]
    assert MUTANTS[SIZE].id in text[:apart]  # the first of the reserve takes its place


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (result(0, "killed"), result(0, "undecided"), "killed"),
        (result(0, "undecided"), result(0, "survived"), "survived"),
        (Result(id=MUTANTS[0].id, stamp="other", outcome="killed"), result(0, "undecided"), "undecided"),
    ],
)
def test_decided_result_stays_until_the_code_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, old: Result, new: Result, expected: str
) -> None:
    monkeypatch.setattr(pages, "RESULTS", tmp_path_factory.mktemp("results") / "results.json")
    for row in (old, new):
        store_results([row])

    assert [row.outcome for row in load_results()] == [expected]


def test_edit_is_shown_without_the_lines_around_it() -> None:
    mutant = Mutant(id="M-1", file="a/b/c.py", line=2, operator="guard", old="a\nb\nc\n", new="a\nd\nc\n")

    assert changed(mutant) == (["b"], ["d"])
