"""How far each state of the replication model is from a violation: the guide of a directed search on the machines.

The distance of a state is the number of actions on a shortest path from it to a state that violates the invariant. The guide's
model differs from the published one where the machines do (`rules.Machines`).
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from msgspec.structs import fields, replace

from highwater.explore.abstract.kafka_replication import RAISES_HW, KafkaReplication, Situation
from highwater.explore.abstract.levels import Indices, Keys, LevelSearch, Limits, WorldTooLarge
from highwater.explore.abstract.rules import Machines, Rules, Sizes

STATES_MAX = 4_000_000  # about 300 bytes each, with the steps between them
_CHUNK = 1 << 16
_FAR = np.iinfo(np.int16).max
_Places = npt.NDArray[np.int32]


class Guide:
    """The distances of all states of one variant of the model, at one size, from a violation of an invariant.

    WorldTooLarge if there are too many states.
    """

    def __init__(self, rules: Rules, sizes: Sizes, invariant: str, machines: Machines, clock: Callable[[], float]) -> None:
        self.model = KafkaReplication(rules, sizes, machines=machines)
        self._asked = (rules, sizes, invariant)
        self._machines = machines
        self._clock = clock
        search = LevelSearch(self.model, Limits(seconds=float("inf"), states=STATES_MAX), clock)
        if search.run().end == "too-large":
            raise WorldTooLarge(f"the world is too large: its model has more than {STATES_MAX} states")
        self._keys = search.states()
        self._distances = self._distances_to(np.flatnonzero(self.model.broken(self._keys, invariant)))
        self._distance_known: dict[Situation, int | None] = {}

    def of(self, situation: Situation) -> int | None:
        """The distance of a state; None if the model does not have it, or no violation can follow."""
        if situation not in self._distance_known:
            self._distance_known[situation] = self._distance_in_table(situation)
        return self._distance_known[situation]

    def actions_toward(self, situation: Situation) -> tuple[str, ...]:
        """The actions of the model that bring a state nearer to a violation, in alphabetical order."""
        key, distance = self.model.key(situation), self.of(situation)
        if key is None or distance is None:
            return ()
        steps = self._successors(np.array([key], np.int64))
        return tuple(sorted({action for action, _, keys in steps if (self._distances[self._places_of(keys)] < distance).any()}))

    def obstacles(self, start: Situation) -> tuple[str, ...]:
        """What keeps the machines, each alone, from a violation that the model has from this state: fields of `Machines`."""
        names = [field.name for field in fields(Machines) if getattr(self._machines, field.name)]
        return tuple(name for name in names if self._guide_without(name).of(start) is not None)

    def _guide_without(self, name: str) -> "Guide":
        return Guide(*self._asked, replace(self._machines, **{name: False}), self._clock)

    def _distance_in_table(self, situation: Situation) -> int | None:
        """The distance of a situation from a violation; None if the model does not reach it, or no violation from it."""
        key = self.model.key(situation)
        if key is None:
            return None
        place = int(self._places_of(np.array([key], np.int64))[0])
        if place == self._keys.size or self._keys[place] != key or self._distances[place] == _FAR:
            return None
        return int(self._distances[place])

    def _places_of(self, keys: Keys) -> Indices:
        # The positions of these states in the sorted table.
        return np.searchsorted(self._keys, keys)

    def _distances_to(self, broken: Indices) -> npt.NDArray[np.int16]:
        """The distance of each state to the nearest of these broken ones: breadth-first, against the direction of the steps."""
        distances = np.full(self._keys.size, _FAR, np.int16)
        distances[broken] = 0
        sources, targets = self._steps()
        for distance in range(_FAR):
            new = sources[(distances[targets] == distance) & (distances[sources] == _FAR)]
            if not new.size:
                break
            distances[new] = distance + 1
        return distances

    def _steps(self) -> tuple[_Places, _Places]:
        """All steps between states, as places of the states before and after."""
        sources, targets = [], []
        for start in range(0, self._keys.size, _CHUNK):
            for _, from_, to in self._successors(self._keys[start : start + _CHUNK]):
                sources.append((from_ + start).astype(np.int32))
                targets.append(self._places_of(to).astype(np.int32))
        return np.concatenate(sources), np.concatenate(targets)

    def _successors(self, keys: Keys) -> Iterator[tuple[str, Indices, Keys]]:
        """Actions with the states before (as places in `keys`) and after; a leader alone in its ISR raises its HW first."""
        alone = self.model.lone_leaders(keys) & self._machines.alone
        for batch in self.model.successors(keys):
            may = ~alone[batch.sources] | batch.action.endswith(RAISES_HW)
            yield batch.action, batch.sources[may], batch.keys[may]
