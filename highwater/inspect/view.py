"""What a simulated run holds at one moment: the state of each process as data, and the lines that tell it.

    {"b1": {"up": true, "life": 1, "broker": {...}, "controller": {...}, "timers": {...}, "coming": [...]},
     "zookeeper": {path: text}, "clients": {"c-1": [...]}}

The data is the whole state of the machines (`reference.node.NodeState`), so the difference of two moments is complete. The lines
leave out what a reader seldom asks for.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from highwater.backends.sim.network import Flight
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.world import World
from highwater.rig.evidence import names
from reference.broker import heartbeats
from reference.controller.context import ControllerStep
from reference.coordination import paths
from reference.coordination.api import Data
from reference.machine import Now
from reference.node import Node, NodeState
from reference.replica.partition import Follower, Idle, IsrChange, Leader, ParkedFetch, ParkedProduce, Partition, brokers_of
from reference.sealed import in_the_clear
from reference.types import NO_INCARNATION, BrokerId, TopicPartition, broker_address

ZOOKEEPER = "zookeeper"
CLIENTS = "clients"
_MS = 1_000_000
_TAIL = 3  # records at the end of a log
_COMING_MAX = 6
_WORDS_MAX = 110
_BULK = ("batches", "correlation", "values", "records")  # fields of messages that are long or say nothing to a reader

Tree = dict[str, object]


class View(Struct, frozen=True, kw_only=True):
    """A moment of a run: `rows` have been recorded. `lines` tell it, a part for each process; `tree` is the whole state."""

    time_ns: int
    rows: int
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    tree: Tree


def view_of(world: World, partition: str = "") -> View:
    """Look at a run that stands still between two actions; the lines tell of one partition, or of all."""
    flights = list(world.sim.network.flights())
    now_ns = world.sim.scheduler.now
    hosts = {str(host.address): host for host in world.nodes.values()}
    lines = [
        (name, tuple(_node_lines(host, [f for f in flights if f.target == name], now_ns, partition)))
        for name, host in hosts.items()
    ]
    lines.append((ZOOKEEPER, tuple(_zookeeper_lines(world, partition))))
    tree: Tree = {name: _node_tree(host, [f for f in flights if f.target == name], now_ns) for name, host in hosts.items()}
    tree[ZOOKEEPER] = {path: _text(node.data) for path, node in sorted(world.server.tree.nodes.items()) if node.data}
    tree[CLIENTS] = {
        str(client.address): [_flight_words(f, now_ns) for f in flights if f.target == client.address] for client in world.clients
    }
    return View(
        time_ns=now_ns,
        rows=world.sim.recorder.next_index,
        lines=tuple(lines),
        tree=tree,
    )


# --- one broker -----------------------------------------------------------------------------------------------------------------


def _state(host: NodeHost) -> NodeState | None:
    return host.machine.state if isinstance(host.machine, Node) else None


def _node_tree(host: NodeHost, coming: Sequence[Flight], now_ns: int) -> Tree:
    state = _state(host)
    machine = {} if state is None else {"session": state.session, "broker": state.broker, "controller": state.controller}
    built: Tree = msgspec.to_builtins(
        {
            "up": host.up,
            "paused": host.paused,
            "life": host.life,
            **machine,
            "timers": host.timers.due_ms() if host.up else {},
            "coming": [_flight_words(flight, now_ns) for flight in coming],
        }
    )
    return built


def _node_lines(host: NodeHost, coming: Sequence[Flight], now_ns: int, wanted: str) -> Iterator[str]:
    """The lines of one broker, the first without indentation."""
    state = _state(host)
    if state is None:
        yield f"down, after life {host.life}" if host.life else "not started"
        return
    broker, now = state.broker, host.clock.now()
    yield ", ".join(_standing(host, state))
    for tp, partition in broker.partitions.items():
        if not wanted or tp == wanted:
            yield from _partition_lines(tp, partition, now, state)
    for tp in broker.offline:
        if not wanted or tp == wanted:
            yield f"  {tp}  offline: its directory failed"
    due = [f"{name} {left_ms} ms" for name, left_ms in host.timers.due_ms().items() if not wanted or wanted in name]
    if due:
        yield f"  timers  {', '.join(due)}"
    about = [flight for flight in coming if not wanted or getattr(flight.payload, "tp", wanted) == wanted]
    yield from (f"  coming  {_flight_words(flight, now_ns)}" for flight in islice(about, _COMING_MAX))
    if len(about) > _COMING_MAX:
        yield f"  coming  and {len(about) - _COMING_MAX} more"


def _standing(host: NodeHost, state: NodeState) -> Iterator[str]:
    """What the broker is in the cluster, as it knows it."""
    broker, controller = state.broker, state.controller
    yield f"{'paused' if host.paused else 'up'}, life {host.life}"
    registered = broker.incarnation != NO_INCARNATION
    yield f"registered as {broker.incarnation}" if registered else f"registration {broker.registration}"
    yield broker.membership.state.name.lower()
    if heartbeats.is_fenced(broker):
        yield "fenced"
    if broker.offline_dirs:
        yield f"directories {list(broker.offline_dirs)} failed"
    if controller.step not in (ControllerStep.OFF, ControllerStep.WATCHING):
        yield f"controller of epoch {controller.epoch} ({controller.step})"


def _partition_lines(tp: TopicPartition, partition: Partition, now: Now, state: NodeState) -> Iterator[str]:
    log = partition.log
    flushed = f", flushed to {partition.flushed}" if partition.before_ack else ""
    yield f"  {tp}  {_role(partition, state)}; LEO {log.leo}, HW {partition.hw}{flushed}"
    tail = [
        f"{batch.base_offset + at} {value} (epoch {batch.leader_epoch})"
        for batch in log.batches[-_TAIL:]
        for at, value in enumerate(in_the_clear(batch.values))
    ][-_TAIL:]
    if tail:
        yield f"      log ends with {', '.join(tail)}"
    role = partition.role
    if isinstance(role, Leader):
        for follower in role.followers:
            end = "has not fetched" if follower.leo is None else f"at {follower.leo}"
            yield f"      {broker_address(follower.broker)} {end}, caught up {now.monotonic_ms - follower.caught_up_ms} ms ago"
        if role.change is not None:
            yield f"      ISR change {_change(role.change)}"
    waiting: tuple[ParkedProduce | ParkedFetch, ...] = (*partition.produces, *partition.fetches)
    for parked in waiting:
        yield f"      parked: {_request(parked)} by {parked.source}, for {parked.deadline_ms - now.monotonic_ms} ms more"


def _request(parked: ParkedProduce | ParkedFetch) -> str:
    if isinstance(parked, ParkedProduce):
        return f"produce of offsets {parked.base_offset} to {parked.end_offset - 1}"
    return f"fetch from offset {parked.offset}"


def _role(partition: Partition, state: NodeState) -> str:
    match partition.role:
        case Leader() as leader:
            elr = f", ELR {_set(brokers_of(leader.elr))}" if leader.elr else ""
            isr = f"ISR {_set(brokers_of(leader.isr))}{elr}, version {leader.zk_version}"
            return f"leader of epoch {partition.leader_epoch} since offset {leader.epoch_start}, {isr}"
        case Follower() as follower:
            return f"follower of {broker_address(follower.leader)} in epoch {partition.leader_epoch}, {follower.step}"
        case Idle():
            return f"idle in epoch {partition.leader_epoch}"


def _change(change: IsrChange) -> str:
    return f"to {_set(brokers_of(change.wanted))} ({change.step})"


def _set(brokers: tuple[BrokerId, ...]) -> str:
    return "{" + ",".join(names(brokers)) + "}"


# --- ZooKeeper and messages -----------------------------------------------------------------------------------------------------


def _zookeeper_lines(world: World, wanted: str) -> Iterator[str]:
    """The first line: controller and registrations; then the state of each partition, and what is requested."""
    nodes = world.server.tree.nodes
    held = nodes.get(paths.CONTROLLER)
    controller = "no controller" if held is None else f"controller {broker_address(paths.decode_controller(held.data))}"
    ids = nodes.get(paths.BROKER_IDS)
    yield f"{controller}, registered: {', '.join(f'b{name}' for name in (ids.children if ids else ())) or 'nobody'}"
    topics = nodes.get(paths.TOPICS)
    for topic in topics.children if topics else ():
        for tp, replicas in paths.decode_topic(topic, nodes[paths.topic_path(topic)].data):
            if not wanted or tp == wanted:
                yield f"  {tp}  {_state_words(world, tp, replicas)}"
    for path, node in sorted(nodes.items()):
        if path.startswith("/admin/") and node.data:
            yield f"  {path}  {_text(node.data)}"


def _state_words(world: World, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> str:
    znode = world.server.tree.nodes.get(paths.state_path(tp))
    if znode is None:
        return f"replicas {_set(replicas)}, no state"
    state = paths.decode_state(tp, replicas, Data(data=znode.data, version=znode.version, czxid=znode.czxid))
    leader = "no leader" if state.leader is None else f"leader {broker_address(state.leader)}"
    elr = f", ELR {_set(brokers_of(state.elr))}" if state.elr else ""
    isr = f"ISR {_set(brokers_of(state.isr))}{elr}"
    return f"{leader}, epoch {state.leader_epoch}, {isr}, replicas {_set(replicas)}, version {state.zk_version}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="backslashreplace")


def _flight_words(flight: Flight, now_ns: int) -> str:
    """A message on its way, for example "Fetch (tp orders-0, offset 7) from b2, in 0.412 ms"."""
    payload = flight.payload
    fields = getattr(payload, "__struct_fields__", ())
    held = ((name, _field(getattr(payload, name))) for name in fields if name not in _BULK)
    words = ", ".join(f"{name} {value}" for name, value in held if value not in ("None", "()", "", "-1"))
    words = f"{words[:_WORDS_MAX]}…" if len(words) > _WORDS_MAX else words
    when = "held back by a fault" if flight.due_ns is None else f"in {(flight.due_ns - now_ns) / _MS:.3f} ms"
    return f"{type(payload).__name__}{f' ({words})' if words else ''} from {flight.source}, {when}"


def _field(value: object) -> str:
    """A field of a message; of the partitions in it their names."""
    if isinstance(value, tuple) and value and all(hasattr(one, "tp") for one in value):
        return " ".join(str(one.tp) for one in value)
    return str(value)


# --- two moments ----------------------------------------------------------------------------------------------------------------


def changes(before: View, after: View) -> Iterator[str]:
    """What differs between two moments, a line for each field: `b2 broker.partitions.orders-0.hw: 3 → 4`."""
    for name in dict.fromkeys((*before.tree, *after.tree)):
        for path, old, new in _differences("", before.tree.get(name), after.tree.get(name)):
            if not path.startswith((".timers", ".coming")):
                yield f"{name} {path.removeprefix('.')}: {_short(old)} → {_short(new)}"


_GONE = object()


def _differences(path: str, old: object, new: object) -> Iterator[tuple[str, object, object]]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(f"{path}.{key}", old.get(key, _GONE), new.get(key, _GONE))
    elif isinstance(old, list) and isinstance(new, list):
        same = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new)))
        if len(old) == len(new) and all(isinstance(one, dict) for one in (*old, *new)):
            for at, (was, now) in enumerate(zip(old, new, strict=True)):
                yield from _differences(f"{path}[{at}]", was, now)
        else:
            yield f"{path}[{same}…]", old[same:], new[same:]
    else:
        yield path, old, new


def _short(value: object) -> str:
    if value is _GONE:
        return "nothing"
    text = msgspec.json.encode(value).decode()
    return f"{text[:_WORDS_MAX]}…" if len(text) > _WORDS_MAX else text
