"""A network namespace for each broker and ZooKeeper server of a run, kept by a container of its own.

The container of a place (like a pod's infrastructure container in Kubernetes) lives as long as the run. It runs the agent that
applies network faults. The broker is another container, which joins this network namespace: when it is killed and started again,
its address and the rules stay. Only the agent has a capability, CAP_NET_ADMIN in this namespace.
"""

import os
import shutil
from pathlib import Path

from msgspec import Struct

import highwater.backends.real.containers.agent
from highwater.backends.real.containers.engine import Engine, Labels, Network, Service
from highwater.backends.real.containers.images import BASE
from highwater.run_folder import RunFolder
from reference.types import Address

_AGENT_MEMORY_MB = 64
_ORDINARY = 10001


class Grounds(Struct, frozen=True, kw_only=True):
    """The folder and the two networks that all containers of a run share: faults affect `network`, never `harness`."""

    folder: RunFolder
    labels: Labels
    network: Network
    harness: Network
    user: int  # the uid of brokers and servers: an ordinary user


class Place(Struct, frozen=True, kw_only=True):
    """The network namespace of one broker or server, with its addresses in the run's network and in the harness's."""

    name: Address
    container: str
    address: str
    harness: str
    socket: Path  # the Unix socket of its agent


def make_grounds(engine: Engine, folder: RunFolder) -> Grounds:
    """Create the two networks of a run and copy the agent's program into the run's folder."""
    labels = Labels(folder.run, folder.path)
    sockets = folder.path / "agents"
    sockets.mkdir()
    sockets.chmod(0o777)  # agents run as root without root's capabilities
    shutil.copyfile(highwater.backends.real.containers.agent.__file__, sockets / "agent.py")
    return Grounds(
        folder=folder,
        labels=labels,
        network=engine.create_network(folder.run, labels),
        harness=engine.create_network(f"{folder.run}-harness", labels),
        user=os.getuid() or _ORDINARY,
    )


def make_place(engine: Engine, grounds: Grounds, name: Address) -> Place:
    """Create and start the container that keeps one network namespace."""
    sockets = grounds.folder.path / "agents"
    socket = sockets / f"{name}.sock"
    container = engine.create(
        Service(
            name=f"{grounds.labels.run}-{name}-network",
            labels=grounds.labels,
            image=BASE,
            host_name=name,
            command=("python3", "-I", str(sockets / "agent.py"), str(socket)),
            user="0:0",
            folders=(sockets,),
            networks=(grounds.network.id, grounds.harness.id),
            capabilities=("NET_ADMIN",),
            memory_mb=_AGENT_MEMORY_MB,
        )
    )
    engine.start(container)
    addresses = engine.addresses(container)
    return Place(
        name=name,
        container=container,
        address=addresses[grounds.network.id],
        harness=addresses[grounds.harness.id],
        socket=socket,
    )


def make_folder(grounds: Grounds, path: Path) -> Path:
    """Create a folder that the user of the brokers' processes owns, if it does not exist."""
    path.mkdir(exist_ok=True)
    if os.getuid() == 0:
        os.chown(path, grounds.user, grounds.user)
    return path
