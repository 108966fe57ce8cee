"""The kazoo client beyond the coordination contract: unknown answers, expiry, and watches that miss no change."""

import itertools
import time
from collections.abc import Iterator

import pytest

from highwater.backends.real.zookeeper.expiry import end_session
from reference.coordination.api import Create, Created, Data, Exists, GetData, NoNode, SessionExpired, SetData, Unknown
from tests.zookeeper.bench import Client

pytestmark = pytest.mark.zookeeper

roots = itertools.count()


@pytest.fixture
def root(zookeeper: str) -> Iterator[str]:
    client = Client(zookeeper)
    path = f"/kazoo-{next(roots)}"
    client.ask(Create(path, b""))
    yield path
    client.close()


@pytest.fixture
def client(zookeeper: str) -> Iterator[Client]:
    client = Client(zookeeper)
    client.wait_for_state("connected")
    yield client
    client.close()


@pytest.fixture
def other(zookeeper: str) -> Iterator[Client]:
    client = Client(zookeeper)
    client.wait_for_state("connected")
    yield client
    client.close()


def test_zk_requests_in_flight_become_unknown_on_disconnect(client: Client, root: str) -> None:
    client.proxy.stall()
    first, second = client.begin(Create(f"{root}/a", b""), GetData(root)), client.begin(GetData(root))
    client.proxy.cut()
    client.wait_for_state("disconnected")

    assert client.answers[first] == (Unknown(), Unknown())
    assert client.answers[second] == (Unknown(),)
    assert client.log[-3:] == [(Unknown(), Unknown()), (Unknown(),), "disconnected"]


def test_zk_multi_in_flight_is_unknown_as_a_whole(client: Client, root: str) -> None:
    client.proxy.stall()
    request = client.begin(Create(f"{root}/a", b""), SetData(root, b"1"), atomic=True)
    client.proxy.cut()
    client.wait_for_state("disconnected")

    assert client.answers[request] == (Unknown(), Unknown())


def test_requests_without_a_connection_wait_for_the_next_one(client: Client, root: str) -> None:
    session = client.states[-1][1]
    client.proxy.cut()
    client.wait_for_state("disconnected")
    request = client.begin(Create(f"{root}/a", b""))
    client.proxy.join()
    client.wait(lambda: request in client.answers)

    assert client.answers[request] == (Created(f"{root}/a"),)
    assert client.states == [("connected", session), ("disconnected", session), ("connected", session)]


def test_isolated_client_learns_of_its_expiry_on_reconnect(zookeeper: str, other: Client, root: str) -> None:
    """Until then it may act as leader or controller. Runs must show that, so the library must not hide it."""
    client = Client(zookeeper, session_timeout_ms=400)
    session = client.wait_for_state("connected")
    client.ask(Create(f"{root}/mine", b"", ephemeral=True))
    client.proxy.cut()
    client.wait_for_state("disconnected")
    request = client.begin(GetData(root))
    deadline = time.monotonic() + 10
    while other.ask(Exists(f"{root}/mine")) != (NoNode(),):
        assert time.monotonic() < deadline
    told_while_cut_off = list(client.states)
    client.proxy.join()
    client.wait_for_state("expired")

    assert told_while_cut_off == [("connected", session), ("disconnected", session)]
    assert client.answers[request] == (SessionExpired(),)
    assert client.states[-1] == ("expired", session)
    client.close()


def test_expired_client_does_nothing_until_connect(zookeeper: str, client: Client, root: str) -> None:
    """kazoo by itself would open another session and perform the waiting requests in it."""
    old = client.states[-1][1]
    client.ask(GetData(root, watch=True))
    end_session(zookeeper, old)
    client.wait_for_state("expired")
    answers = client.ask(Create(f"{root}/late", b""))
    client.zookeeper.connect()
    new = client.wait_for_state("connected")

    assert answers == (SessionExpired(),)
    assert new != old
    assert client.ask(Exists(f"{root}/late"), SetData(root, b"1"))[0] == NoNode()
    assert client.ask(Exists(root))
    assert client.watches == []  # the watch went with the session that set it


def test_zk_request_before_the_expiry_callback_has_no_effect(zookeeper: str, client: Client, other: Client, root: str) -> None:
    """A node with a busy loop learns of its expiry late; a request in a new session would be a deposed controller's write."""
    kazoo = client.zookeeper._client
    old = client.states[-1][1]
    assert kazoo is not None
    end_session(zookeeper, old)
    until = time.monotonic() + 1  # kazoo by itself opens another session within a tenth of that
    while time.monotonic() < until and (kazoo.client_id is None or kazoo.client_id[0] == old):
        time.sleep(0.01)
    request = client.begin(Create(f"{root}/late", b""))
    time.sleep(0.1)
    client.wait_for_state("expired")

    assert client.answers[request] == (Unknown(),)
    assert other.ask(Exists(f"{root}/late")) == (NoNode(),)


def test_watch_fires_before_any_answer_that_shows_the_change(client: Client, other: Client, root: str) -> None:
    """kazoo has two queues, so an answer may overtake the watch; the machine would then take the old change for a new one."""
    for version in range(1, 40):
        client.ask(GetData(root, watch=True))
        other.begin(SetData(root, b"%d" % version))
        while True:
            (answer,) = client.ask(GetData(root))
            assert isinstance(answer, Data)
            if answer.version == version:
                break
        assert (root, "changed") in client.watches
        client.watches.clear()
        other.ask()


def test_watch_and_read_never_miss_the_last_change(client: Client, other: Client, root: str) -> None:
    """Our Exists also returns the data, unlike ZooKeeper's: the watch must be set on exactly that version."""
    writes = 200
    for number in range(writes):
        other.begin(SetData(root, b"%d" % number))
    seen, data = -1, b""
    while seen < writes:
        (answer,) = client.ask(Exists(root, watch=True))
        client.watches.clear()  # watches that fired during the read add nothing to its answer
        assert isinstance(answer, Data)
        assert answer.version >= seen
        seen, data = answer.version, answer.data
        other.ask()  # submits the waiting writes, one by one
        if seen < writes:
            client.wait(lambda: bool(client.watches))

    assert data == b"%d" % (writes - 1)
