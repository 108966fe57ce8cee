"""The interface to a cluster of real brokers, as processes or containers: brokers, network, clocks, directories, ZooKeeper.

The stage plays the plan and decides which fault holds when; a site only carries it out. The stage knows which windows overlap and
passes the resulting condition: it replaces the previous condition, and the default condition heals. Each action returns a `Probe`
that measures from outside whether the action has its effect.

A place is a broker ("b1", "b2", …), a ZooKeeper server ("z1", …) or a client place ("p1", …: the clients there together). A link
is an ordered pair of places: everything that the first sends to the second, over any connection. The harness's own connections
(to ZooKeeper, to the brokers, of its probes) use addresses that no fault affects.

A backend refuses a plan before the run if its site cannot do what the plan asks for. A method that fails during the run raises
`HarnessError`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Protocol, runtime_checkable

from msgspec import Struct

from highwater.errors import HarnessError
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import place_address
from nemesis.faults import Roll
from reference.events import DirImage
from reference.types import Address, BrokerId, TopicPartition
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound

CLIENTS = place_address(1)  # all clients, where a backend has one place for them
Pair = tuple[Address, Address]  # sender, receiver
HostPort = tuple[str, int]


class Proof(Struct, frozen=True):
    """What a probe found: `holds` is whether the fault (or its end) took effect, None if that could not be measured.

    `detail` says in words what was measured; it becomes part of a row of the history. `count` is how often the fault took effect,
    as far as that was counted. `orphans`: how many messages that it picked arrived after their sender gave up the connection.
    """

    holds: bool | None
    detail: str
    count: int = 1
    orphans: int | None = None


Probe = Callable[[], Awaitable[Proof]]
LOOK_AGAIN_S = 0.3


def looking_again(look: Probe, *, seconds: float) -> Probe:
    """A probe that looks again and again until what it looks for holds, at most so long; it finds what the last look found."""

    async def probe() -> Proof:
        began_s = monotonic()
        while not (proof := await look()).holds and monotonic() - began_s <= seconds:
            await asyncio.sleep(LOOK_AGAIN_S)
        return proof

    return probe


class Pick(Struct, frozen=True, kw_only=True):
    """A fault of single messages on one direction of a link, by the id of its window. `seed` begins its draws.

    It picks messages of these `kinds` (all if empty), `per_mille` of 1000. `one_connection`: those of the first connection, in
    either direction, that had one. A picked message is `held` until the fault ends, late by a draw from 0 to `delay_ms`, `lost`
    once, so that TCP repeats it, or `cut`: its connection is reset instead. What follows on its connection waits: order is kept.
    """

    window: str
    seed: int
    kinds: tuple[str, ...] = ()
    per_mille: int = 1000
    one_connection: bool = False
    held: bool = False
    delay_ms: int = 0
    lost: bool = False
    cut: bool = False


class Picked(Struct, frozen=True):
    """How many messages a window picked, and how many of them arrived after their sender gave up the connection."""

    messages: int = 0
    orphans: int = 0


class LinkCondition(Struct, frozen=True, kw_only=True):
    """The network fault on one direction of a link; the default is a link without faults.

    `held`: nothing arrives and no connection is established. Data in flight arrives once the link is joined, if both ends still
    wait for it (TCP retransmits unacknowledged data). `delay_ms`: each packet is late by a draw from 0 to this value.
    `loss_per_mille`: so many first copies of 1000 packets are lost; the retransmitted copy arrives later.
    `held_kinds`: messages of these kinds between brokers ("fetch-reply") wait until the link is joined; other kinds pass.
    `picks`: faults of single messages.
    """

    held: bool = False
    delay_ms: int = 0
    loss_per_mille: int = 0
    held_kinds: tuple[str, ...] = ()
    picks: tuple[Pick, ...] = ()


JOINED = LinkCondition()


class ClockCondition(Struct, frozen=True):
    """How wrong a broker's clocks are: an offset of its wall clock, a rate error of both its clocks."""

    offset_ms: int = 0
    drift_ppm: int = 0


RIGHT = ClockCondition()


class DirCondition(Struct, frozen=True, kw_only=True):
    """The fault of one log directory; the default is a directory without a fault.

    `unreadable`: it has no permissions. `broken`: every access fails with EIO. `full`: writes fail with ENOSPC. `flush_ms`:
    each flush takes this much longer. `is_file`: a file stands in the directory's place.
    """

    unreadable: bool = False
    broken: bool = False
    full: bool = False
    flush_ms: int = 0
    is_file: bool = False


SOUND = DirCondition()


class Life(Protocol):
    """A broker or a ZooKeeper server, whose process can be killed, paused and started again."""

    @property
    def address(self) -> Address:
        """The name of the broker or ZooKeeper server, such as "b1" or "z1"."""

    async def start(self) -> Probe:
        """Start a new process on the files of the previous one. Returns once it exists, perhaps before it serves."""

    async def kill(self) -> Probe:
        """Send the process SIGKILL; the page cache survives. Does nothing if none runs."""

    async def pause(self) -> Probe:
        """Freeze the process. Does nothing if none runs or it is paused already."""

    async def resume(self) -> Probe:
        """Continue a paused process."""

    async def is_running(self) -> bool:
        """Whether the process exists, paused or not."""

    def last_words(self) -> str:
        """The last line that the process printed; empty unless something went wrong."""


@runtime_checkable
class Upgradable(Life, Protocol):
    """A server that can become the version under test."""

    async def terminate(self) -> Probe:
        """Send the process SIGTERM. Does nothing if it is down."""

    def upgrade(self) -> None:
        """Run the version under test from the next start on."""


class Node(Life, Protocol):
    """One broker through all its restarts; each process works on the files of the previous one."""

    @property
    def life(self) -> int:
        """The number of the broker's current or last process, from 1; 0 before the first start."""

    @property
    def dirs(self) -> int:
        """The number of the broker's log directories."""

    async def terminate(self) -> Probe:
        """Send the broker SIGTERM; a controlled shutdown may take a while. Does nothing if it is down."""

    def change(self, roll: Roll) -> None:
        """Run another version from the next start on, as this fault says. The broker must be down; a system has more than one."""

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Set how wrong the broker's clocks are, for this process and later ones."""

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Apply or end a fault of a log directory, for this process and later ones."""

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Replace a log directory by an empty one; returns what was lost. The broker must be down."""

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Simulate a power loss: cut the broker's files back to what was flushed, or a drawn part of the rest.

        No process may run.
        """

    def notes(self) -> list[NoteLine]:
        """What all processes of this broker reported to the harness so far. HarnessError if it cannot be read."""

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The partitions with a log in this directory, sorted; empty if the directory cannot be read."""

    def disks(self) -> tuple[DirImage, ...]:
        """The contents of the broker's log directories, with decoded record batches. It must be down."""

    def stopped_itself(self) -> str | None:
        """Why the broker's process stopped itself, as it reported; None if it did not."""


class Links(Protocol):
    """The network between the brokers, ZooKeeper servers and clients of a run."""

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """Apply these network faults to their links; other links keep theirs. The probe measures at the receiving ends."""

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Reset the TCP connections over these links now; returns their number."""

    def counts(self) -> Mapping[Pair, int]:
        """How many packets or messages a fault held, delayed or dropped on each link since the run began."""

    def picked(self, window: str) -> Picked:
        """What the fault of this window has picked so far, on all links."""


class Site(Protocol):
    """The cluster of one run, as processes or containers. Belongs to one asyncio loop while it is open."""

    @property
    def nodes(self) -> Mapping[BrokerId, Node]:
        """All brokers of the cluster; `open` starts none of them."""

    @property
    def servers(self) -> Sequence[Life]:
        """The ZooKeeper servers of the cluster, which `open` starts."""

    @property
    def links(self) -> Links:
        """The network of the cluster; `open` leaves it without faults."""

    @property
    def zookeeper(self) -> str:
        """The address at which the harness reaches ZooKeeper: "host:port,host:port"."""

    @property
    def clients(self) -> Mapping[Address, Mapping[Address, HostPort]]:
        """The addresses at which the clients at each place reach each broker, over links that faults affect."""

    @property
    def harness(self) -> Mapping[Address, HostPort]:
        """The addresses at which the harness reaches each broker; faults do not affect these connections."""

    @property
    def metrics(self) -> Mapping[Address, HostPort]:
        """Where the harness scrapes the metrics of each broker; empty for a system that has none like the reference's."""

    async def open(self) -> None:
        """Build the cluster. Raises HarnessError on failure; the caller calls `close` in any case."""

    async def leave(self) -> None:
        """Close the cluster's parts in the asyncio loop, at the end of the run. May be called without `open`."""

    def stop(self) -> None:
        """End all brokers for good. Call it outside of the asyncio loop; it may be called again."""

    def commits(self) -> Iterable[AnyCommit]:
        """ZooKeeper's committed changes, in commit order. Raises HarnessError if a transaction log cannot be read."""

    def close(self) -> None:
        """Remove every process, container, network, mount and folder of the run. May be called again."""


def end_all(closers: Iterable[Callable[[], object]]) -> None:
    """Call each function, even after one failed. Then raise HarnessError with the first failure, if any."""
    failures: list[HarnessError | OSError] = []
    for end in closers:
        try:
            end()
        except (HarnessError, OSError) as error:
            failures.append(error)
    if failures:
        raise HarnessError(str(failures[0])) from failures[0]
