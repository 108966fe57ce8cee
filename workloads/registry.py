"""The list of all workloads by name, with the function that makes each one's clients."""

from collections.abc import Callable

from workloads import (
    admin_storm,
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
WITH_GROUPS = ("groups", READ_PROCESS_WRITE)
ZOMBIES = "zombies"
SHARE_GROUPS = "share-groups"
OF_SESSIONS = (TRANSACTIONS, *WITH_GROUPS, ZOMBIES, SHARE_GROUPS)

WORKLOADS: dict[str, Factory] = {
    "produce-consume": produce_consume.processes,
    "admin-storm": admin_storm.processes,
    "create-delete": create_delete.processes,
    "misuse": misuse.processes,
    "everything": everything.processes,
    TRANSACTIONS: transactions.processes,
    "groups": groups.processes,
    READ_PROCESS_WRITE: read_process_write.processes,
    ZOMBIES: zombies.processes,
    SHARE_GROUPS: share_groups.processes,
}
