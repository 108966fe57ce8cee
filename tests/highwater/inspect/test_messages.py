"""A message in words: every kind says what a reader of the protocol asks it for."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from highwater.inspect.messages import is_about, message_words
from reference import messages as m
from reference.coordination.api import SetData, Written
from reference.errors import ErrorCode
from reference.types import (
    NO_EPOCH,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    ZkVersion,
    topic_partition,
)

T0, T1 = topic_partition("orders", 0), topic_partition("orders", 1)
B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
NONE, EPOCH = ErrorCode.NONE, LeaderEpoch(2)
FENCED = ErrorCode.FENCED_LEADER_EPOCH
ISR = (m.IsrMember(B1, Incarnation(5)), m.IsrMember(B2, Incarnation(6)))
STATE = m.PartitionState(
    tp=T0,
    leader=B1,
    leader_incarnation=Incarnation(5),
    leader_epoch=EPOCH,
    isr=ISR,
    controller_epoch=ControllerEpoch(4),
    zk_version=ZkVersion(7),
    replicas=(B1, B2, B3),
)
OTHER = m.PartitionState(
    tp=T1,
    leader=None,
    leader_incarnation=Incarnation(0),
    leader_epoch=EPOCH,
    isr=ISR,
    controller_epoch=ControllerEpoch(4),
    zk_version=ZkVersion(8),
    replicas=(B1, B2),
)
STATE_WORDS = "orders-0 leader b1, epoch 2, ISR {b1,b2}, version 7"
OTHER_WORDS = "orders-1 leader none, epoch 2, ISR {b1,b2}, version 8"
BY = "controller b3 of epoch 4"
COMMAND: dict[str, Any] = {"controller": B3, "controller_epoch": ControllerEpoch(4), "broker_incarnation": Incarnation(6)}
BATCHES = (m.Batch(Offset(7), EPOCH, ("a", "b")), m.Batch(Offset(9), EPOCH, ("c",)))
FETCH = m.Fetch(1, T0, B2, Incarnation(6), EPOCH, Offset(7), max_wait_ms=Millis(500), max_records=10)

WORDS: list[tuple[m.AnyMessage, str]] = [
    (FETCH, "orders-0 from offset 7, epoch 2"),
    (
        m.Fetch(
            1,
            T0,
            replica=None,
            incarnation=Incarnation(0),
            leader_epoch=NO_EPOCH,
            offset=Offset(7),
            max_wait_ms=Millis(500),
            max_records=10,
        ),
        "orders-0 from offset 7, for a consumer",
    ),
    (m.FetchReply(1, T0, NONE, EPOCH, Offset(8), BATCHES), "orders-0 records 7 to 9, HW 8, epoch 2"),
    (
        m.FetchReply(1, T0, NONE, EPOCH, Offset(8), diverging=m.Diverging(LeaderEpoch(1), Offset(5))),
        "orders-0 no records, HW 8, epoch 2, epoch 1 ends at 5",
    ),
    (m.FetchReply(1, T0, FENCED, EPOCH, Offset(0)), "orders-0 FENCED_LEADER_EPOCH, no records, HW 0, epoch 2"),
    (m.EpochEnd(1, T0, B2, EPOCH, LeaderEpoch(1)), "orders-0 where does epoch 1 end, epoch 2"),
    (m.EpochEndReply(1, T0, NONE, LeaderEpoch(1), Offset(5)), "orders-0 epoch 1 ends at 5"),
    (m.LeaderAndIsr(1, **COMMAND, init=True, states=(STATE,), new=(T0,)), f"{BY}, its first; {STATE_WORDS}, new replica"),
    (m.LeaderAndIsr(1, **COMMAND, init=False, states=(STATE, OTHER)), f"{BY}; {STATE_WORDS}; {OTHER_WORDS}"),
    (m.LeaderAndIsrReply(1, NONE, ((T0, FENCED),)), "no error; orders-0 FENCED_LEADER_EPOCH"),
    (m.StopReplica(1, **COMMAND, partitions=(m.StopPartition(T0, EPOCH),)), f"{BY}; orders-0 epoch 2, delete"),
    (m.StopReplicaReply(1, NONE), "no error"),
    (m.UpdateMetadata(1, **COMMAND, live_brokers=(B1, B2), states=(STATE,)), f"{BY}, live {{b1,b2}}; {STATE_WORDS}"),
    (m.UpdateMetadataReply(1, FENCED), "FENCED_LEADER_EPOCH"),
    (m.LogInfo(1, **COMMAND, partitions=(T0, T1)), f"{BY}; orders-0 orders-1"),
    (
        m.LogInfoReply(1, NONE, (m.LogEnd(T0, EPOCH, Offset(9), Incarnation(5)),), (T1,)),
        "no error; orders-0 ends at 9, last epoch 2; orders-1 offline",
    ),
    (m.MetadataHeartbeat(1, B2, Incarnation(6), BrokerState.ACTIVE), "b2, incarnation 6, wants to be ACTIVE"),
    (m.MetadataHeartbeatReply(1, NONE, error_string=None, current_state=BrokerState.ACTIVE), "ACTIVE"),
    (
        m.IsrChange(1, B1, Incarnation(5), (m.IsrProposal(T0, EPOCH, ISR, ZkVersion(7)),)),
        "b1, incarnation 5; orders-0 epoch 2, ISR {b1,b2}, version 7",
    ),
    (m.IsrChangeReply(1, NONE, results=(m.IsrResult(NONE, state=STATE),)), f"no error; {STATE_WORDS}"),
    (m.Produce(1, T0, -1, ("a", "b", "c", "d"), Millis(500)), "orders-0 a b c and 1 more, acks=all"),
    (m.ProduceReply(1, T0, NONE, Offset(7), EPOCH), "orders-0 offset 7, epoch 2"),
    (m.InitProducerId(1), ""),
    (m.InitProducerIdReply(1, FENCED), "FENCED_LEADER_EPOCH"),
    (m.ListOffsets(1, T0, EPOCH), "orders-0 end offset, epoch 2"),
    (m.ListOffsetsReply(1, T0, FENCED), "orders-0 FENCED_LEADER_EPOCH"),
    (m.Metadata(1), ""),
    (m.MetadataReply(1, (B1, B2), (STATE,), controller=B3), f"no error, live {{b1,b2}}, controller b3; {STATE_WORDS}"),
]


@pytest.mark.parametrize(("message", "words"), WORDS, ids=lambda value: type(value).__name__)
def test_message_says_what_its_reader_needs(message: m.AnyMessage, words: str) -> None:
    assert message_words(message) == words


def test_every_kind_of_message_has_an_example() -> None:
    assert {type(message) for message, _ in WORDS} == {*get_args(m.AnyMessage)}


def test_message_of_many_partitions_tells_the_one_looked_at() -> None:
    command = m.LeaderAndIsr(1, **COMMAND, init=False, states=(STATE, OTHER))

    assert message_words(command, "orders-1") == f"{BY}; {OTHER_WORDS}"


def test_message_about_other_partitions_alone_is_left_out() -> None:
    command = m.LeaderAndIsr(1, **COMMAND, init=False, states=(OTHER,))

    assert [is_about(message, "orders-0") for message in (command, FETCH, m.Metadata(1))] == [False, True, True]


def test_answer_about_an_offline_replica_is_about_its_partition() -> None:
    reply = next(message for message, _ in WORDS if isinstance(message, m.LogInfoReply))

    assert is_about(replace(reply, ends=(), offline=("orders-0",)), "orders-0")
    assert not is_about(replace(reply, ends=(), offline=("orders-1",)), "orders-0")


def test_operation_of_zookeeper_names_path_and_version() -> None:
    assert message_words(SetData("/brokers/x", b"{}", 3)) == "path /brokers/x, version 3"
    assert message_words(Written(4)) == "version 4"
