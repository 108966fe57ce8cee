"""What a sequential object is: a first state, a step, and which operations only look.

States are hashable values. `step` gives the state after a call, or `ILLEGAL` where the object would not have answered so. A
call whose outcome is unknown has the result `UNKNOWN`, which fits every answer. `observes` says that a call never changes any
state in which it is legal: the search takes such a call as soon as it fits, and one whose outcome is unknown needs no place.
`key` splits a history into parts that are objects of their own. `refusal` says why a call is none of this object.
"""

from collections.abc import Hashable
from typing import Protocol, runtime_checkable

from history.foreign.step import Call


class Illegal:
    """The object would not have answered so."""

    def __repr__(self) -> str:
        return "ILLEGAL"


ILLEGAL = Illegal()
State = Hashable


class Model(Protocol):
    """A sequential object."""

    name: str
    claim: str  # what it does, for documents and `--help`

    def initial(self) -> State:
        """The state before the first call."""

    def step(self, state: State, call: Call) -> State | Illegal:
        """The state after `call`."""

    def observes(self, call: Call) -> bool:
        """Whether it leaves every state as it is."""

    def key(self, call: Call) -> Hashable:
        """The object that the call is about; None where there is but one."""

    def refusal(self, call: Call) -> str | None:
        """Why this is no call of the model."""

    def says_nothing(self, call: Call) -> bool:
        """Whether it succeeded but holds no evidence, as a read without a value in Knossos's histories."""


@runtime_checkable
class Foresees(Model, Protocol):
    """A model that can tell early that an observation will never fit."""

    def leads(self, state: State, call: Call) -> bool:
        """Whether `call`, which observes, is legal in `state` or may become so by calls that do not `helps` it."""

    def helps(self, other: Call, call: Call) -> bool:
        """Whether `call` may become legal by `other`, whatever the state before it was."""
