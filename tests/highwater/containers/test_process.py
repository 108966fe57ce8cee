"""What is believed of the process of a container, with an engine that tells of a process of this machine."""

import asyncio
import subprocess
from pathlib import Path
from typing import cast

from highwater.containers.engine import Engine, Labels, Service
from highwater.containers.process import ContainerProcess
from highwater.local.site import Proof


class OneProcess:
    """An engine of one container, whose process sleeps."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "60"])

    def create(self, service: Service) -> str:
        return service.name

    def start(self, container: str) -> None:
        """It runs already."""

    def pid(self, container: str) -> int:
        return self.process.pid

    def exit_code(self, container: str) -> int | None:
        return self.process.poll()


def test_a_process_that_has_ended_earlier_does_not_prove_that_it_was_ended() -> None:
    async def scene() -> tuple[Proof, Proof]:
        engine = OneProcess()
        process = ContainerProcess(
            cast(Engine, engine), Service(name="b1", labels=Labels("run", Path("/")), image="", command=(), memory_mb=1)
        )
        await process.start()
        ended = process.gone()
        engine.process.kill()
        engine.process.wait()
        return await ended(), await process.gone()()

    before, after = asyncio.run(scene())

    assert (before.holds, after.holds) == (True, False)
