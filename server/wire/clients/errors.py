"""Error codes as clients know them: the machine's, and those that only the edge of a broker answers with.

The machine speaks Kafka's numbers but for what no Kafka has, and for what means something else to a client: one table.
"""

from enum import IntEnum

from reference.errors import ErrorCode


class EdgeError(IntEnum):
    """Kafka's Errors.java, the part that is decided before or beside the machine."""

    MESSAGE_TOO_LARGE = 10
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    UNSUPPORTED_VERSION = 35
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    FETCH_SESSION_ID_NOT_FOUND = 70
    UNSUPPORTED_COMPRESSION_TYPE = 76


_TOLD: dict[ErrorCode, ErrorCode] = {
    # KIP-343's own: to whoever knows Kafka it is an earlier life of a broker.
    ErrorCode.INVALID_INCARNATION_ID: ErrorCode.STALE_BROKER_EPOCH,
    # A fenced broker: look elsewhere, and come again. Clients give up on a produce at BROKER_NOT_AVAILABLE.
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INCONSISTENT_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def told(error: ErrorCode, *, knows_storage_error: bool = True) -> int:
    """The code that a client is told. Versions older than KAFKA_STORAGE_ERROR (KIP-112) are told to look elsewhere."""
    if error is ErrorCode.KAFKA_STORAGE_ERROR and not knows_storage_error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return _TOLD.get(error, error)
