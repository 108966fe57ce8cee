"""The world of the machines: its initial state, possible actions and their successor states.

In the initial state every broker is registered, the first one is controller and leads the partitions of the one topic, which
are on all brokers (with `Bounds.moves` on all but the last), and every follower's fetch is parked. Faults and moves are bounded
(`state.Bounds`), healing is not.

A timer fires only if it can change the state. A timer that waits for a reply fires only if neither request nor reply is in
flight. A timer does not fire at all if firing it and delivering its messages leads back to the same state. So a repeated fetch
without news is never delivered late; results for the whole space hold under this restriction. With KIP-343 (`Bounds.kip343`) a
heartbeat may be late at any time: the timers of silence and of the fence are not counted as faults.
"""

from array import array
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Literal, assert_never

from highwater.explore.canonical import delivery_of, waiting_timer
from highwater.explore.machines import Machines
from highwater.explore.properties import goals_of, properties_of
from highwater.explore.state import TOPIC, Bounds, Flight, Ghost, Host, Promised, Spent, State, tp_of
from highwater.explore.steps import HostFacts
from highwater.explore.transition import Draft, Key, Transitions, Witness
from highwater.explore.zookeeper import Standing, empty, move_requests, topic_request
from highwater.plans.actions import (
    AnyAction,
    Crash,
    Deliver,
    Double,
    Expire,
    Fire,
    Lose,
    Move,
    Notice,
    Produce,
    Restart,
    ZkHear,
    ZkPerform,
)
from reference.config import BrokerConfig, TopicSpec, Variant
from reference.node import NodeState
from reference.timers import Timer, timer_named
from reference.types import BrokerId

_DELIVERIES_MAX = 3  # after which a timer counts as changing the state
_WARM_STEPS_MAX = 1000

OfMessage = Deliver | Lose | Double
OfProcess = Crash | Restart | Expire | Notice | ZkHear | ZkPerform
OfBroker = Produce | OfProcess


class Impossible(Exception):  # noqa: N818 - not an error of the program
    """The explorer's action is not possible in this state; the message says why."""


class MachineWorld:
    """The world of the machines for one protocol variant within bounds on epochs and faults.

    Deterministic: equal states have equal successors in equal order.
    """

    exact = False

    def __init__(self, variant: Variant, bounds: Bounds, *, keep_versions: bool = False) -> None:
        """`keep_versions`: do not renumber the versions of the state znode, as when one schedule is performed again."""
        self.bounds = bounds
        self._size = bounds.brokers
        self._ids = tuple(BrokerId(number) for number in range(1, bounds.brokers + 1))
        self._reassign_path = variant.reassign_path
        topic = TopicSpec(
            name=TOPIC,
            partitions=bounds.partitions,
            replication_factor=bounds.replicas,
            min_insync_replicas=1,
            flush="none",
        )
        # Heartbeats and ISR changes through the controller (KIP-343) multiply the schedules. A search about leaders and followers
        # alone does without, by the inter-broker protocol before KIP-343.
        version: Literal["legacy", "kip343"] = "kip343" if bounds.kip343 else "legacy"
        machines = Machines(
            tuple(
                BrokerConfig(broker=broker, variant=variant, topics=(topic,), inter_broker_protocol=version)
                for broker in self._ids
            )
        )
        self._machines = machines
        self._transitions = Transitions(
            machines,
            self._size,
            epoch_end_recheck=variant.epoch_end_recheck,
            zk_async=bounds.zk_async,
            # A reply or a proposal in flight may have an old version, and the order of two old versions must be kept.
            keep_versions=keep_versions or bounds.zk_async or bounds.kip343,
        )
        self.parts = self._transitions.parts
        self._hosts = self._transitions.hosts
        self._performers: dict[type[OfProcess], Callable[[Draft, int], None]] = {
            Crash: self._transitions.crash,
            Restart: self._transitions.start,
            Expire: self._transitions.expire,
            Notice: self._transitions.notice,
            ZkHear: self._transitions.hear_oldest,
            ZkPerform: self._transitions.perform_oldest,
        }
        self._actions: dict[tuple[type[OfProcess], int], OfProcess] = {}
        self.properties = properties_of(self)
        self.goals = goals_of(self)

    # --- states ---------------------------------------------------------------------------------------------------------------

    def initial(self, witness: Witness | None = None) -> Key:
        """The state after the cluster has started; `witness` is told of every step of the start."""
        transitions, number = self._transitions, self.parts.of
        ghost = Ghost((Promised(),) * self.bounds.partitions)
        transitions.zk_async = False  # the start is one schedule
        cold = (*(number(Host(False, 0, ())) for _ in self._ids), number(empty()), number(ghost), number(Spent()))
        draft = transitions.draft(cold, witness)
        for index in range(self._size):
            transitions.start(draft, index)
            transitions.settle(draft)
        if draft.flights:
            draft = transitions.draft(self._state_at_rest(draft, witness), witness)  # the controller has heard of every broker
        transitions.administer(draft, (topic_request(self._ids[: self.bounds.replicas], self.bounds.partitions),))
        key = self._state_at_rest(draft, witness)
        transitions.zk_async = self.bounds.zk_async
        return key

    def _state_at_rest(self, draft: Draft, witness: Witness | None) -> Key:
        """Deliver all messages, one after another; the state in which none is in flight."""
        for _ in range(_WARM_STEPS_MAX):
            key = self._transitions.state_after(draft)
            if not self._flights(key):
                return key
            draft = self._transitions.draft(key, witness)
            self._transitions.deliver(draft, 0)
        raise AssertionError(f"the start-up did not end within {_WARM_STEPS_MAX} steps")

    def state(self, key: Key) -> State:
        """The parts of a state."""
        tree = self.parts.values[key[self._size]]
        assert isinstance(tree, bytes)
        hosts = tuple(self._transitions.brokers.host(number) for number in key[: self._size])
        return State(hosts, tree, self.network(key), self.ghost(key), self.spent(key))

    def node_state(self, key: Key, index: int) -> NodeState | None:
        """The state of the broker at this position; None if it is down."""
        host = self._transitions.brokers.host(key[index])
        return self._machines.node_state(index, host.core) if host.up else None

    def network(self, key: Key) -> tuple[Flight, ...]:
        """The messages in flight in a state."""
        flights = (self.parts.values[number] for number in self._flights(key))
        return tuple(flight for flight in flights if isinstance(flight, Flight))

    def hosts(self, key: Key) -> list[HostFacts]:
        """What each broker knows of the partition in a state, and the records on its disk."""
        return [self._hosts[number] for number in key[: self._size]]

    def host(self, number: int) -> Host:
        """The broker with this number, the part of a state."""
        return self._transitions.brokers.host(number)

    def standing(self, key: Key) -> Standing:
        """What ZooKeeper holds of the partition in a state."""
        return self._transitions.standings[key[self._size]]

    def ghost(self, key: Key) -> Ghost:
        """The promised records in a state."""
        return self._transitions.ghosts[key[self._size + 1]]

    def spent(self, key: Key) -> Spent:
        """The faults so far in a state."""
        return self._transitions.spent[key[self._size + 2]]

    def within(self, key: Key) -> bool:
        """Whether the leader epochs of a state are within the bound; the search does not count states beyond."""
        return all(stated.leader_epoch < self.bounds.max_epochs for stated in self.standing(key).partitions)

    def fingerprint(self, key: Key) -> bytes:
        """A hash of a state's parts."""
        return self.parts.fingerprint(key)

    def pack(self, key: Key) -> bytes:
        """Encode a state as the numbers of its parts."""
        return array("I", key).tobytes()

    def unpack(self, packed: bytes) -> Key:
        """Decode a state that this process packed."""
        return tuple(array("I", packed))

    # --- actions ----------------------------------------------------------------------------------------------------------------

    def successors(self, key: Key) -> Iterator[tuple[AnyAction, Key]]:
        """All possible actions that may change the state, each with the state after it."""
        transitions = self._transitions
        for action, position in self._message_actions(key):
            if isinstance(action, Deliver):
                yield action, transitions.state_after_arrival(key, position)
                continue
            draft = transitions.draft(key)
            self._perform_on_message(draft, action, position)
            yield action, transitions.state_after(draft)
        for index in range(self._size):
            for act in self._broker_actions(key, index):
                draft = transitions.draft(key)
                self._perform_on_broker(draft, act, index)
                yield act, transitions.state_after(draft)
        waits = {transitions.flights[number].wait for number in self._flights(key)}
        for index in range(self._size):
            for timer in transitions.brokers.busy_timers(index, key[index]):
                after = self._key_after_timer(key, index, timer, waits)
                if after is not None:
                    yield Fire(node=f"b{index + 1}", timer=timer), after
        for move in self._possible_moves(key):
            draft = transitions.draft(key)
            self._perform_move(draft, move)
            yield move, transitions.state_after(draft)

    def _perform_on_broker(self, draft: Draft, action: OfBroker, index: int) -> None:
        """Let a client produce to a broker, or something happen to the broker's process or session."""
        if isinstance(action, Produce):
            self._transitions.produce(draft, index, action.partition)
        else:
            self._performers[type(action)](draft, index)

    def _perform_move(self, draft: Draft, move: Move) -> None:
        replicas = tuple(BrokerId(broker) for broker in move.replicas)
        self._transitions.move(draft, move_requests(tp_of(move.partition), replicas, self._reassign_path))

    def _perform_on_message(self, draft: Draft, action: OfMessage, position: int) -> None:
        """Deliver, lose or double the message at this position."""
        match action:
            case Deliver():
                self._transitions.deliver(draft, position)
            case Lose():
                self._transitions.lose(draft, position)
            case Double():
                self._transitions.double(draft, position)

    def _message_actions(self, key: Key) -> Iterator[tuple[OfMessage, int]]:
        """The possible arrivals, losses and doublings, each with the position of its message in the network."""
        # Flights are sorted: alike ones and equal ones are neighbours.
        flights = self._transitions.flights
        lossy = self.spent(key).losses < self.bounds.losses
        doubling = self.spent(key).doubles < self.bounds.doubles
        last = -1
        nth = 0
        link = (-1, -1, "")
        for position, number in enumerate(self._flights(key)):
            facts = flights[number]
            nth = nth + 1 if facts.link == link else 0
            link = facts.link
            if number == last:
                continue
            last = number
            action = delivery_of(link, nth)
            yield action, position
            if lossy:
                yield Lose(message=action.message, source=action.source, to=action.to, nth=nth), position
            if doubling:
                yield Double(message=action.message, source=action.source, to=action.to, nth=nth), position

    def _possible_moves(self, key: Key) -> Iterator[Move]:
        """The moves that an administrator may ask for: one at a time, to as many brokers as hold the partition."""
        bounds = self.bounds
        standing = self.standing(key)
        if self.spent(key).moves >= bounds.moves or standing.moving:
            return
        for number, stated in enumerate(standing.partitions):
            for replicas in combinations(self._ids, bounds.replicas):
                if set(replicas) != set(stated.assigned):
                    yield Move(partition=number, replicas=replicas)

    def _broker_actions(self, key: Key, index: int) -> list[OfBroker]:
        """The possible actions of one broker, its session and its link to ZooKeeper."""
        facts = self._hosts[key[index]]
        ghost = self.ghost(key)
        actions: list[OfBroker] = []
        if facts.up and ghost.produced < self.bounds.records:
            leading = (number for number, replica in enumerate(facts.replicas) if replica.leads)
            actions += [Produce(node=f"b{index + 1}", partition=number) for number in leading]
        return actions + [self._process_action(kind, index) for kind in self._process_kinds(key, index)]

    def _process_kinds(self, key: Key, index: int) -> list[type[OfProcess]]:
        """The kinds of actions that a broker's process can take now."""
        bounds = self.bounds
        spent = self.spent(key)
        facts = self._hosts[key[index]]
        has_session = facts.session in self.standing(key).sessions
        if not facts.up:
            kinds: list[type[OfProcess]] = [Restart, Expire] if has_session else [Restart]
        else:
            kinds = []
            if spent.crashes < bounds.crashes:
                kinds.append(Crash)
            if has_session and spent.expiries < bounds.expiries:
                kinds.append(Expire)
            if facts.hears:
                kinds.append(ZkHear)
            elif not has_session:
                kinds.append(Notice)
        if facts.asks:
            kinds.append(ZkPerform)
        return kinds

    def kind(self, action: AnyAction) -> str:
        """The kind of an action, as plans name it."""
        return str(type(action).__struct_config__.tag)

    def actor(self, action: AnyAction) -> str:
        """A broker, a link, a client or the faults of a broker: who is slow when an action is delayed."""
        match action:
            case Deliver(source=source, to=to) | Lose(source=source, to=to) | Double(source=source, to=to):
                return f"{source} {to}"
            case Fire(node=node) | ZkHear(node=node) | ZkPerform(node=node) | Notice(node=node):
                return node
            case Produce():
                return "client"
            case Move():
                return "administrator"
            case Crash(node=node) | Restart(node=node) | Expire(node=node):
                return f"faults {node}"
            case _:
                assert_never(action)

    def _process_action(self, kind: type[OfProcess], index: int) -> OfProcess:
        cached = self._actions.get((kind, index))
        if cached is None:
            cached = self._actions[kind, index] = kind(node=f"b{index + 1}")
        return cached

    # --- timers -----------------------------------------------------------------------------------------------------------------

    def _key_after_timer(self, key: Key, index: int, timer: str, waits: set[tuple[str, int]]) -> Key | None:
        """The state after a timer fires; None if it may not fire or would change nothing. `waits`: of all messages in flight."""
        transitions = self._transitions
        if (waiting_timer(timer), index) in waits or not self._may_fire(key, index, timer):
            return None
        draft = transitions.draft(key)
        transitions.fire(draft, index, timer)
        after = transitions.state_after(draft)
        return after if self._differs_after_replies(key, after) else None

    def _may_fire(self, key: Key, index: int, timer: str) -> bool:
        """Whether firing this timer can make a difference."""
        if timer == "checkpoint":
            return self.spent(key).crashes < self.bounds.crashes  # it is read only after a crash
        kind, about = timer_named(timer)
        if kind is Timer.FETCH:
            return not any((index, about) in self._hosts[host].parked for host in key[: self._size])
        return True

    def _differs_after_replies(self, key: Key, after: Key) -> bool:
        """Whether the state after a timer differs in more than timers once its messages are delivered.

        It does if they lead to more than _DELIVERIES_MAX messages.
        """
        before = self._flights(key)
        for _ in range(_DELIVERIES_MAX):
            if self._equal_but_timers(after, key):
                return False
            flights = self._flights(after)
            sent = [*flights]
            for flight in before:
                if flight in sent:
                    sent.remove(flight)
            if not sent:
                return True
            after = self._transitions.state_after_arrival(after, flights.index(sent[0]))
        return not self._equal_but_timers(after, key)

    def _flights(self, key: Key) -> tuple[int, ...]:
        """The messages in flight, as numbers."""
        return key[self._size + 3 :]

    def _equal_but_timers(self, first: Key, second: Key) -> bool:
        """Whether two states are equal except for armed timers and spent faults."""
        size, hosts = self._size, self._hosts
        return (
            first[size : size + 2] == second[size : size + 2]
            and first[size + 3 :] == second[size + 3 :]
            and all(hosts[a].resting == hosts[b].resting for a, b in zip(first[:size], second[:size], strict=True))
        )

    # --- named actions ----------------------------------------------------------------------------------------------------------

    def after(self, key: Key, action: AnyAction, witness: Witness | None = None) -> Key:
        """The state after an action of the explorer. Raises Impossible."""
        transitions = self._transitions
        draft = transitions.draft(key, witness)
        match action:
            case Deliver() | Lose() | Double():
                self._perform_on_message(draft, action, self._position_in_network(key, action))
            case Fire(node=node, timer=timer):
                index = self._broker_position(node)
                if timer not in self._hosts[key[index]].timers:
                    raise Impossible(f"{node} has no timer {timer}")
                transitions.fire(draft, index, timer)
            case Produce() | Crash() | Restart() | Expire() | Notice() | ZkHear() | ZkPerform():
                index = self._broker_position(action.node)
                self._check_possible(key, action, index)
                self._perform_on_broker(draft, action, index)
            case Move():
                self._check_move(key, action)
                self._perform_move(draft, action)
            case _:
                assert_never(action)
        return transitions.state_after(draft)

    def _check_possible(self, key: Key, action: OfBroker, index: int) -> None:
        """Raise Impossible unless a broker's action is possible."""
        facts = self._hosts[key[index]]
        node = action.node
        kind = type(action)
        has_session = facts.session in self.standing(key).sessions
        refusals = (
            (kind is Restart and facts.up, f"{node} is up"),
            (kind in (Produce, Crash, Notice, ZkHear) and not facts.up, f"{node} is down"),
            (kind is Expire and not has_session, f"{node} has no session"),
            (kind is Notice and has_session, f"the session of {node} has not expired"),
            (kind is ZkHear and not facts.hears, f"no event from ZooKeeper to {node} is in flight"),
            (kind is ZkPerform and not facts.asks, f"no request from {node} to ZooKeeper is in flight"),
        )
        for refusal, reason in refusals:
            if refusal:
                raise Impossible(reason)

    def _check_move(self, key: Key, move: Move) -> None:
        """Raise Impossible unless an administrator may move this partition to these brokers."""
        if move.partition not in range(self.bounds.partitions) or not set(move.replicas) <= set(self._ids):
            raise Impossible(f"unknown partition {move.partition} or unknown broker in {move.replicas}")
        if self.standing(key).moving:
            raise Impossible("a move is under way")

    def _position_in_network(self, key: Key, action: OfMessage) -> int:
        """The position in the network of the message that an action names. Raises Impossible."""
        link = (self._broker_position(action.source), self._broker_position(action.to), action.message)
        flights = self._transitions.flights
        alike = [at for at, number in enumerate(self._flights(key)) if flights[number].link == link]
        if action.nth >= len(alike):
            raise Impossible(f"no {action.message} number {action.nth} from {action.source} to {action.to} is in flight")
        return alike[action.nth]

    def _broker_position(self, node: str) -> int:
        """The position of broker `b1`, `b2` … Raises Impossible for an unknown one."""
        digits = node.removeprefix("b")
        if not digits.isdecimal() or not 1 <= int(digits) <= self._size:
            raise Impossible(f"unknown broker {node}; brokers are b1 to b{self._size}")
        return int(digits) - 1
