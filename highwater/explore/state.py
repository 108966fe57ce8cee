"""A world as data: brokers with their disks, ZooKeeper, messages in flight, what was promised, what may still go wrong.

All parts are frozen and compared by value. There is no clock: see `machines` for what time a broker is told.
"""

from msgspec import Struct

from reference.effects import ZkRequest
from reference.events import AnyEvent, LogImage
from reference.messages import AnyMessage, Batch
from reference.sealed import in_the_clear
from reference.types import NO_INCARNATION, Incarnation, TopicPartition, topic_partition

TOPIC = "t"
TP: TopicPartition = topic_partition(TOPIC, 0)
CLIENT = "c1"


class Bounds(Struct, frozen=True, kw_only=True):
    """How large the world is and what may go wrong in one schedule.

    Healing is never counted: restarts, retries, the end of a dead broker's session.
    """

    brokers: int = 2
    records: int = 1
    max_epochs: int = 2  # leader epochs 0 … max_epochs - 1; a state beyond is not followed
    crashes: int = 1
    expiries: int = 1  # of sessions of living brokers
    losses: int = 0  # of messages
    zk_async: bool = False


class Host(Struct, frozen=True):
    """One broker: its process, where it runs, and what its disk holds."""

    up: bool
    life: int
    core: bytes  # machines.Core, encoded; empty where down
    logs: tuple[LogImage, ...] = ()
    checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
    born: Incarnation = NO_INCARNATION  # of its only log directory
    timers: tuple[str, ...] = ()  # armed, sorted
    session: int = 0  # the last one it opened
    outbox: tuple[ZkRequest, ...] = ()  # on the way to ZooKeeper, oldest first (zk_async)
    inbox: tuple[AnyEvent, ...] = ()  # on the way from ZooKeeper, oldest first (zk_async)


class Flight(Struct, frozen=True):
    """A message between brokers (by position) that has neither arrived nor been lost."""

    source: int
    to: int
    message: AnyMessage


class Ghost(Struct, frozen=True):
    """What an onlooker remembers: who was promised what. No machine sees it.

    `committed` holds for each offset the value and the leader epoch that committed it; `top_log` is the log of the leader of
    the highest epoch when it became that. `wrong` is the first promise that was broken, in words.
    """

    produced: int = 0
    committed: tuple[tuple[str, int], ...] = ()
    top_epoch: int = -1
    top_log: tuple[str, ...] = ()
    wrong: str = ""


class Spent(Struct, frozen=True):
    """What went wrong in this schedule so far."""

    crashes: int = 0
    expiries: int = 0
    losses: int = 0


class State(Struct, frozen=True):
    """The whole world, `network` sorted by the model."""

    hosts: tuple[Host, ...]
    zk: bytes
    network: tuple[Flight, ...]
    ghost: Ghost
    spent: Spent


def log_of(host: Host) -> tuple[Batch, ...]:
    """The batches of the partition on this host's disk."""
    for image in host.logs:
        if image.tp == TP:
            return image.batches
    return ()


def values_of(host: Host) -> tuple[str, ...]:
    """The records of the partition on this host's disk, by offset."""
    return tuple(value for batch in log_of(host) for value in in_the_clear(batch.values))
