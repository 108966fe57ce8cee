"""Overlapping windows on one node, and the probes of faults that have no effect."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from highwater.backends.real.fault_nodes import LOOK_S, NodeFault, NodeFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Probe, Proof, Site
from highwater.backends.real.zookeeper.admin import Admin
from highwater.backends.real.zookeeper.expiry import OverError
from highwater.errors import HarnessError
from highwater.rig.nemesis import Nemesis
from history.event import EventKind
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import Crash, Decommission, DirFailure, ExpireSession, Pause, Restart, Roll
from nemesis.schedule import Window
from reference.effects import Note
from reference.types import Address, BrokerId
from server.lab.notes import NoteLine
from tests.highwater.backends.sim.simulations import plan

ONE = BrokerId(1)
SESSION = 0x1234


class Toy:
    """A node that is up or down, paused or not."""

    address = Address("b1")
    dirs = 1

    def __init__(self) -> None:
        self.life = 1
        self.is_up = True
        self.stands_still = False
        self.is_told = True
        self.terminated = False
        self.told: list[Roll] = []

    async def start(self) -> Probe:
        self.life, self.is_up, self.stands_still = self.life + 1, True, False
        return _holds

    async def kill(self) -> Probe:
        self.is_up = False
        return _holds

    async def terminate(self) -> Probe:
        self.terminated = True
        return _holds

    def logs(self, _: int) -> tuple[str, ...]:
        return ()

    def change(self, roll: Roll) -> None:
        assert not self.is_up
        self.told.append(roll)

    async def pause(self) -> Probe:
        self.stands_still = True
        return _holds

    async def resume(self) -> Probe:
        self.stands_still = False
        return _holds

    async def is_running(self) -> bool:
        return self.is_up

    async def set_dir(self, *_: object) -> Probe:
        return _holds

    def stopped_itself(self) -> str | None:
        return None

    def notes(self) -> list[NoteLine]:
        """A DIR_FAILED note of the first life, once `is_told`."""
        return self.is_told * [NoteLine(node="b1", life=1, time_ns=0, note=Note(kind=EventKind.DIR_FAILED, dir=0))]


class Keeper:
    """An admin that returns the given sessions of the node in turn; with `is_over` it cannot end one.

    The node has a replica until it was looked for `looks` times.
    """

    absent: frozenset[Address] = frozenset()

    def __init__(self, *then: int | None, is_over: bool = True, looks: int = 0) -> None:
        self._sessions = [SESSION, *then]
        self._is_over = is_over
        self._looks = looks

    async def is_vacant(self, _: BrokerId) -> bool:
        self._looks -= 1
        return self._looks < 0

    async def forget(self, _: BrokerId) -> Probe:
        return _holds

    async def session_of(self, _: BrokerId) -> int | None:
        return self._sessions.pop(0) if len(self._sessions) > 1 else self._sessions[0]

    async def expire(self, session: int) -> None:
        if self._is_over:
            raise OverError(f"session 0x{session:x} could not be taken over")


class Ground:
    nodes: dict[BrokerId, Toy]


async def _holds() -> Proof:
    return Proof(True, "seen")


def window(fault: NodeFault) -> Window:
    return Window(id=type(fault).__name__, kind="fault", at_ms=0, until_ms=1, fault=fault)


def findings_of(scene: Callable[[NodeFaults, Toy], Awaitable[None]], keeper: Keeper | None = None) -> list[str | None]:
    """The findings of the probes."""
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
def test_process_started_during_a_pause_window_is_paused(fault: NodeFault) -> None:
    """Else a restart by another window would end the pause early, against its rows."""

    async def scene(faults: NodeFaults, node: Toy) -> None:
        pause = Pause()
        await faults.do(window(pause), pause, ONE)
        await faults.do(window(fault), fault, ONE)
        await faults.undo(window(fault), fault, ONE)
        assert (node.life, node.stands_still) == (2, True)
        await faults.undo(window(pause), pause, ONE)
        assert not node.stands_still

    findings_of(scene)


def test_broker_that_does_not_end_is_killed_and_rolled() -> None:
    """The roll has acted when the broker has become the other version, not when it was told to end."""
    roll = Roll()

    async def scene(faults: NodeFaults, node: Toy) -> None:
        await faults.do(window(roll), roll, ONE)
        assert (node.told, node.is_up) == ([], True)
        await faults.undo(window(roll), roll, ONE)
        assert (node.told, node.is_up, node.life) == ([roll], True, 2)

    assert findings_of(scene) == ["healed: seen", "acts: seen"]


def test_crash_in_a_roll_keeps_the_broker_down_until_it_ends() -> None:
    """It starts once, as the other version."""
    roll, crash = Roll(), Crash()

    async def scene(faults: NodeFaults, node: Toy) -> None:
        await faults.do(window(roll), roll, ONE)
        await faults.do(window(crash), crash, ONE)
        await faults.undo(window(roll), roll, ONE)
        assert (node.is_up, node.life) == (False, 1)
        await faults.undo(window(crash), crash, ONE)
        assert (node.told, node.is_up, node.life) == ([roll], True, 2)

    findings_of(scene)


@pytest.mark.parametrize("level", ["metadata.version is 27", None])
def test_final_roll_raises_the_level_of_the_cluster(level: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """If that is refused for long, the run is no evidence of the newer level."""
    monkeypatch.setattr("highwater.backends.real.fault_nodes.LEVEL_S_MAX", 0.1)
    roll = Roll(finalize=True)

    class Levelled(Keeper):
        async def raise_level(self) -> str | None:
            return level

    async def scene(faults: NodeFaults, _: Toy) -> None:
        await faults.do(window(roll), roll, ONE)
        await faults.undo(window(roll), roll, ONE)

    if level is None:
        with pytest.raises(HarnessError, match="the cluster's feature level could not be raised within 0 s"):
            findings_of(scene, Levelled())
    else:
        assert f"healed: {level}" in findings_of(scene, Levelled())


@pytest.mark.parametrize("then", [None, 0x5678])
def test_expire_session_fault_after_a_timeout_has_no_effect(then: int | None) -> None:
    """The session of a paused or isolated broker may time out at any moment: no effect, and no failure of the harness."""

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        await faults.do(window(expiry), expiry, ONE)

    assert findings_of(scene, Keeper(then)) == ["no-effect: it has no session"]


@pytest.mark.parametrize(
    ("is_over", "found"), [(False, f"acts: ZooKeeper ended session 0x{SESSION:x}"), (True, "no-effect: it has no session")]
)
def test_session_end_is_checked_again_on_a_lagging_zk_server(monkeypatch: pytest.MonkeyPatch, is_over: bool, found: str) -> None:
    """The harness reads from one server of the quorum, and the session was ended at another."""
    monkeypatch.setattr("highwater.backends.real.fault_nodes.LOOK_S", 0)

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        await faults.do(window(expiry), expiry, ONE)

    assert findings_of(scene, Keeper(SESSION, SESSION, None, is_over=is_over)) == [found]


def test_session_that_cannot_be_ended_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.fault_nodes.LOOK_S", 0)

    async def scene(faults: NodeFaults, _: Toy) -> None:
        expiry = ExpireSession()
        with pytest.raises(HarnessError, match="could not be taken over"):
            await faults.do(window(expiry), expiry, ONE)

    findings_of(scene, Keeper(SESSION))


def test_broker_that_reports_dir_failure_late_is_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An access fails, the fault is undone, and then the broker notes the failure; without a restart its replicas stay
    offline.
    """
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

    findings_of(scene)


@pytest.mark.parametrize(("looks", "proof"), [(1, "acts: seen"), (1000, "no-effect: replicas were left on it")])
def test_broker_leaves_once_it_has_no_replicas(looks: int, proof: str) -> None:
    """One that left is not started when the run is healed, one that could not leave stays."""
    leaves = looks == 1
    keeper = Keeper(looks=looks)

    async def scene(faults: NodeFaults, node: Toy) -> None:
        node.is_told = False
        fault = Decommission()
        await faults.do(window(fault), fault, ONE)
        await asyncio.sleep(3 * LOOK_S)
        assert node.terminated == leaves
        await faults.undo(window(fault), fault, ONE)
        await faults.heal()
        assert node.is_up == (not leaves)
        assert faults.keeps_down(ONE) == leaves

    assert findings_of(scene, keeper) == [proof]
    assert keeper.absent == ({"b1"} if leaves else set())
