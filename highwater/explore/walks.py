"""Seeded random walks: each begins in the initial state and takes one successor after another, up to a limit of steps.

Every successor of a visited state is judged, not only the one taken. A walk depends on the seed and its own number alone. The
schedulers differ in what they make likely:

* `uniform`: every successor alike;
* `swarm`: each walk gives each kind of action a weight of 0 to 8, so some walks have no crashes and others hardly anything else;
* `pct`: each walk gives the actors priorities and takes the first one's action; at a few random steps the first one becomes the
  last (after Burckhardt et al., "A randomized scheduler with probabilistic guarantees of finding bugs", 2010);
* `delay`: the actors take turns, and a few random steps delay the one whose turn it is (after Emmi et al., "Delay-bounded
  scheduling", 2011);
* `mixed`: the number of the walk chooses among these.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Literal, Protocol, TypeVar

from highwater.explore.shard import PARTS_MAX
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
from highwater.explore.world import Action, State, World
from history.seed import Rng

Scheduler = Literal["uniform", "swarm", "pct", "delay", "mixed"]
_SINGLE: tuple[Scheduler, ...] = ("uniform", "swarm", "pct", "delay")
STEPS_MAX = 60  # of one walk, if the budget has no depth
CHANGES = 3  # of priorities in one walk, and delays
_WEIGHTS = (0, 0, 1, 2, 4, 8)


Offered = TypeVar("Offered", contravariant=True)


class _Chooser(Protocol[Offered]):
    def choose(self, actions: Sequence[Offered]) -> int:
        """The position of the action to take."""


class Walks(Generic[State, Action]):
    """Random walks of one scheduler. `clock` gives seconds, for the budget and the result only."""

    def __init__(
        self,
        build: Callable[[], World[State, Action]],
        properties: tuple[str, ...],
        clock: Callable[[], float],
        *,
        scheduler: Scheduler,
        seed: int,
    ) -> None:
        """`properties`: names."""
        self._build = build
        self._world = world = build()
        self._judge = Judge(tuple(p for p in world.properties if p.name in properties), world.goals)
        self._clock = clock
        self._scheduler = scheduler
        self._rng = Rng(seed)
        self._start = clock()
        self._states_seen: set[bytes] = set()
        self._transitions = self._beyond = self._deepest = 0
        self._violations: list[Violation[Action]] = []

    def run(self, budget: Budget, progress: Progress = lambda states, depth: None) -> Result[Action]:
        """Walk until a property is broken, the budget is used up or Ctrl-C is pressed. Walks never prove a property."""
        number = 0
        self._judge_once(self._world.initial(), ())
        try:
            with few_collections():
                while not self._violations:
                    stop = self._limit_reached(budget, number)
                    if stop:
                        return self._result("budget", stop)
                    self._renew_world()
                    self._walk(number, budget.depth or STEPS_MAX)
                    number += 1
                    progress(len(self._states_seen), self._deepest)
        except KeyboardInterrupt:
            return self._result("interrupted", "an interrupt")
        return self._result("violated", "")

    def _walk(self, number: int, steps_max: int) -> None:
        """Walk from the initial state, looking at every successor on the way."""
        chooser = self._chooser(self._rng.fork(f"walk {number}"), number, steps_max)
        state, path = self._world.initial(), list[Action]()
        for _ in range(steps_max):
            successors = self._successors(state)
            for action, after in successors:
                self._judge_once(after, (*path, action))
            if not successors or self._violations:
                return
            action, state = successors[chooser.choose([action for action, _ in successors])]
            path.append(action)
            self._deepest = max(self._deepest, len(path))

    def _renew_world(self) -> None:
        """Walk on in a new world when this one knows too many parts of states."""
        parts = self._world.parts
        if parts is not None and len(parts) > PARTS_MAX:
            self._world = self._build()
            self._judge.move_to_world(self._world.properties, self._world.goals)

    def _successors(self, state: State) -> list[tuple[Action, State]]:
        """The successors within the bounds."""
        successors = list(self._world.successors(state))
        within = [(action, after) for action, after in successors if self._world.within(after)]
        self._transitions += len(successors)
        self._beyond += len(successors) - len(within)
        return within

    def _judge_once(self, state: State, path: tuple[Action, ...]) -> None:
        """Judge a state that no walk has seen before."""
        fingerprint = self._world.fingerprint(state)
        if fingerprint not in self._states_seen:
            self._states_seen.add(fingerprint)
            self._violations += [Violation(name, wrong, path) for name, wrong in self._judge.newly_broken(state)]

    def _chooser(self, rng: Rng, number: int, steps_max: int) -> _Chooser[Action]:
        """The chooser of a walk; "mixed" takes each kind in turn."""
        scheduler = _SINGLE[number % len(_SINGLE)] if self._scheduler == "mixed" else self._scheduler
        match scheduler:
            case "swarm":
                return _Swarm(rng, self._world.kind)
            case "pct":
                return _Priorities(rng, self._world.actor, steps_max)
            case "delay":
                return _Turns(rng, self._world.actor, steps_max)
            case _:
                return _Uniform(rng)

    def _limit_reached(self, budget: Budget, number: int) -> str:
        if budget.walks is not None and number >= budget.walks:
            return f"{budget.walks} walks"
        return limit_reached(
            budget, states=len(self._states_seen), seconds=self._clock() - self._start, memory_mib=resident_mib()
        )

    def _result(self, end: End, stop: str) -> Result[Action]:
        """The result of the walks so far."""
        return Result(
            end=end,
            stopped_by=stop,
            violations=tuple(self._violations),
            states=len(self._states_seen),
            transitions=self._transitions,
            depth=max([self._deepest, *(len(violation.path) for violation in self._violations)]),
            frontier=0,
            beyond=self._beyond,
            seconds=self._clock() - self._start,
            goals=tuple(self._judge.reached),
            memory_mib=resident_mib(),
            collision_odds=collision_odds(self._world, len(self._states_seen)),
        )


class _Uniform(Generic[Offered]):
    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def choose(self, actions: Sequence[Offered]) -> int:
        return self._rng.below(len(actions))


class _Swarm(Generic[Offered]):
    def __init__(self, rng: Rng, kind: Callable[[Offered], str]) -> None:
        self._rng = rng
        self._kind = kind

    def choose(self, actions: Sequence[Offered]) -> int:
        """Draw by weights that each kind of action has for the whole walk."""
        weights = [self._rng.fork(self._kind(action)).pick(_WEIGHTS) for action in actions]
        if not any(weights):
            return self._rng.below(len(actions))
        drawn = self._rng.below(sum(weights))
        for position, weight in enumerate(weights):
            drawn -= weight
            if drawn < 0:
                return position
        raise AssertionError("a draw is below the sum of the weights")


class _Priorities(Generic[Offered]):
    def __init__(self, rng: Rng, actor: Callable[[Offered], str], steps_max: int) -> None:
        self._rng = rng
        self._actor = actor
        self._ranks: dict[str, int] = {}  # lower goes first
        self._changes = {rng.below(steps_max) for _ in range(CHANGES)}
        self._step = 0

    def choose(self, actions: Sequence[Offered]) -> int:
        """Take the actor of the highest priority; at drawn steps it falls behind all others."""
        actors = [self._actor(action) for action in actions]
        for actor in actors:
            self._ranks.setdefault(actor, self._rng.fork(actor).below(1 << 32))
        first = min(actors, key=self._ranks.__getitem__)
        if self._step in self._changes:
            self._ranks[first] = (1 << 32) + self._step  # behind all, and behind those who were put behind before
            first = min(actors, key=self._ranks.__getitem__)
        self._step += 1
        return self._rng.pick([position for position, actor in enumerate(actors) if actor == first])


class _Turns(Generic[Offered]):
    def __init__(self, rng: Rng, actor: Callable[[Offered], str], steps_max: int) -> None:
        self._rng = rng
        self._actor = actor
        self._last: dict[str, int] = {}  # actor -> the number of its last turn, also of one that it lost
        self._delays = {rng.below(steps_max) for _ in range(CHANGES)}
        self._step = self._turns = 0

    def choose(self, actions: Sequence[Offered]) -> int:
        """The actors take turns; at drawn steps the next one is passed over."""
        actors = [self._actor(action) for action in actions]
        first = min(actors, key=self._waiting_order)
        if self._step in self._delays:
            self._end_turn(first)
            first = min(actors, key=self._waiting_order)
        self._step += 1
        self._end_turn(first)
        return self._rng.pick([position for position, actor in enumerate(actors) if actor == first])

    def _end_turn(self, actor: str) -> None:
        self._turns += 1
        self._last[actor] = self._turns

    def _waiting_order(self, actor: str) -> tuple[int, int]:
        return self._last.get(actor, -1), self._rng.fork(actor).bits()
