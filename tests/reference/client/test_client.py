"""The client machine: one attempt for each call, routed by the brokers' metadata, answered within its timeout."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.client.calls import Answered, Call, LatestCall, PollCall, Polled, ProduceCall
from reference.client.client import LOOKUP_BACKOFF_MS, LOOKUP_TIMEOUT_MS, Client, Outputs
from reference.effects import CancelTimer, Send, SetTimer
from reference.errors import ErrorCode
from reference.events import AnyEvent, ConnectionLost, Received, TimerFired
from reference.machine import Now
from reference.messages import (
    AnyMessage,
    Batch,
    Fetch,
    FetchReply,
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
    TopicPartition,
    ZkVersion,
)

TP = TopicPartition("orders-0")
OTHER = TopicPartition("orders-1")
B1, B2, B3 = Address("b1"), Address("b2"), Address("b3")
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
START = Now(Millis(1000), Millis(0))


def boot() -> Client:
    return Client.boot(Address("c1"), BROKERS, request_timeout_ms=Millis(2000))


def state(leader: int | None, epoch: int, tp: TopicPartition = TP) -> PartitionState:
    return PartitionState(
        tp,
        None if leader is None else BrokerId(leader),
        NO_INCARNATION,
        LeaderEpoch(epoch),
        (),
        ControllerEpoch(1),
        ZkVersion(1),
        BROKERS,
    )


def produce(id: int = 1, acks: int = -1) -> ProduceCall:
    return ProduceCall(id=id, tp=TP, values=("p0-0",), acks=acks)


def sends(outputs: Outputs) -> list[tuple[Address, AnyMessage]]:
    return [(output.to, output.message) for output in outputs if isinstance(output, Send)]


def answers(outputs: Outputs) -> list[Answered]:
    return [output for output in outputs if isinstance(output, Answered)]


def receive(client: Client, source: Address, message: AnyMessage, *, now: Now = START) -> Outputs:
    return client.handle(Received(source, message), now=now)


def routed(leader: int = 2, epoch: int = 5) -> Client:
    """A client that knows the leader; its next correlation id is 3."""
    client = boot()
    client.start(produce(id=0, acks=0), now=START)
    receive(client, B1, MetadataReply(1, BROKERS, (state(leader, epoch),)))
    return client


# --- finding the leader ----------------------------------------------------------------------------------------------------


def test_first_call_looks_up_the_leader_then_sends_to_it() -> None:
    client = boot()

    lookup = client.start(produce(), now=START)
    outputs = receive(client, B1, MetadataReply(1, BROKERS, (state(2, 5),)), now=Now(Millis(1300), Millis(0)))

    assert sends(lookup) == [(B1, Metadata(1))]
    assert sends(outputs) == [(B2, Produce(2, TP, -1, ("p0-0",), Millis(1700)))]
    assert CancelTimer("metadata") in outputs


def test_metadata_lookup_skips_a_silent_broker() -> None:
    """A bootstrap broker that is down must not use up the whole timeout of the call."""
    client = boot()

    first = client.start(produce(), now=START)
    second = client.handle(TimerFired("metadata"), now=START)

    assert SetTimer("metadata", LOOKUP_TIMEOUT_MS, LOOKUP_TIMEOUT_MS) in first
    assert sends(second) == [(B2, Metadata(2))]


@pytest.mark.parametrize("states", [(), (state(None, 5),), (state(2, 5, OTHER),)])
def test_failed_metadata_lookup_is_repeated_at_another_broker(states: tuple[PartitionState, ...]) -> None:
    client = boot()
    client.start(produce(), now=START)

    unhelpful = receive(client, B1, MetadataReply(1, BROKERS, states))
    outputs_again = client.handle(TimerFired("metadata"), now=START)

    assert unhelpful == [SetTimer("metadata", LOOKUP_BACKOFF_MS, LOOKUP_BACKOFF_MS)]
    assert sends(outputs_again) == [(B2, Metadata(2))]


def test_metadata_lookups_stop_when_no_call_waits() -> None:
    client = boot()
    client.start(produce(), now=START)
    client.handle(TimerFired("call-1"), now=START)

    assert client.handle(TimerFired("metadata"), now=START) == []
    assert client.looking_at is None


def test_refused_connection_delays_the_next_metadata_lookup() -> None:
    """With all brokers down, an immediate lookup at the next one would loop without time passing."""
    client = boot()
    client.start(produce(), now=START)

    refusal = client.handle(ConnectionLost(B1), now=START)

    assert refusal == [SetTimer("metadata", LOOKUP_BACKOFF_MS, LOOKUP_BACKOFF_MS)]


def test_client_ignores_metadata_of_an_older_leader_epoch() -> None:
    """A broker cut off from the controller would otherwise send a consumer back to a deposed leader (KIP-320)."""
    client = routed(leader=2, epoch=5)
    client.start(produce(id=1), now=START)
    receive(client, B2, ProduceReply(3, TP, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    client.start(produce(id=2), now=START)

    behind = receive(client, B2, MetadataReply(4, BROKERS, (state(1, 4),)))
    client.handle(TimerFired("metadata"), now=START)
    current = receive(client, B3, MetadataReply(5, BROKERS, (state(3, 6),)))

    assert sends(behind) == []
    assert [to for to, _ in sends(current)] == [B3]


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH]
)
def test_routing_error_makes_the_next_call_look_up_the_leader(error: ErrorCode) -> None:
    client = routed()
    client.start(PollCall(id=1, tp=TP, offset=Offset(0)), now=START)

    (answer,) = answers(receive(client, B2, FetchReply(3, TP, error, LeaderEpoch(6), Offset(0))))
    after = client.start(PollCall(id=2, tp=TP, offset=Offset(0)), now=START)

    assert (answer.error, answer.node) == (error, B2)
    assert [type(message) for _, message in sends(after)] == [Metadata]


def test_partition_error_keeps_the_cached_leader() -> None:
    client = routed()
    client.start(produce(id=1), now=START)
    receive(client, B2, ProduceReply(3, TP, ErrorCode.NOT_ENOUGH_REPLICAS))

    assert [type(message) for _, message in sends(client.start(produce(id=2), now=START))] == [Produce]


def test_client_asks_the_same_leader_if_metadata_confirms_it() -> None:
    """A timeout does not prove that the leader changed. If the brokers still name it, the client asks it again."""
    client = routed(leader=2, epoch=5)
    client.start(produce(id=1), now=START)
    client.handle(TimerFired("call-1"), now=START)

    lookup = client.start(produce(id=2), now=START)
    confirmed = receive(client, B2, MetadataReply(4, BROKERS, (state(2, 5),)))

    assert [type(message) for _, message in sends(lookup)] == [Metadata]
    assert [to for to, _ in sends(confirmed)] == [B2]


def test_client_uses_a_late_answer_to_an_earlier_lookup() -> None:
    """On a link slower than the lookup's timeout, every answer is late."""
    client = boot()
    client.start(produce(), now=START)
    client.handle(TimerFired("metadata"), now=START)

    assert [to for to, _ in sends(receive(client, B1, MetadataReply(1, BROKERS, (state(3, 5),))))] == [B3]


# --- sending and answering ----------------------------------------------------------------------------------------------


def test_consumer_sends_the_newest_known_leader_epoch() -> None:
    """docs/promise.md VIS-2: without it, a consumer that saw a new leader could read from a deposed one."""
    client = routed(epoch=5)
    first = client.start(PollCall(id=1, tp=TP, offset=Offset(7), max_wait_ms=Millis(50)), now=START)
    receive(client, B2, FetchReply(3, TP, ErrorCode.NONE, LeaderEpoch(6), Offset(7)))
    second = client.start(LatestCall(id=2, tp=TP), now=START)

    assert sends(first) == [
        (
            B2,
            Fetch(
                3,
                TP,
                replica=None,
                incarnation=NO_INCARNATION,
                leader_epoch=LeaderEpoch(5),
                offset=Offset(7),
                max_wait_ms=Millis(50),
                max_records=500,
            ),
        )
    ]
    assert sends(second) == [(B2, ListOffsets(4, TP, LeaderEpoch(6)))]


def test_poll_returns_records_from_the_requested_offset() -> None:
    """The broker sends whole batches; the client drops the records before the requested offset."""
    client = routed()
    client.start(PollCall(id=1, tp=TP, offset=Offset(4)), now=START)
    batches = (Batch(Offset(3), LeaderEpoch(4), ("a", "b")), Batch(Offset(5), LeaderEpoch(5), ("c",)))

    (answer,) = answers(receive(client, B2, FetchReply(3, TP, ErrorCode.NONE, LeaderEpoch(5), Offset(6), batches)))

    assert answer.records == (Polled(Offset(4), "b", LeaderEpoch(4)), Polled(Offset(5), "c", LeaderEpoch(5)))
    assert answer.hw == 6


def test_acknowledged_produce_returns_its_offset() -> None:
    client = routed()
    client.start(produce(), now=START)

    outputs = receive(client, B2, ProduceReply(3, TP, ErrorCode.NONE, Offset(9), LeaderEpoch(5)))

    assert outputs == [
        CancelTimer("call-1"),
        Answered(id=1, error=ErrorCode.NONE, attempts=1, node=B2, offset=Offset(9), leader_epoch=LeaderEpoch(5)),
    ]


def test_end_offset_call_returns_the_offset() -> None:
    client = routed()
    client.start(LatestCall(id=1, tp=TP), now=START)

    (answer,) = answers(receive(client, B2, ListOffsetsReply(3, TP, ErrorCode.NONE, Offset(9), LeaderEpoch(5))))

    assert (answer.error, answer.offset) == (ErrorCode.NONE, 9)


def test_acks_0_call_completes_when_sent_without_an_offset() -> None:
    client = routed()

    outputs = client.start(produce(acks=0), now=START)

    assert len(sends(outputs)) == 1
    assert answers(outputs) == [Answered(id=1, error=ErrorCode.NONE, attempts=1, node=B2)]


def test_connection_closed_after_acks_0_triggers_metadata_lookup() -> None:
    """KAFKA-955: a produce with acks=0 gets no reply, so a broker that does not lead can only close the connection."""
    client = routed()
    client.start(produce(id=1, acks=0), now=START)
    client.handle(ConnectionLost(B2), now=START)

    assert [type(message) for _, message in sends(client.start(produce(id=2, acks=0), now=START))] == [Metadata]


# --- failed calls ------------------------------------------------------------------------------------------------------------


def test_lost_connection_fails_the_calls_in_flight_on_it() -> None:
    client = routed()
    client.start(produce(), now=START)

    elsewhere = client.handle(ConnectionLost(B3), now=START)
    here = client.handle(ConnectionLost(B2), now=START)

    assert elsewhere == []
    assert answers(here) == [Answered(id=1, error=ErrorCode.NETWORK_EXCEPTION, attempts=1, node=B2)]


def test_client_ignores_an_answer_after_the_call_timed_out() -> None:
    client = routed()
    client.start(produce(), now=START)

    timed_out = client.handle(TimerFired("call-1"), now=START)
    late_outputs = receive(client, B2, ProduceReply(3, TP, ErrorCode.NONE, Offset(9), LeaderEpoch(5)))

    assert answers(timed_out) == [Answered(id=1, error=ErrorCode.REQUEST_TIMED_OUT, attempts=1, node=B2)]
    assert late_outputs == []


@pytest.mark.parametrize(
    ("states", "error"),
    [((), ErrorCode.REQUEST_TIMED_OUT), ((state(None, 5),), ErrorCode.LEADER_NOT_AVAILABLE)],
)
def test_call_without_a_leader_fails_with_zero_attempts(states: tuple[PartitionState, ...], error: ErrorCode) -> None:
    client = boot()
    client.start(produce(), now=START)
    receive(client, B1, MetadataReply(1, BROKERS, states))

    assert answers(client.handle(TimerFired("call-1"), now=START)) == [Answered(id=1, error=error, attempts=0)]


def test_client_ignores_an_answer_with_an_unknown_correlation() -> None:
    client = boot()
    client.start(produce(), now=START)

    assert receive(client, B2, ProduceReply(0, TP, ErrorCode.NONE, Offset(1), LeaderEpoch(1))) == []
    assert "1" in client.pending


def test_client_ignores_an_answer_of_another_type() -> None:
    client = routed()
    client.start(produce(), now=START)

    assert receive(client, B2, ListOffsetsReply(3, TP, ErrorCode.NONE, Offset(1))) == []
    assert "1" in client.pending


# --- any order of events -------------------------------------------------------------------------------------


CALLS = (produce, lambda id: PollCall(id=id, tp=OTHER, offset=Offset(0)), lambda id: LatestCall(id=id, tp=TP))
steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "metadata", "reply", "lost", "lookup-timer", "call-timer"]),
        st.integers(0, 40),
        st.sampled_from(list(ErrorCode)),
    ),
    max_size=60,
)


def event_of(step: tuple[str, int, ErrorCode]) -> AnyEvent:
    kind, number, error = step
    match kind:
        case "metadata":
            states = (state(number % 4 or None, number, TP), state(number % 3 or None, number, OTHER))
            return Received(B1, MetadataReply(number, BROKERS, states))
        case "reply":
            replies: list[AnyMessage] = [
                ProduceReply(number, TP, error, Offset(number), LeaderEpoch(number)),
                FetchReply(number, OTHER, error, LeaderEpoch(number), Offset(number)),
                ListOffsetsReply(number, TP, error),
            ]
            return Received(B2, replies[number % 3])
        case "lost":
            return ConnectionLost(Address(f"b{number % 3 + 1}"))
        case "lookup-timer":
            return TimerFired("metadata")
        case _:
            return TimerFired(f"call-{number}")


@settings(max_examples=150, deadline=None)
@given(steps=steps)
def test_client_sends_each_call_once_at_most_and_answers_it_once(steps: list[tuple[str, int, ErrorCode]]) -> None:
    """For any order of events. A second sending would be an attempt that is missing from the history."""
    client = boot()
    started: list[Call] = []
    outputs: list[Any] = []
    for step in steps:
        if step[0] == "start":
            started.append(CALLS[step[1] % 3](len(started)))
            outputs += client.start(started[-1], now=START)
        else:
            outputs += client.handle(event_of(step), now=START)
        waits = any(pending.leader is None for pending in client.pending.values())
        assert client.looking_at is not None or not waits
    outputs += [output for call in started for output in client.handle(TimerFired(f"call-{call.id}"), now=START)]

    assert Counter(answer.id for answer in answers(outputs)) == Counter(call.id for call in started)
    operations = [message for _, message in sends(outputs) if not isinstance(message, Metadata)]
    assert len(operations) == sum(answer.attempts for answer in answers(outputs))


@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_client_clone_is_equal_and_independent(steps: list[tuple[str, int, ErrorCode]]) -> None:
    client = boot()
    for id, step in enumerate(steps):
        if step[0] == "start":
            client.start(CALLS[step[1] % 3](id), now=START)
        else:
            client.handle(event_of(step), now=START)
    copy = client.clone()
    before = client.fingerprint()

    assert copy.fingerprint() == before
    copy.start(produce(id=1000), now=START)
    assert client.fingerprint() == before != copy.fingerprint()
