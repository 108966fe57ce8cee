"""The process of a container, with a fake engine whose container is a process of this machine."""

import asyncio
import subprocess
from pathlib import Path
from typing import cast

import pytest

from highwater.backends.real.containers.engine import Engine, Labels, Service
from highwater.backends.real.containers.process import ContainerProcess
from highwater.backends.real.site import Proof
from highwater.errors import HarnessError


class OneProcess:
    """An engine with one container, whose process sleeps; it refuses to pause it, and may end it then."""

    def __init__(self, *, ends_when_paused: bool = False) -> None:
        self.process = subprocess.Popen(["sleep", "60"])
        self.ends_when_paused = ends_when_paused

    def create(self, service: Service) -> str:
        return service.name

    def start(self, container: str) -> None:
        """Does nothing: the process runs already."""

    def pid(self, container: str) -> int:
        return self.process.pid

    def pause(self, container: str) -> None:
        if self.ends_when_paused:
            self.end()
        raise HarnessError("pausing a container: it does not run, or it cannot be frozen")

    def unpause(self, container: str) -> None:
        raise AssertionError("it is not paused")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def exit_code(self, container: str) -> int | None:
        return self.process.poll()


async def started(engine: OneProcess) -> ContainerProcess:
    service = Service(name="b1", labels=Labels("run", Path("/")), image="", command=(), memory_mb=1)
    process = ContainerProcess(cast(Engine, engine), service)
    await process.start()
    return process


def test_proof_of_a_kill_fails_if_process_had_ended_before() -> None:
    async def scene() -> tuple[Proof, Proof]:
        engine = OneProcess()
        process = await started(engine)
        ended = process.gone()
        engine.end()
        return await ended(), await process.gone()()

    before, after = asyncio.run(scene())

    assert (before.holds, after.holds) == (True, False)


def test_pause_of_a_process_that_ends_meanwhile_is_no_error() -> None:
    """A broker may halt at any moment, as when its last directory fails; the engine then refuses to freeze it."""

    async def scene() -> Proof:
        process = await started(OneProcess(ends_when_paused=True))
        await process.freeze()
        proof = await process.stands_still()
        await process.thaw()
        return proof

    assert asyncio.run(scene()) == Proof(False, "there is no process")


def test_failed_pause_of_a_running_process_is_a_harness_error() -> None:
    async def scene() -> None:
        engine = OneProcess()
        process = await started(engine)
        try:
            with pytest.raises(HarnessError, match="cannot be frozen"):
                await process.freeze()
        finally:
            engine.end()

    asyncio.run(scene())
