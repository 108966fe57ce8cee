"""What overlapping windows do to one node, and what they say where there is nothing to be done."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from highwater.backends.real.admin import Admin
from highwater.backends.real.fault_nodes import NodeFault, NodeFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.sessions import OverError
from highwater.backends.real.site import Probe, Proof, Site
from highwater.errors import HarnessError
from highwater.rig.nemesis import Nemesis
from history.event import EventKind
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import DirFailure, ExpireSession, Pause, Restart
from nemesis.schedule import Window
from reference.effects import Note
from reference.types import Address, BrokerId
from server.lab.notes import NoteLine
from tests.highwater.backends.sim.simulations import plan

ONE = BrokerId(1)
SESSION = 0x1234


class Toy:
    """A node that is there, paused or not, and nothing else."""

    address = Address("b1")
    dirs = 1

    def __init__(self) -> None:
        self.life = 1
        self.is_up = True
        self.stands_still = False
        self.is_told = True

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
        """Of its first life: a directory has failed, as soon as it is told."""
        return self.is_told * [NoteLine(node="b1", life=1, time_ns=0, note=Note(kind=EventKind.DIR_FAILED, dir=0))]


class Keeper:
    """Knows the session of the node, and then another one; it is over when it is to be ended, or ended then."""

    def __init__(self, *then: int | None, is_over: bool = True) -> None:
        self._sessions = [SESSION, *then]
        self._is_over = is_over

    async def session_of(self, _: BrokerId) -> int | None:
        return self._sessions.pop(0) if len(self._sessions) > 1 else self._sessions[0]

    async def expire(self, session: int) -> None:
        if self._is_over:
            raise OverError(f"session 0x{session:x} could not be taken over")


class Ground:
    nodes: dict[BrokerId, Toy]


async def _seen() -> Proof:
    return Proof(True, "seen")


def window(fault: NodeFault) -> Window:
    return Window(id=type(fault).__name__, kind="fault", at_ms=0, until_ms=1, fault=fault)


def played(scene: Callable[[NodeFaults, Toy], Awaitable[None]], keeper: Keeper | None = None) -> list[str | None]:
    """What the probes of the faults have said."""
    recorder = Recorder(lambda: 0)

    async def main() -> None:
        ground, nemesis = Ground(), Nemesis(plan(), recorder, Draws(1))
        proving = Proving(recorder, acted=nemesis.acted)
        ground.nodes = {ONE: Toy()}
        faults = NodeFaults(cast(Site, ground), nemesis, proving, cast(Admin, keeper))
        await scene(faults, ground.nodes[ONE])
        await proving.settle()

    asyncio.run(main())
    return [row.detail for row in recorder.events if row.kind is EventKind.FAULT_PROBED]


@pytest.mark.parametrize("fault", [Restart(), DirFailure()])
def test_a_process_that_is_started_while_a_window_pauses_it_stands_still(fault: NodeFault) -> None:
    """Or the pause ends when another window restarts the broker, and its row says that it lasted."""

    async def scene(faults: NodeFaults, node: Toy) -> None:
        pause = Pause()
        await faults.do(window(pause), pause, ONE)
        await faults.do(window(fault), fault, ONE)
        await faults.undo(window(fault), fault, ONE)
        assert (node.life, node.stands_still) == (2, True)
        await faults.undo(window(pause), pause, ONE)
        assert not node.stands_still

    played(scene)


@pytest.mark.parametrize("then", [None, 0x5678])
def test_a_session_whose_time_ran_out_before_it_was_ended_was_not_ended(then: int | None) -> None:
    """That of a broker that stands still, or is cut off, is over any moment: no failure of the laboratory, and no effect."""

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        await faults.do(window(expiry), expiry, ONE)

    assert played(scene, Keeper(then)) == ["no-effect: it has no session"]


@pytest.mark.parametrize(
    ("is_over", "found"), [(False, f"acts: ZooKeeper ended session 0x{SESSION:x}"), (True, "no-effect: it has no session")]
)
def test_a_server_that_is_behind_tells_of_a_session_that_was_ended_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch, is_over: bool, found: str
) -> None:
    """The laboratory reads from one server of a quorum, and the session was ended at another."""
    monkeypatch.setattr("highwater.backends.real.fault_nodes.LOOK_S", 0)

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        await faults.do(window(expiry), expiry, ONE)

    assert played(scene, Keeper(SESSION, SESSION, None, is_over=is_over)) == [found]


def test_a_session_that_is_there_and_cannot_be_ended_is_a_failure_of_the_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.fault_nodes.LOOK_S", 0)

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        with pytest.raises(HarnessError, match="could not be taken over"):
            await faults.do(window(expiry), expiry, ONE)

    played(scene, Keeper(SESSION))


def test_who_is_told_of_a_failed_directory_after_it_was_mended_begins_anew_before_all_is_healed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An access fails, the directory is mended, and then the broker notes it: its replicas there would stay dead for good."""
    monkeypatch.setattr("highwater.backends.real.fault_nodes.NOTED_S", 0)

    async def scene(faults: NodeFaults, node: Toy) -> None:
        node.is_told = False
        failure = DirFailure()
        await faults.do(window(failure), failure, ONE)
        await faults.undo(window(failure), failure, ONE)
        assert node.life == 1
        asyncio.get_running_loop().call_soon(lambda: setattr(node, "is_told", True))
        await faults.heal()
        assert node.life == 2

    played(scene)
