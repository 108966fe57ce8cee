"""The transition system that the explorer searches: initial state, possible actions and successor states.

In the initial state every broker is registered, the first one is controller and leader, one topic has one partition on all
brokers, and every follower's fetch is parked. Faults are bounded (`state.Bounds`), healing is not.

A timer fires only if it can change the state. A timer that waits for a reply fires only if neither request nor reply is in
flight. A timer does not fire at all if firing it and delivering its messages leads back to the same state. So a repeated fetch
without news is never delivered late; results for the whole space hold under this restriction.
"""

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from highwater.explore.canonical import Rules, bytes_of
from highwater.explore.machines import STALE, Machines, View
from highwater.explore.state import TOPIC, Bounds, Flight, Ghost, Host, Spent, State
from highwater.explore.transition import Transition, Witness
from highwater.explore.zookeeper import Standing, ZooKeepers, empty, new_topic
from highwater.plans.actions import (
    AnyAction,
    Crash,
    Deliver,
    Expire,
    Fire,
    Lose,
    Notice,
    Produce,
    Restart,
    ZkHear,
    ZkPerform,
)
from reference.config import BrokerConfig, TopicSpec, Variant
from reference.effects import SetTimer, WriteCheckpoint
from reference.events import TimerFired
from reference.messages import EpochEnd, EpochEndReply, Fetch, FetchReply, LeaderAndIsr, LogInfo, StopReplica
from reference.types import BrokerId

_ROUND_TRIPS_MAX = 3  # after which a timer counts as changing the state
_WARM_STEPS_MAX = 1000
_NOTHING = View()


class Model:
    """The transition system of one protocol variant within bounds on epochs and faults.

    Deterministic: equal states have equal successors in equal order.
    """

    def __init__(self, variant: Variant, bounds: Bounds, *, keep_versions: bool = False) -> None:
        """`keep_versions`: do not renumber the versions of the state znode, as when one schedule is performed again."""
        self.bounds = bounds
        brokers = tuple(BrokerId(number) for number in range(1, bounds.brokers + 1))
        topic = TopicSpec(name=TOPIC, partitions=1, replication_factor=bounds.brokers, min_insync_replicas=1, flush="none")
        self._brokers = brokers
        # Heartbeats and ISR changes through the controller (KIP-343) would multiply the schedules. The search is about leaders
        # and followers, so brokers use the inter-broker protocol before KIP-343.
        self._machines = Machines(
            tuple(
                BrokerConfig(broker=broker, variant=variant, topics=(topic,), inter_broker_protocol="legacy")
                for broker in brokers
            )
        )
        self._zookeepers = ZooKeepers()
        self._rules = Rules(
            machines=self._machines,
            zookeepers=self._zookeepers,
            zk_async=bounds.zk_async,
            # A reply in flight may have an old version, and the order of two old versions must be kept.
            keep_versions=keep_versions or bounds.zk_async,
            epoch_end_recheck=variant.epoch_end_recheck,
        )

    # --- the initial state ---------------------------------------------------------------------------------------------------

    def initial(self, witness: Witness | None = None) -> State:
        """The state after the cluster has started; `witness` is told of every step of the start."""
        cold = State(tuple(Host(False, 0, b"") for _ in self._brokers), empty(), (), Ghost(), Spent())
        transition = Transition(dataclasses.replace(self._rules, zk_async=False), cold, witness)
        for broker in self._brokers:
            transition.perform(Restart(node=f"b{broker}"))
        transition.create_topic(new_topic(self._brokers))
        for _ in range(_WARM_STEPS_MAX):
            if not transition.network:
                return transition.state()
            transition.perform(_deliver(transition.network, 0))
        raise AssertionError(f"the start-up did not end within {_WARM_STEPS_MAX} steps")

    # --- actions ---------------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[AnyAction, State]]:
        """All possible actions that may change the state, each with the state after it."""
        for action in self._actions(state):
            yield action, self.after(state, action)
        for number, host in enumerate(state.hosts, 1):
            for timer in host.timers if host.up else ():
                fire = Fire(node=f"b{number}", timer=timer)
                after = self._fired(state, number - 1, fire)
                if after is not None:
                    yield fire, after

    def _actions(self, state: State) -> Iterator[AnyAction]:
        """All possible actions but the firing of timers."""
        bounds, spent = self.bounds, state.spent
        seen: list[Flight] = []
        for position, flight in enumerate(state.network):
            if flight in seen:
                continue
            seen.append(flight)
            action = _deliver(state.network, position)
            yield action
            if spent.losses < bounds.losses:
                yield Lose(message=action.message, source=action.source, to=action.to, nth=action.nth)
        sessions = self._zookeepers.standing(state.zk).sessions
        for number, host in enumerate(state.hosts, 1):
            node = f"b{number}"
            has_session = host.session in sessions
            if not host.up:
                yield Restart(node=node)
                if has_session:
                    yield Expire(node=node)
            else:
                yield from self._of_living(state, node, host, has_session)
            if host.outbox:
                yield ZkPerform(node=node)

    def _of_living(self, state: State, node: str, host: Host, has_session: bool) -> Iterator[AnyAction]:
        bounds, spent = self.bounds, state.spent
        if state.ghost.produced < bounds.records and self._machines.view(host.core).leads:
            yield Produce(node=node)
        if spent.crashes < bounds.crashes:
            yield Crash(node=node)
        if has_session and spent.expiries < bounds.expiries:
            yield Expire(node=node)
        if host.inbox:
            yield ZkHear(node=node)
        elif not has_session:
            yield Notice(node=node)

    # --- timers -----------------------------------------------------------------------------------------------------------------

    def _fired(self, state: State, index: int, fire: Fire) -> State | None:
        """The state after a timer fires; None if it may not fire or would change nothing."""
        if not self._may_fire(state, index, fire.timer) or self._machine_stays(state.hosts[index], index, fire.timer):
            return None
        after = self.after(state, fire)
        return after if self._changes(state, after) else None

    def _machine_stays(self, host: Host, index: int, timer: str) -> bool:
        # Whether the machine only arms its timer again; a cheap check that decides most cases.
        try:
            core, effects = self._machines.handle(index, host.core, TimerFired(timer))
        except AssertionError:
            return False
        idle = (isinstance(e, SetTimer) or (isinstance(e, WriteCheckpoint) and e.entries == host.checkpoint) for e in effects)
        return core == host.core and all(idle)

    def _may_fire(self, state: State, index: int, timer: str) -> bool:
        kind, _, what = timer.partition(":")
        match kind:
            case "checkpoint":
                return state.spent.crashes < self.bounds.crashes  # it is read only after a crash
            case "fetch":
                return not self._answer_on_its_way(state, index)
            case "channel":
                to = int(what) - 1
                return not any(
                    f.source == index and f.to == to and isinstance(f.message, LeaderAndIsr | StopReplica | LogInfo)
                    for f in state.network
                    if f.message.correlation != STALE
                )
            case _:
                return True

    def _answer_on_its_way(self, state: State, index: int) -> bool:
        for flight in state.network:
            if flight.message.correlation != STALE and (
                (flight.source == index and isinstance(flight.message, Fetch | EpochEnd))
                or (flight.to == index and isinstance(flight.message, FetchReply | EpochEndReply))
            ):
                return True
        parked = (source for host in state.hosts if host.up for source, _ in self._machines.view(host.core).parked)
        return f"b{index + 1}" in parked

    def _changes(self, state: State, after: State) -> bool:
        # Whether the state differs after the messages of the timer have arrived.
        for _ in range(_ROUND_TRIPS_MAX):
            if _same(after, state):
                return False
            fresh = list(after.network)
            for flight in state.network:
                if flight in fresh:
                    fresh.remove(flight)
            if not fresh:
                return True
            after = self.after(after, _deliver(after.network, after.network.index(fresh[0])))
        return not _same(after, state)

    # --- successors ------------------------------------------------------------------------------------------------------------

    def after(self, state: State, action: AnyAction, witness: Witness | None = None) -> State:
        """The state after an action of the explorer, in canonical form. Raises transition.Impossible."""
        transition = Transition(self._rules, state, witness)
        transition.perform(action)
        return transition.state()

    def within(self, state: State) -> bool:
        """Whether the search looks at the successors of this state: its leader epoch is within the bound."""
        return self._zookeepers.standing(state.zk).leader_epoch < self.bounds.max_epochs

    def view(self, host: Host) -> View:
        """What one broker knows of the partition in this state; defaults if the broker is down."""
        return self._machines.view(host.core) if host.up else _NOTHING

    def standing(self, state: State) -> Standing:
        """What ZooKeeper holds of the partition in this state."""
        return self._zookeepers.standing(state.zk)


def _deliver(network: tuple[Flight, ...] | list[Flight], position: int) -> Deliver:
    """The action that delivers the message at this position in the network."""
    flight = network[position]
    kind = type(flight.message).__name__
    alike = [f for f in network if f.source == flight.source and f.to == flight.to and type(f.message).__name__ == kind]
    nth = 0 if len(alike) == 1 else sorted(alike, key=bytes_of).index(flight)
    return Deliver(message=kind, source=f"b{flight.source + 1}", to=f"b{flight.to + 1}", nth=nth)


def _same(one: State, other: State) -> bool:
    """Whether two states are equal except for armed timers."""
    return (
        one.zk == other.zk
        and one.network == other.network
        and one.ghost == other.ghost
        and [replace(host, timers=()) for host in one.hosts] == [replace(host, timers=()) for host in other.hosts]
    )
