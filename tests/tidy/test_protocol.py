"""Every step of V3 is implemented somewhere, tested somewhere, and listed in docs/protocol.md."""

from tests.tidy.protocol import DOCUMENT, STEPS, cited_in, document


def test_the_table_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_every_step_is_cited_by_the_code_and_by_a_test() -> None:
    code, tests = cited_in("reference"), cited_in("tests/reference")

    assert [step for step in STEPS if step not in code] == []
    assert [step for step in STEPS if step not in tests] == []


def test_no_step_is_cited_that_v3_does_not_have() -> None:
    cited = {*cited_in("reference"), *cited_in("tests/reference")}

    assert sorted(cited - set(STEPS)) == []
