"""A broker joins the running cluster, and one leaves it for good."""

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from checkers.liveness import convergence
from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from highwater.rig.scene import scene_of
from history.event import EventKind
from history.history import History
from nemesis.faults import Crash
from nemesis.schedule import Window
from nemesis.targets import Everyone
from tests.tidy.sources import ROOT

_AS_STORED = on_system(load_plan(ROOT / "corpus" / "real" / "members.yaml"), parsed_system("reference"))
_LIGHT = replace(_AS_STORED.workload, producers=1, consumers=1, produce_per_s=5)
PLAN = replace(_AS_STORED, workload=_LIGHT)
LATER = Window(id="all-die", kind="crash-everyone", at_ms=56_000, until_ms=57_000, fault=Crash(), target=Everyone())


def performed(plan: Plan) -> History:
    return SimBackend().perform(plan, Provenance(run_id="members", plan_digest="")).history


@pytest.fixture(scope="module")
def renewed() -> History:
    """The plan, and at its end all brokers are killed and started."""
    return performed(replace(PLAN, schedule=(*PLAN.schedule, LATER)))


def starts_of(history: History, node: str) -> list[int]:
    """When the broker was started, in ms since the first window was opened."""
    zero_ns = next(row.time_ns for row in history.events if row.kind is EventKind.FAULT_BEGUN)
    rows = (row for row in history.events if row.kind is EventKind.NODE_STARTED and row.node == node)
    return [(row.time_ns - zero_ns) // 1_000_000 for row in rows]


def test_broker_that_joins_starts_when_its_window_ends(renewed: History) -> None:
    assert starts_of(renewed, "b4")[0] == 6000


def test_no_topic_is_made_on_a_broker_that_joins_later() -> None:
    assert {broker for of in scene_of(PLAN).assignment["t"] for broker in of} == {1, 2, 3}


def test_broker_that_left_the_cluster_never_starts_again(renewed: History) -> None:
    """Neither when a later fault of all brokers ends, nor when all faults are healed."""
    assert len(starts_of(renewed, "b1")) == 1
    assert renewed.manifest.decommissioned == ("b1",)
    assert {fault.kind: fault.acted for fault in renewed.manifest.faults} == {
        "join": 1,
        "decommission": 1,
        "crash-leader": 2,
        "crash-everyone": 4,
    }


def test_cluster_without_the_broker_that_left_is_live(renewed: History) -> None:
    """A broker that is down without having left owes its metadata."""
    down = replace(renewed.manifest, decommissioned=())
    verdict = judge(renewed)
    stayed = judge(History(down, operations=renewed.operations, events=renewed.events), (convergence.CHECKER,))

    assert (verdict.validity.name, verdict.live) == ("VALID", True)
    assert "b1 does not list t-0 for clients at the end" in stayed.not_live


def test_broker_with_replicas_does_not_leave() -> None:
    """Its operator forgot a partition."""
    history = performed(replace(PLAN, script=PLAN.script[:2]))

    assert [fault.acted for fault in history.manifest.faults if fault.kind == "decommission"] == [0]
    assert not history.manifest.decommissioned
    assert judge(history).live
