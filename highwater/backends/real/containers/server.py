"""A ZooKeeper server as a Docker container that can be killed, paused and started again."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from highwater.backends.real.containers.engine import Engine, Service
from highwater.backends.real.containers.images import ZOOKEEPER
from highwater.backends.real.containers.place import Grounds, Place, make_folder
from highwater.backends.real.containers.process import ContainerProcess
from highwater.backends.real.site import HostPort, Probe, Proof
from highwater.backends.real.zookeeper.local import answers, configuration
from highwater.backends.real.zookeeper.servers import SERVES_S_MAX

ZOOKEEPER_PORT = 2181
FOLLOW_PORT, ELECT_PORT = 2888, 3888
SERVER_MEMORY_MB = 512
ANYWHERE = "0.0.0.0"


class ServerContainer:
    """One ZooKeeper server in a container. `places` are the addresses of all servers of the ensemble, in order."""

    def __init__(self, engine: Engine, grounds: Grounds, place: Place, places: Sequence[Place]) -> None:
        self.address = place.name
        self.client: HostPort = (place.address, ZOOKEEPER_PORT)
        self._harness: HostPort = (place.harness, ZOOKEEPER_PORT)
        folder = make_folder(grounds, grounds.folder.path / place.name)
        self.data_dir: Path = make_folder(grounds, folder / "data")
        (self.data_dir / "myid").write_text(f"{places.index(place) + 1}\n")
        quorum = [f"{quorum_place.address}:{FOLLOW_PORT}:{ELECT_PORT}" for quorum_place in places]
        (folder / "zoo.cfg").write_text(configuration(self.data_dir, (ANYWHERE, ZOOKEEPER_PORT), quorum))
        self.process = ContainerProcess(
            engine,
            Service(
                name=f"{grounds.labels.run}-{place.name}",
                labels=grounds.labels,
                image=ZOOKEEPER,
                command=(str(folder / "zoo.cfg"),),
                user=f"{grounds.user}:{grounds.user}",
                folders=(folder,),
                shares_network_of=place.container,
                memory_mb=SERVER_MEMORY_MB,
            ),
        )

    async def start(self) -> Probe:
        """Start the ZooKeeper server on the data of its previous process."""
        await self.process.start()
        return self.serves

    async def serves(self) -> Proof:
        """A probe that the ZooKeeper server serves clients within SERVES_S_MAX."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < SERVES_S_MAX:
            if await asyncio.to_thread(answers, self._harness):
                return Proof(True, f"{self.address} serves {time.monotonic() - began_s:.1f} s after its start")
            if not self.process.is_running():
                break
            await asyncio.sleep(0.1)
        return Proof(False, f"{self.address} does not serve: {self.process.last_words()}")

    async def kill(self) -> Probe:
        """Send the ZooKeeper server SIGKILL and wait for the end."""
        return await self.process.kill()

    async def pause(self) -> Probe:
        """Freeze the ZooKeeper server: the cgroup of its container."""
        return await self.process.freeze()

    async def resume(self) -> Probe:
        """Thaw the ZooKeeper server: the cgroup of its container."""
        return await self.process.thaw()

    async def is_running(self) -> bool:
        """Whether the ZooKeeper server's process exists, frozen or not."""
        return self.process.is_running()

    def last_words(self) -> str:
        """The last line that the ZooKeeper server printed."""
        return self.process.last_words()
