"""Checked decoding of values in messages between nodes; an invalid value raises WireError."""

from typing import TypeVar

from reference.errors import ErrorCode
from reference.types import TopicPartition, topic_partition
from server.wire.framing import WireError

T = TypeVar("T")


def only(parts: tuple[T, ...]) -> T:
    """The single element of a list: brokers send each other one topic and one partition in each request."""
    if len(parts) != 1:
        raise WireError(f"a list of topics or partitions in a request between brokers must have 1 element, not {len(parts)}")
    return parts[0]


def tp_of(topic: str, partition: int) -> TopicPartition:
    """Decode a partition of a topic; WireError if the index is negative."""
    if partition < 0:
        raise WireError(f"partition must be at least 0, not {partition}")
    return topic_partition(topic, partition)


def error_of(code: int) -> ErrorCode:
    """Decode an error code; WireError if the number is unknown."""
    try:
        return ErrorCode(code)
    except ValueError:
        raise WireError(f"unknown error code {code}") from None
