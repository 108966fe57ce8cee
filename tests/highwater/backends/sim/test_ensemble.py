"""An ensemble keeps ZooKeeper's guarantees, whatever happens to its servers."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from highwater.backends.sim.ensemble import Ensemble, EnsembleServer
from highwater.backends.sim.network import Acting, Connection
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.zk import Hello, Line, Welcome
from history.seed import Rng
from reference.coordination.api import AnyOp, Create, Created, Data, Exists, GetData, NoNode, SetData, Written
from reference.coordination.memory import Watches
from reference.events import AnyEvent, ZkReplied, ZkState, ZkWatch
from reference.types import Address
from tests.highwater.backends.sim.simulations import simulation
from tests.highwater.backends.sim.zk_processes import TIMEOUT_MS, Process, Seen

REGISTER = "/r"
CUT = Acting("f1", "z")


class Client(Process):
    """A process that opens a new session when its session has expired, and that times what it does."""

    def __init__(self, town: "Town", name: str) -> None:
        self.times: dict[int, tuple[int, int]] = {}  # of requests that were answered: asked, answered
        self.asked: dict[int, int] = {}
        super().__init__(town.sim, town.ensemble, name)

    def take(self, source: str, event: AnyEvent) -> None:
        super().take(source, event)
        if isinstance(event, ZkReplied) and event.id in self.asked:
            self.times[event.id] = self.asked[event.id], self.sim.scheduler.now
        if isinstance(event, ZkState) and event.state == "expired":
            self.later(MS, "test", self.zk.connect)  # type: ignore[arg-type]  # a method without arguments

    def ask(self, *ops: AnyOp, atomic: bool = False) -> int:
        self.asked[self.requests + 1] = self.sim.scheduler.now
        return super().ask(*ops, atomic=atomic)


class Town:
    """Three servers and some clients; links take 0.2 to 3 ms."""

    def __init__(self, draws: int = 1, clients: int = 3) -> None:
        self.sim = simulation(draws, delay_us=(200, 3000))
        self.seen = Seen()
        self.ensemble = Ensemble(self.sim, self.seen)
        self.clients = [Client(self, f"b{number}") for number in range(1, clients + 1)]
        self.run(200)

    def run(self, ms: int) -> None:
        self.sim.scheduler.run_until(self.sim.scheduler.now + ms * MS)

    @property
    def leader(self) -> EnsembleServer:
        leader = self.ensemble.leader
        assert leader is not None
        return leader

    def cut(self, one: str, other: str) -> None:
        for way in (self.sim.network.link(one, other), self.sim.network.link(other, one)):
            way.cuts.append(CUT)

    def slow(self, one: str, other: str, ms: int) -> None:
        for way in (self.sim.network.link(one, other), self.sim.network.link(other, one)):
            way.slows.append((ms * MS, CUT))

    def heal(self) -> None:
        for link in self.sim.network.links():
            link.cuts.clear()
            link.slows.clear()
            self.sim.network.release(link)
        for server in self.ensemble.servers:
            server.resume()
            server.start()

    def bind(self, client: Client, server: EnsembleServer) -> None:
        """Leave the client one server alone."""
        for other in server.peers:
            self.cut(client.address, other.address)
        self.run(TIMEOUT_MS)


def test_writes_survive_the_end_of_the_leader() -> None:
    town = Town()
    first = town.clients[0].ask(Create("/a", b"1"))
    town.run(50)
    dead = town.leader
    dead.kill()
    town.run(2 * TIMEOUT_MS)
    reads = [client.ask(GetData("/a")) for client in town.clients]
    town.run(100)

    assert town.clients[0].answers(first) == (Created("/a"),)
    assert town.leader is not dead
    assert [isinstance(client.answers(read)[0], Data) for client, read in zip(town.clients, reads, strict=True)] == [True] * 3


def test_lagging_server_serves_stale_reads_and_late_watches() -> None:
    town = Town(clients=2)
    writer, reader = town.clients
    lagging = town.leader.peers[0]
    town.bind(writer, town.leader)
    town.bind(reader, lagging)
    reader.ask(Exists("/a", watch=True))
    town.run(50)
    town.slow(town.leader.address, lagging.address, 800)
    write = writer.ask(Create("/a", b"1"))
    while write not in writer.times:
        town.run(1)
    stale = reader.ask(Exists("/a"))
    town.run(10)
    early = [event for event in reader.told if isinstance(event, ZkWatch)]
    town.run(2000)
    fresh = reader.ask(Exists("/a"))
    town.run(20)

    assert reader.answers(stale) == (NoNode(),)
    assert early == []
    assert isinstance(reader.answers(fresh)[0], Data)
    assert ZkWatch("/a", "created") in reader.told


@pytest.mark.parametrize(("seen_zxid", "refused"), [(0, False), (99, True)])
def test_server_refuses_a_client_that_has_seen_more(seen_zxid: int, refused: bool) -> None:
    """The answer that a session goes on may overtake the writes that the client has seen at its former server."""
    town = Town(clients=1)
    server = town.leader.peers[0]
    line = Line(Address("b1"), 1)
    heard: list[object] = []
    line.connection = Connection(
        town.sim.network.link("b1", server.address),
        serve=partial(server.serve, line),
        receive=heard.append,
        on_lost=lambda: None,
    )
    town.sim.network.send(line.connection.forth, Hello(town.clients[0].zk.session, TIMEOUT_MS, Watches(), seen_zxid))
    town.run(100)

    assert line.connection.broken == refused
    assert [type(message) for message in heard] == ([] if refused else [Welcome])


def test_sessions_outlive_a_time_without_majority() -> None:
    """No leader, no expiry: a new leader gives every session its whole timeout again."""
    town = Town()
    sessions = [client.zk.session for client in town.clients]
    for server in town.leader.peers:
        server.kill()
    town.run(3 * TIMEOUT_MS)
    town.clients[0].ask(Create("/a", b"1"))
    town.run(TIMEOUT_MS)
    held = list(town.seen.commits)
    town.heal()
    town.run(2 * TIMEOUT_MS)

    assert held == []
    assert [client.zk.session for client in town.clients] == sessions
    assert [client.states()[-1] for client in town.clients] == ["connected"] * 3
    assert town.seen.ended == []


def test_leader_expires_a_silent_session_of_a_follower() -> None:
    town = Town()
    silent = town.clients[0]
    follower = town.leader.peers[0]
    town.bind(silent, follower)
    silent.ask(Create("/mine", b"", ephemeral=True))
    town.run(50)
    there = "/mine" in town.ensemble.tree.nodes
    town.cut(silent.address, follower.address)
    town.run(2 * TIMEOUT_MS)

    assert there
    assert town.seen.ended == [silent.zk.session]
    assert all("/mine" not in server.tree.nodes for server in town.ensemble.servers)


def test_write_of_a_session_that_moved_away_is_refused() -> None:
    """The former server passes it on when the client has long written over another one."""
    town = Town(clients=2)
    mover, other = town.clients
    other.ask(Create(REGISTER, b"0"))
    former = town.leader.peers[0]
    town.bind(mover, former)
    session = mover.zk.session
    town.run(50)
    town.cut(former.address, town.leader.address)
    mover.ask(SetData(REGISTER, b"late"))
    town.run(20)
    for link in town.sim.network.links():
        if "b1" in (link.source, link.target):
            link.cuts.clear()
    mover.zk.reset(former.address)  # it dials the next server
    town.run(450)
    second = mover.ask(SetData(REGISTER, b"second"))
    town.run(50)
    town.heal()
    town.run(1000)

    assert mover.zk.session == session
    assert mover.answers(second) == (Written(1),)
    assert town.ensemble.tree.nodes[REGISTER].data == b"second"


# --- any schedule ----------------------------------------------------------------------------------------------------------


def _anything(rng: Rng, town: Town) -> None:
    """Let something happen to servers, links or clients, or a client ask for something."""
    server, other = rng.pick(town.ensemble.servers), rng.pick(town.ensemble.servers)
    client = rng.pick(town.clients)
    value = str(town.sim.handled).encode()
    acts: tuple[Callable[[], object], ...] = (
        *(lambda: client.ask(SetData(REGISTER, value)),) * 6,
        *(lambda: client.ask(GetData(REGISTER, watch=True)),) * 8,
        *(lambda: client.ask(GetData(REGISTER, watch=True), SetData(REGISTER, value), GetData(REGISTER, watch=True)),) * 2,
        lambda: client.ask(Create(f"/{client.address}", b"", ephemeral=True)),
        lambda: client.ask(SetData(REGISTER, value), Create("/no/parent", b""), atomic=True),
        lambda: town.cut(server.address, other.address),
        lambda: town.cut(client.address, server.address),
        lambda: town.slow(server.address, other.address, 600),
        lambda: client.zk.reset(server.address),
        server.kill,
        server.pause,
        server.resume,
        server.start,
        server.start,
        town.heal,
    )
    rng.pick(acts)()
    town.run(rng.pick((1, 5, 20, 100, 400)))


def _sessions(client: Client) -> Iterator[list[AnyEvent]]:
    """What a client was told in each of its sessions."""
    events: list[AnyEvent] = []
    for event in client.told:
        if isinstance(event, ZkState) and event.state == "expired":
            yield events
            events = []
        events.append(event)
    yield events


def _versions(events: list[AnyEvent]) -> Iterator[tuple[int, int]]:
    """The versions of the register that answers show, each with its place among the events."""
    for place, event in enumerate(events):
        if isinstance(event, ZkReplied):
            for answer in event.answers:
                if isinstance(answer, Data | Written):
                    yield place, answer.version


def _is_ordered(town: Town) -> bool:
    """Whether each write that began after another was acknowledged has a later version."""
    acked = sorted(
        (*client.times[event.id], answer.version)
        for client in town.clients
        for event in client.told
        if isinstance(event, ZkReplied) and event.id in client.times
        for answer in event.answers
        if isinstance(answer, Written)
    )
    return all(a[2] < b[2] for a in acked for b in acked if a[1] < b[0])


@pytest.mark.slow
@example(76)  # a watch was lost when the connection broke right after a session went on
@example(709)  # a session hung whose write was refused because it had moved
@given(st.integers(0, 100_000))
def test_any_schedule_of_server_faults_keeps_the_guarantees(draws: int) -> None:
    town = Town(draws)
    rng = Rng(draws)
    town.clients[0].ask(Create(REGISTER, b"0"))
    town.run(50)
    for step in range(120):
        _anything(rng.fork(f"step {step}"), town)
        for server in town.ensemble.servers:
            owners = {node.owner for node in server.tree.nodes.values() if node.owner}
            assert all(str(owner) in server.tree.sessions for owner in owners), "an ephemeral without a session"
    town.heal()
    town.run(4 * TIMEOUT_MS)
    for client in town.clients:
        client.ask(SetData(REGISTER, b"once"))  # an old connection, opened late, may have taken the session over: it is lost now
    town.run(TIMEOUT_MS)
    last = [client.ask(SetData(REGISTER, b"end")) for client in town.clients]
    town.run(500)

    assert _is_ordered(town)
    for client in town.clients:
        for events in _sessions(client):
            versions = list(_versions(events))
            for (before, seen), (place, version) in pairwise(versions):
                assert seen <= version, "a session saw an older state than before"
                if seen < version and before != place and _ends_with_read(events[before]):
                    assert any(isinstance(event, ZkWatch) for event in events[before:place]), "data came before its watch event"
    assert all(isinstance(client.answers(request)[0], Written) for client, request in zip(town.clients, last, strict=True))
    one, *others = (server.tree for server in town.ensemble.servers)
    assert all((tree.nodes, tree.sessions, tree.zxid) == (one.nodes, one.sessions, one.zxid) for tree in others)


def _ends_with_read(event: AnyEvent) -> bool:
    """Whether an answer ends with data that was read with a watch."""
    return isinstance(event, ZkReplied) and isinstance(event.answers[-1], Data)
