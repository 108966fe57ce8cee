"""The sample is drawn by a fixed seed, and a mutant knows which lines lead to it."""

import pytest

from mutation.rows import Row
from mutation.sample import draw, lines_of, statement_at
from tests.tidy.sources import ROOT

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
    text = "from m import a, b, c, d\ndef f(x: int):\n    a()\n    if x:\n        b()\n    # Why.\n    c()\n"

    for edit, expected in [
        ("x => not x", [(4, 4)]),
        ("if x: b() => if x: b(); c()", [(5, 5)]),
        ("if x: ...\nc() =>\nif x: ...\nd()\nc()", [(7, 7)]),
        ("if x: ...\nc() =>\nif x: ...\nd()", [(7, 7)]),
        ("a(); ...; c() => b(); ...; d()", [(3, 3), (7, 7)]),
        ("def f(x: int): ... => def f(x: str): ...", None),
    ]:
        mutant = Row(id="M-1", text="guard", edit=f"nowhere.f {edit}")
        assert lines_of(mutant, text) == expected


@pytest.mark.slow
def test_draw_is_the_same_each_time_and_its_edits_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mutation.sample.MODULES", ("log",))
    some_rows = draw(size=4, reserve=1)

    assert some_rows == draw(size=4, reserve=1)
    assert [(row.id, row.module) for row in some_rows] == [(f"M-00{n}", "log") for n in range(1, 6)]
    assert len({row.edit for row in some_rows}) == 5
    for row in some_rows:
        row.applied_to((ROOT / row.file).read_text(encoding="utf-8"))
