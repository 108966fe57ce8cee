"""The explored world: where it starts, what may happen next, and what comes of it.

It starts warm: every broker registered, the first one controller and leader, one topic with one partition on all brokers, every
follower's fetch parked. Perturbations are counted (`state.Bounds`), healing is not.

A timer may fire only where it can change something. One that waits for an answer fires only when the answer is not on its way;
and where firing it and delivering what it sends leads straight back, it does not fire at all. So a fetch that leaves for a
second time with nothing to report is not among the messages that may come late: that is the price of this rule, and what is
said of a space that was searched to its end is said within it.
"""

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from highwater.explore.canonical import bytes_of
from highwater.explore.machines import STALE, Machines, View
from highwater.explore.rules import Rules
from highwater.explore.stage import Stage, Witness
from highwater.explore.state import TOPIC, Bounds, Flight, Ghost, Host, Spent, State
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

_ROUND_TRIPS_MAX = 3  # of messages that a timer sets going before it counts as changing something
_WARM_STEPS_MAX = 1000
_NOTHING = View()


class Model:
    """The worlds of one protocol within bounds. Deterministic: equal states, equal successors in equal order."""

    def __init__(self, variant: Variant, bounds: Bounds, *, keep_versions: bool = False) -> None:
        """`keep_versions` is for those who perform one path and want to see the versions of the state znode as they are."""
        self.bounds = bounds
        brokers = tuple(BrokerId(number) for number in range(1, bounds.brokers + 1))
        topic = TopicSpec(name=TOPIC, partitions=1, replication_factor=bounds.brokers, min_insync_replicas=1, flush="none")
        self._brokers = brokers
        # Heartbeats and the controller's part in ISR changes (KIP-343) would multiply the schedules: the search is about the
        # protocol that leaders and followers keep, with the inter-broker protocol of before.
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
            # An answer on its way may hold an old version: which of two is older must stay visible.
            keep_versions=keep_versions or bounds.zk_async,
            epoch_end_recheck=variant.epoch_end_recheck,
        )

    # --- the beginning --------------------------------------------------------------------------------------------------------

    def initial(self, witness: Witness | None = None) -> State:
        """The warm world."""
        cold = State(tuple(Host(False, 0, b"") for _ in self._brokers), empty(), (), Ghost(), Spent())
        stage = Stage(dataclasses.replace(self._rules, zk_async=False), cold, witness)
        for broker in self._brokers:
            stage.perform(Restart(node=f"b{broker}"))
        stage.create_topic(new_topic(self._brokers))
        for _ in range(_WARM_STEPS_MAX):
            if not stage.network:
                return stage.state()
            stage.perform(_deliver(stage.network, 0))
        raise AssertionError("the warm start does not end")

    # --- what may happen --------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[AnyAction, State]]:
        """All actions that can be performed and may change something, with what comes of them."""
        for action in self._actions(state):
            yield action, self.after(state, action)
        for number, host in enumerate(state.hosts, 1):
            for timer in host.timers if host.up else ():
                fire = Fire(node=f"b{number}", timer=timer)
                after = self._fired(state, number - 1, fire)
                if after is not None:
                    yield fire, after

    def _actions(self, state: State) -> Iterator[AnyAction]:
        """All but the timers."""
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
        """What comes of a timer that fires; None where it may not or would change nothing."""
        if not self._may_fire(state, index, fire.timer) or self._machine_stays(state.hosts[index], index, fire.timer):
            return None
        after = self.after(state, fire)
        return after if self._changes(state, after) else None

    def _machine_stays(self, host: Host, index: int, timer: str) -> bool:
        """Whether the machine does nothing but arm its timer again: a cheap answer for most."""
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
                return state.spent.crashes < self.bounds.crashes  # read again only after a crash
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
        """Whether the world is another one when what the timer sent has arrived."""
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

    # --- what comes of it -------------------------------------------------------------------------------------------------------

    def after(self, state: State, action: AnyAction, witness: Witness | None = None) -> State:
        """The state after an action, in canonical form. Raises stage.Impossible."""
        stage = Stage(self._rules, state, witness)
        stage.perform(action)
        return stage.state()

    def within(self, state: State) -> bool:
        """Whether this state is followed."""
        return self._zookeepers.standing(state.zk).leader_epoch < self.bounds.max_epochs

    def view(self, host: Host) -> View:
        """What an onlooker reads off a broker; of one that is down nothing."""
        return self._machines.view(host.core) if host.up else _NOTHING

    def standing(self, state: State) -> Standing:
        """What an onlooker reads in ZooKeeper."""
        return self._zookeepers.standing(state.zk)


def _deliver(network: tuple[Flight, ...] | list[Flight], position: int) -> Deliver:
    """The action that delivers the message at this position."""
    flight = network[position]
    kind = type(flight.message).__name__
    alike = [f for f in network if f.source == flight.source and f.to == flight.to and type(f.message).__name__ == kind]
    nth = 0 if len(alike) == 1 else sorted(alike, key=bytes_of).index(flight)
    return Deliver(message=kind, source=f"b{flight.source + 1}", to=f"b{flight.to + 1}", nth=nth)


def _same(one: State, other: State) -> bool:
    """Equal but for timers that are armed: those that can change nothing do not count."""
    return (
        one.zk == other.zk
        and one.network == other.network
        and one.ghost == other.ghost
        and [replace(host, timers=()) for host in one.hosts] == [replace(host, timers=()) for host in other.hosts]
    )
