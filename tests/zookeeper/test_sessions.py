"""Anybody who knows the id of a session can end it: its password is worked out as ZooKeeper works it out."""

import time

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from highwater.backends.real.zookeeper import sessions
from highwater.backends.real.zookeeper.sessions import OverError, end_session, password
from tests.zookeeper.bench import Proxy


@pytest.mark.zookeeper
@pytest.mark.parametrize("_", range(3))
def test_the_password_of_a_session_is_the_one_that_the_server_gave(zookeeper: str, _: int) -> None:
    client = KazooClient(zookeeper)
    client.start(timeout=10)
    session, given = client.client_id
    client.stop()
    client.close()

    assert password(session) == given


@pytest.mark.zookeeper
def test_a_session_that_is_ended_takes_its_znodes_with_it(zookeeper: str) -> None:
    client = KazooClient(zookeeper, timeout=30)
    client.start(timeout=10)
    client.create("/ended", b"", ephemeral=True)
    looker = KazooClient(zookeeper)
    looker.start(timeout=10)

    end_session(zookeeper, client.client_id[0])

    assert looker.exists("/ended") is None
    for each in (client, looker):
        each.stop()
        each.close()


@pytest.mark.zookeeper
def test_a_session_that_its_owner_takes_back_is_ended_all_the_same(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between taking it over and closing it the owner may be faster, and what is closed then is no session."""
    owner = KazooClient(zookeeper, timeout=30)
    owner.start(timeout=10)
    owner.create("/taken-back", b"", ephemeral=True)
    way = Proxy(zookeeper)

    class Slow(KazooClient):  # type: ignore[misc]  # kazoo has no types
        has_lost = False

        def stop(self) -> None:
            if not Slow.has_lost:
                Slow.has_lost = True
                way.cut()
                while self.state == KazooState.CONNECTED:
                    time.sleep(0.01)
                super().stop()
                way.join()
            super().stop()

    monkeypatch.setattr(sessions, "KazooClient", Slow)
    end_session(way.address, owner.client_id[0])

    looker = KazooClient(zookeeper)
    looker.start(timeout=10)
    assert looker.exists("/taken-back") is None
    way.close()
    for each in (owner, looker):
        each.stop()
        each.close()


@pytest.mark.zookeeper
def test_a_session_that_is_over_cannot_be_taken_over(zookeeper: str) -> None:
    with pytest.raises(OverError, match="session 0x1234 could not be taken over"):
        end_session(zookeeper, 0x1234)
