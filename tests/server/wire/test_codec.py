"""Messages between nodes as bytes: they round-trip in the last version, and older layouts match their documents."""

from typing import TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest as KafkaPythonFetch
from kafka.protocol.consumer import FetchResponse as KafkaPythonFetchResponse
from kio.schema.fetch.v15.response import FetchResponse as FetchResponse15
from kio.serial import entity_reader
from msgspec import Struct
from msgspec.structs import replace

from reference.errors import ErrorCode
from reference.messages import (
    Batch,
    Diverging,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    IsrChange,
    IsrChangeReply,
    IsrMember,
    IsrProposal,
    IsrResult,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    LogEnd,
    LogInfo,
    LogInfoReply,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    PartitionState,
    Produce,
    Request,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import (
    EPOCH_DURING_DELETE,
    NO_INCARNATION,
    NO_TOPIC_ID,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    ZkVersion,
    topic_of,
    topic_partition,
)
from server.wire.codec import APIS, NodeReply, NodeRequest, read_reply, read_request, reply_frame, request_frame, version_of
from server.wire.control import Sender
from server.wire.framing import FrameBuffer, WireError, read_request_header
from server.wire.records import batch_of, sealed
from server.wire.versions import VERSIONS
from tests.reference.lab import carries
from tests.reference.recorded import settled_cluster, shrink

S = TypeVar("S", bound=Struct)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**31 - 1)
TPS = st.builds(topic_partition, st.sampled_from(["t", "orders", "a-b.c", "ü"]), st.integers(0, 2**31 - 1))
IDS = st.integers(1, 2**63 - 1)
TEXTS = st.none() | st.text(max_size=5)
ERRORS = st.sampled_from(ErrorCode)


def several(search_strategy: st.SearchStrategy[S]) -> st.SearchStrategy[tuple[S, ...]]:
    return st.lists(search_strategy, max_size=3).map(tuple)


MEMBERS = several(st.builds(IsrMember, INT32, INT64))
BROKERS = st.lists(INT32.map(BrokerId), max_size=3).map(tuple)
STATES = st.builds(
    PartitionState,
    tp=TPS,
    leader=st.none() | COUNTS,
    leader_incarnation=INT64,
    leader_epoch=INT32,
    isr=MEMBERS,
    controller_epoch=INT32,
    zk_version=INT32,
    replicas=BROKERS,
    elr=MEMBERS,
    topic_id=INT64,
    offline=BROKERS,
)
SENDER = {"correlation": COUNTS, "controller": INT32, "controller_epoch": INT32, "broker_incarnation": INT64}
STOPS = st.builds(StopPartition, TPS, INT32, st.booleans(), INT64, st.booleans())
PROPOSALS = st.builds(IsrProposal, TPS, INT32, MEMBERS, INT32, INT64)
PARTITION_ERRORS = st.lists(st.tuples(TPS, ERRORS), max_size=3).map(tuple)

REQUESTS: dict[type[NodeRequest], st.SearchStrategy[NodeRequest]] = {
    Fetch: st.builds(
        Fetch,
        correlation=COUNTS,
        tp=TPS,
        replica=st.none() | COUNTS,
        incarnation=INT64,
        leader_epoch=INT32,
        offset=INT64,
        max_wait_ms=INT32,
        max_records=COUNTS,
        topic_id=st.just(NO_TOPIC_ID) | IDS,
        last_epoch=INT32,
        max_bytes=st.none() | st.integers(0, 2**31 - 2),
    ),
    EpochEnd: st.builds(
        EpochEnd,
        correlation=COUNTS,
        tp=TPS,
        replica=INT32,
        current_leader_epoch=INT32,
        leader_epoch=INT32,
        topic_id=INT64,
    ),
    LeaderAndIsr: st.builds(
        LeaderAndIsr, **SENDER, init=st.booleans(), states=several(STATES), new=st.lists(TPS, max_size=2).map(tuple)
    ),
    StopReplica: st.builds(StopReplica, **SENDER, partitions=several(STOPS)),
    UpdateMetadata: st.builds(
        UpdateMetadata, **SENDER, live_brokers=BROKERS, states=several(STATES), full=st.booleans(), number=INT64
    ),
    LogInfo: st.builds(LogInfo, **SENDER, partitions=st.lists(TPS, max_size=3).map(tuple)),
    MetadataHeartbeat: st.builds(
        MetadataHeartbeat, correlation=COUNTS, broker=INT32, incarnation=INT64, target_state=st.sampled_from(BrokerState)
    ),
    IsrChange: st.builds(IsrChange, correlation=COUNTS, broker=INT32, incarnation=INT64, changes=several(PROPOSALS)),
}
BATCHES = st.builds(
    lambda values, producer, epoch, sequence, base, leader_epoch: replace(
        batch_of(sealed(values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)),
        base_offset=Offset(base),
        leader_epoch=LeaderEpoch(leader_epoch),
    ),
    st.lists(st.text(max_size=4), min_size=1, max_size=3),
    INT64,
    st.integers(-(2**15), 2**15 - 1),
    INT32,
    INT64,
    INT32,
)
RESULTS = st.builds(IsrResult, error=ERRORS, message=TEXTS, state=st.none() | STATES)


def replies(request: NodeRequest) -> st.SearchStrategy[NodeReply]:
    """Any reply to a request."""
    correlation = st.just(request.correlation)
    match request:
        case Fetch(tp=tp):
            diverging = st.none() | st.builds(Diverging, INT32, st.integers(0, 2**63 - 1))
            return st.builds(FetchReply, correlation, st.just(tp), ERRORS, INT32, INT64, several(BATCHES), diverging)
        case EpochEnd(tp=tp):
            end = st.none() | st.integers(0, 2**63 - 1)
            return st.builds(EpochEndReply, correlation, st.just(tp), ERRORS, INT32, end)
        case LeaderAndIsr():
            return st.builds(LeaderAndIsrReply, correlation, ERRORS, PARTITION_ERRORS)
        case StopReplica():
            return st.builds(StopReplicaReply, correlation, ERRORS, PARTITION_ERRORS)
        case UpdateMetadata():
            return st.builds(UpdateMetadataReply, correlation, ERRORS)
        case LogInfo():
            log_ends = several(st.builds(LogEnd, TPS, INT32, INT64, INT64, INT64))
            return st.builds(LogInfoReply, correlation, ERRORS, log_ends, st.lists(TPS, max_size=3).map(tuple))
        case MetadataHeartbeat():
            return st.builds(MetadataHeartbeatReply, correlation, ERRORS, TEXTS, st.sampled_from(BrokerState))
        case IsrChange():
            return st.builds(IsrChangeReply, correlation, ERRORS, TEXTS, several(RESULTS))


def no_topics(_: TopicId) -> None:
    """A lookup that knows no topic id."""


def received(frame: bytes, names: dict[TopicId, str]) -> NodeRequest:
    """Decode a request as its receiver does."""
    (body,) = FrameBuffer(1 << 20).feed(frame)
    header, at = read_request_header(body)
    return read_request(header, body, at, names.get)


def as_on_the_wire(reply: NodeReply) -> NodeReply:
    """The reply as it is decoded: batches have their offset and epoch in their bytes."""
    if isinstance(reply, FetchReply):
        return replace(reply, batches=tuple(arrived(batch) for batch in reply.batches))
    return reply


def arrived(batch: Batch) -> Batch:
    assert isinstance(batch.values, bytes)
    start = batch.base_offset.to_bytes(8, "big", signed=True), batch.leader_epoch.to_bytes(4, "big", signed=True)
    return replace(batch, values=start[0] + batch.values[8:12] + start[1] + batch.values[16:])


KINDS = [pytest.param(kind, id=kind.__name__) for kind in REQUESTS]


def test_every_request_between_brokers_has_an_encoding() -> None:
    """A new message must be added to this codec or to the client APIs."""
    of_clients = {Produce, InitProducerId, ListOffsets, Metadata}
    assert set(get_args(Request)) == set(REQUESTS) | of_clients
    assert set(get_args(NodeRequest)) == set(REQUESTS) == set(APIS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_request_between_nodes_round_trips(kind: type[NodeRequest], data: st.DataObject) -> None:
    request = data.draw(REQUESTS[kind])
    names = {request.topic_id: topic_of(request.tp)} if isinstance(request, Fetch) else {}
    assert received(request_frame(request, client_id="b1"), names) == request


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(data=st.data())
def test_reply_between_nodes_round_trips(kind: type[NodeRequest], data: st.DataObject) -> None:
    request = data.draw(REQUESTS[kind])
    reply = data.draw(replies(request))
    version = version_of(request)
    (body,) = FrameBuffer(1 << 20).feed(reply_frame(request, version, reply))
    assert read_reply(request, version, body) == as_on_the_wire(reply)


@pytest.mark.parametrize("error", ErrorCode)
def test_every_error_code_round_trips(error: ErrorCode) -> None:
    fetch = Fetch(1, topic_partition("t", 0), BrokerId(2), NO_INCARNATION, LeaderEpoch(0), Offset(0), Millis(0), 5)
    reply = FetchReply(1, fetch.tp, error, LeaderEpoch(0), Offset(0))
    assert read_reply(fetch, 12, reply_frame(fetch, 12, reply)[4:]) == reply


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_any_bytes_give_a_request_or_a_wire_error(kind: type[NodeRequest], data: st.DataObject) -> None:
    request = data.draw(REQUESTS[kind])
    version = data.draw(st.sampled_from([v for v in VERSIONS[APIS[kind]] if kind is not Fetch or v == version_of(request)]))
    good = request_frame(request, version=version)[4:]
    spoiled = spoil(data, good)
    try:
        header, at = read_request_header(spoiled)
        read_request(header, spoiled, at, no_topics)
    except WireError:
        return


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150)
@given(data=st.data())
def test_any_bytes_give_a_reply_or_a_wire_error(kind: type[NodeRequest], data: st.DataObject) -> None:
    request = data.draw(REQUESTS[kind])
    version = data.draw(st.sampled_from([v for v in VERSIONS[APIS[kind]] if kind is not Fetch or v == version_of(request)]))
    good = reply_frame(request, version, data.draw(replies(request)))[4:]
    try:
        read_reply(request, version, spoil(data, good))
    except WireError:
        return


def spoil(data: st.DataObject, good: bytes) -> bytes:
    at = data.draw(st.integers(0, len(good)))
    longest = b"\x7f\xff\xff\xff"
    kinds = [
        good[:at],
        good[:at] + longest + good[at + 4 :],
        good[:at] + b"\xff" * 5 + good[at:],
        good[:at] + b"\x80" + good[at + 1 :],
    ]
    return data.draw(st.sampled_from(kinds) | st.binary(max_size=80))


def test_unknown_api_between_nodes_raises_wire_error() -> None:
    for key, version in ((0, 3), (1, 11), (1000, 3), (1006, 0), (-5, 0)):
        body = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff" + bytes(30)
        header, at = read_request_header(body)
        with pytest.raises(WireError, match="between brokers"):
            read_request(header, body, at, no_topics)


# --- Kafka's layouts --------------------------------------------------------------------------------------------------------


TP = topic_partition("orders", 3)
FETCH = Fetch(
    correlation=9,
    tp=TP,
    replica=BrokerId(2),
    incarnation=Incarnation(44),
    leader_epoch=LeaderEpoch(5),
    offset=Offset(70),
    max_wait_ms=Millis(500),
    max_records=500,
    topic_id=TopicId(77),
    last_epoch=LeaderEpoch(4),
    max_bytes=1000,
)


def body_of(request: NodeRequest) -> bytes:
    (body,) = FrameBuffer(1 << 20).feed(request_frame(request, client_id="b2"))
    _, at = read_request_header(body)
    return body[at:]


def test_follower_fetch_is_kafkas_version_15() -> None:
    """R-016: replica and offset of V3's request.

    Replica epoch (KIP-903, here the incarnation), last fetched epoch (KIP-595) and topic id (KIP-516) are Kafka's fields.
    """
    decoded = KafkaPythonFetch[15].decode(body_of(FETCH), version=15)
    assert (decoded.replica_state.replica_id, decoded.replica_state.replica_epoch) == (2, 44)
    (topic,) = decoded.topics
    (partition,) = topic.partitions
    assert topic.topic_id.int == 77
    assert (partition.partition, partition.current_leader_epoch, partition.fetch_offset) == (3, 5, 70)
    assert (partition.last_fetched_epoch, partition.partition_max_bytes) == (4, 1000)
    read = received(request_frame(FETCH), {TopicId(77): "orders"})
    assert isinstance(read, Fetch)
    assert (read.tp, read.replica, read.offset) == (TP, 2, 70)


def test_fetch_without_topic_ids_is_kafkas_version_12() -> None:
    """R-016: topic, partition, replica and offset."""
    without = replace(FETCH, topic_id=NO_TOPIC_ID)
    assert version_of(without) == 12
    decoded = KafkaPythonFetch[12].decode(body_of(without), version=12)
    (topic,) = decoded.topics
    (partition,) = topic.partitions
    assert (decoded.replica_id, topic.topic, partition.partition, partition.fetch_offset) == (2, "orders", 3, 70)


def test_fetch_reply_is_read_by_kio() -> None:
    """R-016: the high watermark of the leader, and the records."""
    batches = (batch_of(sealed(["a", "b"])), replace(batch_of(sealed(["c"])), base_offset=Offset(2)))
    reply = FetchReply(9, TP, ErrorCode.NONE, LeaderEpoch(5), Offset(3), batches)
    body = reply_frame(FETCH, 15, reply)[9:]
    fetch_response, size = entity_reader(FetchResponse15)(body, 0)
    assert size == len(body)
    (partition,) = fetch_response.responses[0].partitions
    assert (partition.high_watermark, partition.current_leader.leader_epoch, len(partition.records or b"")) == (3, 5, 146)
    by_kafka_python = KafkaPythonFetchResponse[15].decode(body, version=15)
    assert by_kafka_python.responses[0].partitions[0].high_watermark == 3
    empty = read_reply(FETCH, 15, reply_frame(FETCH, 15, replace(reply, batches=()))[4:])
    assert isinstance(empty, FetchReply)
    assert (empty.hw, empty.batches) == (3, ())


def test_unknown_topic_id_decodes_to_the_empty_topic() -> None:
    """The machine answers it as an unknown partition; a WireError would close the connection of a whole broker."""
    decoded = received(request_frame(FETCH), {})
    assert isinstance(decoded, Fetch)
    assert (decoded.tp, decoded.topic_id) == ("-3", 77)


def test_corrupt_batch_in_a_fetch_reply_raises_wire_error() -> None:
    reply = FetchReply(9, TP, ErrorCode.NONE, LeaderEpoch(5), Offset(3), (batch_of(sealed(["abc"])),))
    good = reply_frame(FETCH, 15, reply)[4:]
    with pytest.raises(WireError, match="CRC"):
        read_reply(FETCH, 15, good.replace(b"abc", b"abd"))


def test_fetch_reply_for_another_partition_raises_wire_error() -> None:
    reply = FetchReply(9, TP, ErrorCode.NONE, LeaderEpoch(5), Offset(3))
    with pytest.raises(WireError, match="must be for"):
        read_reply(replace(FETCH, tp=topic_partition("orders", 4)), 15, reply_frame(FETCH, 15, reply)[4:])


# --- the documents' layouts ---------------------------------------------------------------------------------------------------


STATE = PartitionState(
    tp=TP,
    leader=BrokerId(1),
    leader_incarnation=Incarnation(11),
    leader_epoch=LeaderEpoch(5),
    isr=(IsrMember(BrokerId(1), Incarnation(11)), IsrMember(BrokerId(2), Incarnation(12))),
    controller_epoch=ControllerEpoch(7),
    zk_version=ZkVersion(9),
    replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    elr=(IsrMember(BrokerId(3), Incarnation(13)),),
    topic_id=TopicId(77),
    offline=(BrokerId(3),),
)
UNREGISTERED = (IsrMember(BrokerId(1), NO_INCARNATION), IsrMember(BrokerId(2), NO_INCARNATION))
COMMAND = LeaderAndIsr(4, BrokerId(1), ControllerEpoch(7), Incarnation(12), init=True, states=(STATE,), new=(TP,))


def test_leader_and_isr_matches_v3() -> None:
    """R-011, R-012, LeaderAndISRRequest of V3: client_id, ack_timeout, isInit, and a map of (topic, partition) to leader,
    leaderEpoc, ISR, zkVersion.
    """
    frame = request_frame(COMMAND, version=0)
    header = b"\x03\xe8" + b"\0\0" + b"\0\0\0\4" + b"\xff\xff"
    key = b"\0\6orders" + b"\0\0\0\3"
    value = b"\0\0\0\1" + b"\0\0\0\5" + b"\0\0\0\2\0\0\0\1\0\0\0\2" + bytes(7) + b"\x09"
    assert frame[4:] == header + b"\0\0\0\1" + bytes(4) + b"\1" + b"\0\0\0\1" + key + value
    bare = PartitionState(
        tp=TP,
        leader=BrokerId(1),
        leader_incarnation=NO_INCARNATION,
        leader_epoch=LeaderEpoch(5),
        isr=UNREGISTERED,
        controller_epoch=ControllerEpoch(-1),
        zk_version=ZkVersion(9),
        replicas=(),
    )
    assert received(frame, {}) == LeaderAndIsr(4, BrokerId(1), ControllerEpoch(-1), NO_INCARNATION, init=True, states=(bare,))
    empty = request_frame(replace(COMMAND, states=(), new=()), version=0)  # for a broker without replicas
    assert empty[14:] == b"\0\0\0\1" + bytes(4) + b"\1" + bytes(4)
    another = replace(STATE, tp=topic_partition("orders", 4))
    both = request_frame(replace(COMMAND, states=(STATE, another)), version=0)
    other_key = b"\0\6orders" + b"\0\0\0\4"
    assert both[14:] == b"\0\0\0\1" + bytes(4) + b"\1" + b"\0\0\0\2" + key + value + other_key + value


def test_leader_and_isr_matches_kip_112() -> None:
    """R-310, KIP-112 "Protocol": is_new_replica at the end of a partition's state; the list of live leaders is empty."""
    frame = request_frame(COMMAND, version=1)
    state = b"\0\6orders" + b"\0\0\0\3" + b"\0\0\0\7" + b"\0\0\0\1" + b"\0\0\0\5" + b"\0\0\0\2\0\0\0\1\0\0\0\2" + b"\0\0\0\x09"
    state += b"\0\0\0\3\0\0\0\1\0\0\0\2\0\0\0\3" + b"\1"
    assert frame[14:] == b"\0\0\0\1" + b"\0\0\0\7" + b"\0\0\0\1" + state + bytes(4)
    sent_state = replace(STATE, leader_incarnation=NO_INCARNATION, isr=UNREGISTERED, elr=(), topic_id=NO_TOPIC_ID, offline=())
    assert received(frame, {}) == LeaderAndIsr(
        4, BrokerId(1), ControllerEpoch(7), NO_INCARNATION, init=False, states=(sent_state,), new=(TP,)
    )
    others = tuple(replace(STATE, tp=topic_partition("t", index)) for index in range(3))
    mixed = replace(COMMAND, states=others, new=(others[0].tp, others[2].tp))
    decoded = received(request_frame(mixed, version=1), {})
    assert isinstance(decoded, LeaderAndIsr)
    assert decoded.new == mixed.new  # each partition has its own
    sender = Sender(addresses={BrokerId(1): ("h", 9)})
    for new in ((), (TP,)):
        assert request_frame(replace(COMMAND, new=new), version=1, sender=sender)[14:].endswith(
            b"\0\0\0\1" + b"\0\0\0\1" + b"\0\1h" + b"\0\0\0\x09"
        )


def test_update_metadata_matches_kip_112() -> None:
    """R-311, KIP-112 "Protocol": offline_replicas at the end of a partition's state."""
    update = UpdateMetadata(4, BrokerId(1), ControllerEpoch(7), Incarnation(12), (BrokerId(2),), (STATE,), full=True, number=3)
    frame = request_frame(update, version=0)
    state = b"\0\6orders" + b"\0\0\0\3" + b"\0\0\0\7" + b"\0\0\0\1" + b"\0\0\0\5" + b"\0\0\0\2\0\0\0\1\0\0\0\2" + b"\0\0\0\x09"
    state += b"\0\0\0\3\0\0\0\1\0\0\0\2\0\0\0\3" + b"\0\0\0\1\0\0\0\3"
    assert frame[14:] == b"\0\0\0\1" + b"\0\0\0\7" + b"\0\0\0\1" + state + b"\0\0\0\1" + b"\0\0\0\2" + bytes(4) + b"\xff\xff"
    sent_state = replace(STATE, leader_incarnation=NO_INCARNATION, isr=UNREGISTERED, elr=(), topic_id=NO_TOPIC_ID)
    assert received(frame, {}) == UpdateMetadata(
        4, BrokerId(1), ControllerEpoch(7), NO_INCARNATION, (BrokerId(2),), (sent_state,)
    )
    just_failed = replace(update, states=(replace(STATE, offline=(BrokerId(2),)),))  # it has not left the ISR yet
    decoded = received(request_frame(just_failed, version=0), {})
    assert isinstance(decoded, UpdateMetadata)
    assert decoded.states[0].offline == (2,)


def test_update_metadata_lists_every_offline_replica() -> None:
    """R-311, KIP-112 "Protocol": offline_replicas is an array; order and number of replicas are kept."""
    offline = (BrokerId(3), BrokerId(1))
    state = replace(STATE, offline=offline)
    update = UpdateMetadata(
        4, BrokerId(1), ControllerEpoch(7), Incarnation(12), (BrokerId(2), BrokerId(3)), (state,), full=True, number=3
    )
    frame = request_frame(update, version=0)
    read = received(frame, {})

    assert b"\0\0\0\2" + b"\0\0\0\3" + b"\0\0\0\1" in frame
    assert isinstance(read, UpdateMetadata)
    assert (read.live_brokers, [state_read.offline for state_read in read.states]) == ((2, 3), [offline])


def test_stop_replica_matches_v3_and_stops_any_epoch() -> None:
    """R-014, StopReplicaRequest of V3: a set of partitions without epochs; decoded with the epoch of a deletion, which no
    replica's epoch exceeds.
    """
    second_tp = topic_partition("orders", 4)
    stops = (
        StopPartition(TP, LeaderEpoch(5), delete=False, topic_id=TopicId(7)),
        StopPartition(second_tp, LeaderEpoch(6), delete=True, topic_id=TopicId(7)),
    )
    frame = request_frame(StopReplica(4, BrokerId(1), ControllerEpoch(7), Incarnation(12), stops), version=0)
    keys = b"\0\6orders" + b"\0\0\0\3" + b"\0\6orders" + b"\0\0\0\4"
    assert frame[14:] == b"\0\0\0\1" + bytes(4) + b"\0\0\0\2" + keys
    any_epoch = tuple(StopPartition(tp, EPOCH_DURING_DELETE, True) for tp in (TP, second_tp))
    expected = StopReplica(4, BrokerId(1), ControllerEpoch(-1), NO_INCARNATION, any_epoch)
    assert received(frame, {}) == expected


def test_v3_responses_have_codes_by_partition_only() -> None:
    """R-013: version_id, then a map from (topic, partition) to an error code."""
    refusal = LeaderAndIsrReply(4, ErrorCode.STALE_CONTROLLER_EPOCH)
    body = reply_frame(COMMAND, 0, refusal)[4:]
    assert body == b"\0\0\0\4" + b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\3" + b"\0\x0b"
    each = ((TP, ErrorCode.STALE_CONTROLLER_EPOCH),)
    assert read_reply(COMMAND, 0, body) == LeaderAndIsrReply(4, ErrorCode.NONE, each)


def test_stop_replica_response_matches_v3() -> None:
    """R-015: version_id, then a map from (topic, partition) to an error code."""
    stop = StopReplica(4, BrokerId(1), ControllerEpoch(7), Incarnation(12), (StopPartition(TP, LeaderEpoch(5), True),))
    reply = StopReplicaReply(4, ErrorCode.NONE, ((TP, ErrorCode.STALE_CONTROLLER_EPOCH),))
    body = reply_frame(stop, 0, reply)[4:]
    assert body == b"\0\0\0\4" + b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\0\0\0\3" + b"\0\x0b"
    assert read_reply(stop, 0, body) == reply


def test_v3_partition_without_a_leader_has_minus_one() -> None:
    """R-012, R-023: the leader of a LeaderAndISR is the int32 -1 if there is none."""
    frame = request_frame(replace(COMMAND, states=(replace(STATE, leader=None),)), version=0)
    command = received(frame, {})
    assert frame[-38:-24] == b"orders" + b"\0\0\0\3" + b"\xff\xff\xff\xff"  # before leaderEpoc, ISR, zkVersion
    assert isinstance(command, LeaderAndIsr)
    assert [state.leader for state in command.states] == [None]


def test_metadata_heartbeat_matches_kip_343() -> None:
    """R-194, R-195: broker_id INT32, incarnation_id INT64, target_state INT8; error_code, error_string, current_state."""
    beat = MetadataHeartbeat(4, BrokerId(1), Incarnation(12), BrokerState.ACTIVE)
    assert request_frame(beat)[14:] == b"\0\0\0\1" + bytes(7) + b"\x0c" + b"\2"
    late = MetadataHeartbeat(4, BrokerId(1), Incarnation(1 << 40), BrokerState.ACTIVE)
    assert request_frame(late)[14:] == b"\0\0\0\1" + b"\0\0\1\0\0\0\0\0" + b"\2"
    reply = MetadataHeartbeatReply(4, ErrorCode.INVALID_INCARNATION_ID, "over", BrokerState.INACTIVE)
    assert reply_frame(beat, 0, reply)[4:] == b"\0\0\0\4" + b"\x03\xe8" + b"\0\4over" + b"\1"
    accepted = MetadataHeartbeatReply(4, ErrorCode.NONE, error_string=None, current_state=BrokerState.STOPPING)
    assert reply_frame(beat, 0, accepted)[4:] == b"\0\0\0\4" + b"\0\0" + b"\xff\xff" + b"\3"


def test_isr_change_matches_kip_343() -> None:
    """R-197: broker_id, incarnation_id, topics of partitions of leader_epoch, partition_index, isr_nodes; results in order."""
    members = STATE.isr
    proposals = tuple(
        IsrProposal(topic_partition(topic, index), LeaderEpoch(5), members, ZkVersion(9), TopicId(77))
        for topic, index in (("a", 0), ("a", 1), ("b", 0), ("a", 2))
    )
    change = IsrChange(4, BrokerId(1), Incarnation(12), proposals)
    frame = request_frame(change, version=0)

    def partition(index: int) -> bytes:
        return b"\0\0\0\5" + index.to_bytes(4, "big") + b"\0\0\0\2\0\0\0\1\0\0\0\2"

    topics = b"\0\1a\0\0\0\2" + partition(0) + partition(1) + b"\0\1b\0\0\0\1" + partition(0) + b"\0\1a\0\0\0\1" + partition(2)
    assert frame[14:] == b"\0\0\0\1" + bytes(7) + b"\x0c" + b"\0\0\0\3" + topics
    sent_changes = tuple(replace(p, isr=UNREGISTERED, zk_version=ZkVersion(-1), topic_id=NO_TOPIC_ID) for p in proposals)
    assert received(frame, {}) == replace(change, changes=sent_changes)
    reply = IsrChangeReply(
        4,
        ErrorCode.NONE,
        message=None,
        results=(IsrResult(ErrorCode.NONE, None, STATE), IsrResult(ErrorCode.INVALID_REQUEST, "x")),
    )
    body = reply_frame(change, 0, reply)[4:]
    assert body == b"\0\0\0\4" + b"\0\0" + b"\xff\xff" + b"\0\0\0\2" + b"\0\0\xff\xff" + b"\0\x2a\0\1x"
    bare = (IsrResult(ErrorCode.NONE), IsrResult(ErrorCode.INVALID_REQUEST, "x"))
    assert read_reply(change, 0, body) == IsrChangeReply(4, ErrorCode.NONE, message=None, results=bare)


def test_isr_change_response_matches_kip_343() -> None:
    """R-198: top_level_error_code INT16, top_level_error_message NULLABLE_STRING; error_code and error_message of each result."""
    change = IsrChange(4, BrokerId(1), Incarnation(12), ())
    results = (IsrResult(ErrorCode.NONE, None), IsrResult(ErrorCode.INVALID_REQUEST, "no"))
    body = reply_frame(change, 0, IsrChangeReply(4, ErrorCode.NOT_CONTROLLER, "b2", results))[4:]

    assert body == b"\0\0\0\4" + b"\0\x29" + b"\0\2b2" + b"\0\0\0\2" + b"\0\0\xff\xff" + b"\0\x2a\0\2no"
    assert read_reply(change, 0, body) == IsrChangeReply(4, ErrorCode.NOT_CONTROLLER, "b2", results)


def test_shrunk_isr_is_in_the_layout_of_kip_343() -> None:
    """R-197: isr_nodes, the last field, are the brokers that should be in the ISR: without the one that leaves."""
    lab = settled_cluster("safe")
    lab.is_held = carries(IsrChange)
    shrink(lab, 4)
    (change,) = [message for _, _, message in lab.in_flight if isinstance(message, IsrChange)]

    assert request_frame(change, version=0).endswith(b"\0\0\0\2" + b"\0\0\0\2" + b"\0\0\0\3")
