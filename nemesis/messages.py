"""Kinds of messages as plans name them: the requests of Kafka's protocol, by API key (Kafka protocol guide, ApiKeys of 4.1).

The answer to a request of kind "end-txn" has the kind "end-txn-reply".
"""

REPLY = "-reply"

_NAMES = (  # the position is the API key
    "produce",  # 0
    "fetch",
    "list-offsets",
    "metadata",
    "leader-and-isr",
    "stop-replica",
    "update-metadata",
    "controlled-shutdown",
    "offset-commit",
    "offset-fetch",
    "find-coordinator",  # 10
    "join-group",
    "heartbeat",
    "leave-group",
    "sync-group",
    "describe-groups",
    "list-groups",
    "sasl-handshake",
    "api-versions",
    "create-topics",
    "delete-topics",  # 20
    "delete-records",
    "init-producer-id",
    "epoch-end",  # 23, OffsetForLeaderEpoch
    "add-partitions-to-txn",
    "add-offsets-to-txn",
    "end-txn",
    "write-txn-markers",
    "txn-offset-commit",
    "describe-acls",
    "create-acls",  # 30
    "delete-acls",
    "describe-configs",
    "alter-configs",
    "alter-replica-log-dirs",
    "describe-log-dirs",
    "sasl-authenticate",
    "create-partitions",
    "create-delegation-token",
    "renew-delegation-token",
    "expire-delegation-token",  # 40
    "describe-delegation-token",
    "delete-groups",
    "elect-leaders",
    "incremental-alter-configs",
    "alter-partition-reassignments",
    "list-partition-reassignments",
    "offset-delete",
    "describe-client-quotas",
    "alter-client-quotas",
    "describe-user-scram-credentials",  # 50
    "alter-user-scram-credentials",
    "vote",
    "begin-quorum-epoch",
    "end-quorum-epoch",
    "describe-quorum",
    "alter-partition",
    "update-features",
    "envelope",
    "fetch-snapshot",
    "describe-cluster",  # 60
    "describe-producers",
    "broker-registration",
    "broker-heartbeat",
    "unregister-broker",
    "describe-transactions",
    "list-transactions",
    "allocate-producer-ids",
    "consumer-group-heartbeat",
    "consumer-group-describe",
    "controller-registration",  # 70
    "get-telemetry-subscriptions",
    "push-telemetry",
    "assign-replicas-to-dirs",
    "list-config-resources",
    "describe-topic-partitions",
    "share-group-heartbeat",
    "share-group-describe",
    "share-fetch",
    "share-acknowledge",
    "add-raft-voter",  # 80
    "remove-raft-voter",
    "update-raft-voter",
    "initialize-share-group-state",
    "read-share-group-state",
    "write-share-group-state",
    "delete-share-group-state",
    "read-share-group-state-summary",
    "streams-group-heartbeat",
    "streams-group-describe",
    "describe-share-group-offsets",  # 90
    "alter-share-group-offsets",
    "delete-share-group-offsets",
)
KINDS: dict[int, str] = dict(enumerate(_NAMES))
# Controllers and brokers ask each other for these; clients do not.
AMONG_BROKERS = frozenset(
    {
        *("leader-and-isr", "stop-replica", "update-metadata", "controlled-shutdown", "write-txn-markers"),
        *("vote", "begin-quorum-epoch", "end-quorum-epoch", "alter-partition", "envelope", "fetch-snapshot"),
        *("broker-registration", "broker-heartbeat", "allocate-producer-ids", "controller-registration"),
        *("assign-replicas-to-dirs", "initialize-share-group-state", "read-share-group-state", "write-share-group-state"),
        *("delete-share-group-state", "read-share-group-state-summary"),
    }
)
OF_CLIENTS = frozenset(KINDS.values()) - AMONG_BROKERS
# A broker with KRaft fetches the metadata log from the controller by the same API as records from other brokers.
QUORUM_FETCH = "quorum-fetch"


def requests(kinds: tuple[str, ...]) -> frozenset[str]:
    """The kinds of the requests that these messages are, or answer."""
    return frozenset(kind.removesuffix(REPLY) for kind in kinds)
