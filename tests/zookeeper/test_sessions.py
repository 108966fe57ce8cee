"""Anybody who knows the id of a session can end it: its password is worked out as ZooKeeper works it out."""

import pytest
from kazoo.client import KazooClient

from highwater.errors import HarnessError
from highwater.local.sessions import end_session, password


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
def test_a_session_that_is_over_cannot_be_taken_over(zookeeper: str) -> None:
    with pytest.raises(HarnessError, match="session 0x1234 could not be taken over"):
        end_session(zookeeper, 0x1234)
