"""The tables of steps say what the code does: every step, every function that assigns one, and no row without code."""

from enum import StrEnum
from itertools import pairwise

import msgspec
import pytest

from reference.controller.context import ControllerStep, MoveStep
from reference.controller.reassign import move
from tests.tidy import steps

machines = pytest.mark.parametrize("machine", steps.MACHINES, ids=lambda machine: machine.__name__)
COMPUTED = {"move.go_on", "controller_election.resign"}  # the next step of `_ORDER`; the first one, as of a new controller


@machines
def test_table_has_every_step_and_no_other(machine: type[StrEnum]) -> None:
    rows = steps.rows(machine)
    known_states = {step.value for step in machine} | {"new", "gone"}

    assert {state for row in rows for state in (*row.states, *row.next)} <= known_states
    assert {step.value for step in machine} <= {state for row in rows for state in row.states}
    assert {step.value for step in machine} - {next(iter(machine)).value} <= {state for row in rows for state in row.next}


@machines
def test_table_names_who_assigns_each_step(machine: type[StrEnum]) -> None:
    """A row without an assignment promises what nobody does; a row is missing for any other assignment."""
    shown = {(by, step) for row in steps.rows(machine) for by in row.by - COMPUTED for step in row.next - {"gone"}}

    assert {(found.by, found.step.value) for found in steps.assigned() if type(found.step) is machine} == shown


def test_only_two_steps_are_computed() -> None:
    assert {found.by for found in steps.assigned() if found.step is None} == {"move.go_on"}
    assert [row.next for row in steps.rows(ControllerStep) if "controller_election.resign" in row.by] == [{ControllerStep.OFF}]


def test_table_of_moves_has_the_order_of_each_variant() -> None:
    shown = {(a, b) for row in steps.rows(MoveStep) if "move.go_on" in row.by for a in row.states for b in row.next}

    assert shown == {pair for order in move._ORDER.values() for pair in pairwise(order)}


@machines
def test_table_names_functions_that_exist(machine: type[StrEnum]) -> None:
    """Those of `gone` too, which assign no step."""
    assert {by for row in steps.rows(machine) for by in row.by} <= {name for name, _ in steps.functions_by_name()}


def test_no_step_is_compared_with_a_string() -> None:
    assert steps.bare() == []


@machines
def test_steps_are_stored_as_their_words(machine: type[StrEnum]) -> None:
    """Fingerprints and stored machines stay as they were when steps were strings."""
    assert [msgspec.msgpack.encode(step) for step in machine] == [msgspec.msgpack.encode(step.value) for step in machine]
    assert [str(step) for step in machine] == [step.name.lower().replace("_", "-") for step in machine]
