"""The state of a controller as data: what it has read from ZooKeeper, and how far each of its procedures has come."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct, field

from reference.coordination.admin_paths import Reassignments
from reference.coordination.api import AnyOp
from reference.coordination.reassignment_requests import Request
from reference.messages import AnyCommand, IsrChange, IsrProposal, IsrResult, LogEnd, PartitionState, StopPartition
from reference.types import (
    NO_INCARNATION,
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
    """A registered broker: its id and registration, as read from /brokers/ids."""

    broker: BrokerId
    incarnation: Incarnation


class Goal(Struct, frozen=True, tag=True):
    """Base class of the reasons why the controller changes a partition's state; `leader_election` has the table of rules."""


class Repair(Goal, frozen=True, tag=True):
    """Goal of a leader election: leader and ISR are live brokers. Every election sees to this first."""


class NewEpoch(Goal, frozen=True, tag=True):
    """Goal of a leader election: a new leader epoch that all replicas are told of, because the assignment changed."""


class PreferredLeader(Goal, frozen=True, tag=True):
    """Goal of a leader election: the first replica of the assignment leads (R-147)."""


class UncleanLeader(Goal, frozen=True, tag=True):
    """Goal of a leader election: if none is possible without loss, the one that an operator orders (docs/promise.md DUR-7)."""


class LeaderInTarget(Goal, frozen=True, tag=True):
    """Goal of a leader election while a partition moves: the leader is one of the target replicas (R-235)."""


class IsrInTarget(Goal, frozen=True, tag=True):
    """Goal of a leader election while a partition moves: the ISR is among the target replicas (R-236)."""


class ProposedIsr(Goal, frozen=True, tag=True):
    """Goal: the ISR that the leader proposed (KIP-343). Proposals wait in `Controller.isr_requests` for their turn."""

    proposal: IsrProposal


Order = PreferredLeader | UncleanLeader | LeaderInTarget | IsrInTarget
AnyGoal = Repair | NewEpoch | Order
REPAIR = Repair()
NEW_EPOCH = NewEpoch()


class Standing(Struct):
    """What the controller thinks of a broker that sends heartbeats: its state, and the registration it holds for (R-182)."""

    broker: BrokerId
    incarnation: Incarnation
    state: BrokerState


class IsrRequest(Struct):
    """A leader's IsrChange that the controller has not answered yet; `results` has one place for each proposed ISR."""

    source: Address
    asked: IsrChange
    results: list[IsrResult | None]


class ChangeStep(StrEnum):
    """How far the leader election of a partition is (`leader_election` has the table)."""

    QUEUED = "queued"  # behind another partition (failover_writes="one_by_one")
    READING = "reading"
    ASKING = "asking"
    GATHERED = "gathered"  # for a batch of writes (failover_writes="multi")
    WRITING = "writing"


class StateChange(Struct):
    """The leader election of one partition (V3 §A step 3); `again` reads the state once more when it is done.

    `goals` are still to be reached, besides Repair: NewEpoch, then one order. `serves` are the goals that the write under way
    reaches.
    """

    step: ChangeStep
    wanted: PartitionState | None = None  # being written
    base: PartitionState | None = None  # as read in step 3.1
    waiting: tuple[BrokerId, ...] = ()  # brokers whose log ends are still missing
    ends: list[tuple[BrokerId, LogEnd]] = []
    again: bool = False
    goals: tuple[AnyGoal, ...] = ()
    serves: tuple[AnyGoal | ProposedIsr, ...] = ()


class ListingStep(StrEnum):
    """How far the read of a znode's children and their data is (`listings`)."""

    IDLE = "idle"
    CHILDREN = "children"
    DATA = "data"


class Listing(Struct):
    """The read of a znode's children and then of each child's data; `again` if a watch fired meanwhile."""

    step: ListingStep = ListingStep.IDLE
    names: tuple[str, ...] = ()
    again: bool = False


class DirEventsStep(StrEnum):
    """How far the notifications of failed directories are (`log_dirs`)."""

    IDLE = "idle"
    LISTING = "listing"
    READING = "reading"
    DELETING = "deleting"


class DirEvents(Struct):
    """The read and deletion of the notifications that log directories failed (R-300)."""

    step: DirEventsStep = DirEventsStep.IDLE
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


class AdminStep(StrEnum):
    """How far an administrator's requests are (`admin`)."""

    IDLE = "idle"
    LISTING = "listing"
    TOPICS = "topics"
    READING = "reading"
    STOPPING = "stopping"
    ELECTING = "electing"
    READY = "ready"
    WRITING = "writing"


class AdminProcedure(Struct):
    """The administrator's requests under one path of /admin, while the controller carries them out."""

    step: AdminStep = AdminStep.IDLE
    again: bool = False  # a watch fired meanwhile
    version: int = -1  # of the znode that holds the request
    topics: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()  # znodes among the requests whose names are no partition's
    topic_versions: dict[str, int] = {}  # of the topic znodes that were read
    partitions: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    epochs: dict[TopicPartition, LeaderEpoch] = {}  # that StopReplica carries
    told: tuple[LiveBroker, ...] = ()  # that were sent StopReplica
    writes: list[tuple[AnyOp, ...]] = []  # multis that are still to be written


class MoveStep(StrEnum):
    """How far the move of one partition is (`reassign.move`)."""

    WIDENING = "widening"
    JOINING = "joining"
    LEADING = "leading"
    SHRINKING = "shrinking"
    STOPPING = "stopping"
    DELETING = "deleting"
    NARROWING = "narrowing"
    CLEARING = "clearing"


class Move(Struct):
    """A partition that is being reassigned: an entry of V3 §F's reassigned_partition_map."""

    target: tuple[BrokerId, ...]  # RAR; OAR where it is rolled back
    original: tuple[BrokerId, ...]  # OAR
    back: bool  # a rollback (KIP-236)
    dropping: bool = False  # this move only drops the replicas that serve least
    dropped: tuple[BrokerId, ...] = ()  # brokers that are to hold no replica any more
    new: tuple[BrokerId, ...] = ()  # brokers that are to hold one for the first time
    step: MoveStep = MoveStep.WIDENING
    told: tuple[LiveBroker, ...] = ()  # that were sent StopReplica in this step
    held: bool = False  # the agent could not take its next step, because a leader election was under way


class AgentStep(StrEnum):
    """What the reassignment agent waits for (`reassign.reassignment`)."""

    IDLE = "idle"
    LISTING = "listing"
    TOPICS = "topics"
    ENTRIES = "entries"
    READING = "reading"
    WRITING = "writing"


class Agent(Struct):
    """V3 §F's reassignment agent: what it read last, and the partitions that are being moved."""

    step: AgentStep = AgentStep.IDLE
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
    strays: tuple[str, ...] = ()  # znodes among the entries whose names are no partition's
    moves: dict[TopicPartition, Move] = {}


class Pending(Struct, frozen=True, tag=True):
    """Base class of what waits for an answer of ZooKeeper, so that the answer reaches the right procedure."""


class OwnElection(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: this broker becomes controller and takes over; `Controller.step` says how far it is."""


class BrokerList(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: the list of registered brokers, /brokers/ids."""


class TopicList(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: the list of topics, /brokers/topics."""


class LeaderElection(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: a read or a write of a partition's state znode."""

    tp: TopicPartition


class Elections(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: one multi that writes the state znodes of these partitions (V3, Discussion 1)."""

    partitions: tuple[TopicPartition, ...]


class DirNotifications(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: a read or deletion of notifications of failed log directories."""


class AdminPath(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: a read of an administrator's request, or a write that carries it out."""

    kind: AdminKind


class Reassigning(Pending, frozen=True, tag=True):
    """Waits for ZooKeeper: a read or a write of the reassignment agent."""


AnyPending = OwnElection | BrokerList | TopicList | LeaderElection | Elections | DirNotifications | AdminPath | Reassigning


class Outstanding(Struct, frozen=True):
    """A request of the controller to ZooKeeper without an answer yet. `guarded`: it first checks /controller_epoch."""

    request: int
    pending: AnyPending
    guarded: bool = False


class ControllerStep(StrEnum):
    """How far a broker is on its way into the controller's office (`controller_election`)."""

    OFF = "off"
    LOOKING = "looking"
    WATCHING = "watching"
    CLAIMING = "claiming"
    RAISING_EPOCH = "raising-epoch"
    LISTING = "listing"
    READING = "reading"
    STATES = "states"
    REMOVALS = "removals"
    ACTIVE = "active"


class Controller(Struct):
    """The controller of one broker. When it resigns it keeps the epochs, `elected` and `locked`, and nothing else."""

    step: ControllerStep = ControllerStep.OFF
    outstanding: list[Outstanding] = []  # in the order of their ids
    epoch: ControllerEpoch = ControllerEpoch(0)
    epoch_version: ZkVersion = ZkVersion(-1)
    elected: BrokerId | None = None  # the broker that /controller named when it was last read
    live: tuple[LiveBroker, ...] = ()
    newest: Incarnation = NO_INCARNATION  # of the registrations in the lists that this controller has read
    adopted: tuple[LiveBroker, ...] = ()  # named by heartbeats since the list of brokers was asked for: it may lack them
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


def in_office(controller: Controller) -> bool:
    """Whether this controller has read all states; it commands brokers once it has read the deletions, too ("active")."""
    return controller.step in (ControllerStep.REMOVALS, ControllerStep.ACTIVE)


def forget_partition(controller: Controller, tp: TopicPartition) -> PartitionState | None:
    """Make the controller forget a deleted partition; a request in flight ends with its answer. Returns its last state.

    Its move ends too: the next partition of that name begins its own.
    """
    controller.assignments.pop(tp, None)
    controller.agent.moves.pop(tp, None)
    change = controller.changes.get(tp)
    if change is not None and change.step is ChangeStep.ASKING:  # for logs that the brokers have deleted
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
    """The brokers that may lead or be in the ISR of a partition and are not in controlled shutdown."""
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
    """The ids of the registered brokers."""
    return tuple(live.broker for live in controller.live)


def served_by(controller: Controller) -> tuple[BrokerId, ...]:
    """The brokers that the controller's metadata lists: registered ones without those it holds for inactive (R-183)."""
    inactive = _in_state(controller, BrokerState.INACTIVE)
    return tuple(live.broker for live in controller.live if live.broker not in inactive)
