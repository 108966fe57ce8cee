"""Retries of a produce: when, how often, under which sequence, and what the call reports (R-130, bugs B-66)."""

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
    states = (
        PartitionState(
            TP,
            BrokerId(leader),
            NO_INCARNATION,
            LeaderEpoch(epoch),
            isr=(),
            controller_epoch=ControllerEpoch(1),
            zk_version=ZkVersion(1),
            replicas=(),
        ),
    )
    return client.handle(Received(B2, MetadataReply(0, (), states)), now=START)


def produce(id: int = 1, acks: int = -1, retries: int = 0, *, idempotent: bool = False, value: str = "v") -> ProduceCall:
    return ProduceCall(id=id, tp=TP, values=(value,), acks=acks, retries=retries, idempotent=idempotent)


def messages_in(outputs: Outputs) -> list[AnyMessage]:
    return [output.message for output in outputs if isinstance(output, Send)]


def answer(outputs: Outputs) -> Answered | None:
    return next((output for output in outputs if isinstance(output, Answered)), None)


def pause(outputs: Outputs) -> list[str]:
    return [output.name for output in outputs if isinstance(output, SetTimer) and output.lo_ms == RETRY_BACKOFF_MS]


class Broker:
    """Answers a client's requests as the test says, and records the produce requests."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: list[Produce] = []

    def begin(self, call: ProduceCall) -> Outputs:
        return self._serve(self.client.start(call, now=START))

    def refuse(self, error: ErrorCode) -> Outputs:
        """Fail the last produce, run the client's backoff timer, and serve the lookups that follow."""
        return self._after_pause(self.reply(error))

    def break_off(self) -> Outputs:
        """Break the connection instead of an answer."""
        return self._after_pause(self.client.handle(ConnectionLost(B1), now=START))

    def _after_pause(self, outputs: Outputs) -> Outputs:
        for name in pause(outputs):
            outputs += self._serve(self.client.handle(TimerFired(name), now=START))
        return outputs

    def reply(self, error: ErrorCode, offset: int | None = None) -> Outputs:
        message = ProduceReply(self.asked[-1].correlation, TP, error, None if offset is None else Offset(offset), LeaderEpoch(1))
        return self.client.handle(Received(B1, message), now=START)

    def _serve(self, outputs: Outputs) -> Outputs:
        for message in messages_in(outputs):
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


def test_synchronous_producer_fails_after_its_retries() -> None:
    """R-130: the client tries three more times, then reports the error."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    outputs: Outputs = []
    for _ in range(4):
        outputs = broker.refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.asked) == 4
    assert answer(outputs) == Answered(
        id=1, error=refusal, attempts=4, node=B1, leader_epoch=LeaderEpoch(1), earlier=(refusal,) * 3
    )
    unreachable = Broker(routed())
    unreachable.begin(produce(retries=3))
    for _ in range(4):
        outputs = unreachable.break_off()

    failure = ErrorCode.NETWORK_EXCEPTION
    assert len(unreachable.asked) == 4
    assert answer(outputs) == Answered(id=1, error=failure, attempts=4, node=B1, earlier=(failure,) * 3)


def test_acks_0_producer_never_learns_of_a_lost_batch() -> None:
    """R-130: with acks=0 the call completes when it is sent, and is sent once."""
    client = routed()
    outputs = client.start(produce(acks=0, retries=3), now=START)
    ended = answer(outputs)

    assert ended is not None
    assert (ended.error, ended.attempts) == (ErrorCode.NONE, 1)
    assert not client.pending
    assert messages_in(client.handle(ConnectionLost(B1), now=START)) == []


def test_permanent_error_is_not_retried() -> None:
    """R-130: the broker would refuse the same request for the same reason."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    ended = answer(broker.reply(ErrorCode.INVALID_REQUEST))

    assert ended is not None
    assert (ended.error, ended.attempts, ended.earlier) == (ErrorCode.INVALID_REQUEST, 1, ())


def test_silence_triggers_a_retry_within_the_call_timeout() -> None:
    """R-130: the answer to the first attempt may have been lost. Half of the timeout is left for the second attempt."""
    broker = Broker(routed())
    outputs = broker.begin(produce(retries=3))
    assert [(output.name, output.hi_ms) for output in outputs if isinstance(output, SetTimer)] == [
        ("call-1", 2000),
        ("attempt-1", 1000),
    ]
    assert broker.asked[0].timeout_ms == 1000

    late_now = Now(Millis(2000), Millis(0))
    paused = broker.client.handle(TimerFired("attempt-1"), now=late_now)
    assert pause(paused) == ["attempt-1"]
    ended = answer(broker.client.handle(TimerFired("call-1"), now=late_now))

    assert ended is not None
    assert (ended.error, ended.earlier) == (ErrorCode.REQUEST_TIMED_OUT, (ErrorCode.REQUEST_TIMED_OUT,))


def test_late_answer_to_an_earlier_attempt_is_ignored() -> None:
    """U-24: only the last attempt counts, even if the first one is answered after it."""
    broker = Broker(routed())
    broker.begin(produce(retries=3))
    first = broker.asked[0]
    broker.client.handle(TimerFired("attempt-1"), now=START)
    late_reply = ProduceReply(first.correlation, TP, ErrorCode.NONE, Offset(4), LeaderEpoch(1))

    assert answer(broker.client.handle(Received(B1, late_reply), now=START)) is None


def test_retry_after_a_lost_connection_looks_up_the_leader() -> None:
    """R-075, R-133: the routed broker may not lead yet, or no longer. The client retries with fresh metadata."""
    client = routed()
    client.start(produce(retries=1), now=START)
    paused = client.handle(ConnectionLost(B1), now=START)

    assert pause(paused) == ["attempt-1"]
    assert [type(message) for message in messages_in(client.handle(TimerFired("attempt-1"), now=START))] == [Metadata]
    assert [type(message) for message in messages_in(learn(client, 2, epoch=2))] == [Produce]


# --- idempotence --------------------------------------------------------------------------------------------------------------


def test_batch_keeps_its_sequence_through_all_attempts() -> None:
    """B-66: the leader recognises a repeated batch by its sequence."""
    broker = Broker(routed())
    broker.begin(produce(1, retries=3, idempotent=True))
    broker.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    broker.reply(ErrorCode.NONE, 0)
    broker.begin(produce(2, retries=3, idempotent=True))

    assert [(p.producer_id, p.base_sequence) for p in broker.asked] == [(7, 0), (7, 0), (7, 1)]


def test_failed_produce_ends_the_producer_session() -> None:
    """B-66: the log may or may not hold the batch. Under the same producer id, the next batch would leave a gap or repeat it."""
    broker = Broker(routed())
    broker.begin(produce(1, idempotent=True))
    broker.reply(ErrorCode.NONE, 0)
    broker.begin(produce(2, idempotent=True))
    ended = answer(broker.reply(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    broker.begin(produce(3, idempotent=True))

    assert ended is not None
    assert ended.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(p.producer_id, p.base_sequence) for p in broker.asked] == [(7, 0), (7, 1), (8, 0)]


def test_call_without_a_producer_id_fails_with_zero_attempts() -> None:
    """B-66: an idempotent batch needs a producer id."""
    client = routed()
    first = client.start(produce(idempotent=True), now=START)
    second = client.handle(TimerFired("producer-id"), now=START)
    ended = answer(client.handle(TimerFired("call-1"), now=START))

    assert [[type(message) for message in messages_in(output)] for output in (first, second)] == [[InitProducerId]] * 2
    assert ended is not None
    assert (ended.error, ended.attempts) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert client.handle(TimerFired("producer-id"), now=START) == []


def test_client_asks_the_next_broker_for_a_producer_id() -> None:
    """B-66: a broker that is cut off from ZooKeeper refuses; another one may be connected."""
    client = routed()
    (send,) = [output for output in client.start(produce(idempotent=True), now=START) if isinstance(output, Send)]
    no = InitProducerIdReply(send.message.correlation, ErrorCode.BROKER_NOT_AVAILABLE)
    (timer,) = client.handle(Received(send.to, no), now=START)
    outputs_again = client.handle(TimerFired("producer-id"), now=START)

    assert timer == SetTimer("producer-id", ASK_BACKOFF_MS, ASK_BACKOFF_MS)
    assert [output.to for output in outputs_again if isinstance(output, Send)] != [send.to]
    assert SetTimer("producer-id", ASK_TIMEOUT_MS, ASK_TIMEOUT_MS) in outputs_again


# --- offsets ------------------------------------------------------------------------------------------------------------------


def test_consumer_asks_the_leader_for_the_earliest_offset() -> None:
    """R-136: the leader alone answers, as for all reads of a consumer."""
    client = routed()
    (request,) = messages_in(client.start(EarliestCall(id=1, tp=TP), now=START))
    assert isinstance(request, ListOffsets)
    reply = ListOffsetsReply(request.correlation, TP, ErrorCode.NONE, Offset(0), LeaderEpoch(1))
    ended = answer(client.handle(Received(B1, reply), now=START))

    assert request.timestamp == EARLIEST
    assert ended is not None
    assert ended.offset == 0
