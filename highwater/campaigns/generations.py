"""The guided search: which plans to perform next, from what earlier runs reached.

    seeds ─▶ generation of plans ─▶ runs ─▶ new (role, fault, branch)? ─▶ pool ─▶ edited plans ─▶ next generation

One plan in `_FRESH` is a new seed. The others are edits (`campaigns.edits`): in turn of a new seed, whose run is new as a
whole, and of a plan in the pool, while that is empty of a new seed. A plan is in the pool if its run took a branch in a role and
under a fault as no run before. It is chosen the more often, the fewer runs did that too and the less often it was chosen.

A generation follows from the commit, the first seed and the runs before it, whatever performed them, so nothing is drawn anew.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, Struct

from highwater.campaigns.campaign import Request
from highwater.campaigns.drafts import Notable, Source, kinds_for
from highwater.campaigns.edits import edited
from highwater.coverage.branches import Reach, branches, steps_of
from highwater.plans.plan import Plan
from highwater.runs.summary import Summary
from history.seed import Rng
from nemesis.kinds import select

GENERATION = 8  # plans in a generation, if nothing else is asked for
_FRESH = 8
_OTHERS = 4  # plans from which an edit may take windows
_WEIGHT = 1_000_000  # of what one run alone has reached

Feature = tuple[str, int]  # role and fault, branch


class Planned(Struct, frozen=True, kw_only=True):
    """One run of the search. `number` counts from 0; `seed` is None for an edited plan."""

    number: int
    plan: Plan
    seed: int | None


def reach_of(summary: Summary) -> Reach | None:
    """What `Search.learn` takes in of a run; None if it never began or was given up."""
    return None if summary.reach is UNSET else summary.reach


class _New(Struct, frozen=True):
    """What a run was the first to reach, when, and at which broker."""

    feature: Feature
    at_ms: int
    broker: int


class _Entry:
    """A plan in the pool: what its run was the first to reach, and how often it was chosen."""

    def __init__(self, plan: Plan, new: Sequence[_New]) -> None:
        self.plan = plan
        self.new = new
        self.chosen = 0


class Search:
    """Plans `runs` runs in generations of one size. Call `planned`, perform the plans, `learn`, and so on."""

    def __init__(self, request: Request, *, first: int, runs: int, generation: int) -> None:
        self._request = request
        self._kinds = select(request.faults)
        self._first = first
        self._runs = runs
        self._size = generation
        self._generation = 0
        self._performed = 0
        self._seeds = 0
        self._pool: list[_Entry] = []
        self._features: Counter[Feature] = Counter()  # runs that reached each

    def planned(self) -> tuple[Planned, ...]:
        """The next generation; empty when all runs are performed."""
        size = min(self._size, self._runs - self._performed)
        rng = Rng(self._first).fork(f"generation {self._generation}")
        weights = [self._weight(entry) for entry in self._pool]
        return tuple(self._next_plan(rng.fork(f"plan {place}"), self._performed + place, weights) for place in range(size))

    def learn(self, generation: Sequence[Planned], reaches: Sequence[Reach | None]) -> None:
        """Take in what the runs of a generation reached, in the order of its plans; None: the run says nothing."""
        for planned, reach in zip(generation, reaches, strict=True):
            if reach is None:
                continue
            reached = [
                _New((step.context, branch), step.at_ms, step.broker) for step in steps_of(reach) for branch in step.branches
            ]
            new = [feature_reached for feature_reached in reached if feature_reached.feature not in self._features]
            self._features.update(feature_reached.feature for feature_reached in reached)
            if new:
                self._pool.append(_Entry(planned.plan, new))
        self._performed += len(generation)
        self._generation += 1

    def _next_plan(self, rng: Rng, number: int, weights: Sequence[int]) -> Planned:
        """The next plan: an edit of an earlier or a fresh plan, or now and then a fresh plan as its seed gives it."""
        if number % _FRESH != _FRESH - 1:
            parent = (
                self._drawn_entry(rng, weights)
                if number % 2 and self._pool
                else _Entry(self._request.plan(self._next_seed()), ())
            )
            plan = self._draw_edit_of(rng, parent, weights, name=f"guided-{self._first}-{number}")
            if plan is not None:
                return Planned(number=number, plan=plan, seed=None)
        seed = self._next_seed()
        return Planned(number=number, plan=self._request.plan(seed), seed=seed)

    def _next_seed(self) -> int:
        self._seeds += 1
        return self._first + self._seeds - 1

    def _drawn_entry(self, rng: Rng, weights: Sequence[int]) -> _Entry:
        entry = self._pool[_draw_place(rng, weights)]
        entry.chosen += 1
        return entry

    def _draw_edit_of(self, rng: Rng, parent: _Entry, weights: Sequence[int], *, name: str) -> Plan | None:
        """An edit of the parent, near the branches that it reached first; None if no edit keeps the rules."""
        names = branches()
        notable = tuple(
            Notable(
                at_ms=reached.at_ms, broker=reached.broker, branch=names[reached.feature[1]].name, weight=self._rarity(reached)
            )
            for reached in parent.new
            if 0 <= reached.at_ms < parent.plan.faults_ms
        )
        others = tuple(self._pool[_draw_place(rng, weights)].plan for _ in range(_OTHERS if self._pool else 0))
        profile = self._request.profile
        source = Source(parent=parent.plan, notable=notable, others=others, kinds=kinds_for(parent.plan, self._kinds, profile))
        return edited(rng.fork("edits"), source, name=name)

    def _weight(self, entry: _Entry) -> int:
        """How much is to be expected of edits of this plan: less if many runs reached the same, or if it was chosen often."""
        return 1 + sum(map(self._rarity, entry.new)) // (1 + entry.chosen)

    def _rarity(self, reached: _New) -> int:
        return _WEIGHT // self._features[reached.feature] ** 2


def _draw_place(rng: Rng, weights: Sequence[int]) -> int:
    """A place, drawn by weight."""
    weight_left = rng.below(sum(weights))
    for place, weight in enumerate(weights):
        weight_left -= weight
        if weight_left < 0:
            return place
    raise AssertionError("weights are at least 1")
