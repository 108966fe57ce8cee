"""Reading simple lines of EDN many at a time gives what reading them token by token gives: rows, errors and line numbers."""

import io
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from history.errors import HistoryError
from history.foreign import edn, text
from history.foreign.edn_lines import SimpleLines
from tests.checkers.corpus import ROOT

_ATOMS = (
    "1", "0", "-5", "007", "-0", "+3", "1N", "0x1F", "1_000", "9" * 19, "9" * 40, "1.5", "1e5", "-", "0b1", "0o7",
    "nil", "null", "true", "false", ":a", ":ok", ":type", ":append", ":r", ":x1", ":a:b", "::a", ":", ":true", "a", "nilx",
    ":nil", "true1", "##NaN", "\\a", '""', '"a"', '"a b, [1 2] {:c 1}"', '"é"', '"\\n"', '"\\""', '"', "'a", "^a", "#_", "#inst",
    ";c", "\u00a0", "é", ":é", "\x0b", "\x01", ":begin", ":items", ":end", '"begin":"{"', "a#", "#{", "?", "L",
)  # fmt: skip
_GAPS = ("", " ", ", ", ",", "  ", "\t", " ,,", "\n", "\r\n", "\r")
_LINE = "{:index 3, :time 99, :process 0, :type :ok, :f :txn, :value [[:append 1 2] [:r 3 nil] [:r 4 [1 2 -3]]]}"

needs_possessive = pytest.mark.skipif(
    sys.version_info < (3, 11, 5), reason="possessive quantifiers of re fail on Python 3.11.2, and EDN is read by tokens, slowly"
)


def _formed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    items = st.lists(inner, max_size=4).map(" ".join)
    even = st.lists(st.tuples(inner, inner).map(" ".join), max_size=3).map(", ".join)
    return (
        st.tuples(st.sampled_from(("[]", "()", "[)", "(}")), items).map(lambda drawn: f"{drawn[0][0]}{drawn[1]}{drawn[0][1]}")
        | items.map(lambda text: f"#{{{text}}}")
        | even.map(lambda text: f"{{{text}}}")
    )


_plain = st.sampled_from(_ATOMS) | st.integers(-50, 50).map(str)
_forms = st.recursive(_plain, _formed, max_leaves=12)
_maps = st.lists(st.tuples(_plain, _forms).map(" ".join), max_size=4).map(lambda pairs: "{" + ", ".join(pairs) + "}")
_simple = st.recursive(st.sampled_from(("1", "-7", "nil", ":a", ":b", '"s"', "true")), _formed, max_leaves=12)
_simple_maps = st.lists(_simple, max_size=4).map(
    lambda values: "{" + ", ".join(f":k{'abcd'[at]} {value}" for at, value in enumerate(values)) + "}"
)
_soup = st.lists(st.sampled_from((*_ATOMS, *_GAPS, *"[](){}", "}\n{", "{:a ", _LINE)), max_size=12).map("".join)
_records = st.just(_LINE) | _simple_maps | _maps | _simple_maps | _soup
_ends = st.sampled_from(
    ("\n", "\n", "\n", "\n", "\r\n", " \n ", ",\n", "\n\n", " ", "", "; c\n", " #_ ", "\n#jepsen.history.Op", "\n#b")
)


@st.composite
def _files(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(_records, _ends).map("".join), max_size=6))
    opened, closed = draw(st.sampled_from((("", ""), ("", ""), ("[", "]"), ("(", ")"), ("[\n", "\n]\n"), ("[", ""), ("", "]"))))
    return opened + "".join(parts) + closed


def _rows_and_error(data: bytes, *, exact: bool) -> tuple[list[Any], str]:
    rows: list[Any] = []
    try:
        rows.extend(edn.rows(io.BytesIO(data), exact=exact))
    except HistoryError as error:
        return rows, str(error)
    return rows, ""


def _assert_same(data: bytes) -> None:
    by_tokens, by_lines = _rows_and_error(data, exact=True), _rows_and_error(data, exact=False)

    assert by_lines == by_tokens
    assert repr(by_lines) == repr(by_tokens)  # also of the same types


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(file=_files(), piece=st.sampled_from((1, 7, 64, 1 << 16)))
@example(file="{:a {:b 1}\n{:c 2}}\n", piece=1 << 16)  # one map in two lines that both look like maps
@example(file="{:a [1}\n{:b 2]}\n", piece=1 << 16)
@example(file="{:a 1] [:b 2}\n{:a [1\n{:a 2]}\n", piece=1 << 16)
@example(file="{:a 1} {:b 2}\n", piece=1 << 16)
@example(file="{:a (1}}\n{:b {:c 1)}\n", piece=1 << 16)
@example(file="{:a 1, :a 2}\n", piece=1 << 16)
@example(file="{:a 1, :b}\n", piece=1 << 16)
@example(file="{:a 1,2}\n{:a 1, 2 3}\n", piece=1 << 16)
@example(file='{:a "x}\n{:b "y"}\n', piece=1 << 16)
@example(file="{:a nil}\n{:a nilnil}\n{:a null}\n", piece=1 << 16)
@example(file="{:a :b, :ab :abc}\n{:a :a:b}\n", piece=1 << 16)
@example(file="{1 #{}, : #{}}", piece=1)
@example(file="{:a ##Inf, :b ##-Inf}\n", piece=1)
@example(file="{:a #{1 1}}\n{:a #{1 2}}\n", piece=1 << 16)
@example(file="{:a ::b}\n", piece=1 << 16)
@example(file="{:f :end, :end :items, :begin {:items [:text]}}\n", piece=1 << 16)
def test_lines_are_read_as_by_the_exact_reader(file: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(text, "_PIECE_BYTES", piece)
        _assert_same(file.encode())


@given(at=st.integers(0, 3 * len(_LINE)), size=st.integers(0, 12), put=st.sampled_from((*_ATOMS, *_GAPS, *"[](){}")))
def test_damaged_lines_are_read_as_by_the_exact_reader(at: int, size: int, put: str) -> None:
    file = f"{_LINE}\n" * 3

    _assert_same((file[:at] + put + file[at + size :]).encode())


def test_stored_histories_are_read_as_by_the_exact_reader() -> None:
    paths = sorted(ROOT.rglob("*.edn"))

    assert len(paths) > 100
    for path in paths:
        _assert_same(path.read_bytes())


@needs_possessive
def test_simple_lines_need_no_reading_of_tokens() -> None:
    """Otherwise the properties above would compare the exact reader with itself."""
    lines = (
        _LINE,
        '{:process 1, :type :invoke, :f :write, :value "a b"}',
        "{:type :ok, :value [[:poll {0 [[1 2] [3 4]]}]], :done? true}",
        "{:type :ok, :value #{1 2 (3 4)}}",
        "#jepsen.history.Op{:type :ok, :value :x1}",
        "{}",
    )
    for line in lines:
        file = f"{line}\n" * 3

        assert [(first, end, len(rows)) for first, end, rows in SimpleLines().read(file, 0)] == [(0, len(file), 3)], line


@needs_possessive
def test_one_odd_line_costs_no_other_line_its_fast_reading() -> None:
    file = f"{_LINE}\n" * 40 + "{:a 1.5}\n" + f"{_LINE}\n" * 40
    lines = SimpleLines()

    before = [(first, end) for first, end, _ in lines.read(file, 0)]
    after = [(first, end) for first, end, _ in lines.read(file, before[-1][1] + len("{:a 1.5}\n"))]

    assert (before[-1][1], after[-1][1]) == (40 * (len(_LINE) + 1), len(file))


@needs_possessive
def test_many_different_names_are_read_fast() -> None:
    file = "".join(f"{{:type :ok, :value :name{'x' * n}}}\n" for n in range(200))

    assert sum(len(rows) for _, _, rows in SimpleLines().read(file, 0)) == 200
