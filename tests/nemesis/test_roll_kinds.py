"""The drawn roll of a cluster: one for a schedule, each broker in its turn, and only if it is named."""

from itertools import pairwise

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.sim.backend import SimBackend
from highwater.plans.derive import derive
from nemesis.faults import Crash, Roll
from nemesis.kinds import kind, select
from nemesis.targets import Named

SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_roll_changes_every_broker_with_one_crash(seed: int) -> None:
    """Where there is time, all of them also go back, or become final by a second roll."""
    plan = derive(seed, faults=("roll",), seconds=90)
    rolls = [window for window in plan.schedule if isinstance(window.fault, Roll)]
    targets = [window.target.brokers[0] for window in rolls if isinstance(window.target, Named)]
    count = plan.cluster.brokers

    assert sorted(targets[:count]) == list(range(1, count + 1))
    assert {type(window.fault) for window in plan.schedule if window not in rolls} == {Crash}
    assert len(plan.schedule) == len(rolls) + 1
    assert [window.fault for window in rolls[:count]] == [Roll()] * count
    second = [window.fault for window in rolls[count:]]
    assert second in ([], [Roll(back=True)] * count, [Roll(finalize=True)] * count)
    assert all(earlier.until_ms < later.at_ms for earlier, later in pairwise(rolls))


def test_second_rolls_lead_back_or_are_final_on_some_seeds() -> None:
    plans = [derive(seed, faults=("roll",), seconds=90) for seed in SEEDS]
    faults = [window.fault for plan in plans for window in plan.schedule]

    assert {(fault.back, fault.finalize) for fault in faults if isinstance(fault, Roll)} == {
        (False, False),
        (True, False),
        (False, True),
    }


def test_roll_is_drawn_beside_the_other_named_faults() -> None:
    plan = derive(3, faults=("roll", "crash-leader"), seconds=60)

    assert {window.kind for window in plan.schedule} == {"roll", "crash-leader"}


def test_roll_is_in_no_mix_so_that_seeds_keep_their_plans() -> None:
    assert "roll" not in select(["all"])
    assert kind("roll").named_only
    assert not any(window.kind == "roll" for seed in SEEDS for window in derive(seed, profile="beyond").schedule)


def test_roll_that_changes_no_version_is_refused() -> None:
    sentence = "a roll changes the version of no broker; name two, as in --system reference:kip112..kip343"
    plan = replace(derive(1, faults=("roll",)), system=UNSET)

    assert sentence == SimBackend().refuse(plan) == ProcessBackend().refuse(plan)
