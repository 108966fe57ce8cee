"""What overlapping windows do to one node, and what they say where there is nothing to be done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from highwater.local.admin import Admin
from highwater.local.fault_nodes import NodeFault, NodeFaults
from highwater.local.proving import Proving
from highwater.local.site import Probe, Proof, Site
from history.event import EventKind
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import DirFailure, Pause, Restart
from nemesis.schedule import Window
from reference.effects import Note
from reference.runtime.control import NoteLine
from reference.types import Address, BrokerId

ONE = BrokerId(1)


class Toy:
    """A node that is there, paused or not, and nothing else."""

    address = Address("b1")
    dirs = 1

    def __init__(self) -> None:
        self.life = 1
        self.is_up = True
        self.stands_still = False

    async def start(self) -> Probe:
        self.life, self.is_up, self.stands_still = self.life + 1, True, False
        return _seen

    async def kill(self) -> Probe:
        self.is_up = False
        return _seen

    async def pause(self) -> Probe:
        self.stands_still = True
        return _seen

    async def resume(self) -> Probe:
        self.stands_still = False
        return _seen

    async def is_running(self) -> bool:
        return self.is_up

    async def set_dir(self, *_: object) -> Probe:
        return _seen

    def stopped_itself(self) -> str | None:
        return None

    def notes(self) -> list[NoteLine]:
        """Of its first life: a directory has failed."""
        return [NoteLine(node="b1", life=1, time_ns=0, note=Note(kind=EventKind.DIR_FAILED, dir=0))]


class Ground:
    nodes: dict[BrokerId, Toy]


async def _seen() -> Proof:
    return Proof(True, "seen")


def window(fault: NodeFault) -> Window:
    return Window(id=type(fault).__name__, kind="fault", at_ms=0, until_ms=1, fault=fault)


def played(scene: Callable[[NodeFaults, Toy], Awaitable[None]]) -> None:
    recorder = Recorder(lambda: 0)

    async def main() -> None:
        ground, proving = Ground(), Proving(recorder, ["fault"])
        ground.nodes = {ONE: Toy()}
        faults = NodeFaults(cast(Site, ground), recorder, proving, cast(Admin, None), draws=Draws(1))
        await scene(faults, ground.nodes[ONE])
        await proving.settle()

    asyncio.run(main())


@pytest.mark.parametrize("fault", [Restart(), DirFailure()])
def test_a_process_that_is_started_while_a_window_pauses_it_stands_still(fault: NodeFault) -> None:
    """Or the pause ends when another window restarts the broker, and its row says that it lasted."""

    async def scene(faults: NodeFaults, node: Toy) -> None:
        pause = Pause()
        await faults.begin(window(pause), pause, ONE)
        await faults.begin(window(fault), fault, ONE)
        await faults.end(window(fault), fault, ONE)
        assert (node.life, node.stands_still) == (2, True)
        await faults.end(window(pause), pause, ONE)
        assert not node.stands_still

    played(scene)
