"""AdminSession.look: the znodes that it returns, and its result when the connection is lost."""

import asyncio

import pytest

from reference.coordination.api import AnyAnswer, Data, GetData, NoNode, SessionExpired, Unknown
from server.runtime.admin_session import AdminSession

NOBODY = "127.0.0.1:1"  # a port that nothing listens on


def looked(*answers: AnyAnswer) -> tuple[AnyAnswer, ...]:
    """The result of a look at two znodes when ZooKeeper gives these answers."""

    async def scene() -> tuple[AnyAnswer, ...]:
        session = AdminSession(NOBODY, 2000)
        look = asyncio.ensure_future(session.look(GetData("/a"), GetData("/b"), timeout_s=5))
        await asyncio.sleep(0)
        session.replied(session._last, answers)
        return await look

    return asyncio.run(scene())


def test_admin_session_read_returns_znodes() -> None:
    there = Data(b"x", 0, 1)

    assert looked(there, NoNode()) == (there, NoNode())


@pytest.mark.parametrize("lost", [Unknown(), SessionExpired()])
def test_admin_session_read_is_empty_after_connection_loss(lost: AnyAnswer) -> None:
    """Otherwise a broker that is cut off for a moment tells clients that no reassignment is pending."""
    assert looked(lost, lost) == ()
