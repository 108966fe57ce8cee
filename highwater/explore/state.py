"""A state of the explored cluster: brokers with disks, ZooKeeper, messages in flight, promised records, faults so far.

All parts are frozen and compared by value. There is no clock; `machines` defines the time of each event.
"""

from functools import cache

from msgspec import Struct

from reference.effects import ZkRequest
from reference.events import AnyEvent, LogImage
from reference.messages import AnyMessage, Batch
from reference.sealed import in_the_clear
from reference.types import NO_INCARNATION, Incarnation, TopicPartition, topic_partition

TOPIC = "t"
CLIENT = "c1"


class Bounds(Struct, frozen=True, kw_only=True):
    """The size of the explored cluster, and how many faults one schedule may have.

    Restarts, retries and the expiry of a dead broker's session are not counted.
    """

    brokers: int = 2
    records: int = 1
    max_epochs: int = 2  # leader epochs 0 … max_epochs - 1; states beyond are not expanded
    crashes: int = 1
    expiries: int = 1  # sessions of running brokers
    losses: int = 0  # lost messages
    doubles: int = 0  # messages that may arrive twice
    zk_async: bool = False
    kip343: bool = False  # heartbeats, and ISR changes through the controller
    partitions: int = 1  # of the topic
    moves: int = 0  # of a partition to other brokers; with moves every partition has one replica fewer than there are brokers

    @property
    def replicas(self) -> int:
        """The replication factor of the topic."""
        return self.brokers - 1 if self.moves else self.brokers


class Host(Struct, frozen=True):
    """One broker of the explored cluster: its process, its ZooKeeper session and its disk."""

    up: bool
    life: int
    core: tuple[bytes, ...]  # machines.Encoded; empty if down
    logs: tuple[LogImage, ...] = ()
    checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
    born: Incarnation = NO_INCARNATION  # of its only log directory
    timers: tuple[str, ...] = ()  # armed, sorted
    session: int = 0  # the last session it opened
    outbox: tuple[ZkRequest, ...] = ()  # in flight to ZooKeeper, oldest first (zk_async)
    inbox: tuple[AnyEvent, ...] = ()  # in flight from ZooKeeper, oldest first (zk_async)


class Flight(Struct, frozen=True):
    """A message between brokers (by position) that has neither arrived nor been lost."""

    source: int
    to: int
    message: AnyMessage


class Promised(Struct, frozen=True):
    """The records of one partition promised to clients so far.

    `committed`: for each offset, the value and the leader epoch that committed it. `top_log`: the log of the leader of the
    highest epoch at its election.
    """

    committed: tuple[tuple[str, int], ...] = ()
    top_epoch: int = -1
    top_log: tuple[str, ...] = ()


class Ghost(Struct, frozen=True):
    """What the search knows of records and the brokers do not see; `wrong` is a sentence on the first broken promise."""

    partitions: tuple[Promised, ...] = (Promised(),)
    produced: int = 0
    wrong: str = ""


class Spent(Struct, frozen=True):
    """How many faults the schedule has used so far, to compare with `Bounds`."""

    crashes: int = 0
    expiries: int = 0
    losses: int = 0
    doubles: int = 0
    moves: int = 0


class State(Struct, frozen=True):
    """One state of the search: the whole explored cluster. `network` is sorted in the canonical form."""

    hosts: tuple[Host, ...]
    zk: bytes
    network: tuple[Flight, ...]
    ghost: Ghost
    spent: Spent


@cache
def tp_of(index: int) -> TopicPartition:
    """A partition of the explored topic."""
    return topic_partition(TOPIC, index)


def log_of(host: Host, tp: TopicPartition) -> tuple[Batch, ...]:
    """The batches of a partition on this broker's disk."""
    for image in host.logs:
        if image.tp == tp:
            return image.batches
    return ()


def values_of(host: Host, tp: TopicPartition) -> tuple[str, ...]:
    """The records of a partition on this broker's disk, by offset."""
    return tuple(value for batch in log_of(host, tp) for value in in_the_clear(batch.values))
