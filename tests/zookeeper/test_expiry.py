"""A session can be ended by its id alone, because its password is computed as ZooKeeper computes it."""

import time

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from highwater.backends.real.zookeeper import expiry
from highwater.backends.real.zookeeper.expiry import OverError, end_session, password
from tests.zookeeper.bench import Proxy


@pytest.mark.zookeeper
@pytest.mark.parametrize("_", range(3))
def test_computed_session_password_equals_the_one_zk_gave(zookeeper: str, _: int) -> None:
    client = KazooClient(zookeeper)
    client.start(timeout=10)
    session, password_given = client.client_id
    client.stop()
    client.close()

    assert password(session) == password_given


@pytest.mark.zookeeper
def test_ended_session_loses_its_ephemeral_znodes(zookeeper: str) -> None:
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
def test_session_is_ended_although_its_owner_reconnects(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner may reconnect between takeover and close; then only a connection is closed and the session lives."""
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

    monkeypatch.setattr(expiry, "KazooClient", Slow)
    end_session(way.address, owner.client_id[0])

    looker = KazooClient(zookeeper)
    looker.start(timeout=10)
    assert looker.exists("/taken-back") is None
    way.close()
    for each in (owner, looker):
        each.stop()
        each.close()


@pytest.mark.zookeeper
def test_takeover_is_repeated_if_the_owner_is_faster(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner may take its session back before the takeover is seen; kazoo reports that as a timeout, at once."""
    owner = KazooClient(zookeeper, timeout=30)
    owner.start(timeout=10)
    session = owner.client_id[0]

    class Late(KazooClient):  # type: ignore[misc]  # kazoo has no types
        has_lost = False

        def start(self, timeout: float = 15) -> None:
            super().start(timeout)
            if not Late.has_lost:
                Late.has_lost = True
                raise KazooTimeoutError("Connection time-out")

    monkeypatch.setattr(expiry, "KazooClient", Late)
    end_session(zookeeper, session)

    with pytest.raises(OverError):
        end_session(zookeeper, session)
    owner.stop()
    owner.close()


@pytest.mark.zookeeper
def test_ended_session_cannot_be_taken_over(zookeeper: str) -> None:
    with pytest.raises(OverError, match="session 0x1234 could not be taken over"):
        end_session(zookeeper, 0x1234)
