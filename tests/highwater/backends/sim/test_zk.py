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


class Cluster:
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
    cluster = Cluster()
    cluster.run(20 * TIMEOUT_MS)

    assert cluster.a.states() == ["connected"]
    assert cluster.seen.ended == []


def test_zk_requests_are_answered_and_their_commits_recorded() -> None:
    cluster = Cluster()
    request = cluster.a.ask(Create("/a", b"1"), GetData("/no"))
    cluster.run(10)

    assert cluster.a.answers(request) == (Created("/a"), NoNode())
    assert cluster.seen.commits == [
        (NodeCreated(zxid=1, session=cluster.a.zk.session, path="/a", data=b"1", ephemeral=False), "b1", 1)
    ]


def test_zk_session_survives_a_short_disconnect() -> None:
    cluster = Cluster()
    cluster.a.ask(Create("/mine", b"", ephemeral=True))
    cluster.run(10)
    session = cluster.a.zk.session
    cluster.cut()
    request = cluster.a.ask(SetData("/mine", b"1"))
    cluster.run(TIMEOUT_MS * 9 // 10)
    cluster.join()
    cluster.run(1000)
    read = cluster.a.ask(GetData("/mine"))
    cluster.run(100)

    assert cluster.a.answers(request) == (Unknown(),)
    assert cluster.a.states() == ["connected", "disconnected", "connected"]
    assert cluster.a.zk.session == session
    (answer,) = cluster.a.answers(read)
    assert isinstance(answer, Data)


def test_zk_request_of_unknown_outcome_may_be_performed() -> None:
    """The answer was lost, and not the request."""
    cluster = Cluster()
    cluster.cut(there=False)
    request = cluster.a.ask(Create("/a", b""))
    cluster.run(TIMEOUT_MS)

    assert cluster.a.answers(request) == (Unknown(),)
    assert "/a" in cluster.server.tree.nodes


def test_zk_session_expires_by_the_servers_clock() -> None:
    cluster = Cluster()
    cluster.a.ask(Create("/mine", b"", ephemeral=True))
    cluster.run(10)
    cluster.cut()
    cluster.run(10 * TIMEOUT_MS)
    before = cluster.a.states()
    ended = list(cluster.seen.ended)
    cluster.join()
    cluster.run(2000)

    assert len(ended) == 1
    assert "/mine" not in cluster.server.tree.nodes
    assert before == ["connected", "disconnected"]
    assert cluster.a.states() == ["connected", "disconnected", "expired"]


def test_expired_zk_client_does_nothing_before_a_new_session() -> None:
    cluster = Cluster()
    cluster.server.expire(cluster.a.zk.session)
    cluster.run(2000)
    request = cluster.a.ask(Create("/a", b""))
    cluster.run(2000)
    states = cluster.a.states()
    cluster.a.zk.connect()
    cluster.run(100)

    assert cluster.a.answers(request) == (SessionExpired(),)
    assert states[-1] == "expired"
    assert cluster.a.states()[-1] == "connected"


def test_paused_process_learns_of_zk_expiry_when_resumed() -> None:
    cluster = Cluster()
    cluster.a.ask(Create("/mine", b"", ephemeral=True))
    cluster.run(10)
    cluster.a.paused = True
    cluster.run(3 * TIMEOUT_MS)
    during = cluster.a.states()
    cluster.a.resume()
    cluster.run(2000)

    assert len(cluster.seen.ended) == 1
    assert "/mine" not in cluster.server.tree.nodes
    assert during == ["connected"]
    assert cluster.a.states() == ["connected", "disconnected", "expired"]


def test_watch_event_precedes_the_answer_to_a_later_read() -> None:
    cluster = Cluster()
    cluster.b.ask(Create("/a", b"0"))
    cluster.run(10)
    cluster.a.ask(GetData("/a", watch=True))
    cluster.run(10)
    cluster.b.ask(SetData("/a", b"1"))
    cluster.a.ask(GetData("/a"))
    cluster.run(10)
    watched = cluster.a.told.index(ZkWatch("/a", "changed"))
    read = next(i for i, event in enumerate(cluster.a.told) if isinstance(event, ZkReplied) and event.id == 2)

    (answer,) = cluster.a.answers(2)
    assert isinstance(answer, Data)
    assert answer.data == b"1"
    assert watched < read


def test_zk_watch_fires_later_for_changes_while_disconnected() -> None:
    cluster = Cluster()
    cluster.a.ask(Exists("/a", watch=True))
    cluster.run(10)
    cluster.cut()
    cluster.run(TIMEOUT_MS * 8 // 10)
    cluster.b.ask(Create("/a", b""))
    cluster.run(10)
    cluster.join()
    cluster.run(1000)

    assert [event for event in cluster.a.told if isinstance(event, ZkWatch)] == [ZkWatch("/a", "created")]
    assert cluster.a.states() == ["connected", "disconnected", "connected"]


def test_zk_watch_lost_by_a_broken_connection_fires_again() -> None:
    cluster = Cluster()
    cluster.b.ask(Create("/a", b"0"))
    cluster.run(10)
    cluster.a.ask(GetData("/a", watch=True))
    cluster.run(10)
    cluster.cut(there=False)
    cluster.b.ask(SetData("/a", b"1"))
    cluster.run(TIMEOUT_MS * 9 // 10)
    cluster.join()
    cluster.run(1000)

    assert [event for event in cluster.a.told if isinstance(event, ZkWatch)] == [ZkWatch("/a", "changed")]


def test_zk_requests_wait_while_the_client_is_disconnected() -> None:
    cluster = Cluster()
    cluster.a.zk.reset(ZOOKEEPER)
    cluster.run(2)
    request = cluster.a.ask(Create("/a", b""))
    cluster.run(1000)

    assert cluster.a.states() == ["connected", "disconnected", "connected"]
    assert cluster.a.answers(request) == (Created("/a"),)


def test_zk_session_of_a_dead_process_times_out() -> None:
    cluster = Cluster()
    cluster.a.ask(Create("/mine", b"", ephemeral=True))
    cluster.run(10)
    cluster.a.zk.died()
    cluster.run(TIMEOUT_MS - 100)
    alive = "/mine" in cluster.server.tree.nodes
    cluster.run(1000)

    assert alive
    assert "/mine" not in cluster.server.tree.nodes


def test_writes_take_turns_and_a_multi_counts_once() -> None:
    """V3, Discussion 1: each write takes 4 ms, so three take 12; a multi of three is one write."""
    cluster = Cluster()
    cluster.sim.zk_write_ns = 4 * MS
    ops = tuple(Create(f"/{name}", b"") for name in "xyz")
    apart = [cluster.a.ask(op) for op in ops]
    of_another = cluster.b.ask(GetData("/x"))
    after_its_writes = cluster.a.ask(GetData("/z"))
    cluster.run(13)  # 1 ms each way

    assert [cluster.a.is_answered(request) for request in (*apart, after_its_writes)] == [True, True, False, False]
    assert cluster.b.answers(of_another) == (NoNode(),)
    cluster.run(1)
    assert [type(answer) for answer in cluster.a.answers(after_its_writes)] == [Data]
    together = cluster.a.ask(*(Create(f"/{name}", b"") for name in "uvw"), atomic=True)
    cluster.run(5)
    assert not cluster.a.is_answered(together)
    cluster.run(1)
    assert cluster.a.is_answered(together)
