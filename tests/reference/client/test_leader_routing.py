"""A client sends each call to the leader of its partition alone, and again while the leader is not ready (R-133, R-075)."""

import pytest

from reference.client.calls import Answered, Call, LatestCall, PollCall, ProduceCall
from reference.client.client import Client, Outputs
from reference.effects import Send, SetTimer
from reference.errors import ErrorCode
from reference.events import Received, TimerFired
from reference.machine import Now
from reference.messages import Metadata, MetadataReply, PartitionState, ProduceReply
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
    broker_address,
)

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
LEADERS = {TopicPartition("t-0"): BrokerId(3), TopicPartition("t-1"): BrokerId(2)}
T0 = TopicPartition("t-0")
START = Now(Millis(1000), Millis(0))


def metadata(leaders: dict[TopicPartition, BrokerId], *, epoch: int = 1) -> Received:
    """Metadata in which all three brokers are replicas of each partition."""
    states = tuple(
        PartitionState(tp, leader, NO_INCARNATION, LeaderEpoch(epoch), (), ControllerEpoch(1), ZkVersion(1), BROKERS)
        for tp, leader in leaders.items()
    )
    return Received(Address("b1"), MetadataReply(0, BROKERS, states))


def receivers(outputs: Outputs) -> list[str]:
    return [output.to for output in outputs if isinstance(output, Send) and not isinstance(output.message, Metadata)]


CALLS: list[Call] = [
    *(ProduceCall(id=1, tp=tp, values=("v",), acks=-1, retries=1) for tp in LEADERS),
    *(PollCall(id=1, tp=tp, offset=Offset(0)) for tp in LEADERS),
    *(LatestCall(id=1, tp=tp) for tp in LEADERS),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{type(call).__name__}-{call.tp}")
def test_client_sends_a_call_to_the_leader_alone(call: Call) -> None:
    """R-133: one message, to the leader of that partition, however many replicas there are; none to the broker asked first."""
    client = Client.boot(Address("c1"), BROKERS, request_timeout_ms=Millis(2000))
    first_outputs = client.start(call, now=START)
    outputs = client.handle(metadata(LEADERS), now=START)

    assert receivers(first_outputs) == []
    leader = broker_address(LEADERS[call.tp])
    assert receivers(outputs) == [leader]
    if isinstance(call, ProduceCall):  # it goes to the leader again
        client.handle(Received(leader, ProduceReply(2, call.tp, ErrorCode.NOT_ENOUGH_REPLICAS)), now=START)
        assert receivers(client.handle(TimerFired("attempt-1"), now=START)) == [leader]


def test_client_finds_the_leader_while_a_broker_is_silent() -> None:
    """R-133: each lookup asks the next broker of the bootstrap list, not the first one again, and soon enough for the call."""
    client = Client.boot(Address("c1"), BROKERS, request_timeout_ms=Millis(2000))
    outputs = client.start(LatestCall(id=1, tp=T0), now=START)
    for _ in range(3):
        outputs += client.handle(TimerFired("metadata"), now=START)

    assert [output.to for output in outputs if isinstance(output, Send)] == ["b1", "b2", "b3", "b1"]
    pauses = [output.hi_ms for output in outputs if isinstance(output, SetTimer) and output.name == "metadata"]
    assert sum(pauses[:3]) < client.request_timeout_ms


@pytest.mark.parametrize("leader", [3, 2])
def test_producer_retries_at_a_leader_that_is_not_ready(leader: int) -> None:
    """R-075: "client side retry logic": it asks for metadata again, and sends again to whom that names, also the same broker."""
    client = Client.boot(Address("c1"), BROKERS, request_timeout_ms=Millis(2000))
    client.start(ProduceCall(id=1, tp=T0, values=("v",), acks=-1, retries=1), now=START)
    client.handle(metadata(LEADERS), now=START)
    refusal = ProduceReply(2, T0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert client.handle(Received(Address("b3"), refusal), now=START)  # it pauses
    outputs_again = client.handle(TimerFired("attempt-1"), now=START)
    sent = client.handle(metadata({T0: BrokerId(leader)}, epoch=2), now=START)

    assert [type(output.message) for output in outputs_again if isinstance(output, Send)] == [Metadata]
    assert receivers(sent) == [f"b{leader}"]
    assert [output for output in sent if isinstance(output, Answered)] == []
