"""The state of a controller: what it has read, and procedures of several round trips as data, one step at a time."""

from typing import Literal

from msgspec import Struct, field

from reference.coordination.admin_paths import Reassignments
from reference.coordination.api import AnyOp
from reference.coordination.reassignment_requests import Request
from reference.messages import AnyCommand, IsrChange, IsrProposal, IsrResult, LogEnd, PartitionState, StopPartition
from reference.types import (
    Address,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    ZkVersion,
)


class LiveBroker(Struct, frozen=True, order=True):
    """A registration under /brokers/ids."""

    broker: BrokerId
    incarnation: Incarnation


class Goal(Struct, frozen=True, tag=True):
    """Base class of the purposes for which a partition's state changes; `leader_election` has the table of what each leads to."""


class Repair(Goal, frozen=True, tag=True):
    """Goal: leader and ISR are live brokers. Every round of an election sees to this first."""


class NewEpoch(Goal, frozen=True, tag=True):
    """Goal: begin a new leader epoch and tell all replicas, whatever else changes, because the assignment is another one."""


class PreferredLeader(Goal, frozen=True, tag=True):
    """Goal: the first replica of the assignment leads (R-147)."""


class UncleanLeader(Goal, frozen=True, tag=True):
    """Goal: where no leader can be elected without loss, elect the one that an operator orders (docs/promise.md DUR-7)."""


class LeaderInTarget(Goal, frozen=True, tag=True):
    """Goal: while a partition moves, its leader is one of the replicas that it moves to (R-235)."""


class IsrInTarget(Goal, frozen=True, tag=True):
    """Goal: while a partition moves, its ISR is among the replicas that it moves to (R-236)."""


class ProposedIsr(Goal, frozen=True, tag=True):
    """The ISR that the leader proposed (KIP-343); proposals wait in `Controller.isr_requests` until a round takes one up."""

    proposal: IsrProposal


Order = PreferredLeader | UncleanLeader | LeaderInTarget | IsrInTarget
AnyGoal = Repair | NewEpoch | Order
REPAIR = Repair()
NEW_EPOCH = NewEpoch()


class Standing(Struct):
    """The state of a broker that sends heartbeats, and the registration that it holds under (R-182)."""

    broker: BrokerId
    incarnation: Incarnation
    state: BrokerState


class IsrRequest(Struct):
    """An IsrChange that is not answered yet; `results` has one place for each proposal."""

    source: Address
    asked: IsrChange
    results: list[IsrResult | None]


class StateChange(Struct):
    """V3 §A step 3 for one partition; `again` reads the state once more when this round is done.

    `goals` are still to be reached, besides Repair: NewEpoch, then one order. `serves` are the goals that the write under way
    reaches.
    """

    step: Literal["reading", "asking", "writing"]
    wanted: PartitionState | None = None  # being written
    base: PartitionState | None = None  # as read in step 3.1
    waiting: tuple[BrokerId, ...] = ()  # brokers whose log ends are still missing
    ends: list[tuple[BrokerId, LogEnd]] = []
    again: bool = False
    goals: tuple[AnyGoal, ...] = ()
    serves: tuple[AnyGoal | ProposedIsr, ...] = ()


class Listing(Struct):
    """Reading the children of a path and then each child; `again` if a watch fired meanwhile."""

    step: Literal["idle", "children", "data"] = "idle"
    names: tuple[str, ...] = ()
    again: bool = False


class DirEvents(Struct):
    """Reading and deleting notifications of failed log directories (R-300)."""

    step: Literal["idle", "listing", "reading", "deleting"] = "idle"
    names: tuple[str, ...] = ()
    brokers: tuple[BrokerId, ...] = ()  # that left the notifications
    again: bool = False  # a watch fired meanwhile


class Channel(Struct):
    """The queue of control requests to one broker. A later state of a partition replaces an earlier one; one is in flight.

    `new` are replicas that the broker is to create because it never had them. `offline` are replicas that it could not read when
    it was last asked. Both end with the registration.
    """

    broker: BrokerId
    incarnation: Incarnation
    init: bool = False
    states: dict[TopicPartition, PartitionState] = {}
    new: tuple[TopicPartition, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    metadata: dict[TopicPartition, PartitionState] = {}
    metadata_due: bool = False
    metadata_full: bool = True  # the next update lists all partitions: the registration is new, or a topic is gone
    stops: dict[TopicPartition, StopPartition] = {}
    logs: tuple[TopicPartition, ...] = ()
    backing_off: bool = False
    in_flight: AnyCommand | None = None


AdminKind = Literal["add", "remove", "preferred", "delete", "unclean"]
ADMIN_KINDS: tuple[AdminKind, ...] = ("add", "remove", "preferred", "delete", "unclean")


class Erased(Struct, frozen=True):
    """A deleted partition, its replicas, and the brokers that were told to stop while it was being deleted."""

    stop: StopPartition
    brokers: tuple[BrokerId, ...]
    told: tuple[LiveBroker, ...]


class AdminProcedure(Struct):
    """The requests under one admin path, while the controller carries them out."""

    step: Literal["idle", "listing", "topics", "reading", "stopping", "electing", "ready", "writing"] = "idle"
    again: bool = False  # a watch fired meanwhile
    version: int = -1  # of the znode that holds the request
    topics: tuple[str, ...] = ()
    topic_versions: dict[str, int] = {}  # of the topic znodes that were read
    partitions: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    epochs: dict[TopicPartition, LeaderEpoch] = {}  # that StopReplica carries
    told: tuple[LiveBroker, ...] = ()  # that were sent StopReplica
    writes: list[tuple[AnyOp, ...]] = []  # multis that are still to be written
    erased: tuple[Erased, ...] = ()  # a broker that registered before may still have to be told


MoveStep = Literal["widening", "joining", "leading", "shrinking", "stopping", "deleting", "narrowing", "clearing"]


class Move(Struct):
    """One partition that is being moved: an entry of V3 §F's reassigned_partition_map."""

    target: tuple[BrokerId, ...]  # RAR; OAR where it is rolled back
    original: tuple[BrokerId, ...]  # OAR
    back: bool  # a rollback (KIP-236)
    dropping: bool = False  # this move only drops the replicas that serve least
    dropped: tuple[BrokerId, ...] = ()  # brokers that are to hold no replica any more
    new: tuple[BrokerId, ...] = ()  # brokers that are to hold one for the first time
    step: MoveStep = "widening"
    told: tuple[LiveBroker, ...] = ()  # that were sent StopReplica in this step


class Agent(Struct):
    """V3 §F's reassignment agent: what it read last, and the partitions that are being moved."""

    step: Literal["idle", "listing", "topics", "entries", "reading", "writing"] = "idle"
    again: bool = False  # notified meanwhile
    resumed: bool = False  # this controller has gone through the entries that it found at its failover
    asked: tuple[AnyOp, ...] = ()  # the reads under way
    entries: Reassignments = {}  # of /admin/reassign_partitions
    version: int = -1  # of that znode; -1 where there is none
    bad: int = 0  # entries that could not be decoded
    extra: Reassignments = {}  # /admin/reassign_partitions_extra
    extra_version: int = -1
    extra_bad: int = 0
    cancelled: bool = False  # /admin/reassign_cancel exists
    # proposal B: `entries` are those of /admin/reassignments; `version` and `bad` belong to `legacy`
    requests: dict[str, Request] = {}  # /admin/reassignment_requests by name, in their order
    legacy: Reassignments = {}  # /admin/reassign_partitions
    versions: dict[TopicPartition, int] = {}  # of the entries
    parents: tuple[str, ...] = ()  # the znodes above requests and entries that exist
    moves: dict[TopicPartition, Move] = {}


class Pending(Struct, frozen=True, tag=True):
    """Base of the procedures that wait for answers of ZooKeeper."""


class OwnElection(Pending, frozen=True, tag=True):
    """Becoming controller and taking over; `Controller.step` says which answer is meant."""


class BrokerList(Pending, frozen=True, tag=True):
    """Reading /brokers/ids."""


class TopicList(Pending, frozen=True, tag=True):
    """Reading /brokers/topics."""


class LeaderElection(Pending, frozen=True, tag=True):
    """Reading or writing the state znode of a partition."""

    tp: TopicPartition


class DirNotifications(Pending, frozen=True, tag=True):
    """Reading or deleting notifications of failed log directories."""


class AdminPath(Pending, frozen=True, tag=True):
    """Reading an admin path, or carrying it out."""

    kind: AdminKind


class Reassigning(Pending, frozen=True, tag=True):
    """The reassignment agent reading or writing."""


AnyPending = OwnElection | BrokerList | TopicList | LeaderElection | DirNotifications | AdminPath | Reassigning


class Outstanding(Struct, frozen=True):
    """A request to ZooKeeper that is not answered yet. `guarded`: its first operation checks /controller_epoch."""

    request: int
    pending: AnyPending
    guarded: bool = False


class Controller(Struct):
    """The controller of one broker. `controller_election.resign` keeps the epochs, `elected` and `locked`, and nothing else."""

    step: Literal["off", "looking", "watching", "claiming", "raising-epoch", "listing", "reading", "states", "active"] = "off"
    outstanding: list[Outstanding] = []  # in the order of their ids
    epoch: ControllerEpoch = ControllerEpoch(0)
    epoch_version: ZkVersion = ZkVersion(-1)
    elected: BrokerId | None = None  # the broker that /controller named when it was last read
    live: tuple[LiveBroker, ...] = ()
    legacy: tuple[LiveBroker, ...] = ()  # the live brokers with an older BrokerInfo
    standings: list[Standing] = []  # of the brokers that are not legacy
    isr_requests: list[IsrRequest] = []
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
    dir_events: DirEvents = field(default_factory=DirEvents)
    locked: bool = False  # session_handler_lock: it waits for a lock that it holds


def forget_partition(controller: Controller, tp: TopicPartition) -> PartitionState | None:
    """Decide nothing more about a partition; a request in flight ends with its answer. Returns the last known state."""
    controller.assignments.pop(tp, None)
    change = controller.changes.get(tp)
    if change is not None and change.step == "asking":  # for logs that the brokers have deleted
        del controller.changes[tp]
    return controller.states.pop(tp, None)


def electable(controller: Controller, tp: TopicPartition) -> dict[BrokerId, Incarnation]:
    """The brokers that may be in the ISR of a partition or lead it, with their registrations.

    An inactive broker counts as absent (R-183), and so does one whose replica is in a bad directory (KIP-112, U-16).
    """
    without = {*_in_state(controller, BrokerState.INACTIVE), *_out_of_reach(controller, tp)}
    return {live.broker: live.incarnation for live in controller.live if live.broker not in without}


def leaving(controller: Controller) -> tuple[BrokerId, ...]:
    """Brokers in controlled shutdown: they lead and stay in sync only where no other broker can (R-184)."""
    return _in_state(controller, BrokerState.STOPPING)


def staying(controller: Controller, tp: TopicPartition) -> dict[BrokerId, Incarnation]:
    """The electable brokers that are not in controlled shutdown."""
    stopping = leaving(controller)
    return {broker: incarnation for broker, incarnation in electable(controller, tp).items() if broker not in stopping}


def _in_state(controller: Controller, state: BrokerState) -> tuple[BrokerId, ...]:
    return tuple(standing.broker for standing in controller.standings if standing.state is state)


def _out_of_reach(controller: Controller, tp: TopicPartition) -> tuple[BrokerId, ...]:
    return tuple(channel.broker for channel in controller.channels if tp in channel.offline)


def offline_replicas(controller: Controller, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """R-304: those of these replicas that are out of service because of their broker or its disk."""
    served, unreachable = served_by(controller), _out_of_reach(controller, tp)
    return tuple(broker for broker in replicas if broker not in served or broker in unreachable)


def live_ids(controller: Controller) -> tuple[BrokerId, ...]:
    """The registered brokers, by id."""
    return tuple(live.broker for live in controller.live)


def served_by(controller: Controller) -> tuple[BrokerId, ...]:
    """The brokers that metadata lists: not the inactive ones (R-183)."""
    inactive = _in_state(controller, BrokerState.INACTIVE)
    return tuple(live.broker for live in controller.live if live.broker not in inactive)
