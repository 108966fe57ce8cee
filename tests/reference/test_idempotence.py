"""Repeated batches of an idempotent producer are appended once, also by the next leader (bugs B-66, docs/promise.md ORD-3)."""

import pytest

from reference.config import SAFE, VARIANTS, Variant
from reference.coordination import paths
from reference.coordination.api import Data, GetData, Unknown
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied
from reference.log import producers
from reference.log.producers import WINDOW, Producer
from reference.messages import Batch, InitProducerId, InitProducerIdReply, Produce, ProduceReply
from reference.types import NO_TOPIC_ID, Address, LeaderEpoch, Millis, Offset, ProducerId
from tests.reference.lab import T0, Lab

C1 = Address("c1")


def cluster_in_sync(variant: Variant = SAFE) -> Lab:
    lab = Lab(3, variant=variant)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def send(lab: Lab, i: int, sequence: int, *values: str, acks: int = -1, id_: int = 7, epoch: int = 0) -> None:
    """Send a batch of an idempotent producer; the reply goes to `client_replies`."""
    produce = Produce(sequence, T0, acks, values, Millis(1000), NO_TOPIC_ID, ProducerId(id_), epoch, sequence)
    lab.handle_event(i, Received(C1, produce))


def replies(lab: Lab) -> list[tuple[ErrorCode, int | None]]:
    return [(reply.error, reply.offset) for reply in lab.client_replies if isinstance(reply, ProduceReply)]


def batch(base: int, sequence: int, *values: str, id_: int = 7, epoch: int = 0) -> Batch:
    return Batch(Offset(base), LeaderEpoch(1), values, producer_id=ProducerId(id_), producer_epoch=epoch, base_sequence=sequence)


def request_producer_id(sequence: int, *values: str, epoch: int = 0) -> Produce:
    return Produce(1, T0, -1, values or ("v",), Millis(1000), NO_TOPIC_ID, ProducerId(7), epoch, sequence)


# --- checks at the leader -----------------------------------------------------------------------------------------------------


def test_repeated_batch_is_acknowledged_but_not_appended_again() -> None:
    """B-66: otherwise a retry after a lost reply writes the record twice. The reply has the first offset."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    send(lab, 1, 0, "a", "b")
    lab.settle()

    send(lab, 1, 0, "a", "b")
    lab.settle()

    assert replies(lab)[1:] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 1)]
    assert lab.values(1) == ["x", "a", "b"]


def test_duplicate_is_acknowledged_no_earlier_than_the_first() -> None:
    """B-66, R-140: the first batch waits for the ISR.

    An earlier reply to the duplicate would acknowledge what may still be lost.
    """
    lab = cluster_in_sync()
    lab.is_held = lambda _: True
    send(lab, 1, 0, "a")
    send(lab, 1, 0, "a")
    assert replies(lab) == []

    lab.is_held = lambda _: False
    lab.settle()

    assert replies(lab) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]


def test_sequence_gap_is_refused() -> None:
    """B-66: the record in between is missing, and a later one must not take its place."""
    lab = cluster_in_sync()
    send(lab, 1, 0, "a")
    send(lab, 1, 2, "c")
    lab.settle()

    assert replies(lab) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None), (ErrorCode.NONE, 0)]
    assert lab.values(1) == ["a"]


@pytest.mark.parametrize(
    ("produce", "verdict"),
    [
        (request_producer_id(3, "d"), ErrorCode.NONE),
        (request_producer_id(4, "e"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (request_producer_id(2, "c"), producers.Written(2, 2, Offset(2))),
        (request_producer_id(1, "b", "c"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (request_producer_id(0, "a", epoch=1), ErrorCode.NONE),
        (request_producer_id(3, "d", epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_sequences_are_checked_before_the_append_as_in_kafka(produce: Produce, verdict: object) -> None:
    """B-66: each refusal comes before the append."""
    known_producers: list[Producer] = []
    for sequence, value in enumerate("abc"):
        producers.wrote(known_producers, batch(sequence, sequence, value))

    assert producers.check(known_producers, produce, complete=True) == verdict


def test_older_producer_epoch_is_refused() -> None:
    """B-66: a producer that restarted its sequences must not be followed by batches that it sent before."""
    known_producers: list[Producer] = []
    producers.wrote(known_producers, batch(0, 0, "a", epoch=1))

    assert producers.check(known_producers, request_producer_id(1, epoch=0), complete=True) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_unknown_producer_must_begin_at_sequence_0() -> None:
    """B-66: otherwise its earlier records were lost, or it writes to another log than it believes."""
    assert producers.check([], request_producer_id(0), complete=True) == ErrorCode.NONE
    assert producers.check([], request_producer_id(5), complete=True) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_leader_remembers_the_last_five_batches_of_a_producer() -> None:
    """B-66: the window is Kafka's. A duplicate from before the window is still distinguished from a gap."""
    known_producers: list[Producer] = []
    for sequence in range(WINDOW + 1):
        producers.wrote(known_producers, batch(sequence, sequence, "v"))

    assert len(known_producers[0].batches) == WINDOW
    assert producers.check(known_producers, request_producer_id(1), complete=True) == producers.Written(1, 1, Offset(1))
    assert producers.check(known_producers, request_producer_id(0), complete=True) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


# --- failover, truncation and restart -----------------------------------------------------------------------------------------


def fail_over(lab: Lab) -> int:
    """Kill b1 and expire its session; return the new leader."""
    lab.crash(1)
    lab.expire(1)
    lab.wait(2000)
    (leader,) = lab.leaders()
    return leader


def test_sequences_survive_a_failover() -> None:
    """B-66: if the reply was lost with the leader, the next leader must recognise the batch."""
    lab = cluster_in_sync()
    send(lab, 1, 0, "a")
    lab.settle()
    leader = fail_over(lab)
    lab.client_replies.clear()

    send(lab, leader, 0, "a")
    send(lab, leader, 1, "b")
    lab.wait(1000)

    assert replies(lab) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    assert lab.values(leader) == ["a", "b"]


def test_sequences_kept_by_the_leader_alone_are_lost_with_it() -> None:
    """B-66, switch idempotence_state_on_failover: the next leader takes the retry for a new batch."""
    lab = cluster_in_sync(VARIANTS["idempotence-of-the-leader"])
    send(lab, 1, 0, "a")
    lab.settle()
    leader = fail_over(lab)

    send(lab, leader, 0, "a")
    lab.wait(1000)

    assert lab.values(leader) == ["a", "a"]


def test_without_idempotence_every_attempt_is_appended() -> None:
    """B-66, switch idempotence: 0.8 has no sequences, so a retry may write a record twice."""
    lab = cluster_in_sync(VARIANTS["no-idempotence"])
    for _ in range(2):
        send(lab, 1, 0, "a")
        lab.settle()

    assert lab.values(1) == ["a", "a"]
    assert [reply.offset for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [0, 1]


def test_truncation_removes_the_sequences_with_the_records() -> None:
    """B-66: a truncated batch must be accepted when it is sent again."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: envelope.receiver == "b1" or envelope.sender == "b1"
    send(lab, 1, 0, "a")
    lab.cut_off_from_zk.add(1)
    lab.expire(1)
    lab.wait(4000)
    leader = next(i for i in lab.leaders() if i != 1)
    assert lab.partition(1).log.producers != []
    lab.is_held = lambda _: False
    lab.cut_off_from_zk.discard(1)
    lab.crash(1)
    lab.start(1)
    lab.wait(3000)

    assert lab.partition(1).log.producers == []
    send(lab, leader, 0, "a")
    lab.wait(1000)
    assert lab.values(1) == lab.values(leader) == ["a"]


def test_restarted_broker_rebuilds_sequences_from_its_log() -> None:
    """B-66: they are rebuilt from the batches at recovery."""
    lab = cluster_in_sync()
    send(lab, 1, 0, "a", "b")
    lab.settle()
    before = lab.partition(1).log.producers
    lab.crash(1)
    lab.expire(1)
    lab.start(1)

    assert lab.partition(1).log.producers == before != []


# --- producer ids -------------------------------------------------------------------------------------------------------------


def producer_ids(lab: Lab) -> list[int]:
    return [
        reply.producer_id
        for reply in lab.client_replies
        if isinstance(reply, InitProducerIdReply) and reply.error is ErrorCode.NONE
    ]


def test_no_producer_id_is_assigned_twice() -> None:
    """B-66: each of two producers with one id would have its records taken for duplicates of the other's."""
    lab = cluster_in_sync()
    for i in (1, 2, 1, 3):
        lab.handle_event(i, Received(C1, InitProducerId(1)))
    lab.crash(1)
    lab.expire(1)
    lab.start(1)
    lab.wait(2000)
    lab.handle_event(1, Received(C1, InitProducerId(1)))

    assert producer_ids(lab) == [0, 1000, 1, 2000, 3000]
    (block,), _ = lab.zk.submit(lab.admin, (GetData(paths.PRODUCER_IDS),))
    assert isinstance(block, Data)
    assert block.data == b'{"version":1,"broker":1,"block_start":"3000","block_end":"3999"}'


def test_broker_that_cannot_reserve_producer_ids_refuses() -> None:
    """B-66: it does not know whether it owns the block, so it assigns no id of it. The client asks another broker."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, Received(C1, InitProducerId(1)))
    lab.handle_event(1, ZkReplied(lab.nodes[1].state.broker.producer_ids.request, (Unknown(),)))

    assert lab.client_replies == [InitProducerIdReply(1, ErrorCode.BROKER_NOT_AVAILABLE)]


# --- acks=0 -------------------------------------------------------------------------------------------------------------------


def test_acks_0_produce_to_a_non_leader_closes_the_connection() -> None:
    """B-65, KAFKA-955: only the closed connection tells that producer to look up the leader."""
    lab = cluster_in_sync()
    lab.produce(2, "a", acks=0)
    assert lab.disconnected == [C1]

    silent = cluster_in_sync(VARIANTS["v3"])
    silent.produce(2, "a", acks=0)
    assert (silent.disconnected, silent.client_replies) == ([], [])
