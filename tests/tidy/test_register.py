"""The register of evidence fits the code and the tests as they are; docs/mutation.md shows its results without flattery."""

import ast
from collections import Counter

from highwater.catalogue import trace
from mutation.aims.aim import fragment, same
from mutation.aims.match import matches_with
from mutation.aims.scope import inside
from mutation.page import EQUIVALENT_MAX_PERCENT, PAGE, REVIEWS, load_results, page, review_of
from mutation.rows import BY_HAND, DRAWN, REGISTER, clauses, drawn, plan_of, proofs, rows, status, written
from mutation.sample import MODULES, RESERVE, SIZE
from tests.tidy.sources import ROOT

# Of 100 clauses, at most so many may go without a mutation.
ONLY_TESTED_MAX = 5


def test_every_edit_fits_and_changes_the_program() -> None:
    """If an edit of the code makes this fail, `python -m mutation --reaim` says where the edit belongs now."""
    for row in (edit for both in rows() for edit in both.by_edit):
        if row.edit and not row.gone:
            compile(row.applied_to((ROOT / row.file).read_text(encoding="utf-8")), row.file, "exec")
            assert not same(*fragment(row.aim.old, row.aim.new)), row.id


def test_rows_are_written_in_as_few_lines_as_they_need() -> None:
    """So that `--reaim --write` and `--draw` change only the rows that they mean."""
    for path in REGISTER.glob("*.yaml"):
        head, rest = path.read_text(encoding="utf-8").partition("\n- ")[::2]

        assert all(line.startswith("#") for line in head.splitlines())
        assert f"- {rest}" == "".join(map(written, rows(path.stem)))


def test_every_id_is_of_one_row() -> None:
    assert [id_ for id_, count in Counter(row.id for row in rows()).items() if count > 1] == []


# --- clauses ------------------------------------------------------------------------------------------------------------------


def test_every_clause_belongs_to_a_statement() -> None:
    known = {id_ for texts in trace.requirements().requirements.values() for id_ in texts}

    assert [row.id for row in clauses() if row.statement not in known] == []


def test_every_clause_has_a_mutation_or_a_reason() -> None:
    """A clause without a mutation says why; it has tests, unless nothing builds it."""
    ways = {row.id: (bool(row.edit and row.tests), bool(row.only_tested and row.tests), bool(row.not_built)) for row in clauses()}
    only_tested = [row.id for row in clauses() if row.only_tested]

    assert [id_ for id_, way in ways.items() if sum(way) != 1] == []
    assert len(only_tested) * 100 <= len(clauses()) * ONLY_TESTED_MAX


def test_every_statement_that_is_built_has_a_clause() -> None:
    built = {id_ for texts in trace.requirements().requirements.values() for id_ in texts} - set(trace.requirements().not_built)

    assert sorted(built - {row.statement for row in clauses()}) == []


def test_every_row_with_tests_or_a_plan_was_proved() -> None:
    """If this fails, run `make prove-requirements`."""
    stored = proofs()

    assert [row.id for row in (*clauses(), *rows(BY_HAND)) if status(row, stored) == "unproved"] == []


def test_every_test_of_a_clause_exists_and_cites_its_statement() -> None:
    files = sorted({test.partition("::")[0] for row in clauses() for test in row.tests})
    trees = {name: ast.parse((ROOT / name).read_text(encoding="utf-8"), name) for name in files}
    names_found = ((name, f) for name, tree in trees.items() for f in tree.body if isinstance(f, ast.FunctionDef))
    docstrings = {f"{name}::{f.name}": ast.get_docstring(f) or "" for name, f in names_found}
    cited = [(row.id, test, docstrings.get(test)) for row in clauses() for test in row.tests]

    assert [(id_, test) for id_, test, words in cited if words is None or id_.partition(".")[0] not in words] == []


def test_second_edit_breaks_the_program_otherwise() -> None:
    twice = [row.by_edit for row in rows() if row.second]

    assert twice
    assert [first.id for first, second in twice if first.aim == second.aim] == []


# --- mistakes by hand, and the sample -----------------------------------------------------------------------------------------


def test_every_mistake_by_hand_tells_its_harm_and_has_a_plan() -> None:
    assert [row.id for row in rows(BY_HAND) if len(row.text) < 20 or not (ROOT / plan_of(row)).is_file()] == []


def test_every_mutant_edits_a_place_of_its_own() -> None:
    assert max(Counter((row.aim.at, row.aim.old) for row in drawn()).values()) == 1
    assert len(rows(DRAWN)) == SIZE + RESERVE
    assert {row.module for row in drawn()} == set(MODULES)


def test_code_of_a_gone_mutant_is_deleted() -> None:
    """Only a deletion makes a mutant gone: one that is hard to kill, or whose code was only edited, stays in the sample."""
    for row in rows(DRAWN):
        if row.gone:
            tree = ast.parse((ROOT / row.file).read_text(encoding="utf-8"))
            functions = [node for node in inside(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            old, _ = fragment(row.aim.old, row.aim.new)
            assert [f.name for f in functions if matches_with(old, f, f, frozenset())] == [], row.id
            assert len(row.gone) >= 20


def test_page_shows_the_register() -> None:
    """If this fails, run `python -m mutation --page`."""
    assert PAGE.read_text(encoding="utf-8") == page(load_results(), rows(DRAWN), rows(BY_HAND))


def test_at_most_a_fifth_of_the_sample_is_equivalent() -> None:
    """A score that leaves out more mutants says little about the gate."""
    excluded = [row.id for row in drawn() if review_of(row) in ("equivalent", "masked")]

    assert len(excluded) * 100 <= SIZE * EQUIVALENT_MAX_PERCENT


def test_every_review_has_a_reason_and_no_killed_mutant() -> None:
    """A mutant that a run kills is not equivalent, whatever was argued."""
    killed = {row.id for row in load_results() if row.outcome == "killed"}
    reviews = {row.id: [why for name in REVIEWS if (why := getattr(row, name))] for row in rows()}

    assert [id_ for id_, why in reviews.items() if len(why) > 1 or any(len(words) < 20 for words in why)] == []
    assert [id_ for id_, why in reviews.items() if why and (id_ in killed or not id_.startswith("M-"))] == []


def test_results_are_of_mutants_of_the_sample() -> None:
    assert {row.id for row in load_results()} <= {row.id for row in drawn()}
