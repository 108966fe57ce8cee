"""Random schedules on the table-top cluster.

Messages arrive in any order, are lost and duplicated; brokers crash, sessions expire, timers fire early.
The simulator's network keeps the order of a connection and its timers keep their deadlines; here neither is guaranteed.
"""

import pytest

from reference.config import VARIANTS
from reference.replica.partition import Leader
from tests.reference.lab import Lab
from tests.reference.schedules import Schedule

STEPS = 600
SEEDS = 40


class World(Schedule):
    """One run on three brokers."""

    def __init__(self, seed: int, protocol: str, *, dirs: int = 1) -> None:
        super().__init__(seed, Lab(3, variant=VARIANTS[protocol], min_isr=2, log_dirs=dirs))
        self.lab.wait(2000)

    def step(self) -> None:
        lab, rng = self.lab, self.rng
        up = sorted(lab.nodes)
        match rng.below(80):
            case 0 if up:
                self.crash(rng.pick(up))
            case 1 | 2 | 3 if len(up) < len(lab.ids):
                self.start(rng.pick([i for i in lab.ids if i not in lab.nodes]))
            case 4 if up:
                lab.expire(rng.pick(up))
            case 5 | 6 | 7 | 8 if lab.leaders():
                self.produce(rng.pick(lab.leaders()))
            case 9 | 10 | 11 if up:
                self.fire(rng.pick(up))
            case 14 if len(self.lab.disks[1].dirs) > 1:
                # A directory goes bad or is repaired. A process that saw it fail does not use it again.
                directory = rng.pick(rng.pick(list(lab.disks.values())).dirs)
                directory.bad = not directory.bad
            case 12 if lab.in_flight:
                self.lose()
            case 13 if lab.in_flight:
                self.double()
            case _ if lab.in_flight:
                self.deliver()

    def heal(self) -> None:
        """Repair all directories, start every broker, expire all old sessions, and deliver all messages."""
        for i in self.lab.ids:
            for directory in self.lab.disks[i].dirs:
                directory.bad = False
            if i in self.lab.nodes and self.lab.nodes[i].state.broker.offline_dirs:
                self.lab.crash(i)
        self.start_everybody()
        self.lab.wait(40_000)

    def lost(self) -> dict[int, str]:
        """The acknowledged values that are missing from their offset in the leader's log."""
        leaders = [i for i in self.lab.ids if isinstance(self.lab.partition(i).role, Leader)]
        return self.lost_by(max(leaders, key=lambda i: self.lab.partition(i).leader_epoch, default=None))


def run_schedule(seed: int, protocol: str = "safe", *, dirs: int = 1) -> World:
    world = World(seed, protocol, dirs=dirs)
    world.lab.checks_rules = protocol == "safe"  # another one is to lose records
    for _ in range(STEPS):
        world.step()
    world.heal()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_cluster_recovers_from_any_schedule_without_losing_data(seed: int) -> None:
    world = run_schedule(seed)

    assert world.lost() == {}
    assert world.lab.isr() == [1, 2, 3]
    assert len(world.lab.leaders()) == 1
    assert world.lab.values(1) == world.lab.values(2) == world.lab.values(3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_cluster_recovers_from_log_dir_failures_without_loss(seed: int) -> None:
    """R-290, R-307, U-16: whatever a controller knew about bad directories, and whenever it died."""
    world = run_schedule(seed, dirs=2)

    assert world.lost() == {}
    assert world.lab.isr() == [1, 2, 3]
    assert len(world.lab.leaders()) == 1
    assert world.lab.values(1) == world.lab.values(2) == world.lab.values(3)


@pytest.mark.slow
def test_random_schedules_catch_truncation_to_the_high_watermark() -> None:
    """The runs acknowledge records, and lose some with the variant `truncate-to-hw`."""
    acked = sum(len(run_schedule(seed).acked) for seed in range(10))
    seeds_that_lost = [seed for seed in range(SEEDS) if run_schedule(seed, "truncate-to-hw").lost()]

    assert acked > 50
    assert seeds_that_lost != []
