"""The interface of a sequential object model: initial state, step function, and which calls only observe the state.

States are hashable values. `step` returns the state after a call, or `ILLEGAL` if the object would have answered differently. A
call of unknown outcome has the result `UNKNOWN`, which fits every answer. `observes` is true for calls that never change a state
in which they are legal: the search places such a call as soon as it fits, and needs no place for one of unknown outcome. `key`
splits a history into independent objects. `refusal` says why a call is not one of this object.
"""

from collections.abc import Hashable
from typing import Protocol, runtime_checkable

from history.foreign.step import Call


class Illegal:
    """The type of the constant `ILLEGAL`: the object could not have given this answer in this state."""

    def __repr__(self) -> str:
        return "ILLEGAL"


ILLEGAL = Illegal()
State = Hashable


class Model(Protocol):
    """A sequential object, such as a register or a queue, against which calls are judged."""

    name: str
    claim: str  # its behaviour in words, for documents and `--help`

    def initial(self) -> State:
        """Return the object's state before the first call."""

    def step(self, state: State, call: Call) -> State | Illegal:
        """Return the object's state after `call`, or `ILLEGAL` if it could not have given that answer."""

    def observes(self, call: Call) -> bool:
        """Whether the call leaves the object's state unchanged, like a read."""

    def could_fail(self, call: Call) -> bool:
        """Whether some state forbids the answer of the returned call: a write is always right, a read is not."""

    def key(self, call: Call) -> Hashable:
        """Return the key of the object that the call uses; None if there is only one object."""

    def refusal(self, call: Call) -> str | None:
        """Return why the object does not support the call; None if it does."""

    def says_nothing(self, call: Call) -> bool:
        """Whether the call succeeded without a recorded answer, like a read without a value in Knossos's histories."""


@runtime_checkable
class Traced(Model, Protocol):
    """A model whose answers hold values that calls put there, so that a value can be traced to the call that has it."""

    def given(self, call: Call) -> tuple[Hashable, ...]:
        """The values that the call puts into the object."""

    def taken(self, call: Call) -> tuple[Hashable, ...]:
        """The values in the answer of the call that some call must have given, unless they were there at first."""


@runtime_checkable
class Holds(Traced, Protocol):
    """A model whose state is the first one or a value that some call gave, so that the state at any time is one of few."""

    holds_a_given_value: bool


@runtime_checkable
class Sociable(Model, Protocol):
    """A model with answers that only another answer contradicts: alone they are right, whatever the object does."""

    def is_right_alone(self, call: Call) -> bool:
        """Whether the answer of a call is right if no other call on its object certainly returned."""


@runtime_checkable
class Foresees(Model, Protocol):
    """A model that detects early that no later state can explain a read's answer, so that the search gives up sooner."""

    def leads(self, state: State, call: Call) -> bool:
        """Whether `state` explains the answer of the observing `call`, or may come to without a call that `helps` it."""

    def helps(self, other: Call, call: Call) -> bool:
        """Whether the call `other` may make the answer of `call` possible, whatever the state before `other`."""
