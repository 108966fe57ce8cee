"""Which edits the transcripts of storms are asked about, and what is said of each."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from mutation import transcripts
from mutation.rows import MutationError, Row, clauses
from mutation.trees import ROOT


def row_with_two_edits() -> Row:
    return next(row for row in clauses() if row.second)


def test_drawn_edits_are_second_ones_and_follow_from_the_seed() -> None:
    seconds = {(row.id, row.second) for row in clauses() if row.second}
    edits = transcripts.drawn(5, 1)

    assert {(row.id, row.edit) for row in edits} < seconds
    assert edits == transcripts.drawn(5, 1) != transcripts.drawn(5, 2)


def test_each_edit_of_a_clause_is_asked_about() -> None:
    row = row_with_two_edits()

    assert [(each.id, each.edit) for each in transcripts.edits_of([row])] == [
        (f"{row.id} first edit", row.edit),
        (f"{row.id} second edit", row.second),
    ]


@pytest.mark.parametrize(
    ("run", "out", "said"),
    [
        (0, "", "missed"),
        (1, "everything: 1 of 1 storms differ\nmore\n", "noticed: everything: 1 of 1 storms differ"),
        (1, "Traceback (most recent call last):\n  line\nKeyError: 1\n", "noticed: KeyError: 1"),
    ],
)
def test_outcome_of_an_edit_says_what_the_storms_say(
    run: int, out: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit that stops a storm is noticed, too; the tree has its text again afterwards."""
    edited = transcripts.edits_of([row_with_two_edits()])[0]
    place = tmp_path / edited.file
    place.parent.mkdir(parents=True)
    before = (ROOT / edited.file).read_text(encoding="utf-8")
    place.write_text(before, encoding="utf-8")
    texts: list[str] = []

    def perform(tree: Path, command: Sequence[str], deadline_s: float) -> tuple[int, str]:
        texts.append((tree / edited.file).read_text(encoding="utf-8"))
        return run, out

    monkeypatch.setattr(transcripts, "run_in", perform)

    assert transcripts.outcome(tmp_path, edited, 1.0) == said
    assert texts != [before]
    assert place.read_text(encoding="utf-8") == before


def test_edit_that_does_not_fit_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(row: Row, text: str) -> str:
        raise MutationError("it does not fit")

    monkeypatch.setattr(Row, "applied_to", refuse)

    assert transcripts.outcome(tmp_path, row_with_two_edits(), 1.0) == "does not apply"
