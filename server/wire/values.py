"""What the bodies of messages between nodes are made of: names, codes, the one of a list of one. All else is a WireError."""

from typing import TypeVar

from reference.errors import ErrorCode
from reference.types import TopicPartition, topic_partition
from server.wire.framing import WireError

T = TypeVar("T")


def only(parts: tuple[T, ...]) -> T:
    """The one part that a message between nodes has."""
    if len(parts) != 1:
        raise WireError(f"{len(parts)} parts where nodes send one")
    return parts[0]


def tp_of(topic: str, partition: int) -> TopicPartition:
    """The partition of a topic."""
    if partition < 0:
        raise WireError(f"partition {partition}")
    return topic_partition(topic, partition)


def error_of(code: int) -> ErrorCode:
    """The error of this number."""
    try:
        return ErrorCode(code)
    except ValueError:
        raise WireError(f"error code {code}") from None
