"""What an idempotent producer sends again is appended once, whoever leads by then (bugs B-66, docs/promise.md ORD-3)."""

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


def full(variant: Variant = SAFE) -> Lab:
    lab = Lab(3, variant=variant)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def send(lab: Lab, i: int, sequence: int, *values: str, acks: int = -1, id_: int = 7, epoch: int = 0) -> None:
    """A batch of an idempotent producer; answers stay in `inbox`."""
    produce = Produce(sequence, T0, acks, values, Millis(1000), NO_TOPIC_ID, ProducerId(id_), epoch, sequence)
    lab.tell(i, Received(C1, produce))


def replies(lab: Lab) -> list[tuple[ErrorCode, int | None]]:
    return [(m.error, m.offset) for m in lab.inbox if isinstance(m, ProduceReply)]


def batch(base: int, sequence: int, *values: str, id_: int = 7, epoch: int = 0) -> Batch:
    return Batch(Offset(base), LeaderEpoch(1), values, producer_id=ProducerId(id_), producer_epoch=epoch, base_sequence=sequence)


def ask(sequence: int, *values: str, epoch: int = 0) -> Produce:
    return Produce(1, T0, -1, values or ("v",), Millis(1000), NO_TOPIC_ID, ProducerId(7), epoch, sequence)


# --- at the leader ------------------------------------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_answered_with_its_offset_and_not_appended() -> None:
    """B-66: else a retry after a lost answer leaves the record twice."""
    lab = full()
    lab.produce(1, "x")
    send(lab, 1, 0, "a", "b")
    lab.settle()

    send(lab, 1, 0, "a", "b")
    lab.settle()

    assert replies(lab)[1:] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 1)]
    assert lab.values(1) == ["x", "a", "b"]


def test_a_duplicate_is_acknowledged_no_sooner_than_the_first() -> None:
    """B-66, R-140: the first waits for the ISR; an answer to the second at once would acknowledge what may yet be lost."""
    lab = full()
    lab.held = lambda _: True
    send(lab, 1, 0, "a")
    send(lab, 1, 0, "a")
    assert replies(lab) == []

    lab.held = lambda _: False
    lab.settle()

    assert replies(lab) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]


def test_a_gap_in_the_sequence_is_refused() -> None:
    """B-66: the record in between is missing; what follows it must not stand in its place."""
    lab = full()
    send(lab, 1, 0, "a")
    send(lab, 1, 2, "c")
    lab.settle()

    assert replies(lab) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None), (ErrorCode.NONE, 0)]
    assert lab.values(1) == ["a"]


@pytest.mark.parametrize(
    ("produce", "verdict"),
    [
        (ask(3, "d"), ErrorCode.NONE),
        (ask(4, "e"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ask(2, "c"), producers.Written(2, 2, Offset(2))),
        (ask(1, "b", "c"), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (ask(0, "a", epoch=1), ErrorCode.NONE),
        (ask(3, "d", epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_sequences_are_judged_as_by_kafka(produce: Produce, verdict: object) -> None:
    """B-66: each refusal comes before the append."""
    known: list[Producer] = []
    for sequence, value in enumerate("abc"):
        producers.wrote(known, batch(sequence, sequence, value))

    assert producers.check(known, produce, complete=True) == verdict


def test_an_older_epoch_of_a_producer_is_refused() -> None:
    """B-66: a producer that began its sequences anew must not be followed by what it sent before."""
    known: list[Producer] = []
    producers.wrote(known, batch(0, 0, "a", epoch=1))

    assert producers.check(known, ask(1, epoch=0), complete=True) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_that_nobody_knows_must_begin_at_zero() -> None:
    """B-66: its records were lost, or it writes to another log than it thinks."""
    assert producers.check([], ask(0), complete=True) == ErrorCode.NONE
    assert producers.check([], ask(5), complete=True) == ErrorCode.UNKNOWN_PRODUCER_ID


def test_only_the_last_batches_are_remembered() -> None:
    """B-66: the window is five batches, as Kafka's; behind it a duplicate is still told from a gap."""
    known: list[Producer] = []
    for sequence in range(WINDOW + 1):
        producers.wrote(known, batch(sequence, sequence, "v"))

    assert len(known[0].batches) == WINDOW
    assert producers.check(known, ask(1), complete=True) == producers.Written(1, 1, Offset(1))
    assert producers.check(known, ask(0), complete=True) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


# --- with the log -------------------------------------------------------------------------------------------------------------


def fail_over(lab: Lab) -> int:
    """b1 is gone; who leads now."""
    lab.crash(1)
    lab.expire(1)
    lab.wait(2000)
    (leader,) = lab.leaders()
    return leader


def test_sequences_survive_a_failover() -> None:
    """B-66: the answer was lost with the leader; the next one must know the batch."""
    lab = full()
    send(lab, 1, 0, "a")
    lab.settle()
    leader = fail_over(lab)
    lab.inbox.clear()

    send(lab, leader, 0, "a")
    send(lab, leader, 1, "b")
    lab.wait(1000)

    assert replies(lab) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]
    assert lab.values(leader) == ["a", "b"]


def test_sequences_of_the_leader_alone_die_with_it() -> None:
    """B-66, switch idempotence_state_on_failover: the retry is taken for a new batch."""
    lab = full(VARIANTS["idempotence-of-the-leader"])
    send(lab, 1, 0, "a")
    lab.settle()
    leader = fail_over(lab)

    send(lab, leader, 0, "a")
    lab.wait(1000)

    assert lab.values(leader) == ["a", "a"]


def test_without_idempotence_every_attempt_leaves_a_record() -> None:
    """B-66, switch idempotence: 0.8 knows no sequences, and a retry may leave a record twice."""
    lab = full(VARIANTS["no-idempotence"])
    for _ in range(2):
        send(lab, 1, 0, "a")
        lab.settle()

    assert lab.values(1) == ["a", "a"]
    assert [reply.offset for reply in lab.inbox if isinstance(reply, ProduceReply)] == [0, 1]


def test_a_truncation_takes_the_sequences_with_the_records() -> None:
    """B-66: a batch that was cut off must be taken when it comes again."""
    lab = full()
    lab.held = lambda letter: letter[1] == "b1" or letter[0] == "b1"
    send(lab, 1, 0, "a")
    lab.muted.add(1)
    lab.expire(1)
    lab.wait(4000)
    leader = next(i for i in lab.leaders() if i != 1)
    assert lab.partition(1).log.producers != []
    lab.held = lambda _: False
    lab.muted.discard(1)
    lab.crash(1)
    lab.start(1)
    lab.wait(3000)

    assert lab.partition(1).log.producers == []
    send(lab, leader, 0, "a")
    lab.wait(1000)
    assert lab.values(1) == lab.values(leader) == ["a"]


def test_a_restarted_broker_finds_the_sequences_in_its_log() -> None:
    """B-66: they are rebuilt from the batches at recovery."""
    lab = full()
    send(lab, 1, 0, "a", "b")
    lab.settle()
    before = lab.partition(1).log.producers
    lab.crash(1)
    lab.expire(1)
    lab.start(1)

    assert lab.partition(1).log.producers == before != []


# --- producer ids -------------------------------------------------------------------------------------------------------------


def ids(lab: Lab) -> list[int]:
    return [m.producer_id for m in lab.inbox if isinstance(m, InitProducerIdReply) and m.error is ErrorCode.NONE]


def test_no_producer_id_is_given_twice() -> None:
    """B-66: two producers of one id would take each other's records for their own."""
    lab = full()
    for i in (1, 2, 1, 3):
        lab.tell(i, Received(C1, InitProducerId(1)))
    lab.crash(1)
    lab.expire(1)
    lab.start(1)
    lab.wait(2000)
    lab.tell(1, Received(C1, InitProducerId(1)))

    assert ids(lab) == [0, 1000, 1, 2000, 3000]
    (block,), _ = lab.zk.submit(lab.admin, (GetData(paths.PRODUCER_IDS),))
    assert isinstance(block, Data)
    assert block.data == b'{"version":1,"broker":1,"block_start":"3000","block_end":"3999"}'


def test_a_broker_that_cannot_reserve_ids_sends_the_asker_elsewhere() -> None:
    """B-66: whether the block is its own it does not know, so it gives none of it."""
    lab = full()
    lab.muted.add(1)
    lab.tell(1, Received(C1, InitProducerId(1)))
    lab.tell(1, ZkReplied(lab.nodes[1].state.broker.producer_ids.request, (Unknown(),)))

    assert lab.inbox == [InitProducerIdReply(1, ErrorCode.BROKER_NOT_AVAILABLE)]


# --- acks=0 -------------------------------------------------------------------------------------------------------------------


def test_acks_0_to_who_does_not_lead_breaks_the_connection() -> None:
    """B-65, KAFKA-955: it is the only sign by which that producer learns to look for the leader."""
    lab = full()
    lab.produce(2, "a", acks=0)
    assert lab.hung_up == [C1]

    silent = full(VARIANTS["v3"])
    silent.produce(2, "a", acks=0)
    assert (silent.hung_up, silent.inbox) == ([], [])
