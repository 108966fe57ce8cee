"""The laboratory's own session is no part of the experiment: it outlives broken connections and its own expiry."""

import asyncio
from collections.abc import Callable

import pytest

from highwater.backends.real.zookeeper import admin as module
from highwater.backends.real.zookeeper.admin import Admin
from highwater.errors import HarnessError
from reference.coordination.api import AnyAnswer, AnyOp, Data, GetData, Listener, SessionExpired, Unknown

FOUND = Data(b"{}", 3, 7)


class Scripted:
    """`KazooCoordination` that answers what it was given, in order, and then nothing."""

    answers: list[AnyAnswer]

    def __init__(
        self, hosts: str, session_timeout_ms: int, listener: Listener, run_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.listener = listener
        self.sessions = 0

    def connect(self) -> None:
        self.sessions += 1

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, SessionExpired):
                self.listener.state_changed("expired", 1)
            self.listener.replied(request_id, tuple(answer for _ in ops))


def told(monkeypatch: pytest.MonkeyPatch, *answers: AnyAnswer) -> tuple[tuple[AnyAnswer, ...], int]:
    """What is told of one znode where ZooKeeper answers so, and how many sessions that took."""
    monkeypatch.setattr(Scripted, "answers", list(answers), raising=False)
    monkeypatch.setattr(module, "KazooCoordination", Scripted)
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.2)

    async def ask() -> tuple[tuple[AnyAnswer, ...], int]:
        admin = Admin("nowhere")
        found = await admin.ask_until_answered(GetData("/a"))
        assert isinstance(admin._zookeeper, Scripted)
        return found, admin._zookeeper.sessions

    return asyncio.run(ask())


def test_what_a_broken_connection_left_open_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for an answer it said that a partition had no leader, or that ZooKeeper held nothing in the end."""
    assert told(monkeypatch, Unknown(), Unknown(), FOUND) == ((FOUND,), 1)


def test_a_session_that_is_over_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, SessionExpired(), FOUND) == ((FOUND,), 2)


def test_silence_is_a_failure_of_the_laboratory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="ZooKeeper did not answer the laboratory within 0 s"):
        told(monkeypatch, Unknown())
