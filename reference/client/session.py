"""The session of an idempotent producer: an id, and the sequence of the next record for each partition (B-66).

The client asks the brokers in turn for an id. A batch keeps its sequence in every attempt. After the last attempt of a produce
failed, its records may or may not be in the log, so the session ends: to go on under the same id would leave a gap or repeat
sequences (as Redpanda #3039 did). The next produce begins another session, under another id.
"""

from typing import assert_never

from msgspec import Struct

from reference.client.calls import Misuse
from reference.types import NO_PRODUCER_ID, BrokerId, ProducerId, TopicPartition

ASK_TIMEOUT_MS = 400  # of one request for an id; then the client asks the next broker
ASK_BACKOFF_MS = 100  # after an error
TIMER = "producer-id"
FORGOTTEN = 7  # batches of one record: more than a log remembers (reference.log.producers.WINDOW)
NOBODY = 1 << 40  # no producer gets an id from here on


class Session(Struct):
    """The id and next sequences of a producer. `asked` is the broker last asked for an id; while set, the timer is armed."""

    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: int = 0
    sequences: dict[TopicPartition, int] = {}  # of the next record; from 0
    asked: BrokerId | None = None
    correlation: int = 0
    turn: int = 0  # index in the bootstrap list of the next broker to ask


def begin(session: Session, producer_id: ProducerId, producer_epoch: int) -> None:
    """Begin a producer session under a new producer id, with sequences from 0."""
    session.producer_id, session.producer_epoch = producer_id, producer_epoch
    session.sequences = {}
    session.asked, session.correlation = None, 0


def end(session: Session) -> None:
    """End the producer session: the next idempotent produce asks for another producer id."""
    session.producer_id = NO_PRODUCER_ID
    session.sequences = {}


def next_batch_ids(session: Session, tp: TopicPartition, misuse: Misuse = "") -> tuple[ProducerId, int, int]:
    """The producer id, epoch and sequence for the next batch; with `misuse`, wrong ones that no leader may accept."""
    id_, epoch, sequence = session.producer_id, session.producer_epoch, session.sequences.get(tp, 0)
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
    """Advance the producer's sequence of the partition by the acknowledged records."""
    session.sequences[tp] = session.sequences.get(tp, 0) + records
