"""What a backend of real nodes offers the stage: processes or containers, their links, clocks and disks, and a ZooKeeper.

The stage (`stage`) plays a plan and decides what is wrong when; a site only does it. The stage knows which
windows overlap and says what holds now: a condition replaces the one before it, and the empty one heals. Whatever a site does to
the cluster it can prove: each deed hands back a `Probe`, which measures from outside that the deed has its effect.

Places are brokers ("b1", "b2", …), servers of ZooKeeper ("z1", …) and all clients of the run together ("c"). A link is a pair of
places and a direction: what the first sends to the second, over whichever connection. The laboratory itself (its look at
ZooKeeper and at the brokers, its probes of nodes) goes by ways that no fault touches.

What a site cannot do, its backend refuses before the run; a method that is called can do what it is asked for, or raises
`HarnessError`: the laboratory failed.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from highwater.rig.commits import AnyCommit
from reference.events import DirImage
from reference.types import Address, BrokerId, TopicPartition
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound

CLIENTS = Address("c")
Pair = tuple[Address, Address]  # from whom, to whom
HostPort = tuple[str, int]


class Proof(Struct, frozen=True):
    """What a probe found: whether the deed has its effect, and what was measured, in words. None: it could not be measured."""

    holds: bool | None
    detail: str


Probe = Callable[[], Awaitable[Proof]]


class LinkCondition(Struct, frozen=True, kw_only=True):
    """How one direction of a link is; as built, in order.

    `held`: nothing arrives, and new connections do not come about; what is under way arrives when the link is joined, if
    both ends still wait for it (as TCP repeats what it got no answer to). `delay_ms`: so much later, drawn from 0 to that.
    `loss_per_mille`: of so many packets in a thousand the first copy is lost; the repeated one comes later.
    `held_kinds`: messages of these kinds between brokers ("fetch-reply") wait until the link is joined, others do not.
    """

    held: bool = False
    delay_ms: int = 0
    loss_per_mille: int = 0
    held_kinds: tuple[str, ...] = ()


JOINED = LinkCondition()


class ClockCondition(Struct, frozen=True):
    """How wrong the clocks of a node are: its wall clock by an offset, both its clocks by a rate."""

    offset_ms: int = 0
    drift_ppm: int = 0


RIGHT = ClockCondition()


class DirCondition(Struct, frozen=True, kw_only=True):
    """How one log directory is.

    `unreadable`: without any permission. `broken`: every access fails with EIO. `full`: writes fail with ENOSPC. `flush_ms`:
    a flush takes so much longer. `is_file`: a file stands in its place.
    """

    unreadable: bool = False
    broken: bool = False
    full: bool = False
    flush_ms: int = 0
    is_file: bool = False


SOUND = DirCondition()


class Life(Protocol):
    """A process that is started and stopped: a broker, or a server of ZooKeeper."""

    @property
    def address(self) -> Address:
        """Its place."""

    async def start(self) -> Probe:
        """A process, on what an earlier one left. There must be none. Returns when it was made, not when it serves."""

    async def kill(self) -> Probe:
        """SIGKILL; the page cache stays. Nothing where there is no process."""

    async def pause(self) -> Probe:
        """It stands still. Nothing where there is no process, or it stands still already."""

    async def resume(self) -> Probe:
        """It goes on, if it stood still."""

    async def is_running(self) -> bool:
        """Is there a process, perhaps a paused one?"""


class Node(Life, Protocol):
    """One broker through all its lives."""

    @property
    def life(self) -> int:
        """How-many-th process, from 1; 0 before the first."""

    @property
    def dirs(self) -> int:
        """How many log directories it has."""

    async def terminate(self) -> Probe:
        """SIGTERM: it may end in good order, or take its time. Nothing where there is no process."""

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Its clocks are so from now on, for this process and those to come."""

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """This log directory is so from now on, for this process and those to come."""

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """An empty directory in the place of this one; what is gone. Not while there is a process."""

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut files back to what was flushed, or a drawn part further; what is gone. Not while there is a process."""

    def notes(self) -> list[NoteLine]:
        """What all lives have said so far. HarnessError where it cannot be read."""

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """Whose logs lie in this directory, sorted; none where it cannot be seen."""

    def disks(self) -> tuple[DirImage, ...]:
        """What lies in the log directories, in the clear. Not while there is a process."""

    def stopped_itself(self) -> str | None:
        """Why this life ended, in its own words; None where it did not say."""

    def last_words(self) -> str:
        """The last line that the process printed: empty unless something is wrong with it."""


class Links(Protocol):
    """The network between places."""

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """These links are so from now on; the others as they are. The probe looks at these from their far ends."""

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Break the connections over these links now; how many there were."""

    def counts(self) -> Mapping[Pair, int]:
        """How often a fault bit on each link since the run began: pieces held, delayed or repeated."""


class Site(Protocol):
    """Everything of one run but its workload, its schedule and its record. Belongs to one asyncio loop while it is open."""

    @property
    def nodes(self) -> Mapping[BrokerId, Node]:
        """All brokers; none of them runs yet when the site is opened."""

    @property
    def servers(self) -> Sequence[Life]:
        """ZooKeeper's, which run when the site is opened."""

    @property
    def links(self) -> Links:
        """All links, joined when the site is opened."""

    @property
    def zookeeper(self) -> str:
        """Where the laboratory reaches ZooKeeper: host:port,host:port."""

    @property
    def clients(self) -> Mapping[Address, HostPort]:
        """Where clients of the run reach each broker, over links that faults touch."""

    @property
    def laboratory(self) -> Mapping[Address, HostPort]:
        """Where the laboratory reaches each broker, as a client."""

    async def open(self) -> None:
        """Make it. HarnessError where that fails; `close` is called all the same."""

    async def leave(self) -> None:
        """The end of the run: nothing of it uses the loop any more. May be called without `open`."""

    def stop(self) -> None:
        """No broker runs any more, from here on. Called outside of the loop; may be called again."""

    def commits(self) -> Iterable[AnyCommit]:
        """What ZooKeeper has committed, in its order. HarnessError where its log cannot be read."""

    def close(self) -> None:
        """Nothing of it is left: no process, container, network, mount, folder. May be called again."""
