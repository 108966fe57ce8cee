"""What a simulated run holds at one moment: the state of each process as data, and the lines that tell it.

    {"b1": {"up": true, "life": 1, "broker": {...}, "controller": {...}, "disk": {...}, "timers": {...}, "coming": [...]},
     "zookeeper": {path: text}, "clients": {"c-1": [...]}}

The data is the whole state of the machines (`reference.node.NodeState`), so the difference of two moments is complete. The lines
leave out what a reader seldom asks for.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from highwater.inspect.messages import is_about, message_words
from highwater.inspect.moment import Coming, Moment, Process
from highwater.rig.evidence import names
from reference.broker import heartbeats
from reference.controller.context import ControllerStep
from reference.coordination import paths
from reference.coordination.api import Data
from reference.coordination.memory import Znode
from reference.machine import Now
from reference.messages import PartitionState
from reference.node import NodeState
from reference.replica.partition import Follower, Idle, IsrChange, Leader, ParkedFetch, ParkedProduce, Partition, brokers_of
from reference.sealed import in_the_clear
from reference.types import NO_INCARNATION, BrokerId, TopicPartition, broker_address

ZOOKEEPER = "zookeeper"
CLIENTS = "clients"
INVARIANTS = "invariants"
_TAIL = 3  # records at the end of a log
_COMING_MAX = 6
_WORDS_MAX = 110
_MESSAGE_MAX = 300  # letters of the words of a message

Tree = dict[str, object]


class View(Struct, frozen=True, kw_only=True):
    """A moment of a run: `rows` have been recorded. `lines` tell it, a part for each process; `tree` is the whole state.

    The lines are of one partition, or of all if `partition` is empty.
    """

    time_ns: int
    rows: int
    partition: str
    lines: tuple[tuple[str, tuple[str, ...]], ...]
    tree: Tree
    partitions: tuple[str, ...]  # that a broker or ZooKeeper has


def view_of(moment: Moment, partition: str = "") -> View:
    """Look at a run that stands still between two actions; the lines tell of one partition, or of all."""
    coming = {
        name: [flight for flight in moment.coming if flight.target == name]
        for name in (*(process.name for process in moment.processes), ZOOKEEPER, *moment.clients)
    }
    lines = [(process.name, tuple(_node_lines(process, coming[process.name], partition))) for process in moment.processes]
    lines.append((ZOOKEEPER, (*_zookeeper_lines(moment.znodes, partition), *_coming_lines(coming[ZOOKEEPER], partition))))
    tree: Tree = {process.name: _node_tree(process, coming[process.name]) for process in moment.processes}
    tree[ZOOKEEPER] = {path: _text(node.data) for path, node in sorted(moment.znodes.items()) if node.data}
    tree[CLIENTS] = {name: [_coming_words(flight) for flight in coming[name]] for name in moment.clients}
    if moment.broken:
        lines.append((INVARIANTS, tuple(moment.broken)))
        tree[INVARIANTS] = list(moment.broken)
    return View(
        time_ns=moment.time_ns,
        rows=moment.rows,
        partition=partition,
        lines=tuple(lines),
        tree=tree,
        partitions=tuple(_partitions_of(moment)),
    )


def _partitions_of(moment: Moment) -> list[str]:
    state_fields = {
        str(tp)
        for process in moment.processes
        for tp in (*process.logs, *(process.state.broker.partitions if process.state else ()))
    }
    return sorted({*state_fields, *(str(tp) for tp, _ in assignments(moment.znodes))})


def assignments(nodes: Mapping[str, Znode]) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    """The partitions of all topics in ZooKeeper, each with its replicas."""
    topics = nodes.get(paths.TOPICS)
    for topic in topics.children if topics else ():
        yield from paths.decode_topic(topic, nodes[paths.topic_path(topic)].data)


# --- one broker -----------------------------------------------------------------------------------------------------------------


def _node_tree(process: Process, coming: Sequence[Coming]) -> Tree:
    state = process.state
    machine = {} if state is None else {"session": state.session, "broker": state.broker, "controller": state.controller}
    built: Tree = msgspec.to_builtins(
        {
            "up": process.up,
            "paused": process.paused,
            "life": process.life,
            **machine,
            "disk": dict(process.logs),
            "timers": dict(process.timers),
            "coming": [_coming_words(flight) for flight in coming],
        }
    )
    return built


def _node_lines(process: Process, coming: Sequence[Coming], wanted: str) -> Iterator[str]:
    """The lines of one broker, the first without indentation."""
    state = process.state
    if state is None:
        yield f"down, after life {process.life}" if process.life else "not started"
        yield from (f"  {tp}  LEO {leo} on its disk" for tp, leo in process.logs.items() if not wanted or tp == wanted)
        return
    broker = state.broker
    yield ", ".join(_standing(process, state))
    for tp, partition in broker.partitions.items():
        if not wanted or tp == wanted:
            yield from _partition_lines(tp, partition, process.now)
    for tp in broker.offline:
        if not wanted or tp == wanted:
            yield f"  {tp}  offline: its directory failed"
    due = [f"{name}{_left(left_ms)}" for name, left_ms in process.timers.items() if not wanted or wanted in name]
    if due:
        yield f"  timers  {', '.join(due)}"
    yield from _coming_lines(coming, wanted)


def _left(left_ms: int | None) -> str:
    return "" if left_ms is None else f" {left_ms} ms"


def _coming_lines(coming: Sequence[Coming], wanted: str) -> Iterator[str]:
    about = [flight for flight in coming if is_about(flight.payload, wanted)]
    yield from (f"  coming  {_coming_words(flight, wanted)}" for flight in islice(about, _COMING_MAX))
    if len(about) > _COMING_MAX:
        yield f"  coming  and {len(about) - _COMING_MAX} more"


def _standing(process: Process, state: NodeState) -> Iterator[str]:
    """What the broker is in the cluster, as it knows it."""
    broker, controller = state.broker, state.controller
    yield f"{'paused' if process.paused else 'up'}, life {process.life}"
    registered = broker.incarnation != NO_INCARNATION
    yield f"registered as {broker.incarnation}" if registered else f"registration {broker.registration}"
    yield broker.membership.state.name.lower()
    if heartbeats.is_fenced(broker):
        yield "fenced"
    if broker.offline_dirs:
        yield f"directories {list(broker.offline_dirs)} failed"
    if controller.step not in (ControllerStep.OFF, ControllerStep.WATCHING):
        yield f"controller of epoch {controller.epoch} ({controller.step})"


def _partition_lines(tp: TopicPartition, partition: Partition, now: Now | None) -> Iterator[str]:
    log = partition.log
    flushed = f", flushed to {partition.flushed}" if partition.before_ack else ""
    yield f"  {tp}  {_role(partition)}; LEO {log.leo}, HW {partition.hw}{flushed}"
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
            caught_up = "" if now is None else f", caught up {now.monotonic_ms - follower.caught_up_ms} ms ago"
            yield f"      {broker_address(follower.broker)} {end}{caught_up}"
        if role.change is not None:
            yield f"      ISR change {_change(role.change)}"
    waiting: tuple[ParkedProduce | ParkedFetch, ...] = (*partition.produces, *partition.fetches)
    for parked in waiting:
        left = "" if now is None else f", for {parked.deadline_ms - now.monotonic_ms} ms more"
        yield f"      parked: {_request(parked)} by {parked.source}{left}"


def _request(parked: ParkedProduce | ParkedFetch) -> str:
    if isinstance(parked, ParkedProduce):
        return f"produce of offsets {parked.base_offset} to {parked.end_offset - 1}"
    return f"fetch from offset {parked.offset}"


def _role(partition: Partition) -> str:
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


def _zookeeper_lines(nodes: Mapping[str, Znode], wanted: str) -> Iterator[str]:
    """The first line: controller and registrations; then the state of each partition, and what is requested."""
    held = nodes.get(paths.CONTROLLER)
    controller = "no controller" if held is None else f"controller {broker_address(paths.decode_controller(held.data))}"
    ids = nodes.get(paths.BROKER_IDS)
    yield f"{controller}, registered: {', '.join(f'b{name}' for name in (ids.children if ids else ())) or 'nobody'}"
    for tp, replicas in assignments(nodes):
        if not wanted or tp == wanted:
            yield f"  {tp}  {_state_words(nodes, tp, replicas)}"
    for path, node in sorted(nodes.items()):
        if path.startswith("/admin/") and node.data:
            yield f"  {path}  {_text(node.data)}"


def _state_words(nodes: Mapping[str, Znode], tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> str:
    state = state_of(nodes, tp, replicas)
    if state is None:
        return f"replicas {_set(replicas)}, no state"
    leader = "no leader" if state.leader is None else f"leader {broker_address(state.leader)}"
    elr = f", ELR {_set(brokers_of(state.elr))}" if state.elr else ""
    isr = f"ISR {_set(brokers_of(state.isr))}{elr}"
    return f"{leader}, epoch {state.leader_epoch}, {isr}, replicas {_set(replicas)}, version {state.zk_version}"


def state_of(nodes: Mapping[str, Znode], tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> PartitionState | None:
    """The state of a partition in ZooKeeper; None if it has none yet."""
    znode = nodes.get(paths.state_path(tp))
    if znode is None:
        return None
    return paths.decode_state(tp, replicas, Data(data=znode.data, version=znode.version, czxid=znode.czxid))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="backslashreplace")


def _coming_words(flight: Coming, wanted: str = "") -> str:
    """A message on its way, for example "Fetch (orders-0 from offset 7, epoch 1) from b2, in 0.412 ms"."""
    words = message_words(flight.payload, wanted)
    words = f"{words[:_MESSAGE_MAX]}…" if len(words) > _MESSAGE_MAX else words
    return f"{type(flight.payload).__name__}{f' ({words})' if words else ''} from {flight.source}, {flight.when}"


# --- two moments ----------------------------------------------------------------------------------------------------------------


class Change(Struct, frozen=True, kw_only=True):
    """A field of a process that two moments differ in, and its values as JSON, shortened if they are long."""

    process: str
    field: str
    before: str
    after: str

    @property
    def words(self) -> str:
        """The change in a line: `b2 broker.partitions.orders-0.hw: 3 → 4`."""
        return f"{self.process} {self.field}: {self.before} → {self.after}"


def changes(before: View, after: View) -> Iterator[Change]:
    """What differs between two moments, field by field."""
    for name in dict.fromkeys((*before.tree, *after.tree)):
        for path, old, new in _differences("", before.tree.get(name), after.tree.get(name)):
            if not path.startswith((".timers", ".coming")):
                yield Change(process=name, field=path.removeprefix("."), before=_short(old), after=_short(new))


_GONE = object()


def _differences(path: str, old: object, new: object) -> Iterator[tuple[str, object, object]]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _differences(f"{path}.{key}", old.get(key, _GONE), new.get(key, _GONE))
    elif isinstance(old, list) and isinstance(new, list):
        same = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new)))
        if len(old) == len(new) and all(isinstance(item, dict) for item in (*old, *new)):
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
