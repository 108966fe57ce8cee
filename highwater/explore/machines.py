"""Runs broker machines as memoized functions on encoded states: (core, event) -> (core, effects).

A core is the state of a node without its configuration, which never changes. Handling depends on core and event alone because the
clock stands still: every event happens at 0, except the `isr` timer, which fires after all lag times (`LATE_MS`), and the `park`
timer, which fires when a parked fetch has waited long enough. So a follower may lag in any schedule, and clients never time out.

Canonical form: correlation and request ids are renumbered in their order; an id without a pending request becomes -1 (peers) or
0 (ZooKeeper). The version of a state znode becomes 1 if it is the present one and 0 if it is older; with asynchronous
ZooKeeper and with KIP-343 versions are kept. Ids are only compared for equality and versions only with the present one, so the
renumbered state has the same future.
"""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from highwater.explore.state import tp_of
from reference.broker.broker import Broker
from reference.config import BrokerConfig, asks_controller
from reference.controller.context import Controller
from reference.effects import AnyEffect
from reference.events import AnyEvent, Booted, DirImage, TimerFired
from reference.machine import Ids, Now
from reference.messages import AnyMessage, IsrChange, LeaderAndIsr, PartitionState
from reference.node import Node, NodeState
from reference.replica.partition import Follower, FollowerStep, Leader, ParkedFetch, Partition, brokers_of
from reference.types import BrokerId, Millis, TopicPartition, ZkVersion, index_of

LATE_MS = 1_000_000_000
STALE = -1  # correlation of a request whose reply is ignored

Encoded = tuple[bytes, ...]  # a core: broker and controller apart, because one often stays while the other changes; empty if down
Handled = tuple[Encoded, tuple[AnyEffect, ...]]
Waiting = tuple[int, ...]  # correlations of a node's pending requests, ascending
Versions = tuple[int, ...]  # of the state znode of each partition, -1 if there is none
ANY_VERSIONS: Versions = ()  # do not renumber versions


class Process(Struct):
    """The state of a broker process without its controller, configuration and disk."""

    life: int
    session: int
    ids: Ids
    broker: Broker


class Core(Struct):
    """The state of a broker process without its configuration and disk."""

    process: Process
    controller: Controller

    @property
    def broker(self) -> Broker:
        """The machine of the broker."""
        return self.process.broker


class Replica(Struct, frozen=True):
    """What the search needs to know about one partition, decoded from the state of one broker."""

    leads: bool = False
    leader_epoch: int = -1
    hw: int = 0
    isr: tuple[BrokerId, ...] = ()  # of a leader, as it believes
    follows: BrokerId | None = None
    truncating: bool = False  # a follower that does not fetch yet


class View(Struct, frozen=True):
    """What the search needs to know about a broker, decoded from its state. `replicas`: one for each partition."""

    replicas: tuple[Replica, ...]
    waiting: Waiting = ()
    parked: tuple[tuple[str, TopicPartition], ...] = ()  # whose fetches are parked
    proposals: tuple[tuple[str, IsrChange], ...] = ()  # (source, ISR changes) that the controller has not answered


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_process = msgspec.msgpack.Decoder(Process).decode
_decode_controller = msgspec.msgpack.Decoder(Controller).decode


class Machines:
    """Runs the broker machines on encoded states, one machine for each broker configuration.

    Results are cached; the search's budget of states bounds the caches.
    """

    def __init__(self, configs: tuple[BrokerConfig, ...]) -> None:
        self._configs = configs
        self.partitions = tuple(tp_of(index) for index in range(configs[0].topics[0].partitions))
        self._booted: dict[tuple[int, tuple[DirImage, ...], int], Handled] = {}
        self._handled: dict[tuple[int, Encoded, AnyEvent], Handled] = {}
        self._views: dict[Encoded, tuple[Encoded, View]] = {}
        self._halves: dict[bytes, bytes] = {}
        self._renamed: dict[tuple[Encoded, tuple[Waiting, ...], Versions, tuple[int, ...]], Encoded] = {}
        self._names = {f"b{config.broker}": position for position, config in enumerate(configs)}

    def boot(self, index: int, image: tuple[DirImage, ...], life: int) -> Handled:
        """Start a broker process with the data on its disk."""
        key = (index, image, life)
        cached = self._booted.get(key)
        if cached is None:
            node = Node.boot(self._configs[index], image, life)
            effects = tuple(node.handle(Booted(), now=Now(Millis(0), Millis(0))))
            cached = self._booted[key] = (self._encoded_core(core_of(node)), effects)
        return cached

    def handle(self, index: int, core: Encoded, event: AnyEvent) -> Handled:
        """Let the machine of the broker at this position handle an event. AssertionError if an assertion of the machine fails."""
        key = (index, core, event)
        cached = self._handled.get(key)
        if cached is None:
            node = Node(self.node_state(index, core))
            effects = tuple(node.handle(event, now=self._now(index, event)))
            cached = self._handled[key] = (self._encoded_core(core_of(node)), effects)
        return cached

    def node_state(self, index: int, core: Encoded) -> NodeState:
        """Decode the state of the broker at this position; its disk is no part of it."""
        was = _decode(core)
        return NodeState(
            config=self._configs[index],
            life=was.process.life,
            image=(),
            session=was.process.session,
            ids=was.process.ids,
            broker=was.broker,
            controller=was.controller,
        )

    def _encoded_core(self, core: Core) -> Encoded:
        """Encode a core. Equal encodings are one object, because some kilobytes of each are remembered in several places."""
        halves = _encode(core.process), _encode(core.controller)
        encoded = tuple([self._halves.setdefault(half, half) for half in halves])
        cached = self._views.get(encoded)
        if cached is None:
            cached = self._views[encoded] = (encoded, _view(core, self.partitions))  # a decoding later would cost more
        return cached[0]

    def _now(self, index: int, event: AnyEvent) -> Now:
        """The time of an event: late for `isr`, the deadline for `park`, else 0."""
        at = 0
        if isinstance(event, TimerFired):
            if event.name == "isr":
                at = LATE_MS
            elif event.name == "park":
                at = self._configs[index].fetch_wait_max_ms
        return Now(Millis(at), Millis(at))

    def view(self, core: Encoded) -> View:
        """Decode what the search needs to know about an encoded broker state."""
        cached = self._views.get(core)
        if cached is None:
            cached = self._views[core] = (core, _view(_decode(core), self.partitions))
        return cached[1]

    def canonical_core(
        self, index: int, core: Encoded, waiting: tuple[Waiting, ...], versions: Versions, requests: tuple[int, ...]
    ) -> Encoded:
        """Convert an encoded broker state to canonical form.

        `waiting`: for each broker, the correlations of its pending requests. `versions`: of the state znodes. `requests`: ids of
        this broker's pending ZooKeeper requests, ascending.
        """
        key = (core, waiting, versions, requests)
        cached = self._renamed.get(key)
        if cached is None:
            state = _decode(core)
            state.process.ids = Ids(correlation=len(waiting[index]), zk=len(requests), flush=0)
            _renumber_correlations(state, waiting[index], waiting, self._names)
            _renumber_isr_changes(state, None if asks_controller(self._configs[index]) else requests, waiting[index])
            _renumber_zk_requests(state, requests)
            if versions:
                _renumber_versions(state, versions)
            _set_park_deadline(state)
            cached = self._renamed[key] = self._encoded_core(state)
        return cached


def canonical_message(message: AnyMessage, waiting: Waiting, versions: Versions) -> AnyMessage:
    """A broker's request with these pending correlation ids, or a reply to it, in canonical form."""
    message = replace(message, correlation=_canonical_id(message.correlation, waiting))
    if isinstance(message, LeaderAndIsr) and versions:
        message = replace(message, states=tuple(_canonical_state(state, versions) for state in message.states))
    return message


def _decode(core: Encoded) -> Core:
    process, controller = core
    return Core(_decode_process(process), _decode_controller(controller))


def core_of(node: Node) -> Core:
    """The state of a node without its configuration and disk."""
    state = node.state
    return Core(Process(state.life, state.session, state.ids, state.broker), state.controller)


def _view(core: Core, partitions: tuple[TopicPartition, ...]) -> View:
    """What the search reads of a broker: its replicas, open requests, parked fetches and proposals."""
    waiting = [c.in_flight.correlation for c in core.controller.channels if c.in_flight is not None]
    for partition in core.broker.partitions.values():
        if isinstance(partition.role, Follower) and partition.role.outstanding:
            waiting.append(partition.role.outstanding)
    if core.broker.membership.outstanding:
        waiting.append(core.broker.membership.outstanding)
    waiting += [parked.correlation for parked in core.broker.asked]
    held_partitions = core.broker.partitions
    return View(
        replicas=tuple(_replica_view(held_partitions.get(tp)) for tp in partitions),
        waiting=tuple(sorted(waiting)),
        parked=tuple((fetch.source, tp) for tp in partitions if tp in held_partitions for fetch in held_partitions[tp].fetches),
        proposals=tuple((request.source, request.asked) for request in core.controller.isr_requests),
    )


def _replica_view(partition: Partition | None) -> Replica:
    """What the search reads of a replica."""
    if partition is None:
        return Replica()
    role = partition.role
    return Replica(
        leads=isinstance(role, Leader),
        leader_epoch=partition.leader_epoch,
        hw=partition.hw,
        isr=brokers_of(role.isr) if isinstance(role, Leader) else (),
        follows=role.leader if isinstance(role, Follower) else None,
        truncating=isinstance(role, Follower) and role.step is FollowerStep.TRUNCATING,
    )


def _canonical_id(correlation: int, waiting: Waiting) -> int:
    return waiting.index(correlation) + 1 if correlation in waiting else STALE


def _renumber_correlations(core: Core, own: Waiting, waiting: tuple[Waiting, ...], names: dict[str, int]) -> None:
    """Give the open requests of a broker, and those parked at it, their canonical correlation ids."""
    for channel in core.controller.channels:
        if channel.in_flight is not None:
            channel.in_flight = replace(channel.in_flight, correlation=_canonical_id(channel.in_flight.correlation, own))
    for partition in core.broker.partitions.values():
        if isinstance(partition.role, Follower) and partition.role.outstanding:
            partition.role.outstanding = _canonical_id(partition.role.outstanding, own)
        partition.fetches = [f for fetch in partition.fetches if (f := _canonical_fetch(fetch, waiting, names)) is not None]
    if core.broker.membership.outstanding:
        core.broker.membership.outstanding = _canonical_id(core.broker.membership.outstanding, own)
    for request_sent in core.broker.asked:
        request_sent.correlation = _canonical_id(request_sent.correlation, own)
    for request in core.controller.isr_requests:
        number = _canonical_id(request.asked.correlation, waiting[names[request.source]])
        request.asked = replace(request.asked, correlation=number)


def _canonical_fetch(fetch: ParkedFetch, waiting: tuple[Waiting, ...], names: dict[str, int]) -> ParkedFetch | None:
    correlation = _canonical_id(fetch.correlation, waiting[names[fetch.source]])
    return None if correlation == STALE else replace(fetch, correlation=correlation)


def _renumber_zk_requests(core: Core, requests: tuple[int, ...]) -> None:
    """Number the requests to ZooKeeper from 1; an answered one gets 0."""

    def new(request: int) -> int:
        return requests.index(request) + 1 if request in requests else 0

    core.broker.registration_request = new(core.broker.registration_request)
    outstanding = core.controller.outstanding
    core.controller.outstanding = [replace(sent, request=new(sent.request)) for sent in outstanding if sent.request in requests]


def _renumber_isr_changes(core: Core, requests: tuple[int, ...] | None, own: Waiting) -> None:
    """Renumber the ISR changes of leaders: to ZooKeeper by request id, or to the controller by correlation (`requests` None)."""
    for partition in core.broker.partitions.values():
        if isinstance(partition.role, Leader) and (change := partition.role.change) is not None:
            if requests is not None:
                change.request = requests.index(change.request) + 1 if change.request in requests else 0
            elif change.request:
                change.request = _canonical_id(change.request, own)


def _renumber_versions(core: Core, versions: Versions) -> None:
    """Give znode versions their canonical numbers."""
    for partition in core.broker.partitions.values():
        if isinstance(partition.role, Leader):
            partition.role.zk_version = _canonical_version(partition.role.zk_version, partition.tp, versions)
    controller = core.controller
    controller.states = {tp: _canonical_state(state, versions) for tp, state in controller.states.items()}
    for change in controller.changes.values():
        change.wanted = None if change.wanted is None else _canonical_state(change.wanted, versions)
        change.base = None if change.base is None else _canonical_state(change.base, versions)
    for channel in controller.channels:
        channel.states = {tp: _canonical_state(state, versions) for tp, state in channel.states.items()}
        channel.metadata = {tp: _canonical_state(state, versions) for tp, state in channel.metadata.items()}
        if isinstance(channel.in_flight, LeaderAndIsr):
            states = tuple(_canonical_state(state, versions) for state in channel.in_flight.states)
            channel.in_flight = replace(channel.in_flight, states=states)


def _canonical_state(state: PartitionState, versions: Versions) -> PartitionState:
    return replace(state, zk_version=_canonical_version(state.zk_version, state.tp, versions))


def _canonical_version(version: int, tp: TopicPartition, versions: Versions) -> ZkVersion:
    return ZkVersion(1 if version == versions[index_of(tp)] else 0)


def _set_park_deadline(core: Core) -> None:
    # Arm the `park` timer for the first deadline of the parked fetches; parked produces never time out here.
    deadlines = [fetch.deadline_ms for partition in core.broker.partitions.values() for fetch in partition.fetches]
    core.broker.park_armed_ms = min(deadlines, default=None)
