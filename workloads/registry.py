"""The list of all workloads by name, with the function that makes each one's clients."""

from collections.abc import Callable

from workloads import admin_storm, create_delete, everything, groups, misuse, produce_consume, transactions
from workloads.client import Process
from workloads.parameters import Parameters

# (draws, parameters) -> processes; the index of a process is its first process number
Factory = Callable[[int, Parameters], tuple[Process, ...]]

OF_SESSIONS = ("transactions", "groups")  # they need transactions and a coordinator of groups, which the reference lacks

WORKLOADS: dict[str, Factory] = {
    "produce-consume": produce_consume.processes,
    "admin-storm": admin_storm.processes,
    "create-delete": create_delete.processes,
    "misuse": misuse.processes,
    "everything": everything.processes,
    "transactions": transactions.processes,
    "groups": groups.processes,
}
