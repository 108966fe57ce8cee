"""docs/mutation.md counts killed, surviving, equivalent and undecided mutants, and shows what each survivor changes."""

import pytest
from msgspec.structs import replace

from mutation import page as pages
from mutation.measure import Outcome
from mutation.page import Result, load_results, page, store_results
from mutation.rows import BY_HAND, DRAWN, rows
from mutation.sample import SIZE

MUTANTS = tuple(replace(row, equivalent="", masked="", missing="") for row in rows(DRAWN) if not row.gone)


def result(number: int, outcome: Outcome, *, by: str = "", run: str = "") -> Result:
    return Result(id=MUTANTS[number].id, stamp="s", outcome=outcome, by=by, run=run)


def test_score_leaves_out_equivalent_and_undecided_mutants() -> None:
    results = [
        result(0, "killed", by="acked-loss/lost-write", run="corpus/a"),
        result(1, "killed", by="hang", run="corpus/a"),
        result(2, "survived"),
        result(3, "survived"),
        result(4, "undecided"),
    ]
    reviewed = replace(MUTANTS[2], equivalent="It is the same."), replace(MUTANTS[3], missing="x")
    text = page(results, (*MUTANTS[:2], *reviewed, *MUTANTS[4:]), ())

    assert f"**2 of {SIZE - 1} mutants are killed: 1 %.**" in text
    assert f"Of {SIZE} mutants, 2 are killed (1 by `hang`), 2 survived, {SIZE - 4} are undecided." in text
    assert "1 % is the least score and 99 % the most." in text
    assert "| acked-loss/lost-write | 1 |" in text
    assert "**equivalent:** It is the same." in text


def test_mutant_that_does_not_serve_is_listed_apart() -> None:
    text = page([result(0, "does not serve", by="crash", run="serves")], MUTANTS, ())
    apart = text.index("## Does not serve")

    assert MUTANTS[0].id not in text[:apart]
    assert MUTANTS[0].id in text[apart:]
    assert MUTANTS[SIZE].id in text[:apart]  # the first of the reserve takes its place


def test_mutant_whose_code_is_gone_is_listed_apart() -> None:
    text = page([], (replace(MUTANTS[0], gone="Another guard is enough."), *MUTANTS[1:]), ())
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
    monkeypatch.setattr(pages, "RESULTS", tmp_path_factory.mktemp("results") / "results.jsonl")
    for row in (old, new):
        store_results([row])

    assert [row.outcome for row in load_results()] == [expected]


def test_page_shows_edits_of_survivors_and_plans_of_mistakes() -> None:
    mistake = rows(BY_HAND)[0]
    text = page([result(0, "survived")], MUTANTS, [mistake])

    assert f"### {MUTANTS[0].id} {MUTANTS[0].text}, {MUTANTS[0].aim.at}\n\n```diff\n-{MUTANTS[0].aim.old}\n" in text
    assert f"| {mistake.id} | {mistake.aim.at} | {mistake.text} | `{mistake.plan}` |" in text
