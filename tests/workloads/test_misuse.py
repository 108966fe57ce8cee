"""misuse: a client breaks each rule of produce requests in turn and is refused each time (B-65, B-66)."""

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.backends.sim.world import World
from highwater.plans.derive import derive
from highwater.rig.backend import Provenance
from highwater.rig.scene import manifest, scene_of
from history.op import OpType
from tests.workloads.test_admin_storm import run
from workloads.generate import generate
from workloads.misuse import GOOD_IN_A_ROW, NO_SUCH_ACKS
from workloads.parameters import Parameters, PartitionName

PARAMETERS = Parameters(partitions=(PartitionName("orders", 0), PartitionName("orders", 1)), producers=1, consumers=0)
REFUSALS = {
    "INVALID_REQUEST",
    "INVALID_REQUIRED_ACKS",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "DUPLICATE_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "UNKNOWN_PRODUCER_ID",
}


def test_misuse_workload_sends_good_then_invalid_requests() -> None:
    """B-66: an old sequence can be repeated only after several good requests."""
    *_, misfit = generate("misuse", 5, PARAMETERS)
    invocations = run(misfit, "faults")
    wrong = [i for i in invocations if i.misuse or not i.values or i.acks == NO_SUCH_ACKS]

    assert {i.misuse for i in wrong} == {"", "gap", "behind", "epoch", "stranger"}
    assert {(len(i.values), i.acks) for i in wrong} == {(1, -1), (0, -1), (1, NO_SUCH_ACKS)}
    assert [n for n, i in enumerate(invocations) if i in wrong][:2] == [GOOD_IN_A_ROW, 2 * GOOD_IN_A_ROW + 1]
    assert run(misfit, "quiet") == []


def test_stranger_may_come_before_the_first_good_request() -> None:
    """B-66: only there is the next sequence of the session 0, with which a new producer could begin."""
    *_, misfit = generate("misuse", 5, replace(PARAMETERS, stranger_first=True))
    invocations = run(misfit, "faults")
    row = invocations[: GOOD_IN_A_ROW + 2]

    assert [(i.misuse, i.deserves) for i in row[:2]] == [("stranger", "UNKNOWN_PRODUCER_ID"), ("", None)]
    assert len({i.partition for i in row}) == 1
    assert invocations[GOOD_IN_A_ROW + 2].misuse == "stranger"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_refused_produce_never_appears_in_a_log(seed: int) -> None:
    """ORD-4, B-65, B-66: a leader that accepts one has a duplicate, a gap or a record of an unknown producer in its log."""
    plan = derive(seed, workload="misuse", seconds=30, faults=("pause-short",))
    scene = scene_of(plan)
    world = World(scene)
    world.play()
    facts = manifest(
        scene, Provenance(run_id="r", plan_digest=""), backend="sim", outcome="completed", faults=world.faults.counts()
    )
    history = world.sim.recorder.history(facts)
    errors = {row.error for row in history.operations if row.type is not OpType.INVOKE}

    assert errors >= REFUSALS
    assert judge(history).validity is Validity.VALID
