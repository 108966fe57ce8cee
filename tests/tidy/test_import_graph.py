"""The entries of a level have no import circle, and the drawing in docs/ARCHITECTURE.md is up to date."""

import pytest

from tests.tidy.import_graph import DOCUMENT, LEVELS, circles, document, entries
from tests.tidy.sources import ROOT


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level or "repository")
def test_packages_of_one_layer_have_no_import_cycle(level: str) -> None:
    assert circles(entries(level)) == []


def test_import_cycle_through_a_third_package_is_found() -> None:
    imports = {"a": frozenset({"b"}), "b": frozenset({"c"}), "c": frozenset({"a"}), "d": frozenset({"a"})}

    assert circles(imports) == [["a", "b", "c"]]


def test_import_cycle_of_two_packages_is_found() -> None:
    assert circles({"a": frozenset({"b"}), "b": frozenset({"a"})}) == [["a", "b"]]


def test_import_graph_knows_the_harness_imports_reference() -> None:
    """An empty graph would have no circles either."""
    assert {"reference", "server", "checkers", "history"} <= entries("")["highwater"]
    assert "plans" in entries("highwater")["rig"]


def test_architecture_page_shows_todays_imports() -> None:
    """After a change: `python -m tests.tidy.import_graph --rewrite`."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_top_of_checkers_holds_only_who_is_judged_by_what() -> None:
    """A checker belongs into a room; a flat folder of seventy modules hides which ones belong together."""
    modules = [path.name for path in (ROOT / "checkers").glob("*.py")]

    assert len(modules) <= 12
