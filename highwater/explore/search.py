"""Breadth-first search over all states within the bounds; the first violation found has the fewest actions.

A state is stored completely, as a tuple with a number for each of its parts (six numbers for two brokers), so equality of states
does not rely on hashes. The search is deterministic, except for where a budget of seconds ends it.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from highwater.explore.model import Model
from highwater.explore.properties import Goal, Property
from highwater.explore.state import State
from highwater.plans.actions import AnyAction, Path

End = Literal["violated", "exhausted", "budget", "interrupted"]
Key = tuple[int, ...]
_PROGRESS_EVERY = 256  # states between two progress reports


class Budget(Struct, frozen=True, kw_only=True):
    """Limits at which the explorer's search gives up; None means no limit."""

    depth: int | None = None
    states: int = 5_000_000
    seconds: float | None = None


class Result(Struct, frozen=True, kw_only=True):
    """How a search of the explorer ended.

    `violated`: `path` leads to the violation `wrong`. After `budget` and `interrupted` (Ctrl-C) unexplored
    states are unproven.

    `states` counts distinct states, `transitions` the actions performed, `depth` is that of the deepest state, `frontier` counts
    the states that were not expanded, `goals` are the names of the goals that were reached.
    """

    end: End
    stopped_by: str = ""
    wrong: str = ""
    path: Path = ()
    states: int
    transitions: int
    depth: int
    frontier: int
    beyond: int  # transitions to states beyond the bound of leader epochs
    seconds: float
    goals: tuple[str, ...] = ()


class _Parts:
    # Numbers the parts of states in the order of their discovery.

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._parts: list[object] = []

    def number(self, part: object) -> int:
        found = self._numbers.get(part)
        if found is None:
            found = self._numbers[part] = len(self._parts)
            self._parts.append(part)
        return found

    def key(self, state: State) -> Key:
        number = self.number
        hosts = [number(host) for host in state.hosts]
        return (*hosts, number(state.zk), number(state.network), number(state.ghost), number(state.spent))

    def state(self, key: Key) -> State:
        *hosts, zk, network, ghost, spent = (self._parts[number] for number in key)
        return State(tuple(hosts), zk, network, ghost, spent)  # type: ignore[arg-type]  # the order of the parts is that of `key`


class Search:
    """One breadth-first search over the explored cluster's states. `clock` gives seconds, for the budget and the result only."""

    def __init__(
        self, model: Model, properties: tuple[Property, ...], goals: tuple[Goal, ...], clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._properties = properties
        self._open_goals = list(goals)
        self._clock = clock
        self._parts = _Parts()
        self._numbers: dict[Key, int] = {}  # state -> number, in the order of discovery
        self._parents: list[tuple[int, AnyAction | None]] = []
        self._reached: list[str] = []
        self._transitions = 0
        self._beyond = 0
        self._start = 0.0

    def run(self, budget: Budget, progress: Callable[[int, int], None] = lambda states, depth: None) -> Result:
        """Search until an invariant is violated, all states are explored, the budget is used up or Ctrl-C is pressed.

        `progress` is called with (states, depth).
        """
        self._start = self._clock()
        level: list[Key] = []
        initial = self._model.initial()
        wrong = self._add(initial, -1, None, level)
        depth = 0
        if wrong:
            return self._result("violated", depth, len(level), wrong=wrong)
        while level:
            if budget.depth is not None and depth >= budget.depth:
                return self._result("budget", depth, len(level), stopped_by=f"depth {depth}")
            following: list[Key] = []
            done = 0
            try:
                for done, key in enumerate(level):
                    stop = self._spent(budget)
                    if stop:
                        return self._result("budget", depth, len(level) - done + len(following), stopped_by=stop)
                    wrong = self._expand(key, following)
                    if wrong:
                        return self._result("violated", depth + 1, len(level) - done + len(following), wrong=wrong)
                    if done % _PROGRESS_EVERY == 0:
                        progress(len(self._parents), depth)
            except KeyboardInterrupt:
                return self._result("interrupted", depth, len(level) - done + len(following), stopped_by="an interrupt")
            level = following
            depth += bool(level)
        return self._result("exhausted", depth, 0)

    def _expand(self, key: Key, following: list[Key]) -> str:
        # Add all successors; the first violation, or an empty string.
        state = self._parts.state(key)
        parent = self._numbers[key]
        for action, after in self._model.successors(state):
            self._transitions += 1
            wrong = self._add(after, parent, action, following)
            if wrong:
                return wrong
        return ""

    def _add(self, state: State, parent: int, action: AnyAction | None, level: list[Key]) -> str:
        key = self._parts.key(state)
        if key in self._numbers:
            return ""
        if not self._model.within(state):
            self._beyond += 1
            return ""
        self._numbers[key] = len(self._parents)
        self._parents.append((parent, action))
        level.append(key)
        for goal in list(self._open_goals):
            if goal.holds(self._model, state):
                self._open_goals.remove(goal)
                self._reached.append(goal.name)
        for property_ in self._properties:
            wrong = property_.broken(self._model, state)
            if wrong:
                return wrong
        return ""

    def _spent(self, budget: Budget) -> str:
        if len(self._parents) >= budget.states:
            return f"{budget.states} states"
        if budget.seconds is not None and self._elapsed() >= budget.seconds:
            return f"{budget.seconds:g} seconds"
        return ""

    def _elapsed(self) -> float:
        return self._clock() - self._start

    def _result(self, end: End, depth: int, frontier: int, *, wrong: str = "", stopped_by: str = "") -> Result:
        return Result(
            end=end,
            stopped_by=stopped_by,
            wrong=wrong,
            path=self._path(len(self._parents) - 1) if wrong else (),
            states=len(self._parents),
            transitions=self._transitions,
            depth=depth,
            frontier=frontier,
            beyond=self._beyond,
            seconds=self._elapsed(),
            goals=tuple(self._reached),
        )

    def _path(self, number: int) -> Path:
        actions: list[AnyAction] = []
        while number >= 0:
            number, action = self._parents[number]
            if action is not None:
                actions.append(action)
        return tuple(reversed(actions))
