"""Views of a table: checkers read the same rows whether a table is decoded once or each view is a frame of its own."""

import pytest

from checkers.engine import tables
from checkers.engine.groups import PARTITION, groups
from checkers.engine.tables import Events, Operations
from checkers.judge import judge
from history.event import EventKind
from tests.checkers.corpus import RUNS, history
from tests.checkers.story import commit_record, healthy_partition


@pytest.mark.parametrize("name", sorted(RUNS))
def test_large_tables_have_the_verdicts_of_small_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of millions of rows is judged on frames, and no test is that large."""
    small = judge(history(name))
    monkeypatch.setattr(tables, "DECODED_MAX", -1)

    assert judge(history(name)) == small


@pytest.mark.parametrize("small_max", [-1, 1000])
def test_views_keep_the_order_of_the_rows(small_max: int) -> None:
    """Rows that belong to every partition come between those of the partition, not behind them."""
    builder = healthy_partition()
    commit_record(builder)
    builder.session_ended("b3", 13)
    builder.hw("b1", 1)
    builder.event(EventKind.NODE_STARTED, whole_node=True, node="b3")
    recorded = builder.history()
    events = Events(recorded.events_frame, small_max=small_max)

    (group,) = groups(Operations(recorded.operations_frame, small_max=small_max), events, PARTITION)
    view = group.events.of(EventKind.NODE_STARTED, EventKind.SESSION_ENDED, EventKind.HW)

    expected = [row.index for row in recorded.events if row.kind in ("node-started", "session-ended", "hw")]
    assert view.column("index") == view.frame["index"].to_list() == [row.at for row in view.rows] == expected
