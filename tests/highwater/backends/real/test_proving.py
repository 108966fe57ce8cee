"""A fault has acted, or is healed, once a probe has seen it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError
from highwater.rig.nemesis import Nemesis
from history.event import EventKind
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import Crash
from nemesis.schedule import Window
from reference.types import Address
from tests.highwater.backends.sim.simulations import plan

WINDOW = Window(id="f1", kind="crash-one", at_ms=0, until_ms=1, fault=Crash())
NODE = Address("b1")


def probe_that_finds(holds: bool, detail: str = "seen") -> Probe:
    """A probe that gives this proof at the next turn of the loop."""

    async def probe() -> Proof:
        await asyncio.sleep(0)
        return Proof(holds, detail)

    return probe


def play(scene: Callable[[Proving], Awaitable[None]]) -> tuple[list[tuple[EventKind, str | None]], dict[str, int]]:
    recorder = Recorder(lambda: 0)
    nemesis = Nemesis(plan(WINDOW), recorder, Draws(1))
    proving = Proving(recorder, acted=nemesis.acted)
    asyncio.run(_run(scene, proving))
    return [(row.kind, row.detail) for row in recorder.events], {count.kind: count.acted for count in nemesis.counts()}


async def _run(scene: Callable[[Proving], Awaitable[None]], proving: Proving) -> None:
    await scene(proving)


def test_fault_seen_by_a_probe_is_recorded_as_effective() -> None:
    async def scene(proving: Proving) -> None:
        proving.acts(WINDOW, NODE, probe_that_finds(True), "b1 process")
        await proving.settle("f1")

    rows, acted = play(scene)

    assert rows == [(EventKind.FAULT_PROBED, "acts: seen"), (EventKind.FAULT_ACTED, "crash-one")]
    assert acted == {"crash-one": 1}


def test_history_records_that_a_fault_had_no_effect() -> None:
    """Else a run in which no fault had an effect would look survived."""

    async def scene(proving: Proving) -> None:
        proving.acts(WINDOW, NODE, probe_that_finds(False), "b1 process")
        await proving.settle()

    rows, acted = play(scene)

    assert rows == [(EventKind.FAULT_PROBED, "no-effect: seen")]
    assert acted == {"crash-one": 0}


def test_fault_that_is_not_healed_is_a_harness_error() -> None:
    """Liveness is judged after healing; a fault that remains must not count against the cluster."""

    async def scene(proving: Proving) -> None:
        proving.healed(WINDOW, NODE, probe_that_finds(False, "nothing arrived"), "b1>b2")
        with pytest.raises(HarnessError, match=r"window f1 \(crash-one\) is not healed: nothing arrived"):
            await proving.settle()

    rows, _ = play(scene)

    assert rows == [(EventKind.FAULT_PROBED, "still-there: nothing arrived")]


def test_probe_result_is_dropped_if_its_link_changed_meanwhile() -> None:
    """The later change has its own probe; the earlier probe would measure the later change."""

    async def scene(proving: Proving) -> None:
        proving.healed(WINDOW, NODE, probe_that_finds(False), "b1>b2", "b2>b1")
        await asyncio.sleep(0)
        proving.changed("b2>b1")
        await proving.settle()

    rows, _ = play(scene)

    assert rows == []


@pytest.mark.parametrize(
    ("error", "error_words"),
    [
        (HarnessError("the engine is gone"), "the engine is gone"),
        (BlockingIOError("no process more"), r"probing window f1 \(crash-one\): no process more"),
    ],
)
def test_failed_probe_is_a_harness_error(error: Exception, error_words: str) -> None:
    """Other exceptions than HarnessError would end the run without its record."""

    async def broken() -> Proof:
        raise error

    async def scene(proving: Proving) -> None:
        proving.acts(WINDOW, NODE, broken, "b1 process")
        with pytest.raises(HarnessError, match=error_words):
            await proving.settle()

    assert play(scene)[0] == []


def test_probe_result_is_dropped_if_its_node_changed_before() -> None:
    """A process started during a pause window runs for a moment, and the probe of its start finds it paused."""

    async def scene(proving: Proving) -> None:
        proving.healed(WINDOW, NODE, probe_that_finds(False), "b1 process")
        proving.changed("b1 process")
        await proving.settle()

    assert play(scene) == ([], {"crash-one": 0})
