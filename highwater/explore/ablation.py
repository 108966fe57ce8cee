"""What each config switch of the protocol `safe` is needed for in a small world: take each one out and search (`explore ablate`).

Three strategies look for a violation, until one finds it: breadth-first in the given world; directed toward each published
counterexample, in its own world (`published`); random walks in the given world. A switch makes no difference in a world that was
searched whole if this world has the same states as that of `safe`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import fields, replace

from highwater.explore.abstract.guide import Guide
from highwater.explore.breadth_first import BreadthFirst, Searched
from highwater.explore.directed import Directed, with_shorter_path
from highwater.explore.machine_world import MachineWorld
from highwater.explore.published import PUBLISHED, guide_of
from highwater.explore.state import Bounds
from highwater.explore.strategy import Budget, Result
from highwater.explore.walks import Walks
from highwater.plans.actions import AnyAction
from highwater.plans.actions import Path as Actions
from highwater.run_folder import temporary_folder
from reference.config import SAFE, Variant

DIRECTED_STATES_MAX = 250  # for each published counterexample; those that are realised take less than 200 (docs/model.md)
_PROPERTIES = ("committed", "strong-isr", "weak-isr")

Strategy = Literal["breadth-first", "directed", "walk"]


class Ablation(Struct, frozen=True, kw_only=True):
    """What happens without one switch of `safe`, which is set to `value` instead.

    `fell`: the property that a strategy found broken, after `depth` actions; empty if none did. `same`: the breadth-first search
    of the whole world met as many states and transitions as on `safe`, so the switch makes no difference there.
    """

    switch: str
    value: str
    fell: str = ""
    strategy: Strategy | None = None
    toward: str = ""  # the published counterexample that led a directed search
    depth: int = 0
    path: Actions = ()
    bounds: Bounds
    same: bool = False
    whole: bool = False  # the breadth-first search met every state of the world
    states: int = 0  # of the breadth-first search
    stuck: str = ""  # why the cluster does not even start with this value alone
    seconds: float


class Ablations:
    """Takes out one switch after the other; all share the guides and the counts of `safe`. `clock` gives seconds."""

    def __init__(self, bounds: Bounds, seconds: float, memory_mib: int, clock: Callable[[], float]) -> None:
        """`seconds`: of each strategy for each switch."""
        self._bounds = bounds
        self._budget = Budget(seconds=seconds, memory_mib=memory_mib)
        self._clock = clock
        self._guides: dict[tuple[str, bool], Guide] = {}
        self.safe = self._breadth_first(SAFE)

    def run(self) -> Iterator[Ablation]:
        """Each ablation when its searches are over."""
        for switch, variant in switches():
            yield self._ablation_of(switch, variant)

    def _ablation_of(self, switch: str, variant: Variant) -> Ablation:
        """Take one switch out of `safe` and search: breadth-first, directed, then by walks, until a property is broken."""
        start = self._clock()
        value = str(getattr(variant, switch))
        try:
            MachineWorld(variant, self._bounds).initial()
        except AssertionError as error:  # an assertion of the machines, or an endless loop of theirs
            return Ablation(switch=switch, value=value, bounds=self._bounds, stuck=str(error), seconds=self._clock() - start)
        result = self._breadth_first(variant)
        whole = result.end == "exhausted"
        ablation = Ablation(
            switch=switch,
            value=value,
            bounds=self._bounds,
            whole=whole,
            same=whole and (result.states, result.transitions) == (self.safe.states, self.safe.transitions),
            states=result.states,
            seconds=0,
        )
        if result.violations:
            ablation = _with_violation(ablation, result, "breadth-first", self._bounds)
        elif not (self._bounds.zk_async or self._bounds.kip343):
            ablation = self._with_directed_search(variant, ablation)
        if not ablation.fell and not ablation.same:
            walks = Walks(partial(MachineWorld, variant, self._bounds), _PROPERTIES, self._clock, scheduler="mixed", seed=1)
            result = _unless_interrupted(walks.run(self._budget))
            ablation = _with_violation(ablation, result, "walk", self._bounds) if result.violations else ablation
        return replace(ablation, seconds=self._clock() - start)

    def _breadth_first(self, variant: Variant) -> Result[AnyAction]:
        searched = Searched(world=partial(MachineWorld, variant, self._bounds), properties=_PROPERTIES)
        with temporary_folder("ablate") as folder:
            return _unless_interrupted(BreadthFirst(searched, folder, self._clock).run(self._budget))

    def _with_directed_search(self, variant: Variant, ablation: Ablation) -> Ablation:
        """Search toward each published counterexample; the ablation with the property that it broke, if any."""
        for name, published in PUBLISHED.items():
            model = MachineWorld(variant, published.bounds)
            properties = tuple(property_ for property_ in model.properties if property_.name in _PROPERTIES)
            search = Directed(model, self._guide(name, variant), properties, self._clock)
            result = _unless_interrupted(search.run(replace(self._budget, states=DIRECTED_STATES_MAX)))
            if result.violations:
                shorter = with_shorter_path(model, result)
                return replace(_with_violation(ablation, shorter, "directed", published.bounds), toward=name)
        return ablation

    def _guide(self, name: str, variant: Variant) -> Guide:
        """The distances of the model's states from this violation; computed once."""
        key = (name, variant.startup_epoch_floor)
        if key not in self._guides:
            published = PUBLISHED[name]
            self._guides[key] = guide_of(published, variant, published.bounds, published.holds, self._clock)
        return self._guides[key]


def switches() -> Iterator[tuple[str, Variant]]:
    """Each switch of `safe` with each variant that has another value of it alone."""
    hints = get_type_hints(Variant)
    for field in fields(Variant):
        usual = getattr(SAFE, field.name)
        values = (not usual,) if isinstance(usual, bool) else get_args(hints[field.name])
        for value in values:
            if value != usual:
                yield field.name, replace(SAFE, **{field.name: value})


def _unless_interrupted(result: Result[AnyAction]) -> Result[AnyAction]:
    """The result of one search. Raises KeyboardInterrupt if Ctrl-C ended it: that has to end all searches."""
    if result.end == "interrupted":
        raise KeyboardInterrupt
    return result


def _with_violation(ablation: Ablation, result: Result[AnyAction], strategy: Strategy, bounds: Bounds) -> Ablation:
    """The ablation with the first violation of a search, and the strategy and bounds that found it."""
    violation = result.violations[0]
    return replace(
        ablation, fell=violation.name, strategy=strategy, depth=len(violation.path), path=violation.path, bounds=bounds
    )
