"""Admin requests of clients, performed in ZooKeeper one after the other."""

import asyncio

import pytest

from reference.client.calls import Answered
from reference.client.commands import AllowReassignments, CancelReassignments, Command, CreateTopic, ListPending
from reference.coordination.admin_paths import Reassignment, reassignments_payload
from reference.coordination.api import AnyAnswer, AnyOp, Data
from reference.errors import ErrorCode
from reference.types import BrokerId, Millis, TopicPartition
from server.runtime import administration
from server.runtime.administration import Administration
from server.wire.clients.tasks import AnyResult, CancelMoves, Done, MakeTopic

PENDING = reassignments_payload({TopicPartition("t-0"): Reassignment((BrokerId(2),), (BrokerId(1),))})


class _Session:
    """A ZooKeeper session in which every command succeeds; a move is pending until `rolled_back`."""

    def __init__(self, *_: object) -> None:
        self.done: list[type[Command]] = []
        self.rolled_back = False

    async def run(self, command: Command, timeout_ms: int) -> Answered:
        if not isinstance(command, ListPending):
            self.done.append(type(command))
        return Answered(id=1, error=ErrorCode.NONE)

    async def look(self, *ops: AnyOp, timeout_s: float) -> tuple[AnyAnswer, ...]:
        return (Data(reassignments_payload({}) if self.rolled_back else PENDING, 0, 0), Data(reassignments_payload({}), 0, 0))

    def close(self) -> None:
        """Nothing is open."""


def test_cancellation_stays_until_all_moves_are_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-239, R-244: without the znode the moves would go on; other requests are performed meanwhile."""
    session = _Session()
    monkeypatch.setattr(administration, "AdminSession", lambda *_: session)
    monkeypatch.setattr(administration, "LOOK_AGAIN_S", 0.001)

    async def cancel_and_read() -> list[AnyResult]:
        admin = Administration("", 0)
        answers: asyncio.Queue[AnyResult] = asyncio.Queue()
        admin.perform(CancelMoves(1, Millis(5)), answers.put_nowait)
        admin.perform(MakeTopic(2, "t", (), Millis(5)), answers.put_nowait)
        found = [await answers.get(), await answers.get()]
        assert session.done == [CancelReassignments, CreateTopic]
        session.rolled_back = True
        while AllowReassignments not in session.done:
            await asyncio.sleep(0.001)
        admin.perform(CancelMoves(3, Millis(5)), answers.put_nowait)
        found.append(await answers.get())
        await admin.close()
        return found

    timed_out, *results = asyncio.run(asyncio.wait_for(cancel_and_read(), 10))

    assert timed_out == Done(1, ErrorCode.REQUEST_TIMED_OUT)
    assert results == [Done(2), Done(3)]
    assert session.done == [CancelReassignments, CreateTopic, AllowReassignments, CancelReassignments, AllowReassignments]
