"""Turns of b1 under registration 10, as controller of epoch 4 and as broker; b2 has registration 20, b3 has 30."""

from typing import Any

from reference.coordination import paths
from reference.coordination.api import Check, Children, Create, Data, Delete, GetChildren, GetData, SetData
from reference.effects import AnyEffect, CreateReplica, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import ShutDown, ZkReplied
from reference.messages import (
    Batch,
    Fetch,
    FetchReply,
    IsrChange,
    IsrChangeReply,
    IsrMember,
    IsrProposal,
    IsrResult,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    LogEnd,
    LogInfo,
    LogInfoReply,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    PartitionState,
    Produce,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import (
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)
from tests.monitors.turns import Turn, note, send, turn_on_message, turn_with

TP = TopicPartition("t-0")
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH, NEW = ControllerEpoch(4), ControllerEpoch(5)
NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
GUARD = Check(paths.CONTROLLER_EPOCH, 1)
REGISTRATION = paths.broker_payload(heartbeats=True, host="localhost", port=9092)


def state(epoch: int = 7, version: int = 0, *, leader: int | None = 2, stamp: int = 20) -> PartitionState:
    """The state of TP with ISR 2 and 3, led by broker 2 under its registration 20 unless told otherwise."""
    return PartitionState(
        tp=TP,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=Incarnation(stamp),
        leader_epoch=LeaderEpoch(epoch),
        isr=(IsrMember(B2, Incarnation(20)), IsrMember(B3, Incarnation(30))),
        controller_epoch=EPOCH,
        zk_version=ZkVersion(version),
        replicas=(B2, B3),
        topic_id=TopicId(9),
    )


# --- as controller ----------------------------------------------------------------------------------------------------------

ELECTED = turn_with(note("controller-elected", controller_epoch=EPOCH))
RESIGNED = turn_with(note("controller-resigned"))
LIST = turn_with(ZkRequest(1, (GetChildren(paths.BROKER_IDS, watch=True),)))


def registered(*brokers: int) -> Turn:
    """The controller reads who is registered."""
    return ZkReplied(1, (Children(tuple(map(str, brokers))),)), []


THREE: tuple[Turn, ...] = (
    *(LIST, registered(1, 2, 3), turn_with(ZkRequest(7, (GetData(paths.topic_path("t")),)))),
    (ZkReplied(7, (Data(paths.topic_payload(((B2, B3, B1),)), 3, 9),)), []),
)


def stop(number: int, *, delete: bool = False, to: int = 20) -> AnyEffect:
    stops = (StopPartition(TP, LeaderEpoch(7), delete, TopicId(9), moved=True),)
    return send("b2", StopReplica(number, B1, EPOCH, Incarnation(to), stops, number))


def stopped(number: int, *effects: AnyEffect) -> Turn:
    return turn_on_message("b2", StopReplicaReply(number, NONE), *effects)


def lead(number: int, told: PartitionState, *, to: str = "b2", epoch: ControllerEpoch = EPOCH, init: bool = False) -> AnyEffect:
    return send(to, LeaderAndIsr(number, B1, epoch, Incarnation(20), init=init, states=(told,), number=number))


def led(number: int, *effects: AnyEffect) -> Turn:
    return turn_on_message("b2", LeaderAndIsrReply(number, NONE), *effects)


def metadata(number: int, *states: PartitionState, full: bool = True) -> AnyEffect:
    """Metadata for b3, by which b2 does not serve."""
    return send("b3", UpdateMetadata(number, B1, EPOCH, Incarnation(30), (B1, B3), states, full=full, number=number))


def updated(number: int, *effects: AnyEffect) -> Turn:
    return turn_on_message("b3", UpdateMetadataReply(number, NONE), *effects)


def unanswered(command: str, *effects: AnyEffect) -> Turn:
    """A command to b3 times out."""
    return turn_with(note("command-unanswered", broker=B3, incarnation=30, detail=command), *effects)


def write(wanted: PartitionState, *, guarded: bool = True) -> AnyEffect:
    op = SetData(paths.state_path(TP), paths.state_payload(wanted), wanted.zk_version)
    return ZkRequest(91, (GUARD, op) if guarded else (op,), guarded)


def assign(*replicas: BrokerId, version: int = 3) -> AnyEffect:
    return ZkRequest(90, (GUARD, SetData(paths.topic_path("t"), paths.topic_payload((replicas,)), version)), atomic=True)


CREATED = ZkRequest(3, (GUARD, Create(paths.state_path(TP), paths.state_payload(state(0)))), atomic=True)


DELETES = ZkRequest(4, (GUARD, Delete(paths.state_path(TP))), atomic=True)


def serve(*live: BrokerId, number: int = 1) -> AnyEffect:
    """Metadata for b3 that lists these brokers."""
    return send("b3", UpdateMetadata(number, B1, EPOCH, Incarnation(30), live, (), full=True, number=number))


ACTIVE_B2 = turn_with(note("broker-state", broker=B2, detail="active", incarnation=20), serve(B1, B2, B3))


def reads(number: int = 8) -> Turn:
    return turn_with(ZkRequest(number, (GetData(paths.state_path(TP)),)))


def read(found: PartitionState, *effects: AnyEffect, number: int = 8) -> Turn:
    return ZkReplied(number, (Data(paths.state_payload(found), found.zk_version, 5),)), [*effects]


B2_IS_GONE = (ELECTED, LIST, registered(1, 3), turn_with(metadata(1)))


def beat(broker: BrokerId, incarnation: int, number: int = 70, asks_for: BrokerState = BrokerState.ACTIVE) -> MetadataHeartbeat:
    return MetadataHeartbeat(number, broker, Incarnation(incarnation), asks_for)


def grant(to: str, granted: BrokerState = BrokerState.ACTIVE) -> AnyEffect:
    return send(to, MetadataHeartbeatReply(70, NONE, error_string=None, current_state=granted))


STOPPING = turn_with(note("broker-state", broker=B3, detail="stopping", incarnation=30))


def propose(epoch: int, broker: BrokerId = B2, *, version: int = 0) -> IsrChange:
    proposal = IsrProposal(TP, LeaderEpoch(epoch), (IsrMember(B1, Incarnation(10)),), ZkVersion(version))
    return IsrChange(40, broker, Incarnation(20), (proposal,))


def proposal_answered(error: ErrorCode = NONE) -> AnyEffect:
    return send("b2", IsrChangeReply(40, NONE, message=None, results=(IsrResult(error),)))


def heartbeat_refused() -> MetadataHeartbeatReply:
    return MetadataHeartbeatReply(70, ErrorCode.INVALID_INCARNATION_ID, error_string=None, current_state=BrokerState.INACTIVE)


def proposal_refused(*effects: AnyEffect) -> Turn:
    return turn_on_message("b2", IsrChangeReply(40, ErrorCode.NOT_CONTROLLER), *effects)


# --- as broker --------------------------------------------------------------------------------------------------------------

REGISTERED = turn_with(note("registered", incarnation=10))
BEATS = (REGISTERED, turn_with(send("b2", beat(B1, 10))))
FENCED, UNFENCED = turn_with(note("fenced")), turn_with(note("unfenced"))
FENCE = SetTimer("fence", 9000, 9000)
SHUTS_DOWN: Turn = (ShutDown(), [])


def answer(error: ErrorCode, *effects: AnyEffect, number: int = 70) -> Turn:
    return turn_on_message(
        "b2", MetadataHeartbeatReply(number, error, error_string=None, current_state=BrokerState.ACTIVE), *effects
    )


GAUGE = "kafka.server:name=OfflineLogDirectoryCount,type=LogManager"
HELD, BAD_DIR = turn_with(CreateReplica(0, TP)), turn_with(note("dir-failed", dir=0), note("gauge", gauge=1, detail=GAUGE))


def stops(*effects: AnyEffect, delete: bool = False, number: int = 1) -> Turn:
    """b1 is told to stop its replica."""
    partitions = (StopPartition(TP, LeaderEpoch(7), delete, TopicId(9), moved=True),)
    return turn_on_message("b2", StopReplica(number, B2, EPOCH, Incarnation(10), partitions, number), *effects)


REFUSED = ErrorCode.INVALID_INCARNATION_ID


def commanded(
    source: str,
    *effects: AnyEffect,
    epoch: ControllerEpoch = EPOCH,
    to: int = 10,
    leader: int = 2,
    leader_epoch: int = 7,
    version: int = 0,
) -> Turn:
    """A command for b1 under a registration, and the effects."""
    states = (state(leader_epoch, version, leader=leader),)
    return turn_on_message(source, LeaderAndIsr(1, B2, epoch, Incarnation(to), init=False, states=states), *effects)


def obeyed(to: str, error: ErrorCode = NONE, *codes: tuple[TopicPartition, ErrorCode]) -> AnyEffect:
    return send(to, LeaderAndIsrReply(1, error, codes))


def role(kind: str, **columns: Any) -> Turn:
    """A role that was read from ZooKeeper."""
    return ZkReplied(1, ()), [note(kind, tp=TP, **columns)]


FOLLOWS_B2 = note("became-follower", tp=TP, leader=B2, leader_epoch=7)
FOLLOWS = role("became-follower", leader=B2, leader_epoch=7)
LEADS = role("became-leader", leader_epoch=7, hw=3)
DELETED = note("replica-deleted", tp=TP)


def batch(records: int) -> Batch:
    return Batch(Offset(0), LeaderEpoch(7), tuple(map(str, range(records))))


APPENDS = note("append", tp=TP, detail="follower", batches=(batch(2),))


def fetch(replica: BrokerId | None = None, *, offset: int = 0, epoch: int = 7) -> Fetch:
    return Fetch(5, TP, replica, Incarnation(10), LeaderEpoch(epoch), Offset(offset), Millis(500), 100)


def fetched(error: ErrorCode = NONE, *, hw: int = 3, records: int = 0) -> AnyEffect:
    batches = (batch(records),) if records else ()
    return send("c1", FetchReply(5, TP, error, LeaderEpoch(7), Offset(hw), batches))


def produce(acks: int) -> Produce:
    return Produce(6, TP, acks, ("v",), Millis(500))


def acknowledged(offset: int) -> AnyEffect:
    return send("c1", ProduceReply(6, TP, NONE, Offset(offset)))


def latest(offset: int) -> Turn:
    return turn_on_message("c1", ListOffsets(5, TP, LeaderEpoch(7)), send("c1", ListOffsetsReply(5, TP, NONE, Offset(offset))))


def log_ends_at(leo: int) -> Turn:
    asked = LogInfo(1, B2, EPOCH, Incarnation(10), (TP,))
    return turn_on_message(
        "b2", asked, send("b2", LogInfoReply(1, NONE, (LogEnd(TP, LeaderEpoch(7), Offset(leo), Incarnation(10)),)))
    )
