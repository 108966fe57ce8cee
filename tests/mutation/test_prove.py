"""A proof is a row whose tests, or whose plan, are red under its edit while the mutant still serves."""

from pathlib import Path

import pytest

from mutation import prove
from mutation.prove import to_prove, verdict, verdicts
from mutation.rows import Proof, Row, present_proof, rows
from mutation.trees import copy_of_the_tree
from tests.tidy.sources import ROOT

LEADER = "replica.leader"
TEST = "tests/reference/test_fetching.py::test_leader_records_the_log_end_that_a_fetch_names"
PROVABLE = [row for row in rows() if row.tests and row.edit]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "deadline_s", "expected"),
    [
        ("._record_progress follower.leo = fetch.offset =>", 120.0, "proved"),
        ("._record_progress follower.fetched_ms = now => follower.fetched_ms = now + 0", 120.0, "survived: "),
        ("._record_progress there.is_no_such(code) => 0", 120.0, "does not apply"),
        (" from operator import attrgetter => raise ValueError", 120.0, "does not serve"),
        (".on_produce base = partition.log.leo => raise ValueError", 120.0, "does not serve"),
        ("._record_progress follower.leo = fetch.offset => while True: pass", 15.0, "hangs"),
    ],
)
def test_verdict_tells_how_a_mutant_ends(tmp_path: Path, edit: str, deadline_s: float, expected: str) -> None:
    """Only a mutant that still serves and whose tests end can prove a clause."""
    copy_of_the_tree(tmp_path)
    row = Row(id="mutant", text="", edit=f"{LEADER}{edit}", tests=(TEST,))

    assert verdict(tmp_path, row, deadline_s).startswith(expected)
    assert (tmp_path / row.file).read_text() == (ROOT / row.file).read_text()  # the edit is undone


@pytest.mark.slow
def test_second_edit_must_be_noticed_too(tmp_path: Path) -> None:
    copy_of_the_tree(tmp_path)
    noticed = f"{LEADER}._record_progress follower.leo = fetch.offset =>"
    unnoticed = f"{LEADER}._record_progress follower.fetched_ms = now => follower.fetched_ms = now + 0"
    row = Row(id="mutant", text="", edit=noticed, second=unnoticed, tests=(TEST,))

    assert verdict(tmp_path, row, 120.0).startswith("second edit: survived")


def test_row_is_proved_again_if_its_code_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = PROVABLE[0]
    proved = present_proof(row)

    for stored, expected in [
        ({row.id: proved}, ()),
        ({row.id: Proof(proved.row, "of other sources")}, (row,)),
        ({row.id: Proof("of another edit", proved.sources)}, (row,)),
        ({}, (row,)),
    ]:
        monkeypatch.setattr(prove, "proofs", lambda stored=stored: stored)
        assert to_prove([row.id], again=False) == expected
        assert to_prove([row.id], again=True) == (row,)


def test_rows_beyond_the_time_limit_are_left_out() -> None:
    assert [found for _, found in verdicts(PROVABLE[:3], jobs=1, deadline_s=1.0, within_s=0)] == ["left out"] * 3
