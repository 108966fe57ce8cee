"""The canonical form of a state: states with the same future become equal where that is cheap to decide.

Ids and versions are renumbered (see `machines`), messages that their receiver would ignore are dropped, timers for the same wait
are armed equally, and the messages in flight are sorted.
"""

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from highwater.explore.machines import ANY_VERSION, STALE, Machines, Waiting, renamed_message
from highwater.explore.state import Flight, Host, State
from highwater.explore.zookeeper import ZooKeepers
from reference.events import ZkReplied
from reference.messages import EpochEndReply, FetchReply


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the canonical form of all states in one search depends on: cached machines and settings."""

    machines: Machines
    zookeepers: ZooKeepers
    zk_async: bool  # requests to ZooKeeper and its replies are actions of their own
    keep_versions: bool  # do not renumber versions of the state znode
    epoch_end_recheck: bool  # a follower ignores replies about an earlier epoch (the variant's switch)


def canonical(rules: Rules, state: State) -> State:
    """Convert a state to its canonical form, so that the search recognizes states with the same future."""
    waiting = tuple(rules.machines.view(host.core).waiting if host.up else () for host in state.hosts)
    version = ANY_VERSION if rules.keep_versions else rules.zookeepers.standing(state.zk).version
    hosts = tuple(_host(rules, index, host, waiting, version) for index, host in enumerate(state.hosts))
    network = [f for flight in state.network if (f := _flight(rules, flight, waiting, version)) is not None]
    if len(network) > 1:
        network.sort(key=_order)
    zk = state.zk if version in (ANY_VERSION, 1) else rules.zookeepers.renumbered(state.zk)
    return State(hosts, zk, tuple(network), state.ghost, state.spent)


def bytes_of(flight: Flight) -> bytes:
    """The encoded message: the sort key among messages of one kind from one broker to another."""
    return msgspec.msgpack.encode(flight.message)


def _order(flight: Flight) -> tuple[int, int, str, bytes]:
    return flight.source, flight.to, type(flight.message).__name__, bytes_of(flight)


def _flight(rules: Rules, flight: Flight, waiting: tuple[Waiting, ...], version: int) -> Flight | None:
    """A message in flight, in canonical form; None for a reply that its receiver ignores."""
    reply = isinstance(flight.message, FetchReply | EpochEndReply)
    message = renamed_message(flight.message, waiting[flight.to if reply else flight.source], version)
    if reply and message.correlation == STALE and not (isinstance(message, EpochEndReply) and not rules.epoch_end_recheck):
        return None
    return Flight(flight.source, flight.to, message)


def _host(rules: Rules, index: int, host: Host, waiting: tuple[Waiting, ...], version: int) -> Host:
    if not host.up:
        return host
    asked = tuple(sorted([r.id for r in host.outbox] + [e.id for e in host.inbox if isinstance(e, ZkReplied)]))
    core = rules.machines.renamed(index, host.core, waiting, version, asked)
    timers = host.timers
    parked = bool(rules.machines.view(core).parked)
    if parked != ("park" in timers):
        timers = tuple(sorted((*timers, "park"))) if parked else tuple(name for name in timers if name != "park")
    if core is host.core and timers is host.timers and not asked:
        return host
    numbers = {request: number for number, request in enumerate(asked, 1)}
    return Host(
        host.up,
        host.life,
        core,
        host.logs,
        host.checkpoint,
        host.born,
        timers,
        host.session,
        tuple(replace(request, id=numbers[request.id]) for request in host.outbox),
        tuple(replace(event, id=numbers[event.id]) if isinstance(event, ZkReplied) else event for event in host.inbox),
    )
