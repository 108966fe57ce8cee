"""One plan on two backends: simulator and real processes give the same verdict and histories with the same kinds of rows.

A protocol with the bug of a plan is INVALID on both, `safe` is VALID on both. Real processes are slower than the simulator's
model, so the plans use times of seconds, and the digests of the histories differ.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan, checked
from highwater.plans.text import load_plan
from highwater.rig.backend import Backend, Provenance
from history.event import EventKind
from history.history import History

PLANS = Path(__file__).parents[2] / "corpus" / "plans"
PROVENANCE = Provenance(run_id="test", plan_digest="")
CASES = [
    ("kip101-scenario-1.yaml", "truncate-to-hw"),
    ("jepsen-2013.yaml", "unclean-election"),
    ("kip101-scenario-1-frozen.yaml", "truncate-to-hw"),
    ("log-dirs/bootstrap.yaml", "offline-replica-recreated"),
    ("log-dirs/leader.yaml", "offline-replica-recreated"),
    ("log-dirs/follower.yaml", "offline-replica-recreated"),
]
# Kinds of rows that only one of the two backends records.
OWN = frozenset({EventKind.FAULT_PROBED, EventKind.GAUGE})
# Kinds of rows that every run of these plans has.
COMMON = frozenset(
    {
        EventKind.NODE_STARTED,
        EventKind.REGISTERED,
        EventKind.CONTROLLER_ELECTED,
        EventKind.STATE_WRITTEN,
        EventKind.BECAME_LEADER,
        EventKind.BECAME_FOLLOWER,
        EventKind.APPEND,
        EventKind.HW,
        EventKind.FAULT_BEGUN,
        EventKind.FAULT_ACTED,
        EventKind.FAULT_ENDED,
        EventKind.HEALED,
        EventKind.FINAL_READS,
        EventKind.ZK_STATE,
        EventKind.METADATA_VIEW,
        EventKind.LOG_ON_DISK,
    }
)


def history_of_plan(name: str, protocol: str, backend: Backend) -> History:
    return history_on(checked(replace(load_plan(PLANS / name), protocol=protocol, variant=None)), backend)


def history_on(plan: Plan, backend: Backend) -> History:
    refusal = backend.refuse(plan)
    if refusal is not None:
        pytest.skip(refusal)
    run = backend.perform(plan, PROVENANCE)
    assert (run.failure, run.history.manifest.outcome) == (None, "completed")
    return run.history


def same_kind(history: History) -> None:
    """Assert that the history has the common kinds of rows, and operations with the common columns."""
    kinds = {event.kind for event in history.events} - OWN
    assert COMMON - kinds == frozenset()
    produced = [row for row in history.operations if row.f == "produce" and row.type == "ok"]
    assert produced
    # librdkafka may send more than once: it repeats a produce that a resigned leader refused.
    assert all(row.offset is not None and (row.attempts or 0) >= 1 and row.value is not None for row in produced)
    polled = [row for row in history.operations if row.f == "poll" and row.type == "ok" and row.value is not None]
    assert polled
    assert all(row.offset is not None for row in polled)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_protocol_with_the_bug_is_invalid_in_the_simulator(name: str, protocol: str) -> None:
    history = history_of_plan(name, protocol, SimBackend())

    same_kind(history)
    assert judge(history).validity is Validity.INVALID


@pytest.mark.slow
@pytest.mark.parametrize(("name", "_"), CASES)
def test_protocol_safe_is_valid_in_the_simulator(name: str, _: str) -> None:
    history = history_of_plan(name, "safe", SimBackend())

    same_kind(history)
    verdict = judge(history)
    assert (verdict.validity, verdict.live) == (Validity.VALID, True)


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize(("name", "protocol"), CASES)
def test_protocol_with_the_bug_is_invalid_with_real_processes(name: str, protocol: str) -> None:
    history = history_of_plan(name, protocol, ProcessBackend())

    same_kind(history)
    assert judge(history).validity is Validity.INVALID


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize(("name", "_"), CASES)
def test_protocol_safe_is_valid_with_real_processes(name: str, _: str) -> None:
    history = history_of_plan(name, "safe", ProcessBackend())

    same_kind(history)
    verdict = judge(history)
    assert (verdict.validity, verdict.anomalies, verdict.live) == (Validity.VALID, (), True)
