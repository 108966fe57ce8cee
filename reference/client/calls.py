"""The calls of a client and their answers. Only a produce with `retries` is ever sent again.

A call ends with exactly one `Answered`. Its `attempts` counts how often the operation was sent; with 0 the call certainly had no
effect, whatever the error. The harness decides which errors are failures and which leave the outcome unknown.
"""

from typing import Literal

from msgspec import Struct

from reference.errors import ErrorCode
from reference.types import NO_TOPIC_ID, Address, LeaderEpoch, Millis, Offset, TopicId, TopicPartition

# A deliberate mistake with a sequence: skip some, repeat one that is older than the window, use a past producer epoch, or begin
# above 0 under an unknown producer id (B-66).
Misuse = Literal["", "gap", "behind", "epoch", "stranger"]


class _Call(Struct, frozen=True, kw_only=True, tag=True):
    id: int
    tp: TopicPartition


class ProduceCall(_Call, frozen=True, kw_only=True, tag=True):
    """Append `values` to `tp` as one batch. acks: 0 no answer, 1 the leader has it, -1 the ISR has it (R-140).

    `retries`: how often it may be sent again (message.send.max.retries, R-130). `idempotent`: sent in this client's session with
    a producer id; without it each attempt may append a copy. `misuse`: a deliberate mistake, "" for none.
    """

    values: tuple[str, ...]
    acks: int = -1
    retries: int = 0
    idempotent: bool = False
    misuse: Misuse = ""


class PollCall(_Call, frozen=True, kw_only=True, tag=True):
    """Read about `max_records` records of `tp` from `offset` on; the leader may wait `max_wait_ms` for the first one."""

    offset: Offset
    max_records: int = 500
    max_wait_ms: Millis = Millis(100)


class LatestCall(_Call, frozen=True, kw_only=True, tag=True):
    """Ask for the end offset (exclusive) of partition `tp`, up to which consumers may read."""


class EarliestCall(_Call, frozen=True, kw_only=True, tag=True):
    """Ask for the first offset of partition `tp`."""


Call = ProduceCall | PollCall | LatestCall | EarliestCall


class Polled(Struct, frozen=True, array_like=True):
    """One record that a consumer's poll returned."""

    offset: Offset
    value: str
    leader_epoch: LeaderEpoch


class Answered(Struct, frozen=True, kw_only=True, tag=True):
    """The outcome of the client call `id`; `error` is NONE if it succeeded.

    `node` is the broker that answered or, if none did, the last one asked. `offset` is that of the first value (produce; None
    with acks=0), the end offset (latest) or the first one (earliest). `leader_epoch` and `hw` are those in the reply. `earlier`
    lists the errors of the attempts before the last one.
    """

    id: int
    error: ErrorCode
    attempts: int = 0
    node: Address | None = None
    topic_id: TopicId = NO_TOPIC_ID  # of the topic in the request, if the client knew its id
    offset: Offset | None = None
    leader_epoch: LeaderEpoch | None = None
    hw: Offset | None = None
    records: tuple[Polled, ...] = ()
    earlier: tuple[ErrorCode, ...] = ()
    found: tuple[str, ...] = ()  # of the admin client: the pending requests
