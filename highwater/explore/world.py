"""What the search needs of a world: a transition system with finitely many states, with properties and goals.

A state is any hashable value; the search only compares, stores and expands it. A world is deterministic: equal states have equal
successors in equal order, in every process, so a path is stored as the number of the successor taken at each step.

The search keeps only the fingerprint of a state in memory and stores packed states on disk. Other processes must read them: if
packed states are numbers of parts that only this process knows, `parts` translates them.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

State = TypeVar("State")
Action = TypeVar("Action")


class Property(Struct, Generic[State], frozen=True):
    """An invariant. `broken` describes the violation in a state; it returns an empty string if the invariant holds."""

    name: str
    broken: Callable[[State], str]


class Goal(Struct, Generic[State], frozen=True):
    """A situation that some state should reach ("sometimes"), so that the search is not vacuous."""

    name: str
    holds: Callable[[State], bool]


class Parts(Protocol):
    """The parts of a world's states, numbered in the order of their discovery by this process."""

    def __len__(self) -> int:
        """How many parts have a number."""

    def export(self, numbers: Iterable[int]) -> bytes:
        """Encode the parts with these numbers, so that another process or a resumed search can admit them."""

    def admit_parts(self, exported: bytes) -> tuple[int, ...]:
        """The numbers that exported parts have in this process, in their order; unknown parts get new numbers."""


class World(Protocol[State, Action]):
    """A transition system as the search sees it."""

    @property
    def properties(self) -> tuple[Property[State], ...]:
        """All invariants of the world; a search checks those that it is given."""

    @property
    def goals(self) -> tuple[Goal[State], ...]:
        """What a search should reach at least once."""

    @property
    def parts(self) -> Parts | None:
        """The parts that the 32-bit numbers of a packed state name; None if a packed state means the same in every process."""

    @property
    def exact(self) -> bool:
        """Whether fingerprints of different states always differ; otherwise the search prints the odds of a collision."""

    def initial(self) -> State:
        """The initial state."""

    def successors(self, state: State) -> Iterable[tuple[Action, State]]:
        """All possible actions, each with the state after it. Two actions may lead to one state; each counts as a transition."""

    def within(self, state: State) -> bool:
        """Whether a state is within the bounds. States beyond are neither counted nor expanded."""

    def fingerprint(self, state: State) -> bytes:
        """Bytes that are equal for equal states in every process: a hash of 16 bytes, or the whole state if `exact`."""

    def pack(self, state: State) -> bytes:
        """Encode a state for the disk: any bytes if `parts` is None, else 32-bit numbers of parts in native order."""

    def unpack(self, packed: bytes) -> State:
        """Decode a state that this process packed."""

    def kind(self, action: Action) -> str:
        """The kind of an action, such as `crash`; a random walk may leave out kinds."""

    def actor(self, action: Action) -> str:
        """Who performs an action, such as a broker or a link; a random walk may give actors priorities."""
