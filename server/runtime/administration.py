"""Performs the administrative requests of clients by writing znodes, over a ZooKeeper session of its own (docs/decisions/0012).

One command at a time, in the order of the requests; the machine `reference.client.admin` performs it. The first command opens the
session. A command that is not done within its timeout is answered REQUEST_TIMED_OUT and may still take effect.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import assert_never

from reference.client.commands import (
    AllowReassignments,
    CancelReassignments,
    Command,
    CreateTopic,
    DeleteTopic,
    ListPending,
    Reassign,
)
from reference.coordination.admin_paths import REASSIGN, REASSIGN_EXTRA, decode_reassignments
from reference.coordination.api import Data, GetData
from reference.errors import ErrorCode
from server.runtime.admin_session import AdminSession
from server.wire.clients.tasks import (
    AnyResult,
    CancelMoves,
    Done,
    DropTopic,
    ListMoves,
    MakeTopic,
    Move,
    Moves,
    PendingMove,
)

WAITING_MAX = 64  # commands; beyond that requests are answered REQUEST_TIMED_OUT
STEP_MS_MIN = 2000  # the least time for writing a znode, even if the client's timeout is shorter
LOOK_AGAIN_S = 0.05

ByZnodes = MakeTopic | DropTopic | Move | CancelMoves | ListMoves


class Administration:
    """Performs clients' admin requests in ZooKeeper, one after the other. Call only on the loop's thread."""

    def __init__(self, zookeeper: str, session_timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = AdminSession(zookeeper, session_timeout_ms)
        self._requests_waiting: asyncio.Queue[tuple[ByZnodes, float, Callable[[AnyResult], None]]] = asyncio.Queue(WAITING_MAX)
        self._worker: asyncio.Task[None] | None = None
        self._is_cancelling = False  # from a cancellation until its moves are rolled back

    def perform(self, task: ByZnodes, answer: Callable[[AnyResult], None]) -> None:
        """Queue a client's admin request; `answer` is called once, at once if the queue is full."""
        if self._worker is None:
            self._worker = self._loop.create_task(self._perform_queued())
        try:
            self._requests_waiting.put_nowait((task, self._loop.time() + task.timeout_ms / 1000, answer))
        except asyncio.QueueFull:
            answer(_result_of(task, ErrorCode.REQUEST_TIMED_OUT))

    async def close(self) -> None:
        """Stop and close the ZooKeeper session; admin requests in progress are not answered."""
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        self._session.close()

    async def _perform_queued(self) -> None:
        """Perform queued tasks one after another, until cancelled; cancelled moves are looked after in between."""
        while True:
            if self._is_cancelling:
                await self._allow_if_rolled_back()
            try:
                waiting = self._requests_waiting.get()
                task, deadline_s, answer = await asyncio.wait_for(waiting, LOOK_AGAIN_S if self._is_cancelling else None)
            except TimeoutError:
                continue
            match task:
                case MakeTopic():
                    answer(_result_of(task, await self._run(CreateTopic(id=1, topic=task.topic, assignment=task.assignment))))
                case DropTopic():
                    answer(_result_of(task, await self._repeat_until_taken(deadline_s, DeleteTopic(id=1, topic=task.topic))))
                case Move():
                    first = Reassign(id=1, tp=task.tp, replicas=task.replicas)
                    beside = Reassign(id=1, tp=task.tp, replicas=task.replicas, extra=True)
                    answer(_result_of(task, await self._repeat_until_taken(deadline_s, first, beside)))
                case ListMoves():
                    error, pending = await self._pending_moves()
                    answer(Moves(task.correlation, error, pending))
                case CancelMoves():
                    await self._cancel_all_moves(task, deadline_s, answer)
                case _:
                    assert_never(task)

    async def _repeat_until_taken(self, deadline_s: float, *commands: Command) -> ErrorCode:
        """Repeat a reassignment's commands until they are not refused with REASSIGNMENT_IN_PROGRESS or the time is up."""
        while True:
            left_ms = int((deadline_s - self._loop.time()) * 1000)
            for command in commands:
                error = await self._run(command, left_ms)
                if error is not ErrorCode.REASSIGNMENT_IN_PROGRESS:
                    return error
            if left_ms <= 0:
                return ErrorCode.REQUEST_TIMED_OUT
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _pending_moves(self) -> tuple[ErrorCode, tuple[PendingMove, ...]]:
        """The moves that are pending in both request znodes, or the error why they are not known."""
        error = await self._run(ListPending(id=1))
        if error is not ErrorCode.NONE:
            return error, ()
        answers = await self._session.look(GetData(REASSIGN), GetData(REASSIGN_EXTRA), timeout_s=STEP_MS_MIN / 1000)
        moves: dict[str, PendingMove] = {}
        for answer in answers:
            for tp, entry in decode_reassignments(answer.data)[0].items() if isinstance(answer, Data) else ():
                moves[tp] = PendingMove(tp, entry.replicas, entry.original)
        return ErrorCode.NONE if answers else ErrorCode.REQUEST_TIMED_OUT, tuple(moves[tp] for tp in sorted(moves))

    async def _cancel_all_moves(self, task: CancelMoves, deadline_s: float, answer: Callable[[AnyResult], None]) -> None:
        """Roll back all moves, wait for the end, then delete the cancel znode, which blocks new moves (R-233, R-239).

        If the rollback takes longer than the client waits, the znode stays until its end: without it the moves would go on to
        their new replicas (R-244).
        """
        error = await self._run(CancelReassignments(id=1))
        if error is not ErrorCode.NONE:
            answer(Done(task.correlation, error))
            return
        self._is_cancelling = True
        await self._allow_if_rolled_back()
        while self._is_cancelling and self._loop.time() < deadline_s:
            await asyncio.sleep(LOOK_AGAIN_S)
            await self._allow_if_rolled_back()
        answer(Done(task.correlation, ErrorCode.REQUEST_TIMED_OUT if self._is_cancelling else ErrorCode.NONE))

    async def _allow_if_rolled_back(self) -> None:
        """Allow moves again once the cancelled ones are all rolled back."""
        error, pending = await self._pending_moves()
        if error is ErrorCode.NONE and not pending:
            await self._run(AllowReassignments(id=1))
            self._is_cancelling = False

    async def _run(self, command: Command, timeout_ms: int = 0) -> ErrorCode:
        return (await self._session.run(command, max(timeout_ms, STEP_MS_MIN))).error


def _result_of(task: ByZnodes, error: ErrorCode) -> AnyResult:
    return Moves(task.correlation, error) if isinstance(task, ListMoves) else Done(task.correlation, error)
