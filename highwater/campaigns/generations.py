"""The guided search: which plans to perform next, from what earlier runs showed.

    seeds ─▶ generation of plans ─▶ runs ─▶ a new feature? ─▶ pool ─▶ edited plans ─▶ next generation

A simulated run shows features by its branches: one that it took, in which role and under which fault. A run of another system
shows signs of behaviour (`coverage.signs`). The search does not tell them apart.

One plan in `_FRESH` is a new seed. The others are edits (`campaigns.edits`): in turn of a new seed, whose run is new as a
whole, and of a plan in the pool, while that is empty of a new seed. A plan is in the pool if its run showed a feature as no run
before. It is chosen the more often, the fewer runs did that too and the less often it was chosen; on another system, where a run
takes a minute, the more often its edits showed something new, too.

A generation follows from the commit, the first seed and the runs before it, whatever performed them, so nothing is drawn anew.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import UNSET, Struct

from highwater.campaigns.campaign import Request
from highwater.campaigns.drafts import Notable, Source, kinds_for
from highwater.campaigns.edits import edited
from highwater.coverage.branches import Reach, branches, steps_of
from highwater.coverage.signs import Sign
from highwater.plans.plan import Plan
from highwater.runs.summary import Summary
from history.seed import Rng
from nemesis.kinds import select

GENERATION = 8  # plans in a generation, if nothing else is asked for
_FRESH = 8
_OTHERS = 4  # plans from which an edit may take windows
_WEIGHT = 1_000_000  # of what one run alone has reached

Feature = tuple[str, int] | str  # role and fault, and the branch; or a sign
Shown = Reach | tuple[Sign, ...]  # by one run


class Planned(Struct, frozen=True, kw_only=True):
    """One run of the search. `number` counts from 0; `seed` is None for an edited plan, `parent` for one not of the pool."""

    number: int
    plan: Plan
    seed: int | None
    parent: str | None = None  # the name of the plan in the pool that was edited


def shown_by(summary: Summary) -> Shown | None:
    """What `Search.learn` takes in of a run; None if it never began or was given up."""
    if summary.reach is not UNSET:
        return summary.reach
    return None if summary.signs is UNSET else summary.signs


class _New(Struct, frozen=True):
    """What a run was the first to show, when, and at which broker."""

    feature: Feature
    at_ms: int
    broker: int


class _Entry:
    """A plan in the pool: what its run was the first to show, how often it was chosen, how many of its edits showed more."""

    def __init__(self, plan: Plan, new: Sequence[_New]) -> None:
        self.plan = plan
        self.new = new
        self.chosen = 0
        self.fruitful = 0


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
        self._features: Counter[Feature] = Counter()  # runs that showed each

    def planned(self) -> tuple[Planned, ...]:
        """The next generation; empty when all runs are performed."""
        size = min(self._size, self._runs - self._performed)
        rng = Rng(self._first).fork(f"generation {self._generation}")
        weights = [self._weight(entry) for entry in self._pool]
        return tuple(self._next_plan(rng.fork(f"plan {place}"), self._performed + place, weights) for place in range(size))

    def learn(self, generation: Sequence[Planned], shown: Sequence[Shown | None]) -> None:
        """Take in what the runs of a generation showed, in the order of its plans; None: the run says nothing."""
        for planned, of_run in zip(generation, shown, strict=True):
            if of_run is None:
                continue
            features = _features_in(of_run)
            new = [each for each in features if each.feature not in self._features]
            self._features.update(each.feature for each in features)
            if new:
                self._pool.append(_Entry(planned.plan, new))
                for entry in self._pool:
                    entry.fruitful += entry.plan.name == planned.parent
        self._performed += len(generation)
        self._generation += 1

    def _next_plan(self, rng: Rng, number: int, weights: Sequence[int]) -> Planned:
        """The next plan: an edit of an earlier or a fresh plan, or now and then a fresh plan as its seed gives it."""
        if number % _FRESH != _FRESH - 1:
            from_pool = bool(number % 2 and self._pool)
            parent = self._drawn_entry(rng, weights) if from_pool else _Entry(self._request.plan(self._next_seed()), ())
            plan = self._draw_edit_of(rng, parent, weights, name=f"guided-{self._first}-{number}")
            if plan is not None:
                return Planned(number=number, plan=plan, seed=None, parent=parent.plan.name if from_pool else None)
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
        """An edit of the parent, near what it was the first to show; None if no edit keeps the rules."""
        notable = tuple(
            Notable(at_ms=new.at_ms, broker=new.broker, branch=_words(new.feature), weight=self._rarity(new))
            for new in parent.new
            if 0 <= new.at_ms < parent.plan.faults_ms
        )
        others = tuple(self._pool[_draw_place(rng, weights)].plan for _ in range(_OTHERS if self._pool else 0))
        profile = self._request.profile
        source = Source(parent=parent.plan, notable=notable, others=others, kinds=kinds_for(parent.plan, self._kinds, profile))
        return edited(rng.fork("edits"), source, name=name)

    def _weight(self, entry: _Entry) -> int:
        """How much is to be expected of edits of this plan: less if many runs showed the same, or if it was chosen often."""
        fruitful = entry.fruitful if self._request.foreign else 0
        return 1 + sum(map(self._rarity, entry.new)) * (1 + fruitful) // (1 + entry.chosen)

    def _rarity(self, new: _New) -> int:
        return _WEIGHT // self._features[new.feature] ** 2


def _features_in(shown: Shown) -> list[_New]:
    """What a run showed, each with its first time."""
    if isinstance(shown, Reach):
        return [_New((step.context, branch), step.at_ms, step.broker) for step in steps_of(shown) for branch in step.branches]
    return [_New(sign.words, sign.at_ms, sign.broker) for sign in shown]


def _words(feature: Feature) -> str:
    """A feature as the story of an edited plan names it."""
    return feature if isinstance(feature, str) else branches()[feature[1]].name


def _draw_place(rng: Rng, weights: Sequence[int]) -> int:
    """A place, drawn by weight."""
    weight_left = rng.below(sum(weights))
    for place, weight in enumerate(weights):
        weight_left -= weight
        if weight_left < 0:
            return place
    raise AssertionError("weights are at least 1")
