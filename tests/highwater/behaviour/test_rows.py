"""The rows of a simulated run's behaviour (`highwater.behaviour.rows`)."""

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.behaviour.difference import Behaviour, difference_of
from highwater.behaviour.rows import Row, rows_of
from highwater.behaviour.snapshot import Recorded, recorded
from highwater.behaviour.tap import tapped
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import perform
from reference.broker import heartbeats
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Live
from reference.messages import IsrMember
from reference.types import BrokerId

BUILD = Build(commit="", dirty=False, versions={})


@cache
def _plan() -> Plan:
    return checked(replace(load_plan(Path("corpus/plans/kip101-scenario-2.yaml")), protocol="safe", variant=None))


def _rows() -> tuple[Row, ...]:
    with tapped() as (backend, told):
        run = perform(_plan(), backend, BUILD)
    return rows_of(run.history, told)


@cache
def _recorded() -> Recorded:
    return recorded("p", _rows())


def test_watching_the_messages_leaves_the_history_alone() -> None:
    with tapped() as (backend, _):
        watched = perform(_plan(), backend, BUILD)

    assert perform(_plan(), SimBackend(), BUILD).history.manifest.digest == watched.history.manifest.digest


def test_behaviour_of_a_plan_is_the_same_each_time() -> None:
    assert recorded("p", _rows()) == _recorded()


def test_behaviour_has_states_messages_logs_and_counts() -> None:
    rules = {row.rule for row in _rows()}

    assert {
        "state-written",
        "controller-elected",
        "LeaderAndIsr sent",
        "LeaderAndIsr answered",
        "UpdateMetadata sent",
        "append of the leader",
        "hw of the follower",
        "messages",
        "answers",
    } <= rules


def test_rows_are_in_the_order_of_time() -> None:
    times = [row.time_ns for row in _rows()]

    assert times == sorted(times)


def test_another_first_leader_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _recorded()

    def last_of_all(replicas: tuple[BrokerId, ...], live: Live) -> Elect:
        members = tuple(sorted(IsrMember(broker, live[broker]) for broker in replicas))
        return Elect(members[-1], members)

    monkeypatch.setattr(leader_selection, "first_leader", last_of_all)
    difference = difference_of(before, Behaviour("p", _rows()))

    assert difference is not None
    assert difference.words == "other words: state-written"


def test_more_frequent_heartbeats_are_told_as_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody decides otherwise because of them in this plan, and the messages of other links keep their times."""
    before = _recorded()

    monkeypatch.setattr(heartbeats, "BEATS_PER_TIMEOUT", 5)
    difference = difference_of(before, Behaviour("p", _rows()))

    assert difference is not None
    assert difference.words == "counts alone: messages"
