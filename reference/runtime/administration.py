"""What clients ask of the cluster, done as an administrator does it: by znodes, over a session of its own (docs/decisions/0012).

One command at a time, in the order in which they were asked; the machine that performs it is `reference.client.admin`. The
session is opened by the first command. What is not done when its time is up is answered REQUEST_TIMED_OUT and may be done all the
same.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import assert_never

from reference.client.admin import Admin, Outputs
from reference.client.calls import Answered
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
from reference.coordination.api import AnyAnswer, AnyOp, Change, Data, GetData, SessionState
from reference.coordination.kazoo_client import KazooCoordination
from reference.effects import CancelTimer, SetTimer, ZkConnect, ZkRequest
from reference.errors import ErrorCode
from reference.events import AnyEvent, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.runtime.timers import Timers
from reference.types import Millis
from reference.wire.clients.tasks import (
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

WAITING_MAX = 64  # commands; more are refused
STEP_MS_MIN = 2000  # a znode is written within that, whatever the client's timeout: it is not asked for twice
CANCEL_MS_MAX = 60_000  # how long a rollback is watched before the reassignments that are left may go on
LOOK_AGAIN_S = 0.05
_FIRST_LOOK = 1 << 40  # ids of our own requests; those of the machine count from 1

ByZnodes = MakeTopic | DropTopic | Move | CancelMoves | ListMoves


class Administration:
    """Performs what is asked, one after the other. Belongs to the loop's thread."""

    def __init__(self, zookeeper: str, session_timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._zookeeper = KazooCoordination(zookeeper, session_timeout_ms, self, self._loop.call_soon_threadsafe)
        self._machine = Admin(Millis(STEP_MS_MIN))
        self._timers = Timers(self._loop, lambda name: self._handle(TimerFired(name)))
        self._waiting: asyncio.Queue[tuple[ByZnodes, float, Callable[[AnyResult], None]]] = asyncio.Queue(WAITING_MAX)
        self._answer: asyncio.Future[Answered] | None = None
        self._looks: dict[int, asyncio.Future[tuple[AnyAnswer, ...]]] = {}
        self._last = _FIRST_LOOK
        self._worker: asyncio.Task[None] | None = None

    def perform(self, task: ByZnodes, answer: Callable[[AnyResult], None]) -> None:
        """Do it when its turn comes; answered once."""
        if self._worker is None:
            self._worker = self._loop.create_task(self._work())
        try:
            self._waiting.put_nowait((task, self._loop.time() + task.timeout_ms / 1000, answer))
        except asyncio.QueueFull:
            answer(_told(task, ErrorCode.REQUEST_TIMED_OUT))

    async def close(self) -> None:
        """End the session; nobody is answered any more."""
        if self._worker is not None:
            self._worker.cancel()
            with suppress(asyncio.CancelledError):
                await self._worker
        self._timers.cancel_all()
        self._zookeeper.close()

    # --- one after the other -----------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            task, deadline_s, answer = await self._waiting.get()
            match task:
                case MakeTopic():
                    answer(_told(task, await self._run(CreateTopic(id=1, topic=task.topic, assignment=task.assignment))))
                case DropTopic():
                    answer(_told(task, await self._again(deadline_s, DeleteTopic(id=1, topic=task.topic))))
                case Move():
                    first = Reassign(id=1, tp=task.tp, replicas=task.replicas)
                    beside = Reassign(id=1, tp=task.tp, replicas=task.replicas, extra=True)
                    answer(_told(task, await self._again(deadline_s, first, beside)))
                case ListMoves():
                    error, pending = await self._pending()
                    answer(Moves(task.correlation, error, pending))
                case CancelMoves():
                    await self._cancel(task, deadline_s, answer)
                case _:
                    assert_never(task)

    async def _again(self, deadline_s: float, *commands: Command) -> ErrorCode:
        """The first of these that nobody else's request stands in the way of; again and again until the time is up."""
        while True:
            left_ms = int((deadline_s - self._loop.time()) * 1000)
            for command in commands:
                error = await self._run(command, left_ms)
                if error is not ErrorCode.REASSIGNMENT_IN_PROGRESS:
                    return error
            if left_ms <= 0:
                return ErrorCode.REQUEST_TIMED_OUT
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _pending(self) -> tuple[ErrorCode, tuple[PendingMove, ...]]:
        error = await self._run(ListPending(id=1))
        if error is not ErrorCode.NONE:
            return error, ()
        answers = await self._look(GetData(REASSIGN), GetData(REASSIGN_EXTRA))
        found: dict[str, PendingMove] = {}
        for answer in answers:
            for tp, entry in decode_reassignments(answer.data)[0].items() if isinstance(answer, Data) else ():
                found[tp] = PendingMove(tp, entry.replicas, entry.original)
        return ErrorCode.NONE if answers else ErrorCode.REQUEST_TIMED_OUT, tuple(found[tp] for tp in sorted(found))

    async def _cancel(self, task: CancelMoves, deadline_s: float, answer: Callable[[AnyResult], None]) -> None:
        """Roll back, watch it, and allow new reassignments again: as long as the znode stands there are none (R-233, R-239)."""
        error = await self._run(CancelReassignments(id=1))
        if error is not ErrorCode.NONE:
            answer(Done(task.correlation, error))
            return
        give_up_s = max(deadline_s, self._loop.time() + CANCEL_MS_MAX / 1000)
        is_told = False
        while self._loop.time() < give_up_s:
            error, pending = await self._pending()
            if error is ErrorCode.NONE and not pending:
                break
            if not is_told and self._loop.time() >= deadline_s:
                is_told = True
                answer(Done(task.correlation, ErrorCode.REQUEST_TIMED_OUT))
            await asyncio.sleep(LOOK_AGAIN_S)
        await self._run(AllowReassignments(id=1))
        if not is_told:
            answer(Done(task.correlation))

    # --- the machine and its session ---------------------------------------------------------------------------------------

    async def _run(self, command: Command, timeout_ms: int = 0) -> ErrorCode:
        self._machine.timeout_ms = Millis(max(timeout_ms, STEP_MS_MIN))
        self._answer = self._loop.create_future()
        self._do(self._machine.start(command))
        return (await self._answer).error

    async def _look(self, *ops: AnyOp) -> tuple[AnyAnswer, ...]:
        """What ZooKeeper holds; nothing where it does not answer in time."""
        self._last += 1
        id_, future = self._last, self._loop.create_future()
        self._looks[id_] = future
        self._zookeeper.request(id_, ops, atomic=False)
        try:
            return await asyncio.wait_for(future, STEP_MS_MIN / 1000)
        except TimeoutError:
            return ()
        finally:
            del self._looks[id_]

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """ZooKeeper answered."""
        if request_id < _FIRST_LOOK:
            self._handle(ZkReplied(request_id, answers))
        elif request_id in self._looks and not self._looks[request_id].done():
            self._looks[request_id].set_result(answers)

    def watch_fired(self, path: str, change: Change) -> None:
        """A watch fired."""
        self._handle(ZkWatch(path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        """The session changed."""
        self._handle(ZkState(state, session))

    def _handle(self, event: AnyEvent) -> None:
        self._do(self._machine.handle(event))

    def _do(self, outputs: Outputs) -> None:
        for output in outputs:
            match output:
                case ZkConnect():
                    self._zookeeper.connect()
                case ZkRequest():
                    self._zookeeper.request(output.id, output.ops, atomic=output.atomic)
                case SetTimer():
                    self._timers.set(output.name, output.lo_ms, output.hi_ms)
                case CancelTimer():
                    self._timers.cancel(output.name)
                case Answered():
                    assert self._answer is not None
                    if not self._answer.done():
                        self._answer.set_result(output)
                case _:
                    raise AssertionError(f"an administrator has no business with {output}")


def _told(task: ByZnodes, error: ErrorCode) -> AnyResult:
    return Moves(task.correlation, error) if isinstance(task, ListMoves) else Done(task.correlation, error)
