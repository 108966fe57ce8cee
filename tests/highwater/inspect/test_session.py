"""A look inside a run: each moment is the one that the run had, and the reader may go to any of them in any order."""

import threading
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.errors import UsageError
from highwater.explore.backend import ExploreBackend
from highwater.inspect.playback import in_order
from highwater.inspect.session import Session
from highwater.inspect.simulated import SimPlayback
from highwater.inspect.view import Tree, View
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.event import ClusterEvent, EventKind
from history.history import History
from tests.tidy.sources import ROOT

_PLAN = "corpus/plans/kip101-scenario-1.yaml"


def _plan() -> Plan:
    return replace(load_plan(ROOT / _PLAN), protocol="truncate-to-hw")


@cache
def _history() -> History:
    """The run of the plan, in which a follower truncates to its high watermark."""
    return SimBackend().perform(_plan(), Provenance(run_id="run", plan_digest="")).history


def _cut() -> ClusterEvent:
    return next(row for row in _history().events if row.kind is EventKind.TRUNCATE)


@pytest.fixture
def session() -> Iterator[Session]:
    opened = Session(_plan(), stored=_history())
    yield opened
    opened.close()


def _log_end(view: View, row: ClusterEvent) -> int:
    """The LEO of the replica that a row is about."""
    return int(_at(view.tree, f"{row.node}.broker.partitions.{row.topic}-{row.partition}.log.leo"))


def _at(tree: Tree, path: str) -> int:
    value: object = tree
    for name in path.split("."):
        assert isinstance(value, dict)
        value = value[name]
    assert isinstance(value, int)
    return value


def test_row_stands_between_its_two_moments(session: Session) -> None:
    cut = _cut()
    assert cut.offset is not None

    session.to_row(cut.index)

    assert session.row == cut
    assert _log_end(session.before, cut) > cut.offset
    assert _log_end(session.moment, cut) == cut.offset
    assert any(f"{cut.topic}-{cut.partition}.log.leo: " in line for line in session.differences((cut.node or "",)))


def test_words_lead_to_the_first_row_that_has_them(session: Session) -> None:
    session.to_words([_cut().node or "", "truncate"])

    assert session.row == _cut()


@pytest.mark.slow
def test_moment_is_the_same_on_the_way_on_and_back(session: Session) -> None:
    cut = _cut()
    session.to_row(cut.index)
    there = session.moment
    session.to_row(cut.index + 200)
    session.to_row(cut.index)

    assert msgspec.json.encode(session.moment.tree) == msgspec.json.encode(there.tree)
    assert session.moment.rows == there.rows


def test_time_is_after_all_that_happened_at_it(session: Session) -> None:
    cut = _cut()

    session.to_time(cut.time_ns)
    assert _log_end(session.moment, cut) == cut.offset
    session.to_time(cut.time_ns - 1)
    assert _log_end(session.moment, cut) != cut.offset


def test_steps_come_to_each_row_one_by_one(session: Session) -> None:
    cut = _cut()
    session.to_time(cut.time_ns - 1)
    before = session.moment.rows
    while session.moment.rows <= cut.index:
        session.step()

    assert before <= cut.index < session.moment.rows
    assert _log_end(session.moment, cut) == cut.offset


def test_playback_to_the_end_is_the_run() -> None:
    playback = SimPlayback(_plan())
    playback.run(lambda next_ns: False)

    assert playback.ended
    assert playback.rows() == in_order([*_history().operations, *_history().events])
    playback.close()


def test_row_that_the_code_makes_no_more_is_refused() -> None:
    """The stored run was made by another code: what it held at a moment cannot be told."""
    cut = _cut()
    events = [replace(row, offset=(row.offset or 0) + 1) if row is cut else row for row in _history().events]
    stored = History(_history().manifest, operations=_history().operations, events=events)
    session = Session(_plan(), stored=stored)

    with pytest.raises(UsageError, match=f"row {cut.index} is another one than in the stored run"):
        session.to_row(cut.index)
    session.close()


@pytest.mark.slow
def test_reader_stays_where_no_row_is_found(session: Session) -> None:
    cut = _cut()
    session.to_row(cut.index)

    with pytest.raises(UsageError, match="no later row says swapped"):
        session.to_words(["swapped"])
    with pytest.raises(UsageError, match=r"the run has no row 9999999; the last is \d+"):
        session.to_row(9_999_999)
    session.step()

    assert session.moment.time_ns - cut.time_ns < 50_000_000


def test_row_that_the_code_no_longer_reaches_is_refused() -> None:
    later = replace(_history().events[-1], index=_history().events[-1].index + 1)
    stored = History(_history().manifest, operations=_history().operations, events=[*_history().events, later])
    session = Session(_plan(), stored=stored)

    with pytest.raises(UsageError, match=f"row {later.index} is another one than in the stored run"):
        session.to_row(later.index)
    session.close()


def _path() -> Plan:
    """A counterexample of the explorer: b2 takes what it keeps for a record that all have, as KIP-101 alone does."""
    return load_plan(ROOT / "corpus/explored/kip101.yaml")


def test_path_of_the_explorer_is_walked_on_and_back() -> None:
    run = ExploreBackend().perform(_path(), Provenance(run_id="run", plan_digest="")).history
    session = Session(_path(), stored=run)
    row = next(row for row in run.events if row.kind is EventKind.BECAME_LEADER and row.leader_epoch == 2)

    session.to_row(row.index)
    there = session.moment
    assert row.node == "b3"
    assert any("t-0.role.type" in line for line in session.differences(("b3",)))
    session.to_time(run.manifest.end_ns or 0)
    assert "weak-isr: " in str(session.moment.tree["invariants"])
    session.to_row(row.index)
    assert session.moment == there
    assert "invariants" not in session.moment.tree
    session.close()


def test_path_ends_with_the_rows_of_its_run() -> None:
    run = ExploreBackend().perform(_path(), Provenance(run_id="run", plan_digest="")).history
    session = Session(_path(), stored=run)

    session.to_row(max(row.index for row in run.operations))

    assert session.row == max(run.operations, key=lambda row: row.index)
    session.close()


def test_closed_session_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    session = Session(_plan())
    session.to_time(2_000_000_000)
    session.close()

    assert threading.active_count() == before


def test_lines_tell_of_one_partition_alone(session: Session) -> None:
    cut = _cut()
    session.look_at(f"{cut.topic}-{cut.partition}")
    session.to_row(cut.index)
    text = "\n".join(session.lines((cut.node or "",)))

    assert f"LEO {cut.offset}" in text
    assert "  timers  " in text
    assert "zookeeper  controller b" in "\n".join(session.lines())
