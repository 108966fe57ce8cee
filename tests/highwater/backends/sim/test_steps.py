"""Simulated brokers do what the tables of steps say: each change of a step has a row with its state, next and function."""

import sys
from collections.abc import Iterator
from enum import StrEnum

import pytest
from msgspec import Struct

from highwater.backends.sim.backend import SimBackend
from highwater.plans.derive import derive
from highwater.rig.backend import Provenance
from reference.broker.broker import Broker
from reference.controller.context import AdminProcedure, Agent, Controller, DirEvents, Listing, Move, StateChange
from reference.replica.partition import Follower, IsrChange
from tests.tidy import steps

HOLDERS: tuple[type[Struct], ...] = (
    *(AdminProcedure, Agent, Broker, Controller, DirEvents, Follower, IsrChange, Listing, Move, StateChange),
)
# Protocols whose variants take other ways, and workloads that move, delete and elect.
RUNS = (
    ("safe", 3, "everything"),
    ("safe", 11, "admin-storm"),
    ("v3", 5, "admin-storm"),
    ("isr-current", 2, "produce-consume"),
    ("reassignment-by-requests", 7, "admin-storm"),
    ("reassign-ar-first", 8, "admin-storm"),
    ("no-broker-incarnation", 9, "create-delete"),
    ("kip279", 10, "produce-consume"),
)
Change = tuple[StrEnum, StrEnum, str]  # before, after, by


@pytest.fixture
def changes() -> Iterator[dict[Change, int]]:
    """Counts each change of a step from now on."""
    found: dict[Change, int] = {}
    first = {holder: holder.__setattr__ for holder in HOLDERS}

    def recorded(self: Struct, name: str, value: object) -> None:
        before = getattr(self, name) if name in steps.ATTRIBUTES else None
        first[type(self)](self, name, value)
        if isinstance(before, StrEnum) and isinstance(value, StrEnum) and before is not value:
            frame = sys._getframe(1)
            change = (before, value, f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}")
            found[change] = found.get(change, 0) + 1

    for holder in HOLDERS:
        holder.__setattr__ = recorded  # type: ignore[method-assign,assignment] # for this test
    yield found
    for holder in HOLDERS:
        del holder.__setattr__


@pytest.mark.slow
def test_every_change_of_a_step_has_a_row(changes: dict[Change, int]) -> None:
    for protocol, seed, workload in RUNS:
        plan = derive(seed, protocol=protocol, faults=("all",), profile="beyond", seconds=25, workload=workload)
        SimBackend().perform(plan, Provenance(run_id="test", plan_digest=""))

    rows = {machine: steps.rows(machine) for machine in steps.MACHINES}
    without = [
        (f"{type(before).__name__}: {before} to {after}", by)
        for before, after, by in changes
        if not any(before in row.states and after in row.next and by in row.by for row in rows[type(before)])
    ]
    assert without == []
    assert {type(before) for before, _, _ in changes} == {*steps.MACHINES}
