"""The session of an idempotent producer: an id, and the sequence of the next record for each partition (B-66).

The id comes from any broker, asked in turn. A batch keeps its sequence however often it is sent. Once a produce has failed for
good nobody knows whether its records stand in the log, so the session ends: to send on under the same id would leave a gap or say
twice what was said (what Redpanda #3039 did). The next produce begins a session of its own, under another id.
"""

from typing import assert_never

from msgspec import Struct

from reference.client.calls import Misuse
from reference.types import NO_PRODUCER_ID, BrokerId, ProducerId, TopicPartition

ASK_TIMEOUT_MS = 400  # of one request for an id; then the next broker is asked
ASK_BACKOFF_MS = 100  # after an answer that was an error
TIMER = "producer-id"
FORGOTTEN = 7  # batches of one record: further back than a log remembers (reference.log.producers.WINDOW)
NOBODY = 1 << 40  # ids above are given to nobody


class Session(Struct):
    """`asked` is the broker that was last asked for an id; while there is one the timer is armed."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0
    sequences: dict[TopicPartition, int] = {}
    asked: BrokerId | None = None
    correlation: int = 0
    turn: int = 0  # index of the broker to be asked next


def begin(session: Session, producer_id: ProducerId, producer_epoch: int) -> None:
    """An id was given."""
    session.producer_id, session.producer_epoch = producer_id, producer_epoch
    session.sequences = {}
    session.asked, session.correlation = None, 0


def end(session: Session) -> None:
    """Nothing more is sent under this id."""
    session.producer_id = NO_PRODUCER_ID
    session.sequences = {}


def next_sequence(session: Session, tp: TopicPartition) -> int:
    """Of the first record that is sent next to this partition."""
    return session.sequences.get(tp, 0)


def told(session: Session, tp: TopicPartition, misuse: Misuse = "") -> tuple[ProducerId, int, int]:
    """The id, its epoch and the sequence that the next batch goes under; or others, that no leader may take."""
    id_, epoch, sequence = session.producer_id, session.producer_epoch, next_sequence(session, tp)
    match misuse:
        case "":
            return id_, epoch, sequence
        case "behind" if sequence > FORGOTTEN:
            return id_, epoch, sequence - FORGOTTEN
        case "gap" | "behind":
            return id_, epoch, sequence + 1
        case "epoch":
            return id_, epoch - 1, sequence
        case "stranger":
            return ProducerId(NOBODY + id_), epoch, sequence + 1
        case _:
            assert_never(misuse)


def acknowledged(session: Session, tp: TopicPartition, records: int) -> None:
    """So many records stand in the log."""
    session.sequences[tp] = next_sequence(session, tp) + records
