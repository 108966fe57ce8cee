"""Between two phases of a run on real brokers, the operations in progress end before the next phase begins."""

import asyncio

from highwater.backends.real.clients.worker import Phases


def test_final_reads_wait_for_operations_in_progress() -> None:
    """A produce that is acknowledged after the readers asked for the end would never be read back."""
    seen: list[str] = []

    async def operation(phases: Phases, done: asyncio.Event) -> None:
        with phases.operating():
            await done.wait()
            seen.append("acknowledged")
        await phases.allowed()
        seen.append(phases.now)

    async def scene() -> None:
        phases, done = Phases(), asyncio.Event()
        task = asyncio.create_task(operation(phases, done))
        stopping = asyncio.create_task(phases.stop(5.0))
        await asyncio.sleep(0)
        done.set()
        await stopping
        seen.append("stopped")
        phases.enter("final")
        await task

    asyncio.run(scene())

    assert seen == ["acknowledged", "stopped", "final"]


def test_operation_that_hangs_does_not_stop_the_run() -> None:
    async def scene() -> bool:
        phases = Phases()
        with phases.operating():
            await phases.stop(0.01)
        return True

    assert asyncio.run(scene())
