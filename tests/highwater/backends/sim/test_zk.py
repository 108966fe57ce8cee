"""Sessions, requests and watches behave as with ZooKeeper's own client and server."""

from highwater.backends.sim.network import Acting
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.zk import ZkServer
from highwater.rig.commits import NodeCreated
from highwater.rig.cuts import ZOOKEEPER
from reference.coordination.api import (
    Create,
    Created,
    Data,
    Exists,
    GetData,
    NoNode,
    SessionExpired,
    SetData,
    Unknown,
)
from reference.events import ZkReplied, ZkWatch
from tests.highwater.backends.sim.simulations import simulation
from tests.highwater.backends.sim.zk_processes import TIMEOUT_MS, Process, Seen


class Town:
    """A server and two processes, connected."""

    def __init__(self) -> None:
        self.sim = simulation()
        self.seen = Seen()
        self.server = ZkServer(self.sim, self.seen)
        self.a = Process(self.sim, self.server, "b1")
        self.b = Process(self.sim, self.server, "b2")
        self.run(100)

    def run(self, ms: int) -> None:
        self.sim.scheduler.run_until(self.sim.scheduler.now + ms * MS)

    def cut(self, there: bool = True, back: bool = True) -> None:
        link = self.sim.network.link("b1", ZOOKEEPER)
        for cut, way in ((there, link), (back, link.back)):
            if cut:
                way.cuts.append(Acting("f1", "b1"))

    def join(self) -> None:
        link = self.sim.network.link("b1", ZOOKEEPER)
        for way in (link, link.back):
            way.cuts.clear()
            self.sim.network.release(way)


def test_zk_session_lives_while_its_client_pings() -> None:
    town = Town()
    town.run(20 * TIMEOUT_MS)

    assert town.a.states() == ["connected"]
    assert town.seen.ended == []


def test_zk_requests_are_answered_and_their_commits_recorded() -> None:
    town = Town()
    request = town.a.ask(Create("/a", b"1"), GetData("/no"))
    town.run(10)

    assert town.a.answers(request) == (Created("/a"), NoNode())
    assert town.seen.commits == [(NodeCreated(zxid=1, session=town.a.zk.session, path="/a", data=b"1", ephemeral=False), "b1", 1)]


def test_zk_session_survives_a_short_disconnect() -> None:
    town = Town()
    town.a.ask(Create("/mine", b"", ephemeral=True))
    town.run(10)
    session = town.a.zk.session
    town.cut()
    request = town.a.ask(SetData("/mine", b"1"))
    town.run(TIMEOUT_MS * 9 // 10)
    town.join()
    town.run(1000)
    read = town.a.ask(GetData("/mine"))
    town.run(100)

    assert town.a.answers(request) == (Unknown(),)
    assert town.a.states() == ["connected", "disconnected", "connected"]
    assert town.a.zk.session == session
    (found,) = town.a.answers(read)
    assert isinstance(found, Data)


def test_zk_request_of_unknown_outcome_may_be_performed() -> None:
    """The answer was lost, and not the request."""
    town = Town()
    town.cut(there=False)
    request = town.a.ask(Create("/a", b""))
    town.run(TIMEOUT_MS)

    assert town.a.answers(request) == (Unknown(),)
    assert "/a" in town.server.tree.nodes


def test_zk_session_expires_by_the_servers_clock() -> None:
    town = Town()
    town.a.ask(Create("/mine", b"", ephemeral=True))
    town.run(10)
    town.cut()
    town.run(10 * TIMEOUT_MS)
    before = town.a.states()
    ended = list(town.seen.ended)
    town.join()
    town.run(2000)

    assert len(ended) == 1
    assert "/mine" not in town.server.tree.nodes
    assert before == ["connected", "disconnected"]
    assert town.a.states() == ["connected", "disconnected", "expired"]


def test_expired_zk_client_does_nothing_before_a_new_session() -> None:
    town = Town()
    town.server.expire(town.a.zk.session)
    town.run(2000)
    request = town.a.ask(Create("/a", b""))
    town.run(2000)
    states = town.a.states()
    town.a.zk.connect()
    town.run(100)

    assert town.a.answers(request) == (SessionExpired(),)
    assert states[-1] == "expired"
    assert town.a.states()[-1] == "connected"


def test_paused_process_learns_of_zk_expiry_when_resumed() -> None:
    town = Town()
    town.a.ask(Create("/mine", b"", ephemeral=True))
    town.run(10)
    town.a.paused = True
    town.run(3 * TIMEOUT_MS)
    during = town.a.states()
    town.a.resume()
    town.run(2000)

    assert len(town.seen.ended) == 1
    assert "/mine" not in town.server.tree.nodes
    assert during == ["connected"]
    assert town.a.states() == ["connected", "disconnected", "expired"]


def test_watch_event_precedes_the_answer_to_a_later_read() -> None:
    town = Town()
    town.b.ask(Create("/a", b"0"))
    town.run(10)
    town.a.ask(GetData("/a", watch=True))
    town.run(10)
    town.b.ask(SetData("/a", b"1"))
    town.a.ask(GetData("/a"))
    town.run(10)
    watched = town.a.told.index(ZkWatch("/a", "changed"))
    read = next(i for i, event in enumerate(town.a.told) if isinstance(event, ZkReplied) and event.id == 2)

    (answer,) = town.a.answers(2)
    assert isinstance(answer, Data)
    assert answer.data == b"1"
    assert watched < read


def test_zk_watch_fires_later_for_changes_while_disconnected() -> None:
    town = Town()
    town.a.ask(Exists("/a", watch=True))
    town.run(10)
    town.cut()
    town.run(TIMEOUT_MS * 8 // 10)
    town.b.ask(Create("/a", b""))
    town.run(10)
    town.join()
    town.run(1000)

    assert [event for event in town.a.told if isinstance(event, ZkWatch)] == [ZkWatch("/a", "created")]
    assert town.a.states() == ["connected", "disconnected", "connected"]


def test_zk_watch_lost_by_a_broken_connection_fires_again() -> None:
    town = Town()
    town.b.ask(Create("/a", b"0"))
    town.run(10)
    town.a.ask(GetData("/a", watch=True))
    town.run(10)
    town.cut(there=False)
    town.b.ask(SetData("/a", b"1"))
    town.run(TIMEOUT_MS * 9 // 10)
    town.join()
    town.run(1000)

    assert [event for event in town.a.told if isinstance(event, ZkWatch)] == [ZkWatch("/a", "changed")]


def test_zk_requests_wait_while_the_client_is_disconnected() -> None:
    town = Town()
    town.a.zk.reset(ZOOKEEPER)
    town.run(2)
    request = town.a.ask(Create("/a", b""))
    town.run(1000)

    assert town.a.states() == ["connected", "disconnected", "connected"]
    assert town.a.answers(request) == (Created("/a"),)


def test_zk_session_of_a_dead_process_times_out() -> None:
    town = Town()
    town.a.ask(Create("/mine", b"", ephemeral=True))
    town.run(10)
    town.a.zk.died()
    town.run(TIMEOUT_MS - 100)
    alive = "/mine" in town.server.tree.nodes
    town.run(1000)

    assert alive
    assert "/mine" not in town.server.tree.nodes
