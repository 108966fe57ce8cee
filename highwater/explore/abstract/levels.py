"""Breadth-first search by whole levels: every level is an array of states, expanded and compared as arrays.

A state is one 64-bit integer that holds it completely, so equality needs no hashes. The search explores the whole space even
after a violation, because the counts are those of the whole space; the first level with a violation gives the shortest
counterexample.

Counts are TLC's. `generated` counts the initial states and every successor, once for each way in which an action can make it.
`distinct` counts states. `depth` counts levels, the initial one included. A counterexample's `length` counts its states. As with
TLC, a state beyond the bounds is counted as generated and its invariants are checked, but it is neither stored nor expanded.
"""

from collections.abc import Callable, Iterator
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from highwater.errors import UsageError

End = Literal["exhausted", "limit", "interrupted", "too-large"]
Keys = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

_CHUNK = 1 << 16  # states expanded together; more than this does not stay in the processor's cache
_BYTES_A_STATE = 64  # of a level while it is sorted, merged and expanded; an upper bound, measured


class WorldTooLarge(UsageError):  # noqa: N818 - as Nondeterminism, a finding and not a mistake
    """The states of these sizes do not fit into an integer or into memory."""


class Batch(Struct, frozen=True):
    """Successors by one action: `keys[i]` is a successor of the expanded state with index `sources[i]`.

    `times` says in how many ways the action makes each successor; TLC generates it as often.
    """

    action: str
    sources: Indices
    keys: Keys
    times: int = 1


class Model(Protocol):
    """A transition system on arrays of states."""

    @property
    def invariants(self) -> tuple[str, ...]:
        """The names of the invariants."""

    def initial(self) -> int:
        """The initial state."""

    def successors(self, keys: Keys) -> Iterator[Batch]:
        """All successors of these states, one batch for each action that is possible in any of them."""

    def within(self, keys: Keys) -> Flags | None:
        """Which states are within the bounds; None if all are."""

    def broken(self, keys: Keys, invariant: str) -> Flags:
        """Which states violate an invariant."""


class Step(Struct, frozen=True):
    """One step of a counterexample: the action and the state after it."""

    action: str
    key: int


class Finding(Struct, frozen=True):
    """A shortest counterexample; its first step is the initial state."""

    invariant: str
    steps: tuple[Step, ...]


class Result(Struct, frozen=True, kw_only=True):
    """How a search by levels ended; `frontier` counts stored states that were not expanded."""

    end: End
    stopped_by: str = ""
    generated: int
    distinct: int
    depth: int
    frontier: int
    findings: tuple[Finding, ...]
    seconds: float


class Limits(Struct, frozen=True, kw_only=True):
    """When a search gives up; `states` is what memory can hold, `depth` counts levels."""

    seconds: float
    states: int
    depth: int | None = None


class LevelSearch:
    """One breadth-first search. `clock` gives seconds, for the limits and the result only."""

    def __init__(self, model: Model, limits: Limits, clock: Callable[[], float]) -> None:
        self._model = model
        self._limits = limits
        self._clock = clock
        self._start = clock()
        self._seen = _Seen()
        self._levels: list[Keys] = []
        self._generated = 0
        self._findings: list[Finding] = []

    def run(self, progress: Callable[[int, int], None] = lambda states, depth: None) -> Result:
        """Search until all states are explored, a limit is reached or Ctrl-C is pressed; `progress` gets (states, depth).

        If the states turn out not to fit, the result says so and keeps the counterexamples found until then.
        """
        try:
            stop = self._search(progress)
        except KeyboardInterrupt:
            return self._result("interrupted", "an interrupt")
        except WorldTooLarge as error:
            return self._result("too-large", str(error))
        return self._result("limit" if stop else "exhausted", stop)

    def states(self) -> Keys:
        """All states that were stored, sorted."""
        return np.sort(np.concatenate(self._levels))

    def _search(self, progress: Callable[[int, int], None]) -> str:
        """Add level after level until none is left; the limit that ended it, or ""."""
        first = np.array([self._model.initial()], dtype=np.int64)
        self._generated = 1
        self._check(first)
        self._store(first)
        while self._levels[-1].size:
            progress(self._seen.size, len(self._levels))
            if self._limits.depth is not None and len(self._levels) >= self._limits.depth:
                return f"depth {len(self._levels)}"
            stop = self._expand()
            if stop:
                return stop
        self._levels.pop()
        return ""

    def _expand(self) -> str:
        """Add the level after the last one; the limit that ended it, or an empty string."""
        parts: list[Keys] = []
        beyond: list[Keys] = []
        new = 0
        level = self._levels[-1]
        for start in range(0, level.size, _CHUNK):
            stop = self._time_limit_reached(new)
            if stop:
                return stop
            generated = [np.empty(0, np.int64)]
            for batch in self._model.successors(level[start : start + _CHUNK]):
                self._generated += batch.keys.size * batch.times
                generated.append(batch.keys)
            reached = _distinct(np.concatenate(generated))
            inside = self._model.within(reached)
            if inside is not None:
                beyond.append(reached[~inside])
                reached = reached[inside]
            reached = self._seen.missing(reached)
            new += reached.size
            parts.append(reached)
        following = _distinct(np.concatenate(parts))
        self._check(_distinct(np.concatenate([following, *beyond])))
        self._store(following)
        return ""

    def _store(self, level: Keys) -> None:
        self._levels.append(level)
        self._seen.add(level)

    def _check(self, states: Keys) -> None:
        """Record a counterexample for each invariant that is violated for the first time; `states` come after the last level."""
        violated = {finding.invariant for finding in self._findings}
        for invariant in self._model.invariants:
            if invariant not in violated:
                broken = states[self._model.broken(states, invariant)]
                if broken.size:
                    self._findings.append(Finding(invariant, self._path(int(broken[0]))))

    def _path(self, key: int) -> tuple[Step, ...]:
        """From a state after the last level back to the initial state: expand each level again to find a predecessor."""
        steps: list[Step] = []
        for level in reversed(self._levels):
            action, before = self._predecessor(level, key)
            steps.append(Step(action, key))
            key = before
        steps.append(Step("", key))
        return tuple(reversed(steps))

    def _predecessor(self, level: Keys, key: int) -> tuple[str, int]:
        """The action that leads from a state of this level to `key`, and that state."""
        for start in range(0, level.size, _CHUNK):
            chunk = level[start : start + _CHUNK]
            for batch in self._model.successors(chunk):
                hits = np.flatnonzero(batch.keys == key)
                if hits.size:
                    return batch.action, int(chunk[batch.sources[hits[0]]])
        raise AssertionError(f"state {key} has no predecessor in the level before it")

    def _time_limit_reached(self, new: int) -> str:
        """ "seconds" in words if the time is over, else "". Raises WorldTooLarge."""
        if self._seen.size + new >= self._limits.states:
            raise WorldTooLarge(
                f"the states do not fit in memory: {self._seen.size} after depth {len(self._levels)}, with {new} more"
            )
        if self._clock() - self._start >= self._limits.seconds:
            return f"{self._limits.seconds:g} seconds"
        return ""

    def _result(self, end: End, stopped_by: str) -> Result:
        """The result of the search so far."""
        return Result(
            end=end,
            stopped_by=stopped_by,
            generated=self._generated,
            distinct=self._seen.size,
            depth=len(self._levels),
            frontier=self._levels[-1].size if stopped_by and self._levels else 0,
            findings=tuple(self._findings),
            seconds=self._clock() - self._start,
        )


class _Seen:
    # A set of states as few sorted arrays, each more than twice as long as the next one.

    def __init__(self) -> None:
        self._runs: list[Keys] = []
        self.size = 0

    def missing(self, keys: Keys) -> Keys:
        """Those of these sorted states that are not in the set."""
        for run in self._runs:
            keys = keys[~_where_contained(run, keys)]
        return keys

    def add(self, keys: Keys) -> None:
        """Add sorted states that are not in the set."""
        self.size += keys.size
        self._runs.append(keys)
        while len(self._runs) > 1 and self._runs[-2].size <= 2 * self._runs[-1].size:
            last = self._runs.pop()
            merged = np.concatenate([self._runs.pop(), last])
            merged.sort()
            self._runs.append(merged)


def _where_contained(run: Keys, keys: Keys) -> Flags:
    """Which of these keys are in a sorted run."""
    if not run.size:
        return np.zeros(keys.size, np.bool_)
    places = np.searchsorted(run, keys)
    places[places == run.size] = 0  # greater than all
    return np.equal(run[places], keys)


def _distinct(keys: Keys) -> Keys:
    """The distinct states, sorted. Sorts in place: the array is the caller's own."""
    keys.sort()
    if keys.size < 2:
        return keys
    is_first = np.empty(keys.size, np.bool_)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys[is_first]


def states_in(memory_bytes: int) -> int:
    """How many states a search can hold in this much memory."""
    return memory_bytes // _BYTES_A_STATE
