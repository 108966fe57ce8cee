"""Fault windows as a frame, and the kinds in effect at a time."""

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.causes.fault_windows import kinds_in_effect, windows
from checkers.sketches import history_of
from history.event import ClusterEvent, EventKind
from history.history import History
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
    frame = windows(history_of(*rows).events_frame, _END_NS)

    assert kinds_in_effect(frame, pl.Series([4, 5, 6, None])).to_list() == [[], ["expire"], [], []]


def test_window_that_never_acted_is_not_in_effect() -> None:
    frame = windows(history_of("fault-begun fault=f detail=expire").events_frame, _END_NS)

    assert kinds_in_effect(frame, pl.Series([0, 1])).to_list() == [[], []]


class _Open:
    """A window while its rows are read."""

    def __init__(self, kind: str, begun_ns: int) -> None:
        self.kind, self.begun_ns = kind, begun_ns
        self.ended_ns: int | None = None
        self.nodes: set[str] = set()
        self.acted = 0


def _by_rows(events: Sequence[ClusterEvent], end_ns: int) -> list[tuple[object, ...]]:
    """The definition of `windows`: one row after the other."""
    opens: dict[str, _Open] = {}
    closed = end_ns
    for event in events:
        closed = event.time_ns if event.kind is EventKind.HEALED else closed
        if event.fault is None:
            continue
        if event.kind is EventKind.FAULT_BEGUN:
            window = opens.setdefault(event.fault, _Open("fault" if event.detail is None else event.detail, event.time_ns))
            window.nodes |= {event.node} if event.node is not None else set()
        elif event.kind is EventKind.FAULT_ENDED and event.fault in opens:
            opens[event.fault].ended_ns = event.time_ns
        elif event.kind is EventKind.FAULT_ACTED and event.fault in opens:
            opens[event.fault].acted += 1 if event.count is None else event.count
    end_by_fault = {name: max(w.begun_ns, closed if w.ended_ns is None else w.ended_ns) for name, w in opens.items()}
    return [(name, w.kind, sorted(w.nodes), w.begun_ns, end_by_fault[name], w.acted) for name, w in opens.items()]


@pytest.mark.parametrize("name", ["ok/acked-loss-excused-then-rewritten"])
def test_windows_equal_their_definition(name: str) -> None:
    history = corpus.history(name)

    assert windows(history.events_frame, _END_NS).rows() == _by_rows(history.events, _END_NS)


@pytest.mark.slow
@given(histories())
def test_windows_of_any_history_equal_their_definition(history: History) -> None:
    assert windows(history.events_frame, _END_NS).rows() == _by_rows(history.events, _END_NS)


_TIMES = st.integers(-5, 30)
_WINDOW = st.tuples(_TIMES, st.integers(0, 10), st.sampled_from("abc"), st.integers(0, 2))


@given(st.lists(_WINDOW, max_size=6), st.lists(_TIMES, max_size=8))
def test_kinds_in_effect_equal_their_definition(drawn: list[tuple[int, int, str, int]], times: list[int]) -> None:
    rows = [(begun, begun + long, kind, acted) for begun, long, kind, acted in drawn]
    schema = {"begun_ns": pl.Int64, "ended_ns": pl.Int64, "kind": pl.String, "acted": pl.Int64}
    column = kinds_in_effect(pl.DataFrame(rows, schema=schema, orient="row"), pl.Series(times, dtype=pl.Int64))

    assert column.to_list() == [sorted({kind for b, e, kind, acted in rows if acted and b <= time <= e}) for time in times]
