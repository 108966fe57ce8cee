"""What all strategies of the search have in common: their budget, their result, and the judgement of a new state."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path as File
from typing import Generic, Literal, Protocol

from msgspec import Struct

from highwater.explore.world import Action, Goal, Property, State, World

End = Literal["violated", "exhausted", "budget", "interrupted"]
Progress = Callable[[int, int], None]  # is told of states and depth
FINGERPRINT_BITS = 128
_STATM = File("/proc/self/statm")
_PAGES_PER_MIB = 256


class Budget(Struct, frozen=True, kw_only=True):
    """Limits at which a search gives up; None means no limit. `walks` limits random walks only."""

    depth: int | None = None
    states: int | None = None
    seconds: float | None = None
    memory_mib: int | None = None  # of all its processes
    walks: int | None = None


class Violation(Struct, Generic[Action], frozen=True):
    """The first state in which a property is broken: why, and the actions that lead to it."""

    name: str
    wrong: str
    path: tuple[Action, ...]


class Result(Struct, Generic[Action], frozen=True, kw_only=True):
    """How a search ended.

    `violated`: `violations` holds the first one of each broken property. After `budget` and `interrupted` (Ctrl-C) unexplored
    states are unproven; `folder` is the place of a search that can be resumed.

    `states` counts distinct states, `transitions` the actions performed, `depth` is that of the deepest state, `frontier` counts
    the states that were not expanded, `goals` are the names of the goals that were reached.
    """

    end: End
    stopped_by: str = ""
    violations: tuple[Violation[Action], ...] = ()
    states: int
    transitions: int
    depth: int
    frontier: int
    beyond: int  # transitions to states beyond the bounds
    seconds: float
    goals: tuple[str, ...] = ()
    memory_mib: int = 0  # of all processes of the search at its end
    collision_odds: float = 0.0  # that two of the states had one fingerprint, so that one of them was not expanded
    folder: str = ""

    @property
    def wrong(self) -> str:
        """Why the first broken property is broken; empty if none is."""
        return self.violations[0].wrong if self.violations else ""

    @property
    def path(self) -> tuple[Action, ...]:
        """The actions that lead to the first violation."""
        return self.violations[0].path if self.violations else ()


class Strategy(Protocol[Action]):
    """One way to search a world."""

    def run(self, budget: Budget, progress: Progress) -> Result[Action]:
        """Search until a property is broken, all states are explored, the budget is used up or Ctrl-C is pressed."""


class Judge(Generic[State]):
    """Judges each new state once: which goals it reaches and which properties it breaks, each for the first time."""

    def __init__(self, properties: tuple[Property[State], ...], goals: tuple[Goal[State], ...]) -> None:
        self._properties = list(properties)
        self._goals = list(goals)
        self.reached: list[str] = []

    def newly_broken(self, state: State) -> list[tuple[str, str]]:
        """The properties that this state is the first to break: (name, why)."""
        if self._goals:
            self._note_goals(state)
        broken = []
        for property_ in self._properties:
            wrong = property_.broken(state)
            if wrong:
                broken.append((property_.name, wrong))
        for name, _ in broken:
            self._properties = [property_ for property_ in self._properties if property_.name != name]
        return broken

    def look_no_longer_for(self, reached: tuple[str, ...], broken: tuple[str, ...]) -> None:
        """Strike out the goals and properties that an earlier part of the search found reached and broken."""
        self.reached = list(reached)
        self._goals = [goal for goal in self._goals if goal.name not in reached]
        self._properties = [property_ for property_ in self._properties if property_.name not in broken]

    def move_to_world(self, properties: tuple[Property[State], ...], goals: tuple[Goal[State], ...]) -> None:
        """Judge the states of another copy of the world, by the properties and goals of these that are still looked for."""
        names = [property_.name for property_ in self._properties] + [goal.name for goal in self._goals]
        self._properties = [property_ for property_ in properties if property_.name in names]
        self._goals = [goal for goal in goals if goal.name in names]

    def _note_goals(self, state: State) -> None:
        """Note the goals that this state is the first to reach."""
        for goal in list(self._goals):
            if goal.holds(state):
                self._goals.remove(goal)
                self.reached.append(goal.name)


def limit_reached(budget: Budget, *, states: int, seconds: float, memory_mib: int) -> str:
    """The limit that a search has reached, in words; empty if none."""
    if budget.states is not None and states >= budget.states:
        return f"{budget.states} states"
    if budget.seconds is not None and seconds >= budget.seconds:
        return f"{budget.seconds:g} seconds"
    if budget.memory_mib is not None and memory_mib >= budget.memory_mib:
        return f"{budget.memory_mib} MiB of memory"
    return ""


def collision_odds(world: World[State, Action], states: int) -> float:
    """The odds that two of so many states have one fingerprint (at most; the birthday bound)."""
    return 0.0 if world.exact else states * (states - 1) / 2 / 2**FINGERPRINT_BITS


@contextmanager
def few_collections() -> Iterator[None]:
    """Let the garbage collector look seldom: a search makes millions of tuples that live, and next to no cycles."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def resident_mib() -> int:
    """The memory of this process, in MiB; 0 where the system does not tell."""
    if not _STATM.exists():
        return 0
    return int(_STATM.read_text().split()[1]) // _PAGES_PER_MIB
