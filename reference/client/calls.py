"""What a client is asked to do, and what it answers. Only a produce with `retries` is ever sent again.

A call ends with exactly one `Answered`. Its `attempts` say how often the operation itself was handed to the network: where it
never was, the call certainly had no effect, whatever the error. The machine does not judge beyond that; what is a failure and
what is merely unknown is decided where histories are written.
"""

from typing import Literal

from msgspec import Struct

from reference.errors import ErrorCode
from reference.types import NO_TOPIC_ID, Address, LeaderEpoch, Millis, Offset, TopicId, TopicPartition

# What a client does wrong with a sequence: leaves some out, says again what was said long ago, goes on under an epoch that has
# passed, or begins in the middle under an id that nobody has seen (B-66)
Misuse = Literal["", "gap", "behind", "epoch", "stranger"]


class ProduceCall(Struct, frozen=True, kw_only=True, tag=True):
    """Append `values` to `tp` as one batch. acks: 0 no answer, 1 the leader has it, -1 the ISR has it (R-140).

    `retries`: how often it may be sent again (message.send.max.retries, R-130). `idempotent`: as part of this client's session
    with a producer id; without it each attempt may leave a record. `misuse`: what is wrong with it, on purpose.
    """

    id: int
    tp: TopicPartition
    values: tuple[str, ...]
    acks: int = -1
    retries: int = 0
    idempotent: bool = False
    misuse: Misuse = ""


class PollCall(Struct, frozen=True, kw_only=True, tag=True):
    """Read up to about `max_records` of `tp` from `offset` on; the leader may wait `max_wait_ms` for something to read."""

    id: int
    tp: TopicPartition
    offset: Offset
    max_records: int = 500
    max_wait_ms: Millis = Millis(100)


class LatestCall(Struct, frozen=True, kw_only=True, tag=True):
    """Up to which offset (exclusive) may a consumer of `tp` read?"""

    id: int
    tp: TopicPartition


class EarliestCall(Struct, frozen=True, kw_only=True, tag=True):
    """From which offset on may a consumer of `tp` read?"""

    id: int
    tp: TopicPartition


Call = ProduceCall | PollCall | LatestCall | EarliestCall


class Polled(Struct, frozen=True, array_like=True):
    """One record as it was read."""

    offset: Offset
    value: str
    leader_epoch: LeaderEpoch


class Answered(Struct, frozen=True, kw_only=True, tag=True):
    """How the call `id` ended; `error` is NONE where it succeeded.

    `node` is the broker that answered or, where none did, the one that was asked. `offset` is that of the first value
    (produce; None with acks=0), the end offset (latest) or the first one (earliest); `leader_epoch` as the leader stated it;
    `hw` as in a fetch reply. `earlier`: how the attempts before the last one failed.
    """

    id: int
    error: ErrorCode
    attempts: int = 0
    node: Address | None = None
    topic_id: TopicId = NO_TOPIC_ID  # of the topic that was asked for, where its id was known
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    hw: Offset | None = None
    records: tuple[Polled, ...] = ()
    earlier: tuple[ErrorCode, ...] = ()
    found: tuple[str, ...] = ()  # of the admin client: the requests that stand there
