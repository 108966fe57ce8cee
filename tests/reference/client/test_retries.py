"""A produce that is sent again: when, how often, under which sequence, and what its answer says (R-130, bugs B-66)."""

from reference.client.calls import Answered, EarliestCall, ProduceCall
from reference.client.client import RETRY_BACKOFF_MS, Client, Outputs
from reference.client.session import ASK_BACKOFF_MS, ASK_TIMEOUT_MS
from reference.effects import Send, SetTimer
from reference.errors import ErrorCode
from reference.events import ConnectionLost, Received, TimerFired
from reference.machine import Now
from reference.messages import (
    EARLIEST,
    AnyMessage,
    InitProducerId,
    InitProducerIdReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    PartitionState,
    Produce,
    ProduceReply,
)
from reference.types import (
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Millis,
    Offset,
    ProducerId,
    TopicPartition,
    ZkVersion,
)

TP = TopicPartition("orders-0")
B1, B2 = Address("b1"), Address("b2")
START = Now(Millis(1000), Millis(0))


def routed(leader: int = 1) -> Client:
    """A client that knows the leader."""
    client = Client.boot(Address("c1"), (BrokerId(1), BrokerId(2)), request_timeout_ms=Millis(2000))
    client.start(produce(99, acks=0), now=START)
    learn(client, leader)
    return client


def learn(client: Client, leader: int, epoch: int = 1) -> Outputs:
    states = (PartitionState(TP, BrokerId(leader), NO_INCARNATION, LeaderEpoch(epoch), (), ControllerEpoch(1), ZkVersion(1), ()),)
    return client.handle(Received(B2, MetadataReply(0, (), states)), now=START)


def produce(id: int = 1, acks: int = -1, retries: int = 0, *, idempotent: bool = False, value: str = "v") -> ProduceCall:
    return ProduceCall(id=id, tp=TP, values=(value,), acks=acks, retries=retries, idempotent=idempotent)


def sent(outputs: Outputs) -> list[AnyMessage]:
    return [o.message for o in outputs if isinstance(o, Send)]


def answer(outputs: Outputs) -> Answered | None:
    return next((o for o in outputs if isinstance(o, Answered)), None)


def pause(outputs: Outputs) -> list[str]:
    return [o.name for o in outputs if isinstance(o, SetTimer) and o.lo_ms == RETRY_BACKOFF_MS]


class Broker:
    """Answers the requests of a client as a script says; remembers what it was asked."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: list[Produce] = []

    def begin(self, call: ProduceCall) -> Outputs:
        return self._serve(self.client.start(call, now=START))

    def refuse(self, error: ErrorCode) -> Outputs:
        """The last produce fails; the client goes through its pause and whatever it needs to look up."""
        outputs = self.reply(error)
        for name in pause(outputs):
            outputs += self._serve(self.client.handle(TimerFired(name), now=START))
        return outputs

    def reply(self, error: ErrorCode, offset: int | None = None) -> Outputs:
        message = ProduceReply(self.asked[-1].correlation, TP, error, None if offset is None else Offset(offset), LeaderEpoch(1))
        return self.client.handle(Received(B1, message), now=START)

    def _serve(self, outputs: Outputs) -> Outputs:
        for message in sent(outputs):
            match message:
                case Produce():
                    self.asked.append(message)
                case Metadata():
                    outputs = outputs + self._serve(learn(self.client, 1))
                case InitProducerId(correlation=correlation):
                    id_ = ProducerId(7 + sum(1 for p in self.asked if p.base_sequence == 0))
                    reply = InitProducerIdReply(correlation, ErrorCode.NONE, id_)
                    outputs = outputs + self._serve(self.client.handle(Received(B1, reply), now=START))
                case _:
                    raise AssertionError(message)
        return outputs


def test_a_synchronous_producer_fails_after_its_retries() -> None:
    """R-130: three attempts more, then the caller is told."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    outputs: Outputs = []
    for _ in range(4):
        outputs = broker.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.asked) == 4
    assert answer(outputs) == Answered(
        id=1, error=refused, attempts=4, node=B1, leader_epoch=LeaderEpoch(1), earlier=(refused,) * 3
    )


def test_an_asynchronous_producer_never_learns_of_its_loss() -> None:
    """R-130: with acks=0 the call is answered when it is sent, and sent once."""
    client = routed()
    outputs = client.start(produce(acks=0, retries=3), now=START)
    ended = answer(outputs)

    assert ended is not None
    assert (ended.error, ended.attempts) == (ErrorCode.NONE, 1)
    assert not client.pending
    assert sent(client.handle(ConnectionLost(B1), now=START)) == []


def test_what_cannot_pass_is_not_tried_again() -> None:
    """R-130: the same request would be refused for the same reason."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    ended = answer(broker.reply(ErrorCode.INVALID_REQUEST))

    assert ended is not None
    assert (ended.error, ended.attempts, ended.earlier) == (ErrorCode.INVALID_REQUEST, 1, ())


def test_silence_is_followed_by_another_attempt_while_there_is_time() -> None:
    """R-130: the first answer may have been lost; half of the time is left for the second."""
    broker = Broker(routed())
    outputs = broker.begin(produce(retries=3))
    assert [(o.name, o.hi_ms) for o in outputs if isinstance(o, SetTimer)] == [("call-1", 2000), ("attempt-1", 1000)]
    assert broker.asked[0].timeout_ms == 1000

    late = Now(Millis(2000), Millis(0))
    paused = broker.client.handle(TimerFired("attempt-1"), now=late)
    assert pause(paused) == ["attempt-1"]
    ended = answer(broker.client.handle(TimerFired("call-1"), now=late))

    assert ended is not None
    assert (ended.error, ended.earlier) == (ErrorCode.REQUEST_TIMED_OUT, (ErrorCode.REQUEST_TIMED_OUT,))


def test_a_late_answer_to_an_earlier_attempt_is_not_taken() -> None:
    """U-24: the attempt that counts is the last; the first may be answered though it was overtaken."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    first = broker.asked[0]
    broker.client.handle(TimerFired("attempt-1"), now=START)
    late = ProduceReply(first.correlation, TP, ErrorCode.NONE, Offset(4), LeaderEpoch(1))

    assert answer(broker.client.handle(Received(B1, late), now=START)) is None


def test_an_attempt_after_a_lost_connection_looks_for_the_leader() -> None:
    """R-075, R-133: who is routed to a broker that does not lead yet, or no more, tries again with fresh metadata."""
    client = routed()
    client.start(produce(retries=1), now=START)
    paused = client.handle(ConnectionLost(B1), now=START)

    assert pause(paused) == ["attempt-1"]
    assert [type(m) for m in sent(client.handle(TimerFired("attempt-1"), now=START))] == [Metadata]
    assert [type(m) for m in sent(learn(client, 2, epoch=2))] == [Produce]


# --- idempotence --------------------------------------------------------------------------------------------------------------


def test_a_batch_keeps_its_sequence_through_all_attempts() -> None:
    """B-66: the sequence is what the leader knows it by."""
    broker = Broker(routed())
    broker.begin(produce(1, retries=3, idempotent=True))
    broker.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.reply(ErrorCode.NONE, 0)
    broker.begin(produce(2, retries=3, idempotent=True))

    assert [(p.producer_id, p.base_sequence) for p in broker.asked] == [(7, 0), (7, 0), (7, 1)]


def test_a_failure_ends_the_session() -> None:
    """B-66: whether the batch stands in the log nobody knows; under the same id the next one would leave a gap or repeat it."""
    broker = Broker(routed())
    broker.begin(produce(1, idempotent=True))
    broker.reply(ErrorCode.NONE, 0)
    broker.begin(produce(2, idempotent=True))
    ended = answer(broker.reply(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    broker.begin(produce(3, idempotent=True))

    assert ended is not None
    assert ended.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(p.producer_id, p.base_sequence) for p in broker.asked] == [(7, 0), (7, 1), (8, 0)]


def test_a_call_that_never_got_an_id_was_never_sent() -> None:
    """B-66: without a session there is nothing to be idempotent under."""
    client = routed()
    first = client.start(produce(idempotent=True), now=START)
    second = client.handle(TimerFired("producer-id"), now=START)
    ended = answer(client.handle(TimerFired("call-1"), now=START))

    assert [[type(m) for m in sent(o)] for o in (first, second)] == [[InitProducerId]] * 2
    assert ended is not None
    assert (ended.error, ended.attempts) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert client.handle(TimerFired("producer-id"), now=START) == []


def test_the_next_broker_is_asked_where_one_has_no_ids() -> None:
    """B-66: a broker that is cut off from ZooKeeper says so; the others are not."""
    client = routed()
    (asked,) = [o for o in client.start(produce(idempotent=True), now=START) if isinstance(o, Send)]
    no = InitProducerIdReply(asked.message.correlation, ErrorCode.BROKER_NOT_AVAILABLE)
    (timer,) = client.handle(Received(asked.to, no), now=START)
    again = client.handle(TimerFired("producer-id"), now=START)

    assert timer == SetTimer("producer-id", ASK_BACKOFF_MS, ASK_BACKOFF_MS)
    assert [o.to for o in again if isinstance(o, Send)] != [asked.to]
    assert SetTimer("producer-id", ASK_TIMEOUT_MS, ASK_TIMEOUT_MS) in again


# --- offsets ------------------------------------------------------------------------------------------------------------------


def test_a_consumer_asks_for_the_earliest_offset() -> None:
    """R-136: of the leader alone, like everything that it reads."""
    client = routed()
    (asked,) = sent(client.start(EarliestCall(id=1, tp=TP), now=START))
    assert isinstance(asked, ListOffsets)
    reply = ListOffsetsReply(asked.correlation, TP, ErrorCode.NONE, Offset(0), LeaderEpoch(1))
    ended = answer(client.handle(Received(B1, reply), now=START))

    assert asked.timestamp == EARLIEST
    assert ended is not None
    assert ended.offset == 0
