"""The purposes of draws are part of every recorded run: a renamed purpose is another draw, and every digest changes."""

import pytest

from highwater.backends.sim.world import World
from highwater.rig.scene import scene_of
from history.seed import Draws
from nemesis.faults import AnyFault, Crash, DirFailure, Partition, Pause, PowerLoss, Restart
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, IsrMember, Minority, Named, Random
from tests.highwater.backends.sim.simulations import plan

FAULTS: tuple[tuple[AnyFault, AnyTarget], ...] = (
    (Partition(shape="halves"), Random()),
    (Pause(), Minority()),
    (Crash(), IsrMember(topic="t", partition=0)),
    (Restart(), Named(brokers=(1,))),
    (PowerLoss(), Named(brokers=(2,))),
    (DirFailure(drop_unflushed=True), Named(brokers=(3,))),
)
PURPOSES = (
    "ambush b1",
    "ambush b2",
    "cut f1",
    "drop f6 b3 t-0",
    "power f5 b2 t-0",
    "restart b1",
    "restart b3",
    "silent b2",
    "target f1",
    "target f2",
    "target f3",
    "torn power f5 b2 t-0",
)


def test_names_of_the_random_draws_for_faults_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: set[str] = set()
    draw = Draws.bits

    def recorded(draws: Draws, key: str) -> int:
        drawn.add(key)
        return draw(draws, key)

    monkeypatch.setattr(Draws, "bits", recorded)
    schedule = [
        Window(id=f"f{number}", kind="k", at_ms=400 * number, until_ms=400 * number + 300, fault=fault, target=target)
        for number, (fault, target) in enumerate(FAULTS, 1)
    ]

    World(scene_of(plan(*schedule))).play_until(3000)

    wanted = ("target ", "cut ", "restart ", "silent ", "power ", "torn ", "drop ", "undelete ", "ambush ")
    assert tuple(sorted(key for key in drawn if key.startswith(wanted))) == PURPOSES
