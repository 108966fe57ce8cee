"""Runs the processes of a broker in a container of its own, each as the first process; another command has the next container."""

import os
from pathlib import Path

from msgspec.structs import replace

from highwater.backends.real.containers.engine import Engine, Service
from highwater.backends.real.containers.images import BASE, NODE
from highwater.backends.real.containers.place import Grounds, Place
from highwater.backends.real.containers.process import ContainerProcess
from highwater.backends.real.node.runner import OUTPUT, Launch
from highwater.backends.real.site import Probe
from highwater.backends.real.systems.port import Packing

IMAGES = {"base": BASE, "node": NODE}
_FAKETIME = Path("/usr/$LIB/faketime/libfaketime.so.1")  # the container's dynamic loader expands $LIB
_READ = Path("/opt/highwater-reads")


class ContainerRunner:
    """The processes of one broker, as an ordinary user in the network of its place. The first start creates the container."""

    faketime = _FAKETIME
    python = Launch(command=("python3",))

    def __init__(self, engine: Engine, grounds: Grounds, place: Place, packing: Packing) -> None:
        self.user = grounds.user if grounds.user != os.getuid() else None
        self._ended = True
        self.process = ContainerProcess(
            engine,
            Service(
                name=f"{grounds.labels.run}-{place.name}",
                labels=grounds.labels,
                image=IMAGES[packing.image],
                command=(),
                user=f"{grounds.user}:{grounds.user}",
                shares_network_of=place.container,
                memory_mb=packing.memory_mb,
            ),
        )

    def reads(self, folder: Path) -> Path:
        """Mount a folder read-only, where every user may look; returns its path in the container."""
        service = self.process.service
        place_in_container = _READ / folder.name
        self.process.service = replace(service, reads=(*service.reads, (folder, place_in_container)))
        return place_in_container

    async def start(self, launch: Launch, folder: Path) -> Probe:
        """Start the process: in the container of the last one, or in a new container if the command is another (`Roll`)."""
        self.process.service = replace(
            self.process.service,
            entrypoint="sh",
            command=("-c", 'exec "$@" >>"$0" 2>&1', str(folder / OUTPUT), *launch.command),
            environment=tuple(f"{name}={value}" for name, value in launch.environment.items()),
            folders=(folder,),
        )
        self._ended = False
        await self.process.start()
        return self.process.runs

    def is_running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self.process.is_running()

    def exit_code(self) -> int | None:
        """The exit code of a process that ended without `end`; None if it runs, was ended, or needed too much memory."""
        return None if self._ended or self.process.is_running() else self.process.exit_code()

    async def kill(self) -> Probe:
        """Send SIGKILL and wait for the end; the page cache survives."""
        self._ended = True
        return await self.process.kill()

    def end(self) -> None:
        """Send SIGKILL and wait for the end, without a probe."""
        self._ended = True
        self.process.end()

    async def terminate(self) -> Probe:
        """Send SIGTERM."""
        probe = self.process.gone()
        await self.process.signal("TERM")
        return probe

    async def pause(self) -> Probe:
        """Freeze the cgroup of the container."""
        return await self.process.freeze()

    async def resume(self) -> Probe:
        """Thaw the cgroup of the container."""
        return await self.process.thaw()
