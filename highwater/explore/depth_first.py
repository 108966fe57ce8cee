"""Depth-first search: reaches deep states early, by a path that is seldom the shortest. One process, in memory.

With a limit of depth, a state that is reached again by a shorter path is expanded again, so everything within the limit is
visited; transitions then count more than once.
"""

from collections.abc import Callable, Iterator
from typing import Generic

from highwater.explore.strategy import (
    Budget,
    End,
    Judge,
    Progress,
    Result,
    Violation,
    collision_odds,
    few_collections,
    limit_reached,
    resident_mib,
)
from highwater.explore.world import Action, Property, State, World

_ROUND = 256  # transitions between two looks at the budget


class DepthFirst(Generic[State, Action]):
    """One depth-first search. `clock` gives seconds, for the budget and the result only."""

    def __init__(self, world: World[State, Action], properties: tuple[Property[State], ...], clock: Callable[[], float]) -> None:
        self._world = world
        self._judge = Judge(properties, world.goals)
        self._clock = clock
        self._start = clock()
        self._depths: dict[bytes, int] = {}
        self._branches: list[Iterator[tuple[Action, State]]] = []  # the successors not yet taken, at each state of the path
        self._path: list[Action] = []
        self._broken: list[tuple[str, str]] = []
        self._transitions = self._beyond = self._deepest = 0
        self._cut = False  # the limit of depth kept a state from being expanded

    def run(self, budget: Budget, progress: Progress = lambda states, depth: None) -> Result[Action]:
        """Search until a property is broken, all states are explored, the budget is used up or Ctrl-C is pressed."""
        stop = ""
        self._extends_path(self._world.initial(), budget.depth)
        try:
            with few_collections():
                while self._branches and not self._broken and not stop:
                    self._advance(budget.depth)
                    if self._transitions % _ROUND == 0:
                        progress(len(self._depths), self._deepest)
                        seconds = self._clock() - self._start
                        stop = limit_reached(budget, states=len(self._depths), seconds=seconds, memory_mib=resident_mib())
        except KeyboardInterrupt:
            return self._result("interrupted", "an interrupt")
        if self._broken:
            return self._result("violated", "")
        if not stop and self._cut:
            stop = f"depth {budget.depth}"
        return self._result("budget" if stop else "exhausted", stop)

    def _advance(self, depth_max: int | None) -> None:
        """Take the next successor of the last state of the path, or go back."""
        for action, after in self._branches[-1]:
            self._transitions += 1
            self._path.append(action)
            if not self._extends_path(after, depth_max):
                self._path.pop()
            return
        self._branches.pop()
        if self._path:
            self._path.pop()

    def _extends_path(self, state: State, depth_max: int | None) -> bool:
        """Whether the path goes on from this state: it is new, or was only reached deeper where depth counts."""
        fingerprint, depth = self._world.fingerprint(state), len(self._path)
        earlier_depth = self._depths.get(fingerprint)
        if earlier_depth is not None and (depth_max is None or earlier_depth <= depth):
            return False
        if not self._world.within(state):
            self._beyond += 1
            return False
        self._depths[fingerprint] = depth
        self._deepest = max(self._deepest, depth)
        if earlier_depth is None:
            self._broken = self._judge.newly_broken(state)
        if depth_max is not None and depth >= depth_max:
            self._cut = True
            self._branches.append(iter(()))
        else:
            self._branches.append(iter(self._world.successors(state)))
        return True

    def _result(self, end: End, stop: str) -> Result[Action]:
        """The result of the search so far."""
        return Result(
            end=end,
            stopped_by=stop,
            violations=tuple(Violation(name, wrong, tuple(self._path)) for name, wrong in self._broken),
            states=len(self._depths),
            transitions=self._transitions,
            depth=self._deepest,
            frontier=len(self._branches) if stop else 0,
            beyond=self._beyond,
            seconds=self._clock() - self._start,
            goals=tuple(self._judge.reached),
            memory_mib=resident_mib(),
            collision_odds=collision_odds(self._world, len(self._depths)),
        )
