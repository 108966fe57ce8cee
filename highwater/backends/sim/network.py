"""The simulated network: links and connections that carry bytes between two processes, modelled as TCP.

A `Link` is one direction between two addresses; faults change links. A `Connection` is two halves over the links there and
back: in order and at most once while it lives. A message's delay is drawn when it is sent; faults apply when it arrives. While
its link is cut it waits for retransmission, and after a drawn time the connection breaks. While its link is clogged it waits
without limit. When a connection breaks, a drawn prefix of the messages in flight still arrives, perhaps after the first bytes of
the next connection, which does not wait for the old one. Nothing is duplicated or reordered within a connection.

Single messages may also travel alone (`send_alone`): they stand for retries over several connections, keep no order and are
lost where their link is cut.

Each fault that holds, drops or delays a message counts it in its `Acting`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from highwater.backends.sim.scheduler import MS, US, Scheduler
from highwater.plans.plan import NetworkShape
from history.seed import Draws

PATIENCE_MS_MIN = 500  # a connection whose bytes are not acknowledged breaks after so long
PATIENCE_MS_MAX = 4000
REPEAT_MS = 200  # Linux's minimal retransmission timeout of TCP, which doubles with each repeat
REPEATS_MAX = 6


class Acting:
    """Counts how often one fault took effect on one broker."""

    __slots__ = ("count", "node", "window")

    def __init__(self, window: str, node: str) -> None:
        self.window = window
        self.node = node
        self.count = 0


class Stop:
    """A network fault that holds back messages of a link: all of them, or some kinds."""

    __slots__ = ("acting", "kinds")

    def __init__(self, acting: Acting, kinds: frozenset[type] | None) -> None:
        self.acting = acting
        self.kinds = kinds


class Link:
    """The simulated link from one address to another, with the network faults active on it."""

    __slots__ = ("back", "clogs", "cuts", "held", "keys", "losses", "slows", "source", "stops", "target")

    def __init__(self, source: str, target: str) -> None:
        self.source = source
        self.target = target
        self.back: Link = self  # the other direction; set by the network
        self.cuts: list[Acting] = []
        self.clogs: list[Stop] = []  # of everything
        self.stops: list[Stop] = []  # of some kinds
        self.slows: list[tuple[int, Acting]] = []  # extra ns at most
        self.losses: list[tuple[int, Acting]] = []  # of 1000 packets, which TCP repeats
        self.held: list[tuple[Callable[..., None], tuple[object, ...]]] = []
        self.keys: dict[tuple[type, str], str] = {}  # of the draws for delays


class Half:
    """One direction of a simulated TCP connection. Messages are numbered from 1; `survives`: the last to arrive if it breaks."""

    __slots__ = ("connection", "early", "last_ns", "link", "receive", "received", "sent", "survives")

    def __init__(self, connection: "Connection", link: Link, receive: Callable[[object], None]) -> None:
        self.connection = connection
        self.link = link
        self.receive = receive
        self.sent = 0
        self.received = 0
        self.survives = 0
        self.last_ns = 0  # of the last arrival that is planned
        self.early: dict[int, object] = {}


class Connection:
    """A simulated TCP connection from a client to a server; `on_lost` is called at the client when it breaks."""

    __slots__ = ("back", "broken", "doubted", "forth", "on_lost", "told_late")

    def __init__(
        self,
        link: Link,
        *,
        serve: Callable[[object], None],
        receive: Callable[[object], None],
        on_lost: Callable[[], None],
    ) -> None:
        self.forth = Half(self, link, serve)
        self.back = Half(self, link.back, receive)
        self.on_lost = on_lost
        self.broken = False
        self.doubted = False  # bytes wait for an acknowledgement
        self.told_late = False


class Flight(NamedTuple):
    """A message on its way over a simulated link.

    `due_ns`: when it arrives; None while a fault holds it back, or if it `waits` for one that was sent before it.
    """

    source: str
    target: str
    payload: object
    due_ns: int | None
    waits: bool = False


def _flight_of(due_ns: int | None, arguments: tuple[object, ...]) -> Flight:
    """The message of a planned arrival; its arguments begin with the half of a connection, or with a link."""
    link = arguments[0].link if isinstance(arguments[0], Half) else arguments[0]
    assert isinstance(link, Link)
    return Flight(link.source, link.target, arguments[2], due_ns)


class Network:
    """The simulated network: all links, and how connections deliver and lose messages over them."""

    __slots__ = ("_delay_max_ns", "_delay_min_ns", "_draws", "_links", "_scheduler")

    def __init__(self, scheduler: Scheduler, draws: Draws, shape: NetworkShape) -> None:
        self._scheduler = scheduler
        self._draws = draws
        self._delay_min_ns = shape.delay_us_min * US
        self._delay_max_ns = shape.delay_us_max * US
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """The simulated link from `source` to `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(source, target)
            link.back = self._links[target, source] = Link(target, source)
            link.back.back = link
        return link

    def links(self) -> list[Link]:
        """All simulated links that were ever used."""
        return list(self._links.values())

    # --- sending and arriving -----------------------------------------------------------------------------------------------

    def send(self, half: Half, payload: object, topic_partition: str = "") -> None:
        """Send over a simulated connection. Over a broken one the message is lost; its client soon learns of the break."""
        if half.connection.broken:
            return
        half.sent += 1
        arrival_ns = self._scheduler.now + self._delay_ns(half.link, payload, topic_partition)
        if half.sent == 1 and half is half.connection.forth:
            arrival_ns += self._delay_ns(half.link, payload, "open") + self._delay_ns(half.link.back, payload, "open")
        half.last_ns = arrival_ns = max(arrival_ns, half.last_ns)
        self._scheduler.at(arrival_ns, self._arrive, half, half.sent, payload)

    def flights(self) -> Iterator[Flight]:
        """The messages on their way: those that have a time of arrival, in this order, then those that a fault holds back.

        The last ones have arrived, and wait for one of these, which was sent before them over the same connection.
        """
        halves: dict[Half, None] = {}
        pending = [(due_ns, action, arguments) for due_ns, action, arguments in self._scheduler.pending()]
        held = [(None, action, arguments) for link in self._links.values() for action, arguments in link.held]
        for due_ns, action, arguments in (*pending, *held):
            if action in (self._arrive, self._arrive_alone):
                yield _flight_of(due_ns, arguments)
                if isinstance(arguments[0], Half):
                    halves[arguments[0]] = None
        for half in halves:
            for _, payload in sorted(half.early.items()):
                yield Flight(half.link.source, half.link.target, payload, None, waits=True)

    def send_alone(self, link: Link, late_ns: int, deliver: Callable[[object], None], payload: object) -> None:
        """Send a message outside of any connection, with an extra delay, as a retry over another connection would come."""
        self._scheduler.after(late_ns + self._delay_ns(link, payload, "alone"), self._arrive_alone, link, deliver, payload)

    def _delay_ns(self, link: Link, payload: object, what: str) -> int:
        """The drawn delay of a message; slow links add to it, and each loss costs a repetition by TCP."""
        kind = payload.__class__
        key = link.keys.get((kind, what))
        if key is None:
            key = link.keys[kind, what] = f"delay {link.source}>{link.target} {kind.__name__} {what}"
        delay_ns = self._draws.between(key, self._delay_min_ns, self._delay_max_ns)
        for extra_ns, acting in link.slows:
            delay_ns += self._draws.below(f"slow {acting.window} {key}", extra_ns + 1)
            acting.count += 1
        for per_mille, acting in link.losses:
            delay_ns += self._repeated_ns(f"loss {acting.window} {key}", per_mille, acting)
        return delay_ns

    def _repeated_ns(self, key: str, per_mille: int, acting: Acting) -> int:
        """Draw how much later a packet arrives because copies of it were lost and TCP repeated them."""
        repeats = 0
        while repeats < REPEATS_MAX and self._draws.below(key, 1000) < per_mille:
            repeats += 1
        acting.count += repeats > 0
        return REPEAT_MS * ((1 << repeats) - 1) * MS

    def _arrive(self, half: Half, number: int, payload: object) -> None:
        """A message reaches the end of its link: deliver it after all earlier ones, or hold it if the link is cut or clogged."""
        connection = half.connection
        if connection.broken and number > half.survives:
            return
        link = half.link
        if link.cuts or link.clogs or (number == 1 and half is connection.forth and link.back.cuts):
            self._hold_message(half, number, payload)
            return
        if number != half.received + 1:
            half.early[number] = payload  # an earlier message is still missing
            return
        if link.stops:
            self._deliver(half, payload)
        else:
            half.received = number
            half.receive(payload)
        while half.early and (payload := half.early.pop(half.received + 1, None)) is not None:
            if not connection.broken or half.received < half.survives:
                self._deliver(half, payload)

    def _deliver(self, half: Half, payload: object) -> None:
        """Hand the message to the receiver, unless a fault holds back its kind."""
        half.received += 1
        for stop in half.link.stops:
            if stop.kinds is not None and payload.__class__ in stop.kinds:
                stop.acting.count += 1
                half.link.held.append((self._arrive_alone, (half.link, half.receive, payload)))
                return
        half.receive(payload)

    def _arrive_alone(self, link: Link, deliver: Callable[[object], None], payload: object) -> None:
        """A message outside of a connection reaches the end of its link: deliver it, hold it, or lose it if the link is cut."""
        if link.cuts:
            for acting in link.cuts:
                acting.count += 1
            return
        for stop in (*link.clogs, *link.stops):
            if stop.kinds is None or payload.__class__ in stop.kinds:
                stop.acting.count += 1
                link.held.append((self._arrive_alone, (link, deliver, payload)))
                return
        deliver(payload)

    # --- cuts and clogs -------------------------------------------------------------------------------------------------------

    def _hold_message(self, half: Half, number: int, payload: object) -> None:
        """Keep the message until the link is free; if the link is cut, the connection breaks after a while."""
        link = half.link if half.link.cuts or half.link.clogs else half.link.back
        for stop in link.clogs:
            stop.acting.count += 1
        for acting in link.cuts:
            acting.count += 1
        link.held.append((self._arrive, (half, number, payload)))
        connection = half.connection
        if link.cuts and not connection.doubted and not connection.broken:
            connection.doubted = True
            self._scheduler.after(self._patience_ns(link), self._break_if_still_cut, connection)

    def _patience_ns(self, link: Link) -> int:
        return self._draws.between(f"patience {link.source}>{link.target}", PATIENCE_MS_MIN, PATIENCE_MS_MAX) * MS

    def _break_if_still_cut(self, connection: Connection) -> None:
        connection.doubted = False
        if not connection.broken and (connection.forth.link.cuts or connection.back.link.cuts):
            self.sever(connection, some_arrive=False)

    def release(self, link: Link) -> None:
        """A fault that held back this link's messages has ended: send those that wait, each with a new delay."""
        held_messages, link.held = link.held, []
        for action, arguments in held_messages:
            self._scheduler.after(self._delay_ns(link, None, "again"), action, *arguments)

    def sever(self, connection: Connection, *, some_arrive: bool, tell_after_ns: int | None = None) -> None:
        """Break a simulated connection. The client learns of it after the given time, or after the delay of the way back."""
        assert not connection.broken
        connection.broken = True
        for half in (connection.forth, connection.back):
            flying = half.sent - half.received
            key = f"survives {half.link.source}>{half.link.target}"
            half.survives = half.received + (self._draws.below(key, flying + 1) if some_arrive and flying else 0)
        if tell_after_ns is None:
            tell_after_ns = self._delay_ns(connection.back.link, None, "reset")
        self._scheduler.after(tell_after_ns, self._tell_client_of_loss, connection)

    def _tell_client_of_loss(self, connection: Connection) -> None:
        """Tell the client that its connection is lost, later if the link back is cut."""
        link = connection.back.link
        if link.cuts and not connection.told_late:
            connection.told_late = True  # the reset was lost: the client finds out by its own timeout
            self._scheduler.after(self._patience_ns(link), self._tell_client_of_loss, connection)
            return
        connection.on_lost()
