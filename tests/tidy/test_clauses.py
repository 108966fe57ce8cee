"""The clauses fit the code and the tests as they are; `python -m tests.clauses` proves them."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.catalogue import clauses as catalogue
from highwater.catalogue import trace
from highwater.catalogue.clauses import Clause, Proof, clauses, status
from mutation.trees import copy_of_the_tree
from tests.clauses import present_proof, to_prove, verdict, verdicts
from tests.tidy.sources import ROOT


def test_every_clause_belongs_to_a_statement() -> None:
    known = {id_ for texts in trace.requirements().requirements.values() for id_ in texts}
    strange = [row.id for row in clauses() if row.statement not in known]
    twice = [id_ for id_, count in Counter(row.id for row in clauses()).items() if count > 1]

    assert (strange, twice) == ([], [])


MUTATED = [row for row in clauses() if row.file]
# Of 100 clauses, at most so many may go without a mutation.
ONLY_TESTED_MAX = 5


def test_every_clause_has_a_mutation_or_a_reason() -> None:
    """A clause without a mutation says why; it has tests, unless nothing builds it."""
    ways = {
        row.id: (bool(row.file and row.old and row.tests), bool(row.only_tested and row.tests), bool(row.not_built))
        for row in clauses()
    }
    only_tested = [row.id for row in clauses() if row.only_tested]

    assert [id_ for id_, way in ways.items() if sum(way) != 1] == []
    assert len(only_tested) * 100 <= len(clauses()) * ONLY_TESTED_MAX


def test_every_statement_that_is_built_has_a_clause() -> None:
    built = {id_ for texts in trace.requirements().requirements.values() for id_ in texts} - set(trace.requirements().not_built)

    assert sorted(built - {row.statement for row in clauses()}) == []


def test_every_mutation_was_proved() -> None:
    """If this fails, run `make prove-requirements`."""
    assert [row.id for row in clauses() if status(row) == "unproved"] == []


def test_every_mutation_applies_exactly_once() -> None:
    """A mutation that no longer applies would prove its clause no more, and nobody would notice."""
    texts = {row.file: (ROOT / row.file).read_text(encoding="utf-8") for row in MUTATED}

    assert [row.id for row in MUTATED if texts[row.file].count(row.old) != 1] == []


def test_every_test_of_a_clause_exists_and_cites_its_statement() -> None:
    files = sorted({test.partition("::")[0] for row in clauses() for test in row.tests})
    trees = {name: ast.parse((ROOT / name).read_text(encoding="utf-8"), name) for name in files}
    named = ((name, f) for name, tree in trees.items() for f in tree.body if isinstance(f, ast.FunctionDef))
    docstrings = {f"{name}::{f.name}": ast.get_docstring(f) or "" for name, f in named}
    cited = [(row.id, test, docstrings.get(test)) for row in clauses() for test in row.tests]

    assert [(id_, test) for id_, test, words in cited if words is None or id_.partition(".")[0] not in words] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "deadline_s", "expected"),
    [
        ("    follower.leo = fetch.offset\n", "", 120.0, "proved"),
        ("    follower.fetched_ms = now\n", "    follower.fetched_ms = now + 0\n", 120.0, "survived: "),
        ("there is no such code", "", 120.0, "does not apply"),
        ("    follower.leo = fetch.offset\n", "    follower.leo = (\n", 120.0, "does not serve"),
        ("    base = partition.log.leo\n", "    raise ValueError\n", 120.0, "does not serve"),
        ("    follower.leo = fetch.offset\n", "    while True:\n        pass\n", 15.0, "hangs"),
    ],
)
def test_verdict_tells_how_a_mutant_ends(tmp_path: Path, old: str, new: str, deadline_s: float, expected: str) -> None:
    """Only a mutant that still serves and whose tests end can prove a clause."""
    copy_of_the_tree(tmp_path)
    path, test = (
        "reference/replica/leader.py",
        "tests/reference/test_fetching.py::test_leader_records_the_log_end_that_a_fetch_names",
    )
    row = Clause(id="mutant", text="", file=path, old=old, new=new, tests=(test,))

    assert verdict(tmp_path, row, deadline_s).startswith(expected)
    assert (tmp_path / path).read_text() == (ROOT / path).read_text()  # the mutation is undone


def test_clause_is_proved_again_if_its_code_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = MUTATED[0]
    proved = present_proof(row)

    for stored, expected in [
        ({row.id: proved}, ()),
        ({row.id: Proof(proved.mutant, "of other sources")}, (row,)),
        ({row.id: Proof("of another mutation", proved.sources)}, (row,)),
        ({}, (row,)),
    ]:
        monkeypatch.setattr("tests.clauses.proofs", lambda stored=stored: stored)
        assert to_prove([row.id], again=False) == expected
        assert to_prove([row.id], again=True) == (row,)


def test_edited_mutation_is_unproved_until_it_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    row = MUTATED[0]
    stored = {row.id: present_proof(row)}
    monkeypatch.setattr(catalogue, "proofs", lambda: stored)

    assert status(row) == "proved"
    assert status(replace(row, new=f"{row.new} ")) == "unproved"


def test_clauses_beyond_the_time_limit_are_left_out() -> None:
    assert [found for _, found in verdicts(MUTATED[:3], jobs=1, deadline_s=1.0, within_s=0)] == ["left out"] * 3
