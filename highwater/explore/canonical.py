"""The canonical form of a state: states with the same future become equal where that is cheap to decide.

Ids and versions are renumbered (see `machines`), messages that their receiver would ignore are dropped, timers for the same wait
are armed equally, and the messages in flight are sorted. The form of a host depends on which requests all brokers wait for and on
the versions of the state znodes, so it is remembered for these.
"""

from functools import cache

import msgspec
from msgspec.structs import replace

from highwater.explore.machines import STALE, Machines, Versions, Waiting, canonical_message
from highwater.explore.numbering import Numbers, Parts
from highwater.explore.state import Flight, Host
from highwater.explore.steps import Brokers, HostFacts, address
from highwater.plans.actions import Deliver
from reference.events import Received, ZkReplied
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LogInfo,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    StopReplica,
)

NETWORKS_MAX = 100_000  # remembered at a time
_REPLIES = (FetchReply, EpochEndReply, MetadataHeartbeatReply, IsrChangeReply)
_OF_FETCHES = (Fetch, EpochEnd, FetchReply, EpochEndReply)
_TIMERS: tuple[tuple[str, tuple[type[AnyMessage], ...]], ...] = (
    ("fetch", _OF_FETCHES),  # of a partition
    ("heartbeat", (MetadataHeartbeat, MetadataHeartbeatReply)),
    ("ask-isr", (IsrChange, IsrChangeReply)),
    ("channel", (LeaderAndIsr, StopReplica, LogInfo)),  # of the controller, one for each broker
)
_IGNORED = -1  # stands for a reply that its receiver ignores


@cache
def waiting_timer(timer: str) -> str:
    """What a timer waits for, as `FlightFacts.wait` names it; a leader has one request for the ISRs of all its partitions."""
    kind = timer.partition(":")[0]
    return timer if kind in ("channel", "fetch") else kind


class FlightFacts(msgspec.Struct, frozen=True):
    """What the search needs to know about a message in flight. `order` sorts the network; `link` is equal for alike messages."""

    source: int
    to: int
    order: tuple[int, int, str, bytes]
    link: tuple[int, int, str]
    arrival: tuple[int, int]  # the receiver, and the number of the event there
    reply: bool
    wait: tuple[str, int]  # the timer (see `waiting_timer`) and the broker that waits for its reply, or for it if it is a reply


class Canonical:
    """Converts hosts and flights to canonical form, on their numbers; results are remembered."""

    def __init__(self, machines: Machines, parts: Parts, brokers: Brokers, *, epoch_end_recheck: bool) -> None:
        """`epoch_end_recheck`: a follower ignores replies about an earlier epoch (the variant's switch)."""
        self._machines = machines
        self._parts = parts
        self._brokers = brokers
        self._epoch_end_recheck = epoch_end_recheck
        self._renamings: Numbers[tuple[tuple[Waiting, ...], Versions]] = Numbers()
        self._networks: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._hosts: dict[tuple[int | tuple[int, ...], ...], int] = {}
        self._flights: dict[tuple[int, Waiting, Versions], int] = {}

    def facts_of(self, flight: Flight) -> FlightFacts:
        """Decode what the search needs to know about a message in flight."""
        message = flight.message
        link = (flight.source, flight.to, type(message).__name__)
        awaited = message.correlation != STALE
        reply = isinstance(message, _REPLIES)
        timer = next((timer for timer, kinds in _TIMERS if isinstance(message, kinds)), "")
        if timer == "channel":
            timer = f"channel:{flight.to + 1}"
        elif isinstance(message, _OF_FETCHES):
            timer = f"{timer}:{message.tp}"
        return FlightFacts(
            source=flight.source,
            to=flight.to,
            order=(*link, msgspec.msgpack.encode(message)),
            link=link,
            arrival=(flight.to, self._brokers.events.of(Received(address(flight.source), message))),
            reply=reply,
            wait=(timer if awaited else "", flight.to if reply else flight.source),
        )

    def hosts(self, hosts: list[int], facts: list[HostFacts], versions: Versions) -> tuple[int, ...]:
        """The canonical forms of all hosts. A form depends on what its broker and those whose requests it holds wait for."""
        canonical = self._hosts
        forms = []
        for index, host in enumerate(hosts):
            key: tuple[int | tuple[int, ...], ...] = (host, versions, *[facts[source].waiting for source in facts[index].holds])
            form = canonical.get(key)
            if form is None:
                waiting = tuple([fact.waiting for fact in facts])
                form = canonical[key] = self._parts.of(self._canonical_host(index, self._brokers.host(host), waiting, versions))
            forms.append(form)
        return tuple(forms)

    def renaming(self, facts: list[HostFacts], versions: Versions) -> int:
        """The number of the renaming of messages: what all brokers wait for, and the versions of the state znodes."""
        return self._renamings.of((tuple([fact.waiting for fact in facts]), versions))

    def network(self, flights: tuple[int, ...], facts: dict[int, FlightFacts], renaming: int) -> tuple[int, ...]:
        """The canonical forms of the messages in flight, sorted, without those that their receiver ignores."""
        key = (renaming, *flights)
        cached = self._networks.get(key)
        if cached is None:
            if len(self._networks) >= NETWORKS_MAX:
                self._networks.clear()
            cached = self._networks[key] = self._sorted_forms(flights, facts, *self._renamings.values[renaming])
        return cached

    def _sorted_forms(
        self, flights: tuple[int, ...], facts: dict[int, FlightFacts], waiting: tuple[Waiting, ...], versions: Versions
    ) -> tuple[int, ...]:
        """The numbers of the messages in flight in canonical form, sorted; those that their receiver ignores are left out."""
        forms = []
        for flight in flights:
            fact = facts[flight]
            awaited = waiting[fact.to if fact.reply else fact.source]
            key = (flight, awaited, versions)
            form = self._flights.get(key)
            if form is None:
                form = self._flights[key] = self._canonical_flight(flight, awaited, versions)
            if form != _IGNORED:
                forms.append(form)
        return tuple(sorted(forms, key=lambda flight: facts[flight].order))

    def _canonical_flight(self, number: int, waiting: Waiting, versions: Versions) -> int:
        """The number, in `_parts`, of this message under way in canonical form; `_IGNORED` for a reply that nobody waits for.

        `waiting` numbers the requests of the broker that asked, `versions` those of the partition states.
        """
        flight = self._parts.values[number]
        assert isinstance(flight, Flight)
        message = canonical_message(flight.message, waiting, versions)
        reply = isinstance(message, _REPLIES)
        if reply and message.correlation == STALE and not (isinstance(message, EpochEndReply) and not self._epoch_end_recheck):
            return _IGNORED
        return self._parts.of(Flight(flight.source, flight.to, message))

    def _canonical_host(self, index: int, host: Host, waiting: tuple[Waiting, ...], versions: Versions) -> Host:
        """A broker in canonical form: its requests to ZooKeeper are numbered from 1."""
        if not host.up:
            return host
        requests = tuple(sorted([r.id for r in host.outbox] + [e.id for e in host.inbox if isinstance(e, ZkReplied)]))
        core = self._machines.canonical_core(index, host.core, waiting, versions, requests)
        numbers = {request: number for number, request in enumerate(requests, 1)}
        return replace(
            host,
            core=core,
            timers=_timers_with_park(host.timers, parked=bool(self._machines.view(core).parked)),
            outbox=tuple(replace(request, id=numbers[request.id]) for request in host.outbox),
            inbox=tuple(replace(event, id=numbers[event.id]) if isinstance(event, ZkReplied) else event for event in host.inbox),
        )


@cache
def delivery_of(link: tuple[int, int, str], nth: int) -> Deliver:
    """The action that delivers the nth message of this kind on this link."""
    source, to, kind = link
    return Deliver(message=kind, source=address(source), to=address(to), nth=nth)


def _timers_with_park(timers: tuple[str, ...], *, parked: bool) -> tuple[str, ...]:
    """The armed timers, with `park` armed if and only if a fetch is parked."""
    if parked == ("park" in timers):
        return timers
    return tuple(sorted((*timers, "park"))) if parked else tuple(name for name in timers if name != "park")
