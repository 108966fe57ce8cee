"""The states around rows of a stored run: for its page, only if the present code makes the same run."""

import sys

import pytest
from msgspec.structs import replace

from checkers.causes.cause import cause_of
from checkers.judge import judge
from highwater.backends.sim.backend import SimBackend
from highwater.explore.backend import ExploreBackend
from highwater.inspect.rows import inside
from highwater.inspect.session import Session
from highwater.plans.text import load_plan, plan_to_yaml
from highwater.rig.backend import Provenance
from history.event import EventKind
from history.history import History
from reports.states import Marked, RowStates
from tests.highwater.inspect.test_session import _cut, _history, _plan
from tests.tidy.sources import ROOT


def _text(lines: tuple[Marked, ...]) -> str:
    return "\n".join("".join(words for words, _ in line) for line in lines)


def _only(states: tuple[RowStates, ...]) -> RowStates:
    (one,) = states
    return one


def test_states_of_a_row_are_those_before_and_after_it() -> None:
    cut = _cut()

    states = _only(inside(plan_to_yaml(_plan()), _history(), [cut.index]).rows)

    process_states = next(process_states for process_states in states.held if process_states.name == cut.node)
    assert f"LEO {cut.offset}" in _text(process_states.after)
    assert f"LEO {cut.offset}" not in _text(process_states.before)
    name = f"broker.partitions.{cut.topic}-{cut.partition}.log.leo"
    assert [field.after for field in states.fields if field.name == name] == [str(cut.offset)]


def test_states_name_the_functions_that_the_action_called() -> None:
    states = _only(inside(plan_to_yaml(_plan()), _history(), [_cut().index]).rows)

    assert "replica/follower.become" in states.called
    assert not any(name.startswith("client/") for name in states.called)
    assert sys.getprofile() is None


def test_states_tell_of_the_partition_of_their_row() -> None:
    rows = [row for row in _history().events if row.kind is EventKind.STATE_WRITTEN]

    for states, row in zip(inside(plan_to_yaml(_plan()), _history(), [row.index for row in rows]).rows, rows, strict=True):
        zookeeper = next(process_states for process_states in states.held if process_states.name == "zookeeper")
        assert f"{row.topic}-{row.partition}  leader {row.leader}" in _text(zookeeper.after) or row.leader is None


def test_rows_of_one_action_cost_one_performance(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row.index for row in _history().events if row.time_ns == _cut().time_ns]
    session = Session(_plan(), stored=_history())
    session.to_row(rows[0])
    monkeypatch.setattr(session, "_begin_again", lambda: pytest.fail("performed again"))

    for index in rows[1:]:
        session.to_row(index)

    assert session.row is not None
    assert session.row.index == rows[-1]
    session.close()


def test_run_of_other_code_has_a_sentence_in_place_of_states() -> None:
    history = _history()
    events = [replace(row, offset=(row.offset or 0) + 1) if row == _cut() else row for row in history.events]
    history_of_other_code = History(manifest=history.manifest, operations=history.operations, events=events)

    states_found = inside(plan_to_yaml(_plan()), history_of_other_code, [_cut().index])

    assert (states_found.rows, states_found.missing[:11]) == ((), "No states: ")
    assert f"row {_cut().index} is another one than in the stored run" in states_found.missing


def test_run_on_real_brokers_has_a_sentence_for_states() -> None:
    history = _history()
    real = History(manifest=replace(history.manifest, backend="process"), operations=history.operations, events=history.events)

    assert "this run is of backend process" in inside(plan_to_yaml(_plan()), real, [3]).missing


def test_run_without_its_plan_has_a_sentence_in_place_of_states() -> None:
    assert inside("", _history(), [3]).missing == "No states: the plan of the run is not known."


def test_explored_path_has_states_around_each_row() -> None:
    plan = load_plan(ROOT / "corpus/explored/isr-no-version.yaml")
    history = ExploreBackend().perform(plan, Provenance(run_id="run", plan_digest="")).history
    rows = [row.index for row in history.events]

    states_found = inside(plan_to_yaml(plan), history, rows)

    assert [states.index for states in states_found.rows] == sorted(rows)
    assert any(states.fields for states in states_found.rows)
    assert any("replica/isr._propose" in states.called for states in states_found.rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "plan", "process", "field", "before", "after"),
    [
        ("truncate-to-hw", "kip101-scenario-1", "b3", "broker.partitions.t-0.log.leo", "123", "122"),
        ("kip101", "mutants/kafka-6361", "b2", "broker.partitions.t-0.log.leo", "130", "211"),
        ("kip279", "kafka-7164", "b3", "broker.partitions.t-0.log.leo", "122", "130"),
        ("kip320", "mutants/kafka-7128", "zookeeper", "/brokers/topics/t/partitions/0/state", "[2,4]", "[2,3,4]"),
        ("isr-current", "mutants/isr-current", "b1", "broker.partitions.t-0.hw", "150", "151"),
    ],
)
def test_row_that_did_it_shows_the_change_of_its_cause(
    protocol: str, plan: str, process: str, field: str, before: str, after: str
) -> None:
    performed = replace(load_plan(ROOT / f"corpus/plans/{plan}.yaml"), protocol=protocol)
    history = SimBackend().perform(performed, Provenance(run_id="run", plan_digest="")).history
    cause = cause_of(history, judge(history))
    assert cause is not None
    assert cause.step is not None

    states = _only(inside(plan_to_yaml(performed), history, [cause.step]).rows)

    changed = next(one for one in states.fields if (one.process, one.name) == (process, field))
    assert (before in changed.before, after in changed.after) == (True, True)
