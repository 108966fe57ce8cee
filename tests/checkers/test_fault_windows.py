"""Fault windows as a frame, and the kinds in effect at a time."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.fault_windows import kinds_in_effect, windows
from checkers.sketches import history_of
from history.history import History
from reports.windows import windows_of
from tests.checkers import corpus
from tests.strategies import histories

_END_NS = 50_000_000


def _windows(*lines: str) -> list[tuple[object, ...]]:
    return windows(history_of(*lines).events_frame, _END_NS).rows()


def test_window_lasts_from_its_first_begin_to_its_last_end() -> None:
    rows = ("fault-begun fault=f node=b2 detail=pause", "fault-begun fault=f node=b1 detail=pause", "fault-ended fault=f")

    assert _windows(*rows, "fault-ended fault=f") == [("f", "pause", ["b1", "b2"], 0, 3_000_000, 0)]


def test_window_without_an_end_lasts_until_healing() -> None:
    assert _windows("fault-begun fault=f detail=cut", "healed") == [("f", "cut", [], 0, 1_000_000, 0)]
    assert _windows("fault-begun fault=f detail=cut") == [("f", "cut", [], 0, _END_NS, 0)]


def test_effects_of_a_window_are_added() -> None:
    rows = ("fault-begun fault=f detail=drop", "fault-acted fault=f count=17", "fault-acted fault=f")

    assert _windows(*rows)[0][-1] == 18


def test_event_of_a_window_that_never_began_is_left_out() -> None:
    assert _windows("fault-ended fault=f", "fault-acted fault=g") == []


def test_fault_of_a_moment_is_in_effect_at_that_moment() -> None:
    rows = ("fault-begun fault=f detail=expire time_ns=5", "fault-acted fault=f time_ns=5", "fault-ended fault=f time_ns=5")
    found = windows(history_of(*rows).events_frame, _END_NS)

    assert kinds_in_effect(found, pl.Series([4, 5, 6, None])).to_list() == [[], ["expire"], [], []]


def test_window_that_never_acted_is_not_in_effect() -> None:
    found = windows(history_of("fault-begun fault=f detail=expire").events_frame, _END_NS)

    assert kinds_in_effect(found, pl.Series([0, 1])).to_list() == [[], []]


@pytest.mark.parametrize("name", ["ok/acked-loss-excused-then-rewritten"])
def test_windows_equal_those_of_the_page(name: str) -> None:
    history = corpus.history(name)

    _assert_equal_to_page(history)


@pytest.mark.slow
@given(histories())
def test_windows_of_any_history_equal_those_of_the_page(history: History) -> None:
    _assert_equal_to_page(history)


def _assert_equal_to_page(history: History) -> None:
    page = windows_of(history.events, _END_NS)
    found = windows(history.events_frame, _END_NS)

    assert found.rows() == [(w.id, w.kind, list(w.nodes), w.start_ns, w.end_ns, w.acted) for w in page]


_TIMES = st.integers(-5, 30)
_WINDOW = st.tuples(_TIMES, st.integers(0, 10), st.sampled_from("abc"), st.integers(0, 2))


@given(st.lists(_WINDOW, max_size=6), st.lists(_TIMES, max_size=8))
def test_kinds_in_effect_equal_their_definition(drawn: list[tuple[int, int, str, int]], times: list[int]) -> None:
    rows = [(begun, begun + long, kind, acted) for begun, long, kind, acted in drawn]
    schema = {"begun_ns": pl.Int64, "ended_ns": pl.Int64, "kind": pl.String, "acted": pl.Int64}
    found = kinds_in_effect(pl.DataFrame(rows, schema=schema, orient="row"), pl.Series(times, dtype=pl.Int64))

    assert found.to_list() == [sorted({kind for b, e, kind, acted in rows if acted and b <= time <= e}) for time in times]
