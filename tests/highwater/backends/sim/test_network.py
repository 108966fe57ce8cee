"""Connections behave like TCP under every fault of their links."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.backends.sim.network import PATIENCE_MS_MAX, Acting, Connection, Link, Stop
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from tests.highwater.backends.sim.simulations import simulation


class Wire:
    """A connection from a to b, with the messages received at both ends and their times (ms)."""

    def __init__(self, on: Simulation | None = None) -> None:
        self.sim = on or simulation()
        self.link: Link = self.sim.network.link("a", "b")
        self.served: list[object] = []
        self.times: list[int] = []
        self.received: list[object] = []
        self.lost_ms: list[int] = []
        self.connection = Connection(self.link, serve=self._serve, receive=self.received.append, on_lost=self._lost)

    def _serve(self, payload: object) -> None:
        self.served.append(payload)
        self.times.append(self.sim.scheduler.now // MS)

    def _lost(self) -> None:
        self.lost_ms.append(self.sim.scheduler.now // MS)

    def send(self, *payloads: object) -> None:
        for payload in payloads:
            self.sim.network.send(self.connection.forth, payload)

    def run(self, ms: int) -> None:
        self.sim.scheduler.run_until(self.sim.scheduler.now + ms * MS)

    def cut(self, link: Link) -> Acting:
        acting = Acting("f1", "a")
        link.cuts.append(acting)
        return acting

    def join(self, link: Link) -> None:
        link.cuts.clear()
        self.sim.network.release(link)


def test_first_message_waits_for_the_tcp_handshake() -> None:
    wire = Wire()
    wire.send("hello")
    wire.run(10)
    wire.send("again")
    wire.run(10)

    assert wire.times == [3, 11]


def test_message_that_waits_for_an_earlier_one_is_on_its_way() -> None:
    """It has arrived, and its receiver has not seen it: who looks at this moment must find it."""
    wire = Wire()
    wire.send("hello")
    wire.run(10)
    wire.cut(wire.link)
    wire.send(*map(str, range(20)))
    wire.run(20)
    wire.link.slows.append((5 * MS, Acting("f2", "a")))
    wire.join(wire.link)
    waited = 0
    while len(wire.served) < 21:
        flights = list(wire.sim.network.flights())
        waited += sum(flight.waits for flight in flights)
        assert sorted([str(flight.payload) for flight in flights] + wire.served[1:], key=str) == sorted(map(str, range(20)))
        wire.sim.scheduler.run_until(wire.sim.scheduler.now + MS // 20)

    assert waited


changes = st.one_of(
    st.tuples(st.just("send"), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 400)),
    st.tuples(st.sampled_from(["cut", "join", "cut back", "join back", "clog", "unclog", "sever"]), st.just(0)),
)


@given(st.lists(changes, max_size=60), st.integers(0, 1000))
def test_received_messages_are_a_prefix_of_the_sent(story: list[tuple[str, int]], draws: int) -> None:
    """In order, at most once, without a gap: through cuts, clogs, and after a reset."""
    wire = Wire(simulation(draws, delay_us=(100, 300_000)))
    sent = 0
    for what, ms in story:
        match what:
            case "send" if not wire.connection.broken:
                wire.send(sent)
                sent += 1
            case "wait":
                wire.run(ms)
            case "cut" | "cut back":
                wire.cut(wire.link if what == "cut" else wire.link.back)
            case "join" | "join back":
                wire.join(wire.link if what == "join" else wire.link.back)
            case "clog":
                wire.link.clogs.append(Stop(Acting("f2", "a"), None))
            case "unclog":
                wire.link.clogs.clear()
                wire.sim.network.release(wire.link)
            case "sever" if not wire.connection.broken:
                wire.sim.network.sever(wire.connection, some_arrive=True)
            case _:
                pass
    wire.link.clogs.clear()
    for link in (wire.link, wire.link.back):
        wire.join(link)
    wire.run(20_000)

    assert wire.served == list(range(len(wire.served)))
    assert len(wire.lost_ms) == (1 if wire.connection.broken else 0)
    if not wire.connection.broken:
        assert len(wire.served) == sent


def test_messages_wait_until_a_short_link_cut_ends() -> None:
    wire = Wire()
    wire.send("before")
    wire.run(10)
    acting = wire.cut(wire.link)
    wire.send("during", "the cut")
    wire.run(300)
    served = list(wire.served)
    wire.join(wire.link)
    wire.run(10)

    assert served == ["before"]
    assert wire.served == ["before", "during", "the cut"]
    assert acting.count == 2
    assert not wire.connection.broken


def test_long_link_cut_breaks_connections_and_loses_messages() -> None:
    wire = Wire()
    wire.cut(wire.link)
    wire.send("lost")
    wire.run(PATIENCE_MS_MAX + 100)
    wire.join(wire.link)
    wire.run(1000)

    assert wire.served == []
    assert len(wire.lost_ms) == 1


def test_idle_connection_survives_any_link_cut() -> None:
    wire = Wire()
    wire.send("before")
    wire.run(10)
    wire.cut(wire.link)
    wire.run(60_000)
    wire.join(wire.link)
    wire.send("after")
    wire.run(10)

    assert wire.served == ["before", "after"]


def test_one_way_link_cut_leaves_the_other_direction() -> None:
    wire = Wire()
    wire.send("hello")
    wire.run(10)
    wire.cut(wire.link)
    wire.sim.network.send(wire.connection.back, "answer")
    wire.run(10)

    assert wire.received == ["answer"]


def test_connecting_fails_while_either_way_is_cut() -> None:
    wire = Wire()
    wire.cut(wire.link.back)
    wire.send("hello")
    wire.run(100)
    served = list(wire.served)
    wire.join(wire.link.back)
    wire.run(100)

    assert served == []
    assert wire.served == ["hello"]


def test_clog_fault_of_any_length_loses_no_message() -> None:
    wire = Wire()
    stop = Stop(Acting("f1", "a"), None)
    wire.link.clogs.append(stop)
    wire.send(1, 2)
    wire.run(60_000)
    served = list(wire.served)
    wire.link.clogs.remove(stop)
    wire.sim.network.release(wire.link)
    wire.run(100)

    assert served == []
    assert wire.served == [1, 2]
    assert not wire.connection.broken


def test_clog_fault_lets_other_message_kinds_overtake() -> None:
    wire = Wire()
    stop = Stop(Acting("f1", "a"), frozenset({str}))
    wire.link.stops.append(stop)
    wire.send("held", 1, 2)
    wire.run(100)
    passed = list(wire.served)
    wire.link.stops.remove(stop)
    wire.sim.network.release(wire.link)
    wire.run(100)

    assert passed == [1, 2]
    assert wire.served == [1, 2, "held"]


def test_old_messages_may_arrive_late_after_a_reset() -> None:
    overtaken = 0
    for draws in range(20):
        old = Wire(simulation(draws, delay_us=(1000, 50_000)))
        new = Wire(old.sim)
        new.served = old.served
        old.send("old")
        old.sim.network.sever(old.connection, some_arrive=True)
        new.send("new")
        old.run(1000)
        assert old.served in (["new"], ["old", "new"], ["new", "old"])
        overtaken += old.served == ["new", "old"]

    assert overtaken > 0


def test_send_over_a_broken_connection_is_lost() -> None:
    wire = Wire()
    wire.sim.network.sever(wire.connection, some_arrive=True)
    wire.send("late")
    wire.run(1000)

    assert wire.served == []
    assert wire.lost_ms == [1]


def test_reset_over_a_cut_link_reaches_the_client_late() -> None:
    wire = Wire()
    wire.cut(wire.link.back)
    wire.sim.network.sever(wire.connection, some_arrive=False)
    wire.run(400)
    early = list(wire.lost_ms)
    wire.run(PATIENCE_MS_MAX)

    assert early == []
    assert len(wire.lost_ms) == 1


def test_slow_link_delays_messages_and_counts_them() -> None:
    wire = Wire()
    acting = Acting("f1", "a")
    wire.link.slows.append((500 * MS, acting))
    wire.send(1)
    wire.run(2000)

    assert wire.served == [1]
    assert wire.times[0] > 3
    assert acting.count == 2


def test_lone_message_over_a_cut_link_is_lost() -> None:
    wire = Wire()
    acting = wire.cut(wire.link)
    wire.sim.network.send_alone(wire.link, 0, wire.served.append, "alone")
    wire.run(100)
    wire.join(wire.link)
    wire.run(1000)

    assert wire.served == []
    assert acting.count == 1
