"""Simulated nodes do what the tables of steps say: each change of a step has a row, and each row is taken by some run."""

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
# Protocols whose variants take other ways, and workloads that move, delete and elect. Each takes a row that no other does, or
# tells of a variant's way; if an edit of the protocol makes a row rare, look for a seed that takes it.
RUNS = (
    ("safe", 3, "everything"),
    ("safe", 11, "admin-storm"),
    ("v3", 5, "admin-storm"),
    ("isr-current", 2, "produce-consume"),
    ("reassignment-by-requests", 7, "admin-storm"),
    ("reassign-ar-first", 8, "admin-storm"),
    ("no-broker-incarnation", 9, "create-delete"),
    ("kip279", 10, "produce-consume"),
    ("truncate-to-hw-no-incarnation", 101, "everything"),
    ("no-zk-guard", 106, "create-delete"),
    ("article", 111, "everything"),
    ("no-startup-epoch-floor", 114, "everything"),
    ("reassignment-by-requests", 130, "everything"),
)
# Functions with a row that none of these runs takes: an answer is lost, or a broker dies, at one moment of many.
RARE = {
    ("controller.on_answer", "looking"),
    ("leader_election.start", "reading"),  # while it asks for logs: a new StateChange, which has no step before
    ("move._begin_again", "widening"),
    ("isr.on_answer", "superseded"),
    ("startup.learn", "learning-topics"),
    ("admin._forget", "listing"),
    ("admin._answered", "asking"),
    ("admin._answered", "watching"),
}


Change = tuple[StrEnum, StrEnum, str]  # the step before, the step after, and the function, as module.function


@pytest.fixture(scope="module")
def changes() -> frozenset[Change]:
    """Every change of a step in these runs."""
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
def test_every_change_of_a_step_has_a_row(changes: frozenset[Change]) -> None:
    rows = [(machine, row) for machine in steps.MACHINES for row in steps.rows(machine)]
    without = [change for change in changes if not any(_is_of(*row, change) for row in rows)]

    assert sorted(f"{type(before).__name__}: {before} to {after} by {by}" for before, after, by in without) == []


@pytest.mark.slow
def test_every_row_of_a_table_is_taken(changes: frozenset[Change]) -> None:
    """A row that no run takes tells of a state or an event that the code may not know."""
    rows = [(machine, row) for machine in steps.MACHINES for row in steps.rows(machine)]
    changing = [(machine, row) for machine, row in rows if row.next != {"gone"} and row.states != {"new"}]
    idle = [row for machine, row in changing if not any(_is_of(machine, row, change) for change in changes)]

    assert {(by, step) for row in idle for by in row.by for step in row.next} == RARE
