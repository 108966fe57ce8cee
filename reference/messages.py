"""Messages between nodes and clients. Every request has an answer with the same correlation, but a produce with acks=0.

Requests of a life of a process count up from 1; an answer whose correlation nobody waits for is ignored.
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

    `intact` stands for the CRC of the real format: the disk of the simulator clears it in a torn write. An idempotent producer
    numbers its records in each partition; base_sequence is the number of the first one here (B-66).
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
    elr: tuple[IsrMember, ...] = ()  # who left the ISR while it had fewer than min.insync.replicas members (KIP-966)
    topic_id: TopicId = NO_TOPIC_ID
    offline: tuple[BrokerId, ...] = ()  # replicas on brokers or in directories that are out of service


class Message(Struct, frozen=True, tag=True):
    """Base of all messages."""

    correlation: int


# --- replication (V3 §G) ------------------------------------------------------------------------------------------------


class Fetch(Message, frozen=True, tag=True):
    """ReplicaFetchRequest (R-016), and a consumer's fetch where `replica` is None."""

    tp: TopicPartition
    replica: BrokerId | None
    incarnation: Incarnation
    leader_epoch: LeaderEpoch  # the epoch the asker believes in (KIP-320); NO_EPOCH asks unfenced
    offset: Offset
    max_wait_ms: Millis
    max_records: int
    topic_id: TopicId = NO_TOPIC_ID
    last_epoch: LeaderEpoch = NO_EPOCH  # of the follower's last record, where the leader is to look for divergence (KIP-595)
    max_bytes: int | None = None  # of all batches together; the first one comes even where it has more


class Diverging(Struct, frozen=True, array_like=True):
    """The follower's log leaves the leader's: its last epoch, or the largest one below it, ends here at the leader (KIP-595)."""

    leader_epoch: LeaderEpoch
    end_offset: Offset


class FetchReply(Message, frozen=True, tag=True):
    """ReplicaFetchResponse (R-016)."""

    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    hw: Offset
    batches: tuple[Batch, ...] = ()
    diverging: Diverging | None = None


class EpochEnd(Message, frozen=True, tag=True):
    """OffsetForLeaderEpoch (KIP-101): where did `leader_epoch` end in your log?"""

    tp: TopicPartition
    replica: BrokerId
    current_leader_epoch: LeaderEpoch  # KIP-320; NO_EPOCH asks unfenced
    leader_epoch: LeaderEpoch
    topic_id: TopicId = NO_TOPIC_ID


class EpochEndReply(Message, frozen=True, tag=True):
    """The end of that epoch, or of the largest one below it (KIP-279); None where the leader cannot say (KIP-101)."""

    tp: TopicPartition
    error: ErrorCode
    leader_epoch: LeaderEpoch
    end_offset: Offset | None


# --- control requests (V3 §A, C, D) ---------------------------------------------------------------------------------------


class LeaderAndIsr(Message, frozen=True, tag=True):
    """LeaderAndISRRequest (R-011, R-310), with the controller's epoch and the receiver's incarnation (U-09).

    `number` counts up within a reign, as of all that a controller sends.
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_incarnation: Incarnation
    init: bool  # the first command of a controller
    states: tuple[PartitionState, ...]
    new: tuple[TopicPartition, ...] = ()  # of which the receiver is a new replica (KIP-112 is_new_replica, R-302)
    number: int = 0


class LeaderAndIsrReply(Message, frozen=True, tag=True):
    """LeaderAndISRResponse (R-013)."""

    error: ErrorCode
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


class StopPartition(Struct, frozen=True, array_like=True, order=True):
    """Stop a replica that was told no later epoch than this; with `delete` its log goes too (R-236, R-237, KIP-570).

    `moved`: the partition lives on elsewhere, so that its epochs go on from this one.
    """

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool = True
    topic_id: TopicId = NO_TOPIC_ID
    moved: bool = False


class StopReplica(Message, frozen=True, tag=True):
    """StopReplicaRequest (R-014), with epochs. `number` as of LeaderAndIsr."""

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_incarnation: Incarnation
    partitions: tuple[StopPartition, ...]
    number: int = 0


class StopReplicaReply(Message, frozen=True, tag=True):
    """StopReplicaResponse (R-015)."""

    error: ErrorCode
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()


class UpdateMetadata(Message, frozen=True, tag=True):
    """What clients are told of the cluster, pushed to every broker (KIP-112's UpdateMetadataRequest, R-311).

    `full` lists all partitions that there are: what else the receiver knows is of a topic that is gone. `number` counts up
    within a reign.
    """

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_incarnation: Incarnation
    live_brokers: tuple[BrokerId, ...]
    states: tuple[PartitionState, ...]
    full: bool = False
    number: int = 0


class UpdateMetadataReply(Message, frozen=True, tag=True):
    """Taken, or refused."""

    error: ErrorCode


class LogInfo(Message, frozen=True, tag=True):
    """How far do your logs reach? Asked before a recovery election."""

    controller: BrokerId
    controller_epoch: ControllerEpoch
    broker_incarnation: Incarnation
    partitions: tuple[TopicPartition, ...]


class LogEnd(Struct, frozen=True, array_like=True):
    """The end of one log: (last epoch, LEO) order replicas in a recovery election.

    `born` and the id of the topic tell whether it is the log meant.
    """

    tp: TopicPartition
    last_epoch: LeaderEpoch
    leo: Offset
    born: Incarnation
    topic_id: TopicId = NO_TOPIC_ID


class LogInfoReply(Message, frozen=True, tag=True):
    """The ends of the logs that were asked for and exist; `offline` are those that may exist in a directory that is bad now."""

    error: ErrorCode
    ends: tuple[LogEnd, ...] = ()
    offline: tuple[TopicPartition, ...] = ()


# --- requests to the controller (KIP-343) -------------------------------------------------------------------------------------


class MetadataHeartbeat(Message, frozen=True, tag=True):
    """MetadataHeartbeatRequest (R-194): I am here, under this registration, and want to be in this state (R-189)."""

    broker: BrokerId
    incarnation: Incarnation
    target_state: BrokerState


class MetadataHeartbeatReply(Message, frozen=True, tag=True):
    """MetadataHeartbeatResponse (R-195): the state that the controller has decided on.

    It says nothing of ids: the text speaks of some, the schema has none (C-16).
    """

    error: ErrorCode
    error_string: str | None
    current_state: BrokerState


class IsrProposal(Struct, frozen=True, array_like=True):
    """One partition of an IsrChange: the ISR that its leader wants in place of the one that it knows.

    Beyond R-197: the version of the state that it was made from (KIP-497, U-13) and the registration of each member (KIP-903).
    """

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    zk_version: ZkVersion
    topic_id: TopicId = NO_TOPIC_ID


class IsrChange(Message, frozen=True, tag=True):
    """IsrChangeRequest (R-197)."""

    broker: BrokerId
    incarnation: Incarnation
    changes: tuple[IsrProposal, ...]


class IsrResult(Struct, frozen=True, array_like=True):
    """What became of one proposal, and the state of the partition after it, as AlterPartition answers (KIP-497)."""

    error: ErrorCode
    message: str | None = None
    state: PartitionState | None = None


class IsrChangeReply(Message, frozen=True, tag=True):
    """IsrChangeResponse (R-198): results in the order of the request, none where the top-level error is another than NONE."""

    error: ErrorCode
    message: str | None = None
    results: tuple[IsrResult, ...] = ()


# --- clients ----------------------------------------------------------------------------------------------------------------


class Produce(Message, frozen=True, tag=True):
    """Append `values` as one batch. acks: 0 no answer, 1 the leader has it, -1 the ISR has it (R-140).

    An idempotent producer sends a batch again under the sequence that it had (B-66).
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
    """The offset of the first value, or why not."""

    tp: TopicPartition
    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None


class InitProducerId(Message, frozen=True, tag=True):
    """An id for an idempotent producer, of any broker."""


class InitProducerIdReply(Message, frozen=True, tag=True):
    """An id that nobody else has or had."""

    error: ErrorCode
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0


LATEST = -1  # timestamps of ListOffsets, as Kafka's
EARLIEST = -2


class ListOffsets(Message, frozen=True, tag=True):
    """The latest offset a consumer may read to (the high watermark), or the earliest that there is."""

    tp: TopicPartition
    leader_epoch: LeaderEpoch
    topic_id: TopicId = NO_TOPIC_ID
    timestamp: int = LATEST


class ListOffsetsReply(Message, frozen=True, tag=True):
    """OFFSET_NOT_AVAILABLE until a new leader's HW has reached the start of its epoch (KIP-207)."""

    tp: TopicPartition
    error: ErrorCode
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None


class Metadata(Message, frozen=True, tag=True):
    """Who leads what?"""


class MetadataReply(Message, frozen=True, tag=True):
    """What this broker was last told."""

    brokers: tuple[BrokerId, ...]
    states: tuple[PartitionState, ...]
    error: ErrorCode = ErrorCode.NONE  # BROKER_NOT_AVAILABLE of a fenced broker, which tells nothing else
    controller: BrokerId | None = None  # who told it last


Request = (
    Fetch
    | EpochEnd
    | LeaderAndIsr
    | StopReplica
    | UpdateMetadata
    | LogInfo
    | MetadataHeartbeat
    | IsrChange
    | Produce
    | InitProducerId
    | ListOffsets
    | Metadata
)
Reply = (
    FetchReply
    | EpochEndReply
    | LeaderAndIsrReply
    | StopReplicaReply
    | UpdateMetadataReply
    | LogInfoReply
    | MetadataHeartbeatReply
    | IsrChangeReply
    | ProduceReply
    | InitProducerIdReply
    | ListOffsetsReply
    | MetadataReply
)
AnyMessage = Request | Reply

# What brokers and controllers order and report; the rest moves records and answers clients.
_DATA = (Fetch, EpochEnd, Produce, InitProducerId, ListOffsets, Metadata)
CONTROL_REQUESTS: tuple[type[Message], ...] = tuple(request for request in get_args(Request) if request not in _DATA)
