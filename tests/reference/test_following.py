"""What a follower does with the records that it fetches (V3 §G run), and what it serves: nothing."""

import pytest

from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import EpochEnd, EpochEndReply, Fetch, FetchReply, ListOffsets, ListOffsetsReply, ProduceReply
from reference.types import NO_EPOCH, Address, BrokerId
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.v3 import cluster_in_sync, crash_and_expire, fetch


def reply_to_b3(envelope: Envelope) -> bool:
    """Match the records that the leader sends to b3."""
    return envelope.receiver == "b3" and isinstance(envelope.message, FetchReply)


def lab_with_lagging_follower() -> Lab:
    """b1 leads; b3 holds x, and y and z are on their way to it in one reply; b2 holds all of them."""
    lab = cluster_in_sync()
    lab.is_held = reply_to_b3
    for value in "xyz":
        lab.produce(1, value, correlation=ord(value))
        lab.settle()
    assert lab.deliver(reply_to_b3) == 1
    lab.settle()
    assert lab.values(3) == ["x"]
    return lab


def offset_asked(lab: Lab) -> list[int]:
    """The offset of the fetch request of b3 that is in flight."""
    return [message.offset for source, _, message in lab.in_flight if source == "b3" and isinstance(message, Fetch)]


def test_follower_appends_all_records_and_goes_on() -> None:
    """R-061: append response.messages, r.hw = response.hw, advance the offset, and send the next request."""
    lab = lab_with_lagging_follower()
    lab.deliver(reply_to_b3)

    assert lab.values(3) == ["x", "y", "z"]
    assert lab.partition(3).hw == 1  # of y and z the leader did not know yet that b3 has them
    assert offset_asked(lab) == [3]


def test_follower_takes_the_hw_after_the_records() -> None:
    """R-061: r.hw = response.hw comes after the append: the HW may be that of the last record in the same response."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    lab.produce(1, "x", "y")
    lab.settle()
    lab.is_held = reply_to_b3
    lab.start(3)
    lab.settle()
    lab.deliver(reply_to_b3)

    assert (lab.values(3), lab.partition(3).hw) == (["x", "y"], 2)


@pytest.mark.parametrize("replica", [None, 3], ids=["consumer", "replica"])
def test_follower_serves_no_records(replica: int | None) -> None:
    """R-055, R-131, R-136: NotLeaderException, though the record is committed and the follower has it."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    lab.wait(600)
    assert (lab.values(2), lab.partition(2).hw) == (["x"], 1)
    reply = fetch(lab, 2, 0, replica=replica, epoch=lab.partition(2).leader_epoch)

    epoch = lab.partition(2).leader_epoch
    lab.handle_event(2, Received(Address("b3"), EpochEnd(9, T0, BrokerId(3), epoch, epoch)))
    (ended,) = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, EpochEndReply)]

    assert reply is not None
    assert (reply.error, reply.batches) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, ())
    assert (ended.error, ended.end_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_follower_names_no_offset_to_a_consumer() -> None:
    """R-131: its end of the committed records may be behind that of the leader."""
    lab = cluster_in_sync()
    lab.handle_event(2, Received(Address("c9"), ListOffsets(3, T0, NO_EPOCH)))
    (reply,) = [m for m in lab.client_replies if isinstance(m, ListOffsetsReply)]

    assert (reply.error, reply.offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_follower_appends_no_record_of_a_producer() -> None:
    """R-131: only the leader writes: otherwise the logs would differ."""
    lab = cluster_in_sync()
    lab.produce(2, "x", acks=1)
    answers = [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)]

    assert (answers, lab.values(2)) == ([ErrorCode.NOT_LEADER_OR_FOLLOWER], [])


def test_consumer_reads_up_to_the_hw_only() -> None:
    """R-136: of two records the one that is not committed stays hidden, as long as one of the ISR lacks it."""
    lab = cluster_in_sync()
    lab.produce(1, "x")
    lab.settle()
    lab.is_held = reply_to_b3
    lab.wait(600)
    lab.produce(1, "y")
    lab.settle()
    lab.deliver(reply_to_b3)
    lab.is_held = carries(sender="b3")
    lab.produce(1, "z")
    lab.settle()
    hw = lab.partition(1).hw
    reply = fetch(lab, 1, 0)

    assert reply is not None
    assert 0 < hw < lab.partition(1).log.leo == 3
    assert [batch.base_offset for batch in reply.batches] == list(range(hw))


def test_fetch_between_hw_and_leo_gets_an_empty_set() -> None:
    """R-078: no error and no record, once the time that the consumer would wait is over."""
    lab = cluster_in_sync()
    lab.is_held = carries(receiver="b3")
    lab.produce(1, "x", "y")
    lab.settle()
    assert fetch(lab, 1, 1) is None
    lab.wait(100)
    replies = [reply for reply in lab.client_replies if isinstance(reply, FetchReply)]

    assert [(reply.error, reply.hw, reply.batches) for reply in replies] == [(ErrorCode.NONE, 0, ())]


def test_replica_outside_the_isr_is_not_elected_before_a_member() -> None:
    """R-141, R-144: b3 is alive and assigned before b2, but not in the ISR, and lacks a committed record."""
    lab = Lab(3, replicas=(1, 3, 2))
    lab.wait(3000)
    crash_and_expire(lab, 3)
    lab.produce(1, "x", correlation=7)
    lab.settle()
    lab.is_held = reply_to_b3
    lab.start(3)
    lab.settle()
    assert [
        reply.correlation for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.error is ErrorCode.NONE
    ] == [7]
    crash_and_expire(lab, 1)

    assert (lab.leaders(), lab.values(2)) == ([2], ["x"])
    assert BrokerId(3) in [live.broker for live in lab.nodes[2].state.controller.live]
