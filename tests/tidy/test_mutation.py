"""The sample of mutants fits the code as it is; docs/mutation.md shows the stored results and does not flatter them."""

from collections import Counter

from mutation.page import EQUIVALENT_MAX_PERCENT, PAGE, load_results, load_reviews, page
from mutation.sample import BY_HAND, MODULES, RESERVE, SIZE, load_drawn, load_sample
from tests.tidy.sources import ROOT


def test_every_mutant_applies_exactly_once() -> None:
    """If an edit of the code makes this fail, edit `old` and `new` in mutation/sample.yaml in the same way."""
    texts = {mutant.file: (ROOT / mutant.file).read_text(encoding="utf-8") for mutant in load_sample()}

    assert [mutant.id for mutant in load_sample() if texts[mutant.file].count(mutant.old) != 1] == []


def test_every_mutant_compiles_and_edits_a_place_of_its_own() -> None:
    places = []
    for mutant in load_sample():
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        compile(mutant.applied_to(text), mutant.file, "exec")
        places.append((mutant.file, mutant.old))

    assert len(set(places)) == len(places)
    assert len(load_drawn()) == SIZE + RESERVE
    assert {mutant.module for mutant in load_sample()} == set(MODULES)


def test_code_of_a_gone_mutant_is_deleted() -> None:
    """Only a deletion makes a mutant gone: one that is hard to kill, or whose code was only edited, stays in the sample."""
    gone = [mutant for mutant in load_drawn() if mutant.gone]

    assert [m.id for m in gone if m.old in (ROOT / m.file).read_text(encoding="utf-8") or len(m.gone) < 20] == []


def test_every_edit_by_hand_applies_and_tells_its_harm() -> None:
    for mutant in load_sample(BY_HAND):
        compile(mutant.applied_to((ROOT / mutant.file).read_text(encoding="utf-8")), mutant.file, "exec")
        assert mutant.harm


def test_page_shows_the_stored_results() -> None:
    """If this fails, run `python -m mutation --page`."""
    assert PAGE.read_text(encoding="utf-8") == page(load_results(), load_reviews())


def test_at_most_a_fifth_of_the_sample_is_equivalent() -> None:
    """A score that leaves out more mutants says little about the gate."""
    excluded = [review.id for review in load_reviews() if review.made != "missing"]

    assert len(excluded) * 100 <= SIZE * EQUIVALENT_MAX_PERCENT


def test_every_review_has_a_reason_and_no_killed_mutant() -> None:
    """A mutant that a run kills is not equivalent, whatever was argued."""
    killed = {row.id for row in load_results() if row.outcome == "killed"}
    twice = [id_ for id_, number in Counter(review.id for review in load_reviews()).items() if number > 1]

    assert twice == []
    assert [review.id for review in load_reviews() if review.id in killed or len(review.why) < 20] == []


def test_results_and_reviews_are_of_mutants_of_the_sample() -> None:
    known = {mutant.id for mutant in load_sample()}

    assert {row.id for row in load_results()} <= known
    assert {review.id for review in load_reviews()} <= known
