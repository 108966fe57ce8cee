"""The list of all workloads by name, with the function that makes each one's clients."""

from collections.abc import Callable

from workloads import (
    admin_storm,
    compacted,
    create_delete,
    everything,
    groups,
    misuse,
    produce_consume,
    read_process_write,
    share_groups,
    transactions,
    zombies,
)
from workloads.client import Process
from workloads.parameters import Parameters

# (draws, parameters) -> processes; the index of a process is its first process number
Factory = Callable[[int, Parameters], tuple[Process, ...]]

# They need transactions and a coordinator of groups, which the reference lacks.
TRANSACTIONS = "transactions"
READ_PROCESS_WRITE = "read-process-write"
GROUPS = "groups"
WITH_GROUPS = (GROUPS, READ_PROCESS_WRITE)
ZOMBIES = "zombies"
SHARE_GROUPS = "share-groups"
COMPACTED = "compacted"  # its topics are compacted, which those of the reference never are
OF_SESSIONS = (TRANSACTIONS, *WITH_GROUPS, ZOMBIES, SHARE_GROUPS)

WORKLOADS: dict[str, Factory] = {
    "produce-consume": produce_consume.processes,
    "admin-storm": admin_storm.processes,
    "create-delete": create_delete.processes,
    "misuse": misuse.processes,
    "everything": everything.processes,
    TRANSACTIONS: transactions.processes,
    GROUPS: groups.processes,
    READ_PROCESS_WRITE: read_process_write.processes,
    ZOMBIES: zombies.processes,
    SHARE_GROUPS: share_groups.processes,
    COMPACTED: compacted.processes,
}

_OF_LOGS = ("produce", "fetch", "list-offsets", "metadata")
_OF_PRODUCERS = ("init-producer-id", "add-partitions-to-txn", "produce", "end-txn")
_OF_MEMBERS = ("fetch", "join-group", "sync-group", "heartbeat", "leave-group", "offset-fetch", "find-coordinator")
_REQUESTS: dict[str, tuple[str, ...]] = {
    TRANSACTIONS: (*_OF_PRODUCERS, "end-txn", "fetch"),
    GROUPS: (*_OF_MEMBERS, "offset-commit", "offset-commit", "produce"),
    READ_PROCESS_WRITE: (*_OF_MEMBERS, *_OF_PRODUCERS, "end-txn", "add-offsets-to-txn", "txn-offset-commit"),
    ZOMBIES: (*_OF_PRODUCERS, "end-txn", "produce"),
    SHARE_GROUPS: ("share-fetch", "share-acknowledge", "share-group-heartbeat", "produce"),
}


INTERNAL_TOPICS_OF: dict[str, tuple[str, ...]] = {
    TRANSACTIONS: ("__transaction_state",),
    GROUPS: ("__consumer_offsets",),
    READ_PROCESS_WRITE: ("__consumer_offsets", "__transaction_state"),
    ZOMBIES: ("__transaction_state",),
    SHARE_GROUPS: ("__consumer_offsets", "__share_group_state"),
}
"""The internal topics that a system keeps for the clients of a workload; made with their first request."""


def requests_of(workload: str) -> tuple[str, ...]:
    """The kinds of requests that clients of a workload send (nemesis/messages.py); those that a mistake is likely in twice."""
    return _REQUESTS.get(workload, _OF_LOGS)
