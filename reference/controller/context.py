"""What a controller knows and what it is doing: procedures of several round trips are data, one step at a time."""

from typing import Literal

from msgspec import Struct, field

from reference.coordination.admin_paths import Reassignments
from reference.coordination.api import AnyOp
from reference.messages import LeaderAndIsr, LogEnd, LogInfo, PartitionState, StopPartition, StopReplica, UpdateMetadata
from reference.types import BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, TopicId, TopicPartition, ZkVersion


class LiveBroker(Struct, frozen=True, order=True):
    """A registration under /brokers/ids."""

    broker: BrokerId
    incarnation: Incarnation


# What a change shall bring about where nobody has died: the first replica leads; a new epoch, all else as it is; the leader is
# one of AR; the ISR too
Wish = Literal["preferred", "raise", "lead", "shrink"]


class StateChange(Struct):
    """V3 §A step 3 for one partition. A `request` of 0 waits for the retry timer; `again` starts over when this one is done."""

    step: Literal["reading", "asking", "writing"]
    request: int = 0
    wanted: PartitionState | None = None  # being written
    base: PartitionState | None = None  # as read in step 3.1
    waiting: tuple[BrokerId, ...] = ()  # whose log ends are still missing
    ends: list[tuple[BrokerId, LogEnd]] = []
    again: bool = False
    wish: Wish | None = None


class Listing(Struct):
    """Reading the children of a path and then each of them; `again` where a watch fired meanwhile."""

    step: Literal["idle", "children", "data"] = "idle"
    request: int = 0
    names: tuple[str, ...] = ()
    again: bool = False


class Channel(Struct):
    """What one broker is to be told. Later states of a partition replace earlier ones; one request is in flight at a time."""

    broker: BrokerId
    incarnation: Incarnation
    init: bool = False
    states: dict[TopicPartition, PartitionState] = {}
    metadata: dict[TopicPartition, PartitionState] = {}
    metadata_due: bool = False
    metadata_full: bool = True  # the next update lists all there is: this registration was told nothing, or something is gone
    stops: dict[TopicPartition, StopPartition] = {}
    logs: tuple[TopicPartition, ...] = ()
    backing_off: bool = False
    in_flight: LeaderAndIsr | UpdateMetadata | StopReplica | LogInfo | None = None


AdminKind = Literal["add", "remove", "preferred", "delete"]
ADMIN_KINDS: tuple[AdminKind, ...] = ("add", "remove", "preferred", "delete")


class AdminProcedure(Struct):
    """One admin path being worked off. A `request` of 0 while reading or writing waits for the retry timer."""

    step: Literal["idle", "listing", "topics", "reading", "stopping", "electing", "ready", "writing"] = "idle"
    request: int = 0
    again: bool = False  # a watch fired meanwhile
    version: int = -1  # of the znode that holds the request
    topics: tuple[str, ...] = ()
    partitions: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    epochs: dict[TopicPartition, LeaderEpoch] = {}  # with which replicas are stopped
    told: tuple[LiveBroker, ...] = ()  # who was sent StopReplica
    writes: list[tuple[AnyOp, ...]] = []  # multis still to be done


MoveStep = Literal["widening", "joining", "leading", "shrinking", "stopping", "deleting", "narrowing", "clearing"]


class Move(Struct):
    """One partition on its way to other replicas: an entry of V3 §F's reassigned_partition_map."""

    target: tuple[BrokerId, ...]  # RAR; OAR where it is rolled back
    original: tuple[BrokerId, ...]  # OAR
    back: bool  # a rollback (KIP-236)
    dropped: tuple[BrokerId, ...] = ()  # who shall hold no replica any more
    new: tuple[BrokerId, ...] = ()  # who is to hold one for the first time
    step: MoveStep = "widening"
    told: tuple[LiveBroker, ...] = ()  # who was sent StopReplica in this step


class Agent(Struct):
    """V3 §F's reassignment agent: what it has read last, and the partitions on their way."""

    step: Literal["idle", "listing", "topics", "entries", "reading", "writing"] = "idle"
    request: int = 0
    again: bool = False  # notified meanwhile
    resumed: bool = False  # this controller has gone through what it found at its failover
    asked: tuple[AnyOp, ...] = ()  # the reads under way
    entries: Reassignments = {}  # /admin/reassign_partitions as read
    version: int = -1  # of that znode; -1 where there is none
    bad: int = 0  # entries that make no sense
    extra: Reassignments = {}  # /admin/reassign_partitions_extra
    extra_version: int = -1
    extra_bad: int = 0
    cancelled: bool = False  # /admin/reassign_cancel is there
    moves: dict[TopicPartition, Move] = {}


class Controller(Struct):
    """One broker's controller module. Everything but `step` and `request` belongs to the reign and goes with it."""

    step: Literal["off", "looking", "watching", "claiming", "raising-epoch", "listing", "reading", "states", "active"] = "off"
    request: int = 0
    epoch: ControllerEpoch = ControllerEpoch(0)
    epoch_version: ZkVersion = ZkVersion(-1)
    live: tuple[LiveBroker, ...] = ()
    topics: tuple[str, ...] = ()
    assignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    topic_ids: dict[str, TopicId] = {}
    states: dict[TopicPartition, PartitionState] = {}
    changes: dict[TopicPartition, StateChange] = {}
    brokers_listing: Listing = field(default_factory=Listing)
    topics_listing: Listing = field(default_factory=Listing)
    channels: list[Channel] = []
    admin: dict[AdminKind, AdminProcedure] = {}
    agent: Agent = field(default_factory=Agent)
    locked: bool = False  # session_handler_lock: waits for itself, for good


def electable(controller: Controller, tp: TopicPartition) -> dict[BrokerId, Incarnation]:
    """The brokers that may be in the ISR of a partition or lead it, with the incarnations under which they are registered."""
    return {live.broker: live.incarnation for live in controller.live}


def live_ids(controller: Controller) -> tuple[BrokerId, ...]:
    """The live brokers, by id."""
    return tuple(live.broker for live in controller.live)
