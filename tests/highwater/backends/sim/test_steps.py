"""Simulated nodes do what the tables of steps say: each change of a step has a row."""

import sys
from enum import StrEnum

import pytest
from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.plans.derive import derive
from highwater.rig.backend import Provenance
from reference.broker.broker import Broker
from reference.client.admin import Admin
from reference.controller.context import AdminProcedure, Agent, Controller, DirEvents, Listing, Move, StateChange
from reference.replica.partition import Follower, IsrChange
from tests.tidy import steps

HOLDERS: tuple[type[Struct], ...] = (
    *(Admin, AdminProcedure, Agent, Broker, Controller, DirEvents, Follower, IsrChange, Listing, Move, StateChange),
)
# Protocols and workloads that take different ways, and together nearly all that have been seen
RUNS = (
    ("safe", 3, "everything"),
    ("reassignment-by-requests", 130, "everything"),
    ("reassignment-by-requests", 7, "admin-storm"),
    ("article", 111, "everything"),
    ("reassign-ar-first", 8, "admin-storm"),
    ("no-startup-epoch-floor", 114, "everything"),
    ("truncate-to-hw-no-incarnation", 101, "everything"),
)

Change = tuple[StrEnum, StrEnum, str]  # the step before, the step after, and the function, as module.function


def changes() -> frozenset[Change]:
    """Every change of a step in the runs."""
    found: set[Change] = set()
    first = {holder: holder.__setattr__ for holder in HOLDERS}

    def recorded(self: Struct, name: str, value: object) -> None:
        before = getattr(self, name) if name in steps.ATTRIBUTES else None
        first[type(self)](self, name, value)
        if isinstance(before, StrEnum) and isinstance(value, StrEnum) and before is not value:
            frame = sys._getframe(1)
            found.add((before, value, f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}"))

    for holder in HOLDERS:
        holder.__setattr__ = recorded  # type: ignore[method-assign,assignment] # for this test
    try:
        for protocol, seed, workload in RUNS:
            plan = derive(seed, protocol=protocol, faults=("all",), profile="beyond", seconds=25, workload=workload)
            SimBackend().perform(plan, Provenance(run_id="test", plan_digest=""))
    finally:
        for holder in HOLDERS:
            del holder.__setattr__
    return frozenset(found)


def _is_of(machine: type[StrEnum], row: steps.Row, change: Change) -> bool:
    before, after, by = change
    return type(before) is machine and before in row.states and after in row.next and by in row.by


@pytest.mark.slow
def test_every_change_of_a_step_has_a_row() -> None:
    rows = [(machine, row) for machine in steps.MACHINES for row in steps.rows(machine)]
    found = changes()
    without = [change for change in found if not any(_is_of(*row, change) for row in rows)]

    assert {type(before) for before, _, _ in found} == {*steps.MACHINES}
    assert sorted(f"{type(before).__name__}: {before} to {after} by {by}" for before, after, by in without) == []
