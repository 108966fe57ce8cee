"""Carries requests and answers between simulated processes, over connections.

A requester opens a connection to the process of an address and keeps it for later requests. Answers return over the connection of
their request and reach only the life that sent it: the server sees correlations of the transport, which are translated back on
the way. In a run with several releases a request has the layout of its version (`layouts`), which its connection keeps beside it;
a broker that does not know the version breaks the connection, as the real one does. The Packets fault sends single messages
between brokers (control requests, fetches and their answers) outside of their connection: such a message may be lost, duplicated,
reordered, or reach the next life of its receiver.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, get_args

import msgspec

from highwater.backends.sim.network import Acting, Connection, Link, Network
from highwater.backends.sim.scheduler import MS, Scheduler
from highwater.backends.sim.traffic import Traffic
from history.seed import Draws
from nemesis.faults import Packets
from reference.events import AnyEvent, ConnectionLost, Received
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    ListOffsets,
    ListOffsetsReply,
    Produce,
    ProduceReply,
    Reply,
    Request,
)
from reference.types import Address

if TYPE_CHECKING:
    from highwater.backends.sim.layouts import Layouts

OVERTAKEN_MS_MAX = 1500  # the delay of a reordered message at most

_REQUESTS = frozenset(get_args(Request))
# A broker's fetchers have connections of their own, as Kafka's: a control request and a fetch may overtake each other.
_FETCHES = frozenset({Fetch, EpochEnd})
_WITH_PARTITION: frozenset[type] = frozenset(
    {Fetch, FetchReply, Produce, ProduceReply, EpochEnd, EpochEndReply, ListOffsets, ListOffsetsReply}
)
_KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in get_args(AnyMessage)}


def kinds_named(names: tuple[str, ...]) -> frozenset[type]:
    """Message classes by the names that plans use: "leader-and-isr", "fetch-reply" ... KeyError for an unknown name."""
    return frozenset(_KINDS[name.replace("-", "")] for name in names)


def is_sent(name: str) -> bool:
    """Whether simulated processes send messages of the kind that plans call so."""
    return name.replace("-", "") in _KINDS


class PacketLoss:
    """A network fault on one link: messages are lost, duplicated or reordered."""

    __slots__ = ("acting", "fault", "kinds")

    def __init__(self, acting: Acting, fault: Packets) -> None:
        self.acting = acting
        self.fault = fault
        self.kinds = kinds_named(fault.kinds) if fault.kinds else None  # None: all


class Endpoint(Protocol):
    """A simulated process that sends and receives messages."""

    address: Address
    life: int
    up: bool

    def take(self, source: str, event: AnyEvent) -> None:
        """Take an event from a source; events of one source are handled in order."""


_Key = tuple[Address, Address, bool]  # client, server, and whether it is the fetchers' connection


class Channel:
    """A simulated client's connection to a server process."""

    __slots__ = ("between_brokers", "client", "client_life", "connection", "key", "laid_out", "server", "server_life")

    def __init__(self, client: Endpoint, server: Endpoint, lane: bool) -> None:
        self.laid_out: dict[int, tuple[Request, int]] = {}  # requests with the versions of their layouts, by correlation
        self.key: _Key = (client.address, server.address, lane)
        self.client = client
        self.client_life = client.life
        self.server = server
        self.server_life = server.life
        self.between_brokers = client.address[0] == server.address[0]  # requests that are retried, and their answers
        self.connection: Connection


class Transport:
    """The connections between simulated processes, and the requests that wait for an answer."""

    __slots__ = (
        "_channels",
        "_correlation",
        "_draws",
        "_endpoints",
        "_losses",
        "_network",
        "_open_requests",
        "_scheduler",
        "layouts",
        "tap",
        "traffic",
    )

    def __init__(self, scheduler: Scheduler, network: Network, draws: Draws) -> None:
        self._scheduler = scheduler
        self._network = network
        self._draws = draws
        self._endpoints: dict[Address, Endpoint] = {}
        self._channels: dict[_Key, Channel] = {}
        self._open_requests: dict[Address, dict[int, tuple[Channel, int]]] = {}
        self._correlation = 0
        self._losses: dict[Link, list[PacketLoss]] = {}
        self.traffic = Traffic()
        self.tap: Callable[[Address, Address, AnyMessage], None] | None = None  # called with each message that is sent
        self.layouts: Layouts | None = None  # of a run with several releases

    def join(self, endpoint: Endpoint) -> None:
        """Register a simulated process, so that others can send to its address."""
        self._endpoints[endpoint.address] = endpoint
        self._open_requests[endpoint.address] = {}

    def lose(self, link: Link, loss: PacketLoss) -> None:
        """From now on, lose, duplicate or reorder messages on this link."""
        self._losses.setdefault(link, []).append(loss)

    def spare(self, link: Link, loss: PacketLoss) -> None:
        """End the loss, duplication and reordering of messages on this link."""
        self._losses[link].remove(loss)
        if not self._losses[link]:
            del self._losses[link]

    def lossy(self) -> list[Link]:
        """The links on which a fault now loses, duplicates or reorders messages."""
        return list(self._losses)

    # --- sending ------------------------------------------------------------------------------------------------------------

    def send(self, sender: Endpoint, to: Address, message: AnyMessage) -> None:
        """Send a request to a process, or an answer to the process that sent the request."""
        if self.tap is not None:
            self.tap(sender.address, to, message)
        if message.__class__ in _REQUESTS:
            lane = message.__class__ in _FETCHES
            channel = self._channels.get((sender.address, to, lane)) or self._open_connection(sender, to, lane)
            half = channel.connection.forth
            if self.layouts is not None and channel.between_brokers and channel.server is not channel.client:
                message = self._in_layout_of_sender(channel, message)
        else:
            request = self._open_requests[sender.address].pop(message.correlation, None)
            if request is None:
                return  # the requester has ended, or has its answer
            channel, correlation = request
            half = channel.connection.back
            if self.layouts is not None and correlation in channel.laid_out:
                asked, version = channel.laid_out[correlation]
                message = msgspec.structs.replace(message, correlation=correlation)
                message = self.layouts.answered(asked, version, message)  # type: ignore[arg-type]  # no request
            message = msgspec.structs.replace(message, correlation=correlation)
        if not self._losses or not channel.between_brokers or self._goes_over_connection(half.link, message, channel):
            about = message.tp if message.__class__ in _WITH_PARTITION else ""  # type: ignore[union-attr]  # looked up
            self._network.send(half, message, about)

    def _in_layout_of_sender(self, channel: Channel, request: AnyMessage) -> AnyMessage:
        """The request in the layout of its sender's version, which the connection keeps for the receiver and for the answer."""
        assert self.layouts is not None
        sent, version = self.layouts.sent(channel.client.address, request)  # type: ignore[arg-type]  # looked up
        if version is not None:
            channel.laid_out[sent.correlation] = (sent, version)
        return sent

    def _goes_over_connection(self, link: Link, message: AnyMessage, channel: Channel) -> bool:
        """Apply the Packets faults to this message; False where it is lost, or is sent outside of its connection."""
        kind: type = type(message)
        for loss in self._losses.get(link, ()):
            if loss.kinds is not None and kind not in loss.kinds:
                continue
            fault = loss.fault
            key = f"packets {loss.acting.window} {link.source}>{link.target} {kind.__name__}"
            fate = self._draws.below(key, 1000)
            if fate >= fault.drop_per_mille + fault.duplicate_per_mille + fault.reorder_per_mille:
                continue
            loss.acting.count += 1
            if fate < fault.drop_per_mille:
                return False
            doubled = fate < fault.drop_per_mille + fault.duplicate_per_mille
            late_ns = self._draws.below(key, (fault.copy_late_ms_max if doubled else OVERTAKEN_MS_MAX) * MS)
            deliver = partial(self._serve_outside_connection if kind in _REQUESTS else self._receive_outside_connection, channel)
            self._network.send_alone(link, late_ns, deliver, message)
            return doubled
        return True

    # --- arriving -----------------------------------------------------------------------------------------------------------

    def _open_connection(self, client: Endpoint, to: Address, lane: bool) -> Channel:
        """A new connection of a client to a server."""
        channel = Channel(client, self._endpoints[to], lane)
        channel.connection = Connection(
            self._network.link(client.address, to),
            serve=partial(self._serve_request, channel),
            receive=partial(self._receive, channel),
            on_lost=partial(self._on_lost, channel),
        )
        self._channels[channel.key] = channel
        return channel

    def _serve_request(self, channel: Channel, message: object) -> None:
        """A request arrives over a connection, which must be to the present life of the server."""
        server, connection = channel.server, channel.connection
        if not connection.broken:
            if connection.forth.received == 1:
                channel.server_life = server.life  # accepted
            if not server.up or server.life != channel.server_life:
                self._network.sever(connection, some_arrive=False)  # refused
                return
        elif server.life != channel.server_life and not channel.between_brokers:
            return
        self._serve_outside_connection(channel, message)

    def _serve_outside_connection(self, channel: Channel, message: object) -> None:
        """Hand a request to the server under a correlation of its own, which finds the way back."""
        server = channel.server
        if not server.up:
            return
        request: Request = message  # type: ignore[assignment]  # a network carries anything
        if self.layouts is not None and request.correlation in channel.laid_out:
            _, version = channel.laid_out[request.correlation]
            if not self.layouts.knows(server.address, request, version):
                self.traffic.refused(request)
                self._network.sever(channel.connection, some_arrive=False)
                return
        self.traffic.asked(request)
        self._correlation += 1
        if request.__class__ is not Produce or request.acks != 0:
            self._open_requests[server.address][self._correlation] = (channel, request.correlation)
        source = channel.client.address
        server.take(source, Received(source, msgspec.structs.replace(request, correlation=self._correlation)))

    def _receive(self, channel: Channel, message: object) -> None:
        if not channel.connection.broken:
            self._receive_outside_connection(channel, message)

    def _receive_outside_connection(self, channel: Channel, message: object) -> None:
        """Hand an answer to the client, unless it has restarted."""
        client = channel.client
        if client.up and client.life == channel.client_life:
            reply: Reply = message  # type: ignore[assignment]  # a network carries anything
            self.traffic.answered(reply)
            client.take(channel.server.address, Received(channel.server.address, reply))

    # --- breaking -----------------------------------------------------------------------------------------------------------

    def _on_lost(self, channel: Channel) -> None:
        """Forget the connection, and tell the client."""
        client, server = channel.client, channel.server
        if self._channels.get(channel.key) is channel:
            del self._channels[channel.key]
        if client.up and client.life == channel.client_life:
            client.take(server.address, ConnectionLost(server.address))

    def reset(self, source: Address, target: Address) -> int:
        """Break the connections from `source` to `target`; returns their number."""
        broken = 0
        for lane in (False, True):
            channel = self._channels.get((source, target, lane))
            if channel is not None and not channel.connection.broken:
                self._network.sever(channel.connection, some_arrive=True)
                broken += 1
        return broken

    def ended(self, address: Address, *, silent_ns: int | None) -> None:
        """Break the connections of a process that ended. `silent_ns`: delay until its peers notice."""
        self._open_requests[address] = {}
        for key in [key for key in self._channels if address in key]:
            channel = self._channels[key]
            if channel.client.address == address:
                del self._channels[key]
            if not channel.connection.broken:
                self._network.sever(channel.connection, some_arrive=True, tell_after_ns=silent_ns)
