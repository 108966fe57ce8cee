"""Steps of the protocol: each has the name that docs/triage.md gives it."""

import re

import pytest
from hypothesis import given

from checkers.causes.steps import WRITES, leader_changes, steps
from checkers.sketches import history_of
from history.history import History
from tests.strategies import histories
from tests.tidy.sources import ROOT

_FIRST = "state-written leader=b1 leader_epoch=1 isr=b1,b2 elr=b3"


def _steps(*lines: str) -> list[str]:
    return steps(history_of(*lines).events_frame)["step"].to_list()


@pytest.mark.parametrize(
    ("step", "write"),
    [
        ("left-without-leader", "state-written leader_epoch=2 isr=b1"),
        ("elected-in-isr", "state-written leader=b2 leader_epoch=2 isr=b2"),
        ("elected-from-elr", "state-written leader=b3 leader_epoch=2 isr=b3"),
        ("elected-outside-isr", "state-written leader=b4 leader_epoch=2 isr=b4"),
        ("epoch-raised", "state-written leader=b1 leader_epoch=2 isr=b1"),
        ("isr-expanded", "state-written leader=b1 leader_epoch=1 isr=b1,b2,b3"),
        ("isr-shrunk", "state-written leader=b1 leader_epoch=1 isr=b1"),
        ("state-rewritten", "state-written leader=b1 leader_epoch=1 isr=b2,b1"),
    ],
)
def test_write_is_named_by_what_it_changed(step: str, write: str) -> None:
    assert _steps(_FIRST, write) == ["created", step]
    assert step in dict(WRITES)


def test_write_is_compared_within_its_topic_id() -> None:
    """A topic that is created again under its name has no state before."""
    assert _steps(f"{_FIRST} topic_id=1", f"{_FIRST} topic_id=2") == ["created", "created"]


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("truncate:hw", "truncate node=b1 offset=0 detail=hw"),
        ("isr-change-ended:refused", "isr-change-ended node=b1 isr=b1 detail=refused"),
        ("node-stopped:halt", "node-stopped node=b1 detail=halt:dir"),
        ("reassignment-begun:forward", "reassignment-begun node=b1 detail=forward"),
        ("fenced", "fenced node=b1 detail=any"),
    ],
)
def test_event_is_named_by_its_kind_and_known_detail(step: str, line: str) -> None:
    assert _steps(line) == [step]


def test_lower_high_watermark_of_a_leader_is_a_step() -> None:
    rows = ("hw node=b1 hw=5", "hw node=b2 hw=3", "hw node=b1 hw=4", "hw node=b1 hw=3 detail=follower", "hw node=b1 hw=1 life=2")

    assert steps(history_of(*rows).events_frame)["index"].to_list() == [2]


def test_offline_period_is_no_leader_change() -> None:
    rows = ("state-written leader=b1 isr=b1", "state-written isr=b1", "state-written leader=b1 isr=b1")

    assert leader_changes(history_of(*rows, "state-written leader=b2 isr=b2").events_frame) == 1


def test_names_of_writes_are_documented() -> None:
    document = (ROOT / "docs" / "triage.md").read_text()

    assert [name for name, _ in WRITES if f"`{name}`" not in document] == []
    assert re.search(r"`hw-lowered`", document)


@pytest.mark.slow
@given(histories())
def test_steps_of_any_history_are_in_order(history: History) -> None:
    frame = steps(history.events_frame)

    assert frame["index"].is_sorted()
    assert frame["step"].null_count() == 0
