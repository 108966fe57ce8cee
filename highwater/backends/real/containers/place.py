"""Places of a run: for each broker and each server of ZooKeeper a network of its own, kept by a container that does nothing else.

The container of a place (a pod's infrastructure container, in the words of others) lives as long as the run and runs the agent
that rules the network. What is killed and started again, the broker, is another container that joins this network: its address
and the rules stay. Only the agent has a capability, CAP_NET_ADMIN in this network.
"""

import os
import shutil
from pathlib import Path

from msgspec import Struct

import highwater.backends.real.containers.agent
from highwater.backends.real.containers.engine import Engine, Labels, Network, Service
from highwater.backends.real.containers.images import BASE
from highwater.backends.real.run_folder import RunFolder
from reference.types import Address

_AGENT_MEMORY_MB = 64
_ORDINARY = 10001


class Grounds(Struct, frozen=True, kw_only=True):
    """What all places of a run share. Faults touch `network`; the laboratory speaks over `laboratory`."""

    folder: RunFolder
    labels: Labels
    network: Network
    harness: Network
    user: int  # as whom brokers and servers run: an ordinary user


class Place(Struct, frozen=True, kw_only=True):
    """One network, and its addresses in the run's network and in the laboratory's."""

    name: Address
    container: str
    address: str
    harness: str
    socket: Path  # of its agent


def make_grounds(engine: Engine, folder: RunFolder) -> Grounds:
    """Networks for a run, and the program of the agents."""
    labels = Labels(folder.run, folder.path)
    sockets = folder.path / "agents"
    sockets.mkdir()
    sockets.chmod(0o777)  # agents are root without its powers
    shutil.copyfile(highwater.backends.real.containers.agent.__file__, sockets / "agent.py")
    return Grounds(
        folder=folder,
        labels=labels,
        network=engine.create_network(folder.run, labels),
        harness=engine.create_network(f"{folder.run}-harness", labels),
        user=os.getuid() or _ORDINARY,
    )


def make_place(engine: Engine, grounds: Grounds, name: Address) -> Place:
    """Make and start the container of one place."""
    sockets = grounds.folder.path / "agents"
    socket = sockets / f"{name}.sock"
    container = engine.create(
        Service(
            name=f"{grounds.labels.run}-{name}-network",
            labels=grounds.labels,
            image=BASE,
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
    """A folder for what runs as the ordinary user; made where it is not there."""
    path.mkdir(exist_ok=True)
    if os.getuid() == 0:
        os.chown(path, grounds.user, grounds.user)
    return path
