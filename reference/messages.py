"""Messages between nodes and clients. Every request but a produce with acks=0 has an answer with the same correlation.

The correlations of a process count up from 1; an answer to a request that is no longer pending is ignored.
"""

from typing import get_args

from msgspec import Struct

from reference.errors import ErrorCode
from reference.sealed import Values
from reference.types import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TOPIC_ID,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    ProducerId,
    TopicId,
    TopicPartition,
    ZkVersion,
)


class Batch(Struct, frozen=True, array_like=True):
    """Records appended together: offsets base_offset … base_offset + count(values) - 1, one leader epoch (KIP-101).

    `intact` stands for the CRC of the real format: the simulated disk clears it in a torn write. An idempotent producer numbers
    its records per partition; `base_sequence` is the number of the first one (B-66).
    """

    base_offset: Offset
    leader_epoch: LeaderEpoch
    values: Values
    intact: bool = True
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0
    base_sequence: int = NO_SEQUENCE


class IsrMember(Struct, frozen=True, array_like=True, order=True):
    """A replica in the ISR and the registration under which it joined."""

    broker: BrokerId
    incarnation: Incarnation


class PartitionState(Struct, frozen=True):
    """LeaderAndISR of V3 (R-012) with the article's controller epoch; `leader` None is V3's -1."""

    tp: TopicPartition
    leader: BrokerId | None
    leader_incarnation: Incarnation
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    controller_epoch: ControllerEpoch
    zk_version: ZkVersion
    replicas: tuple[BrokerId, ...]
    elr: tuple[IsrMember, ...] = ()  # eligible leader replicas (KIP-966, `reference.replica.eligible`)
    topic_id: TopicId = NO_TOPIC_ID
    offline: tuple[BrokerId, ...] = ()  # replicas on dead brokers or in bad directories


class Message(Struct, frozen=True, tag=True):
    """Base class of all requests and answers."""

    correlation: int


# --- replication (V3 §G) ------------------------------------------------------------------------------------------------


class Fetch(Message, frozen=True, tag=True):
    """ReplicaFetchRequest (R-016), or a consumer's fetch if `replica` is None."""

    tp: TopicPartition
    replica: BrokerId | None
    incarnation: Incarnation
    leader_epoch: LeaderEpoch  # known to the sender (KIP-320); NO_EPOCH: do not check
    offset: Offset
    max_wait_ms: Millis
    max_records: int
    topic_id: TopicId = NO_TOPIC_ID
    last_epoch: LeaderEpoch = NO_EPOCH  # of the follower's last record; the leader then checks for divergence (KIP-595)
    max_bytes: int | None = None  # of all batches together; the first one is sent even if it is larger


class Diverging(Struct, frozen=True, array_like=True):
    """The follower's log diverges: its last epoch, or the largest one below it, ends at this offset of the leader (KIP-595)."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class FetchReply(Message, frozen=True, tag=True):
    """ReplicaFetchResponse: a leader's answer to a fetch (R-016)."""

    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    hw: Offset
    batches: tuple[Batch, ...] = ()
    diverging: Diverging | None = None


class EpochEnd(Message, frozen=True, tag=True):
    """OffsetForLeaderEpoch (KIP-101): asks where `leader_epoch` ends in the leader's log."""

    tp: TopicPartition
    replica: BrokerId
    current_leader_epoch: LeaderEpoch  # known to the sender (KIP-320); NO_EPOCH: do not check
    leader_epoch: LeaderEpoch
    topic_id: TopicId = NO_TOPIC_ID


class EpochEndReply(Message, frozen=True, tag=True):
    """The end of that epoch, or of the largest one below it (KIP-279); None if the leader does not know it (KIP-101)."""

    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    end_offset: Offset | None


# --- control requests (V3 §A, C, D) ---------------------------------------------------------------------------------------


class Command(Message, frozen=True, tag=True):
    """Base class of the controller's requests to a broker, with the controller's epoch and the broker's registration (U-09).

    `number`, where a request has it, counts the requests of one controller epoch.
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_incarnation: Incarnation


class LeaderAndIsr(Command, frozen=True, tag=True):
    """LeaderAndISRRequest: the controller tells a broker the leader and ISR of partitions (R-011, R-310)."""

    init: bool  # the first command of a controller
    states: tuple[PartitionState, ...]
    new: tuple[TopicPartition, ...] = ()  # partitions of which the receiver is a new replica (KIP-112 is_new_replica, R-302)
    number: int = 0


class LeaderAndIsrReply(Message, frozen=True, tag=True):
    """LeaderAndISRResponse: a broker's answer to LeaderAndIsr (R-013)."""

    error: ErrorCode
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


class StopPartition(Struct, frozen=True, array_like=True, order=True):
    """Stop a replica unless it was told a later leader epoch; with `delete` remove its log (R-236, R-237, KIP-570).

    `moved`: the partition continues on other brokers, with later epochs than this one.
    """

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool = True
    topic_id: TopicId = NO_TOPIC_ID
    moved: bool = False


class StopReplica(Command, frozen=True, tag=True):
    """StopReplicaRequest: the controller tells a broker to stop these replicas (R-014); has their leader epochs."""

    partitions: tuple[StopPartition, ...]
    number: int = 0


class StopReplicaReply(Message, frozen=True, tag=True):
    """StopReplicaResponse: a broker's answer to StopReplica (R-015)."""

    error: ErrorCode
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


class UpdateMetadata(Command, frozen=True, tag=True):
    """Metadata of the cluster for clients, pushed to every broker (KIP-112's UpdateMetadataRequest, R-311).

    `full`: it lists all partitions, so the receiver drops others: their topics are deleted.
    """

    live_brokers: tuple[BrokerId, ...]
    states: tuple[PartitionState, ...]
    full: bool = False
    number: int = 0


class UpdateMetadataReply(Message, frozen=True, tag=True):
    """A broker's answer to UpdateMetadata: NONE also for a late copy, which the broker ignores."""

    error: ErrorCode


class LogInfo(Command, frozen=True, tag=True):
    """The controller asks a broker for the ends of its logs, before it elects the replica with the longest log."""

    partitions: tuple[TopicPartition, ...]


class LogEnd(Struct, frozen=True, array_like=True):
    """The end of a log, for electing the longest by (last epoch, LEO). `born` and `topic_id` identify the log."""

    tp: TopicPartition
    last_epoch: LeaderEpoch
    leo: Offset
    born: Incarnation
    topic_id: TopicId = NO_TOPIC_ID


class LogInfoReply(Message, frozen=True, tag=True):
    """A broker's answer to LogInfo: the ends of the logs that exist; `offline`: those in a failed directory."""

    error: ErrorCode
    ends: tuple[LogEnd, ...] = ()
    offline: tuple[TopicPartition, ...] = ()


# --- requests to the controller (KIP-343) -------------------------------------------------------------------------------------


class MetadataHeartbeat(Message, frozen=True, tag=True):
    """MetadataHeartbeatRequest (R-194): the sender is alive under this registration and wants `target_state` (R-189)."""

    broker: BrokerId
    incarnation: Incarnation
    target_state: BrokerState


class MetadataHeartbeatReply(Message, frozen=True, tag=True):
    """MetadataHeartbeatResponse (R-195): the broker state that the controller decided on; no ids (C-16)."""

    error: ErrorCode
    error_string: str | None
    current_state: BrokerState


class IsrProposal(Struct, frozen=True, array_like=True):
    """One partition of an IsrChange: the ISR that its leader proposes.

    Beyond R-197: the version of the state that it was made from (KIP-497, U-13) and the registration of each member (KIP-903).
    """

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    zk_version: ZkVersion
    topic_id: TopicId = NO_TOPIC_ID


class IsrChange(Message, frozen=True, tag=True):
    """IsrChangeRequest: a leader asks the controller to change the ISR of partitions (R-197)."""

    broker: BrokerId
    incarnation: Incarnation
    changes: tuple[IsrProposal, ...]


class IsrResult(Struct, frozen=True, array_like=True):
    """The result of one proposal, and the state of the partition after it, as AlterPartition answers (KIP-497)."""

    error: ErrorCode
    message: str | None = None
    state: PartitionState | None = None


class IsrChangeReply(Message, frozen=True, tag=True):
    """IsrChangeResponse (R-198): results in the order of the request; none if the top-level error is not NONE."""

    error: ErrorCode
    message: str | None = None
    results: tuple[IsrResult, ...] = ()


# --- clients ----------------------------------------------------------------------------------------------------------------


class Produce(Message, frozen=True, tag=True):
    """Append `values` as one batch. acks: 0 no answer, 1 the leader has it, -1 the ISR has it (R-140).

    An idempotent producer retries a batch under the same sequence (B-66).
    """

    tp: TopicPartition
    acks: int
    values: Values
    timeout_ms: Millis
    topic_id: TopicId = NO_TOPIC_ID
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0
    base_sequence: int = NO_SEQUENCE


class ProduceReply(Message, frozen=True, tag=True):
    """The answer to a produce: the offset of the first value, or an error."""

    tp: TopicPartition
    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None


class InitProducerId(Message, frozen=True, tag=True):
    """A client asks any broker for an id for an idempotent producer."""


class InitProducerIdReply(Message, frozen=True, tag=True):
    """A producer id that was never given out before."""

    error: ErrorCode
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0


LATEST = -1  # timestamps of ListOffsets, as Kafka's
EARLIEST = -2


class ListOffsets(Message, frozen=True, tag=True):
    """A client asks for a partition's end offset for consumers (the high watermark), or its earliest offset."""

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    topic_id: TopicId = NO_TOPIC_ID
    timestamp: int = LATEST


class ListOffsetsReply(Message, frozen=True, tag=True):
    """The answer to ListOffsets: OFFSET_NOT_AVAILABLE until a new leader's HW reaches the start of its epoch (KIP-207)."""

    tp: TopicPartition
    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None


class Metadata(Message, frozen=True, tag=True):
    """A client asks a broker for the leader of every partition."""


class MetadataReply(Message, frozen=True, tag=True):
    """A broker's answer to Metadata: what the controller last pushed to it."""

    brokers: tuple[BrokerId, ...]
    states: tuple[PartitionState, ...]
    error: ErrorCode = ErrorCode.NONE  # BROKER_NOT_AVAILABLE if the broker is fenced, without metadata
    controller: BrokerId | None = None  # the sender of the last update


ReplicationRequest = Fetch | EpochEnd
AnyCommand = LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo
ControlRequest = AnyCommand | MetadataHeartbeat | IsrChange  # between brokers and the controller
ClientRequest = Produce | InitProducerId | ListOffsets | Metadata
Request = ReplicationRequest | ControlRequest | ClientRequest
CONTROL_REQUESTS: tuple[type[Message], ...] = get_args(ControlRequest)

CommandReply = LeaderAndIsrReply | StopReplicaReply | UpdateMetadataReply | LogInfoReply
ClientReply = ProduceReply | InitProducerIdReply | ListOffsetsReply | MetadataReply
Reply = FetchReply | EpochEndReply | CommandReply | MetadataHeartbeatReply | IsrChangeReply | ClientReply
AnyMessage = Request | Reply
