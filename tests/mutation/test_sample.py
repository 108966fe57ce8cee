"""A mutant applies where its text occurs once, and knows which lines lead to it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from mutation.sample import Mutant, MutationError, lines_of, load_drawn, load_sample, statement_at, store_sample

SOURCE = b"""LIMIT = 3


def f(x: int) -> int:
    if (
        x > 1
    ):
        return x
    match x:
        case 0 if g(x):
            return 1
    return [
        y
        for y in x
    ]


class C:
    z: int = 4
"""


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (b"3", None),  # runs at the import
        (b"z: int", None),
        (b"x > 1", (5, 7)),
        (b"return x", (8, 8)),
        (b"g(x)", (10, 10)),
        (b"for y", (12, 15)),
    ],
)
def test_statement_of_an_edit_ends_before_its_body(part: bytes, expected: tuple[int, int] | None) -> None:
    assert statement_at(SOURCE, SOURCE.index(part)) == expected


def test_mutant_is_reached_through_its_statement() -> None:
    text = "def f(x: int) -> None:\n    a()\n    if x:\n        b()\n"
    mutant = Mutant(id="M-1", file="f.py", line=3, operator="guard", old="    if x:\n", new="    if not (x):\n")

    assert lines_of(mutant, text) == (3, 3)


def test_edit_that_begins_with_a_comment_may_be_in_any_run() -> None:
    text = "def f() -> None:\n    a()\n    # Why.\n    b()\n"
    mutant = Mutant(id="M-1", file="f.py", line=3, operator="statement", old="    # Why.\n    b()\n", new="    c()\n")

    assert lines_of(mutant, text) is None


def test_mutant_is_refused_unless_its_text_occurs_once() -> None:
    mutant = Mutant(id="M-1", file="f.py", line=1, operator="statement", old="a()\n", new="pass\n")

    with pytest.raises(MutationError, match=r"f\.py 2 times, not once"):
        mutant.applied_to("a()\na()\n")


def test_sample_is_read_as_it_was_stored(tmp_path: Path) -> None:
    some = load_sample()[:5]
    store_sample(some, tmp_path / "sample.yaml")

    assert load_sample(tmp_path / "sample.yaml") == some


def test_gone_mutant_is_drawn_but_not_in_the_sample(tmp_path: Path) -> None:
    one, other = load_sample()[:2]
    store_sample([replace(one, gone="Another guard is enough."), other], tmp_path / "sample.yaml")

    assert [mutant.id for mutant in load_drawn(tmp_path / "sample.yaml")] == [one.id, other.id]
    assert load_sample(tmp_path / "sample.yaml") == (other,)


def test_malformed_sample_is_refused_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "sample.yaml").write_text("- id: M-1\n  file: 3\n")

    with pytest.raises(MutationError, match=r"^sample\.yaml:\d"):
        load_sample(tmp_path / "sample.yaml")
