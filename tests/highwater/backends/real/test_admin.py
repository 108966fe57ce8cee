"""The harness's own ZooKeeper session survives broken connections and its own expiry."""

import asyncio
from collections.abc import Callable

import pytest

from highwater.backends.real.zookeeper import admin as module
from highwater.backends.real.zookeeper.admin import Admin
from highwater.errors import HarnessError
from reference.coordination.api import AnyAnswer, AnyOp, Data, GetData, SessionExpired, Unknown
from server.kazoo_client import Listener

FOUND = Data(b"{}", 3, 7)


class Scripted:
    """`KazooCoordination` that gives scripted answers in order, and then none."""

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


def read_with_answers(monkeypatch: pytest.MonkeyPatch, *answers: AnyAnswer) -> tuple[tuple[AnyAnswer, ...], int]:
    """The result of reading one znode when ZooKeeper gives these answers, and the number of sessions that it took."""
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


def test_zookeeper_read_is_repeated_after_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown as an answer would mean that a partition has no leader, or that ZooKeeper is empty at the end."""
    assert read_with_answers(monkeypatch, Unknown(), Unknown(), FOUND) == ((FOUND,), 1)


def test_admin_replaces_an_expired_zookeeper_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_with_answers(monkeypatch, SessionExpired(), FOUND) == ((FOUND,), 2)


def test_silent_zookeeper_is_a_harness_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match=r"ZooKeeper at nowhere did not answer the harness within 0\.2 s"):
        read_with_answers(monkeypatch, Unknown())
