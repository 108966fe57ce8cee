"""Sealed record batches in a log: counted by their header, never divided (Kafka's record batch format v2)."""

import struct

import pytest

from reference.config import SAFE, BrokerConfig
from reference.log.log import Log, append, end_of, read, truncate, without_head
from reference.machine import Ids, Now, Turn
from reference.messages import Batch
from reference.replica.partition import Partition
from reference.replica.partition import truncate as cut
from reference.sealed import HEADER_BYTES, count, in_the_clear, size
from reference.types import NO_INCARNATION, BrokerId, LeaderEpoch, Millis, Offset, TopicPartition

TP = TopicPartition("t-0")


def sealed(records: int, body: bytes = b"") -> bytes:
    """A header that takes `records` offsets, and `body` behind it."""
    return struct.pack(">qiibIhiqqqhii", 0, 49 + len(body), -1, 2, 0, 0, records - 1, 0, 0, -1, -1, -1, records) + body


def batch(base: int, records: int, body: bytes = b"") -> Batch:
    return Batch(Offset(base), LeaderEpoch(0), sealed(records, body))


@pytest.fixture
def turn() -> Turn:
    config = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=())
    return Turn(Now(Millis(0), Millis(0)), Ids(), config, NO_INCARNATION)


def log_of(turn: Turn, *batches: Batch) -> Log:
    log = Log(tp=TP, dir=0)
    append(turn, log, batches)
    return log


def test_encoded_batch_header_gives_the_number_of_offsets() -> None:
    assert len(sealed(1)) == HEADER_BYTES
    assert [count(sealed(n)) for n in (1, 2, 500)] == [1, 2, 500]
    assert end_of(batch(7, 3)) == 10
    assert count(("a", "b")) == 2
    assert size(sealed(2, b"xyz")) == HEADER_BYTES + 3
    with pytest.raises(TypeError):
        in_the_clear(sealed(1))


def test_truncate_inside_an_encoded_batch_removes_the_batch(turn: Turn) -> None:
    log = log_of(turn, batch(0, 2), batch(2, 3))
    truncate(turn, log, Offset(4))
    assert (log.leo, log.batches) == (2, [batch(0, 2)])


def test_truncate_inside_an_encoded_batch_lowers_flushed_and_hw(turn: Turn) -> None:
    """Otherwise the next record at that offset would count as flushed and committed before it is."""
    partition = Partition(tp=TP, log=log_of(turn, batch(0, 2), batch(2, 3)), min_isr=1, before_ack=True)
    partition.flushed = partition.flushing = partition.hw = Offset(5)
    cut(turn, partition, Offset(4), "inside")

    assert (partition.flushed, partition.flushing, partition.hw) == (2, 2, 2)


def test_log_read_returns_whole_encoded_batches_below_limit(turn: Turn) -> None:
    log = log_of(turn, batch(0, 2), batch(2, 3))
    assert read(log, Offset(0), Offset(5), 500) == (batch(0, 2), batch(2, 3))
    assert read(log, Offset(0), Offset(4), 500) == (batch(0, 2),)
    assert read(log, Offset(2), Offset(4), 500) == ()
    assert read(log, Offset(1), Offset(2), 500) == (batch(0, 2),)  # a whole batch: the reader skips the records below its offset


def test_log_read_limits_bytes_after_the_first_batch(turn: Turn) -> None:
    log = log_of(turn, *(batch(n, 1, b"x" * 39) for n in range(4)))
    assert len(read(log, Offset(0), Offset(4), max_records=500, max_bytes=200)) == 2
    assert len(read(log, Offset(0), Offset(4), max_records=500, max_bytes=10)) == 1


def test_follower_keeps_whole_a_batch_that_it_has_in_part() -> None:
    """A sealed batch is never divided."""
    assert without_head((batch(0, 2), batch(2, 3)), Offset(3)) == (batch(2, 3),)
    assert without_head((batch(0, 2), batch(2, 3)), Offset(2)) == (batch(2, 3),)
