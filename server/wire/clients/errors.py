"""Error codes in answers to clients: those that the broker machine does not know, and replacements for older API versions.

The machine uses Kafka's numbers. The table replaces codes that Kafka does not have or that would mislead a client.
"""

from enum import IntEnum

from reference.errors import ErrorCode


class EdgeError(IntEnum):
    """Codes of Kafka's Errors.java for requests that are refused without asking the broker machine."""

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


_CLIENT_CODES: dict[ErrorCode, ErrorCode] = {
    # Only KIP-343 has this code; Kafka's code for an old incarnation of a broker is STALE_BROKER_EPOCH.
    ErrorCode.INVALID_INCARNATION_ID: ErrorCode.STALE_BROKER_EPOCH,
    # A fenced broker: clients refresh metadata and retry. On BROKER_NOT_AVAILABLE they would give up a produce.
    ErrorCode.BROKER_NOT_AVAILABLE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INCONSISTENT_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def client_code(error: ErrorCode, *, knows_storage_error: bool = True) -> int:
    """The error code sent to a client. APIs older than KAFKA_STORAGE_ERROR (KIP-112) get NOT_LEADER_OR_FOLLOWER instead."""
    if error is ErrorCode.KAFKA_STORAGE_ERROR and not knows_storage_error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return _CLIENT_CODES.get(error, error)
