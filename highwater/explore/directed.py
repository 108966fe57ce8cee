"""Directed search: realise a counterexample of the abstract model on the machines.

Each state of the machines has a place in the model: the model's state that its picture shows (`refinement.picture_of`).
The search expands states best-first by the distance of their place from a violation (`abstract.guide`). A step that
leaves the place as it is, is free, up to `STUTTERS_MAX` in a row. A step to a place without a way to a violation is cut.

The model is a guide only: what counts as a violation is a property of the world of the machines.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from highwater.explore.abstract.guide import Guide
from highwater.explore.abstract.kafka_replication import Replica, Situation
from highwater.explore.abstract.pictures import Picture, ReplicaPicture
from highwater.explore.machine_world import Impossible, MachineWorld
from highwater.explore.refinement import picture_of
from highwater.explore.strategy import (
    Budget,
    End,
    Judge,
    Progress,
    Result,
    Violation,
    few_collections,
    limit_reached,
    resident_mib,
)
from highwater.explore.transition import Key
from highwater.explore.world import Property
from highwater.plans.actions import AnyAction, Path

STUTTERS_MAX = 16
_ROUND = 64  # states between two looks at the budget


class Node(Struct, frozen=True):
    """A state of the machines with its place in the model, and how the search came to it."""

    key: Key
    place: Situation
    parent: int  # -1 for the first one
    action: AnyAction | None
    depth: int
    stutters: int


class Frontier(Struct, frozen=True, kw_only=True):
    """How near a search came: the smallest distance, and the model's actions that no step of the machines performed there."""

    distance: int
    wanted: tuple[str, ...]
    path: Path


class Directed:
    """One directed search. `clock` gives seconds, for the budget and the result only."""

    def __init__(
        self, model: MachineWorld, guide: Guide, properties: tuple[Property[Key], ...], clock: Callable[[], float]
    ) -> None:
        self._model = model
        self._guide = guide
        self._judge = Judge(properties, model.goals)
        self._clock = clock
        self._start = clock()
        self._nodes: list[Node] = []
        self._seen: set[tuple[Key, int]] = set()
        self._places: dict[Situation, int] = {}
        self._replicas: dict[tuple[int, int], ReplicaPicture] = {}
        self._unexpanded: dict[int, deque[int]] = {}  # nodes not yet expanded, by distance
        self._broken: list[tuple[str, str]] = []
        self._transitions = self._beyond = self._deepest = self._turn = 0
        self._nearest = -1  # the node of the smallest distance
        self._first = model.initial()
        self.start = self._situation_after(self._first)
        self.cut = 0  # steps to places from which no violation is in reach

    def run(self, budget: Budget, progress: Progress = lambda states, depth: None) -> Result[AnyAction]:
        """Search until a property is broken, nothing is left to expand, the budget is used up or Ctrl-C is pressed."""
        if self._guide.of(self.start) is None:
            return self._result("budget", "the start")
        self._add(Node(self._first, self.start, -1, None, 0, 0))
        stop = ""
        try:
            with few_collections():
                while self._unexpanded and not self._broken and not stop:
                    self._expand(self._take_next())
                    if self._turn % _ROUND == 0:
                        progress(len(self._nodes), self._deepest)
                        seconds = self._clock() - self._start
                        stop = limit_reached(budget, states=len(self._nodes), seconds=seconds, memory_mib=resident_mib())
        except KeyboardInterrupt:
            return self._result("interrupted", "an interrupt")
        if self._broken:
            return self._result("violated", "")
        # What was cut was not searched, so an empty queue proves nothing.
        return self._result("budget", stop or "the end of all paths toward a violation")

    def nearest_miss(self) -> Frontier | None:
        """How near the search came; None if no violation is in reach of the start."""
        if self._nearest < 0:
            return None
        node = self._nodes[self._nearest]
        distance = self._guide.of(node.place)
        assert distance is not None
        return Frontier(distance=distance, wanted=self._guide.actions_toward(node.place), path=self._path_to(self._nearest))

    # --- the queue ------------------------------------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        """Enter a state into the queue of its distance."""
        distance = self._guide.of(node.place)
        assert distance is not None
        if self._nearest < 0 or distance < self._distance(self._nearest):
            self._nearest = len(self._nodes)
        self._unexpanded.setdefault(distance, deque()).append(len(self._nodes))
        self._nodes.append(node)

    def _distance(self, number: int) -> int:
        return self._guide.of(self._nodes[number].place) or 0

    def _take_next(self) -> int:
        """Take a state from the queue: every second time one of the nearest, every fourth one of the next nearest, and so on.

        So no plateau of equal distances can take all the time.
        """
        self._turn += 1
        distances = sorted(self._unexpanded)
        rank = min((self._turn & -self._turn).bit_length() - 1, len(distances) - 1)
        distance = distances[rank]
        queue = self._unexpanded[distance]
        number = queue.popleft()
        if not queue:
            del self._unexpanded[distance]
        return number

    # --- steps ----------------------------------------------------------------------------------------------------------------

    def _expand(self, number: int) -> None:
        """Perform each action on the state; those whose place has no way to a violation are cut."""
        node = self._nodes[number]
        for action, after in self._model.successors(node.key):
            self._transitions += 1
            if not self._model.within(after):
                self._beyond += 1
                continue
            place = self._situation_after(after, node.place)
            stutters = node.stutters + 1 if place == node.place else 0
            if self._guide.of(place) is None or stutters > STUTTERS_MAX:
                self.cut += 1
                continue
            visit = (after, self._places.setdefault(place, len(self._places)))
            if visit in self._seen:
                continue
            self._seen.add(visit)
            self._deepest = max(self._deepest, node.depth + 1)
            self._add(Node(after, place, number, action, node.depth + 1, stutters))
            self._broken = self._judge.newly_broken(after)
            if self._broken:
                return

    def _situation_after(self, key: Key, before: Situation | None = None) -> Situation:
        picture = picture_of(self._model, key, self._replicas)
        return situation_of(picture, self._model.ghost(key).produced, before)

    def _path_to(self, number: int) -> Path:
        """The actions from the initial state to this one."""
        actions: list[AnyAction] = []
        node = self._nodes[number]
        while node.action is not None:
            actions.append(node.action)
            node = self._nodes[node.parent]
        return tuple(reversed(actions))

    def _result(self, end: End, stop: str) -> Result[AnyAction]:
        """The result of the search so far."""
        path = self._path_to(len(self._nodes) - 1) if self._nodes else ()
        return Result(
            end=end,
            stopped_by=stop,
            violations=tuple(Violation(name, wrong, path) for name, wrong in self._broken),
            states=len(self._nodes),
            transitions=self._transitions,
            depth=self._deepest,
            frontier=sum(map(len, self._unexpanded.values())),
            beyond=self._beyond,
            seconds=self._clock() - self._start,
            goals=tuple(self._judge.reached),
            memory_mib=resident_mib(),
        )


def situation_of(picture: Picture, written: int, before: Situation | None) -> Situation:
    """The place in the model of a picture whose predecessor had the place `before`.

    The model's requests are the writes of the controller so far. A replica that is in between (down, without a leader, or with a
    log not truncated yet) keeps its former place, as one of the model that has not acted yet.
    """
    requests = () if before is None else before.requests
    while len(requests) < picture.epoch:
        requests += ((None, picture.isr),)  # an epoch that passed within one step
    if len(requests) == picture.epoch:
        requests += ((picture.leader, picture.isr),)
    replicas = tuple(
        _replica_of_picture(now, None if before is None else before.replicas[index]) for index, now in enumerate(picture.replicas)
    )
    return Situation(replicas=replicas, requests=requests, isr=picture.isr, next_record=written)


def _replica_of_picture(now: ReplicaPicture, before: Replica | None) -> Replica:
    """The model's replica that a picture shows; one in between keeps its former place, with the records on its disk."""
    log = tuple((int(value.removeprefix("v")) - 1, epoch) for value, epoch in now.log)
    if before is not None and (not now.up or now.leader is None or now.truncating):
        return before if log == before.log else replace(before, log=log, hw=min(before.hw, len(log)))
    return Replica(log=log, hw=now.hw, epoch=now.epoch, leader=now.leader, isr=now.isr)


def with_shorter_path(model: MachineWorld, result: Result[AnyAction]) -> Result[AnyAction]:
    """A result whose first violation has the path that `shorten_path` leaves."""
    violation = result.violations[0]
    (property_,) = (property_ for property_ in model.properties if property_.name == violation.name)
    path = shorten_path(model, violation.path, property_)
    return replace(result, violations=(replace(violation, path=path), *result.violations[1:]))


def shorten_path(model: MachineWorld, path: Path, property_: Property[Key]) -> Path:
    """The path without actions that the violation does not need, the last ones first; it ends with the violation."""
    width = max(1, len(path) // 2)
    while width:
        at = len(path) - width
        while at >= 0:
            shorter = _violating_prefix(model, path[:at] + path[at + width :], property_)
            if shorter is None:
                at -= 1
            else:
                path, at = shorter, min(at, len(shorter) - width)
        width -= 1
    return path


def _violating_prefix(model: MachineWorld, path: Path, property_: Property[Key]) -> Path | None:
    """The path up to the first state that breaks the property; None if none does, or an action is impossible."""
    key = model.initial()
    for number, action in enumerate(path, 1):
        try:
            key = model.after(key, action)
        except Impossible:
            return None
        if property_.broken(key):
            return path[:number]
    return None
