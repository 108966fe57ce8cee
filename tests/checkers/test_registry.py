"""The list of checkers, and the page that is generated from it."""

from pathlib import Path

from checkers.registry import ALL, document

PAGE = Path(__file__).parents[2] / "docs" / "properties.md"


def test_properties_document_is_up_to_date() -> None:
    """`python -m checkers.registry > docs/properties.md` writes it."""
    assert PAGE.read_text(encoding="utf-8") == document()


def test_names_of_checkers_are_unique() -> None:
    names = [checker.name for checker in ALL]

    assert len(names) == len(set(names))


def test_loss_checker_runs_before_checkers_that_use_its_result() -> None:
    phases = [checker.phase for checker in ALL]

    assert phases == sorted(phases)
    assert phases.count("ledger") == 1


def test_checker_reads_the_event_kinds_that_it_requires() -> None:
    assert [checker.name for checker in ALL if not set(checker.needs) <= set(checker.events)] == []
