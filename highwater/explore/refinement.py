"""Whether the machines implement the abstract model: every step of the explored world must be explained by the model's actions.

`picture_of` is the abstraction function. The search stops at the first step that no action explains; it is breadth-first, so no
shorter schedule has one. It counts which actions explained steps, so that a world in which nothing happens is no proof.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from highwater.explore.abstract.pictures import AskedIsr, Picture, ReplicaPicture, Unexplained, explain
from highwater.explore.abstract.rules import Rules
from highwater.explore.machine_world import MachineWorld
from highwater.explore.machines import Replica
from highwater.explore.state import Host, log_of, tp_of
from highwater.explore.strategy import Budget, limit_reached, resident_mib
from highwater.explore.transition import Key
from highwater.explore.zookeeper import Stated
from highwater.plans.actions import AnyAction, Path
from reference.coordination import paths
from reference.coordination.api import Data, SetData
from reference.messages import IsrChange
from reference.replica.partition import brokers_of
from reference.sealed import in_the_clear
from reference.types import BrokerId


class Refined(Struct, frozen=True, kw_only=True):
    """How the check ended. `left`: the last action of `path` is no step of the model, for the reason `wrong`."""

    end: Literal["left", "exhausted", "budget", "interrupted"]
    stopped_by: str = ""
    wrong: str = ""
    path: Path = ()
    states: int
    pictures: int  # distinct
    transitions: int
    depth: int
    explained: dict[str, int]  # by action: distinct steps between pictures that it explains
    seconds: float


class Refinement:
    """One breadth-first search of a world that checks each step. `clock` gives seconds."""

    def __init__(self, model: MachineWorld, rules: Rules, clock: Callable[[], float]) -> None:
        self._model = model
        self._rules = rules
        self._clock = clock
        self._start = clock()
        self._pictures: dict[Picture, int] = {}
        self._explained: set[tuple[int, int]] = set()
        self._counts: Counter[str] = Counter()
        self._parents: dict[Key, tuple[Key, AnyAction] | None] = {}
        self._replicas: dict[tuple[int, int], ReplicaPicture] = {}
        self._transitions = 0

    def run(self, budget: Budget, progress: Callable[[int, int], None] = lambda states, depth: None) -> Refined:
        """Search until a step is unexplained, all states are explored, the budget is used up or Ctrl-C is pressed.

        `progress` is called with (states, depth).
        """
        first = self._model.initial()
        self._parents[first] = None
        level = [first]
        depth = 0
        try:
            while level:
                if budget.depth is not None and depth >= budget.depth:
                    return self._result("budget", depth, stopped_by=f"depth {depth}")
                following: list[Key] = []
                for state in level:
                    stop = self._limit_reached(budget)
                    if stop:
                        return self._result("budget", depth, stopped_by=stop)
                    unexplained = self._expand(state, following)
                    if unexplained is not None:
                        return unexplained
                level = following
                depth += bool(level)
                progress(len(self._parents), depth)
        except KeyboardInterrupt:
            return self._result("interrupted", depth, stopped_by="an interrupt")
        return self._result("exhausted", depth)

    def _expand(self, state: Key, following: list[Key]) -> Refined | None:
        """Explain each step from this state; the result if one cannot be explained."""
        before = self._picture(state)
        for action, after in self._model.successors(state):
            self._transitions += 1
            wrong = self._explain_once(before, self._picture(after))
            if wrong:
                path = (*self._path_to(state), action)
                return self._result("left", len(path), wrong=wrong, path=path)
            if after not in self._parents and self._model.within(after):
                self._parents[after] = (state, action)
                following.append(after)
        return None

    def _limit_reached(self, budget: Budget) -> str:
        return limit_reached(budget, states=len(self._parents), seconds=self._clock() - self._start, memory_mib=resident_mib())

    def _picture(self, key: Key) -> Picture:
        return picture_of(self._model, key, self._replicas)

    def _explain_once(self, before: Picture, after: Picture) -> str:
        """Why no action of the model explains this step; "" if some do, or if the step was checked before."""
        pair = self._number(before), self._number(after)
        if pair in self._explained or pair[0] == pair[1]:
            return ""
        try:
            self._counts.update(set(explain(self._rules, before, after)))
        except Unexplained as error:
            return str(error)
        self._explained.add(pair)
        return ""

    def _number(self, picture: Picture) -> int:
        return self._pictures.setdefault(picture, len(self._pictures))

    def _path_to(self, state: Key) -> Path:
        """The actions from the initial state to this one."""
        actions: list[AnyAction] = []
        while (parent := self._parents[state]) is not None:
            state, action = parent
            actions.append(action)
        return tuple(reversed(actions))

    def _result(
        self,
        end: Literal["left", "exhausted", "budget", "interrupted"],
        depth: int,
        *,
        stopped_by: str = "",
        wrong: str = "",
        path: Path = (),
    ) -> Refined:
        """The result of the comparison so far."""
        return Refined(
            end=end,
            stopped_by=stopped_by,
            wrong=wrong,
            path=path,
            states=len(self._parents),
            pictures=len(self._pictures),
            transitions=self._transitions,
            depth=depth,
            explained=dict(sorted(self._counts.items())),
            seconds=self._clock() - self._start,
        )


def picture_of(model: MachineWorld, key: Key, replica_pictures: dict[tuple[int, int], ReplicaPicture]) -> Picture:
    """The abstraction of a state: what the replication model has variables for.

    `replica_pictures` keeps each replica's picture, by position and number of its host.
    """
    stated = model.standing(key).partitions[0]
    for index, number in enumerate(key[: model.bounds.brokers]):
        if (index, number) not in replica_pictures:
            replica_pictures[index, number] = _replica_picture(index, model.host(number), model.hosts(key)[index].replicas[0])
    return Picture(
        replicas=tuple(replica_pictures[place] for place in enumerate(key[: model.bounds.brokers])),
        leader=None if stated.leader is None else stated.leader - 1,
        epoch=stated.leader_epoch,
        isr=frozenset(broker - 1 for broker in stated.isr),
        asked=_requested_isrs(model, key, stated),
    )


def _requested_isrs(model: MachineWorld, key: Key, stated: Stated) -> frozenset[AskedIsr]:
    """The ISRs that the leader in ZooKeeper asked for; a new member must hold every record that anybody has committed."""
    if not (model.bounds.zk_async or model.bounds.kip343):
        return frozenset()
    version = model.standing(key).versions[0]
    isrs = {
        isr
        for *present, isr in _isr_changes_in_flight(model, key)
        if tuple(present) == (stated.leader, stated.leader_epoch, version)
    }
    hw = len(model.ghost(key).partitions[0].committed)
    return frozenset(AskedIsr(frozenset(broker - 1 for broker in isr), hw) for isr in isrs)


def _isr_changes_in_flight(model: MachineWorld, key: Key) -> Iterator[tuple[BrokerId | None, int, int, tuple[BrokerId, ...]]]:
    """Of each ISR change: the leader, epoch and version of the state that it is meant for, and the ISR."""
    tp = tp_of(0)
    requests = [flight.message for flight in model.network(key)]
    for number, facts in zip(key, model.hosts(key), strict=False):
        requests += facts.proposals
        for op in (op for request in model.host(number).outbox for op in request.ops):
            if isinstance(op, SetData) and op.path == paths.state_path(tp):
                state = paths.decode_state(tp, (), Data(op.data, op.version, czxid=0))
                yield state.leader, state.leader_epoch, op.version, brokers_of(state.isr)
    for request in requests:
        if isinstance(request, IsrChange):
            yield from ((request.broker, ask.leader_epoch, ask.zk_version, brokers_of(ask.isr)) for ask in request.changes)


def _replica_picture(index: int, host: Host, replica: Replica) -> ReplicaPicture:
    """A broker's replica as the model pictures it."""
    followed = None if replica.follows is None else replica.follows - 1
    return ReplicaPicture(
        up=host.up,
        log=tuple((value, batch.leader_epoch) for batch in log_of(host, tp_of(0)) for value in in_the_clear(batch.values)),
        hw=replica.hw,
        epoch=replica.leader_epoch,
        leader=index if replica.leads else followed,
        truncating=replica.truncating,
        isr=frozenset(broker - 1 for broker in replica.isr),
    )
