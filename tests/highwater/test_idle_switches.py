"""What `reference.switches` refuses does nothing: the run is the same with the switch and without it."""

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.plans.derive import derive
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance
from history.digest import digest
from reference.config import SAFE, Variant
from reference.switches import NEEDS, Need
from tests.reference.test_switches import name_of, turned

PLAN = replace(derive(3, faults=("all",), profile="beyond", seconds=8, workload="everything"), quiet_ms=0, audit_ms=0)
PROVENANCE = Provenance(run_id="idle", plan_digest="0" * 32)


def _digest(variant: Variant, plan: Plan = PLAN) -> str:
    history = SimBackend().perform(replace(plan, protocol="mine", variant=variant), PROVENANCE).history
    return digest(history.operations, history.events)


@pytest.mark.slow
@pytest.mark.parametrize("need", [need for need in NEEDS if ("zk_guard", False) not in need.needs], ids=name_of)
def test_refused_switch_changes_nothing_in_a_run(need: Need) -> None:
    variant = turned(need)
    if need.needs == (("controller_epoch", True),):
        variant = replace(variant, zk_guard=False)  # else nothing happens at all
    without = replace(variant, **{need.switch: getattr(SAFE, need.switch)})

    assert _digest(without) == _digest(variant)


@pytest.mark.parametrize(("switch", "value"), [("reassignment", "B"), ("isr_change_via", "zookeeper"), ("truncation", "fetch")])
def test_run_of_the_comparison_tells_switches_apart(switch: str, value: str) -> None:
    assert _digest(SAFE) != _digest(replace(SAFE, **{switch: value}))
