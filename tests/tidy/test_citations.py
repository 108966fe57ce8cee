"""Every citation in code, data and documents leads to a page, section, rule or step that exists."""

import pytest

from tests.tidy.citations import lead_nowhere, texts, words_of
from tests.tidy.promise import PAGE, rule_names, rules, rules_now


@pytest.mark.slow
def test_every_requirement_id_cited_in_code_exists() -> None:
    found = {name: wrong for name, text in texts() if (wrong := lead_nowhere(text))}

    assert found == {}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see docs/" + "nothing.md", ["docs/" + "nothing.md"]),
        ("see " + "NOTHING.md", ["NOTHING.md"]),
        ("a plan (NOTHING, " + "rule 3)", ["NOTHING"]),
        ("docs/promise.md §" + "9", ["docs/promise.md §9"]),
        ("docs/promise.md §1, §" + "9", ["docs/promise.md §9"]),
        ("decisions/" + "0999", ["decision 0999"]),
        ("decision " + "999", ["decision 999"]),
        ("docs/decisions/" + "0999", ["decision 0999", "docs/decisions/0999"]),
        ("R-" + "999", ["R-999"]),
        ("C-" + "99, U-" + "99, B-" + "99", ["B-99", "C-99", "U-99"]),
        ("DUR-" + "99", ["DUR-99"]),
        ("VIS-1 to VIS-" + "4", ["VIS-4"]),
        ("V3 §" + "Q", ["V3 §Q"]),
        ("V3 §A step " + "9.9", ["V3 §A step 9.9"]),
    ],
)
def test_cited_requirement_id_that_does_not_exist_is_reported(text: str, wrong: list[str]) -> None:
    assert lead_nowhere(text) == wrong


@pytest.mark.parametrize(
    "text",
    ["docs/promise.md §1 and §6", "docs/decisions/0008-edn.md", "R-057, C-07, U-11, B-42", "VIS-1 to VIS-3", "V3 §A step 3.3"],
)
def test_cited_requirement_id_that_exists_is_accepted(text: str) -> None:
    assert lead_nowhere(text) == []


def test_ids_cited_in_docstrings_and_comments_are_found() -> None:
    python = '"""One."""\nx = "not this"  # two\n\n\ndef f() -> None:\n    """Three."""\n'

    assert words_of(python).split("\n") == ["One.", "Three.", "# two"]


def test_rules_of_the_promise_page_are_read_from_its_lists() -> None:
    text = "# P\n\n## 2. D\n\n* **DUR-1** A\n  b.\n* **DUR-2** C.\n\nNot a rule.\n\n## 7. V\n\n* **VAC-1** E.\n"

    found = [(name, rule.section, rule.text) for name, rule in rules(text).items()]

    assert found == [("DUR-1", 2, "A b."), ("DUR-2", 2, "C."), ("VAC-1", 7, "E.")]


def test_every_rule_of_the_promise_page_is_a_list_item() -> None:
    """A rule that is only mentioned on the page has no text that `highwater protocol` can show."""
    assert set(rule_names(PAGE.read_text(encoding="utf-8"))) == set(rules_now())
