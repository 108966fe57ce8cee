"""Who started which task: a producer or consumer of aiokafka is dropped without a word, as by a crash, by cancelling its tasks.

aiokafka works in tasks in the background: it sends again, commits and rebalances between two calls of its user. Its own way to
end, `stop`, sends what is left, commits and leaves the group, and may wait without end for a coordinator.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar
from weakref import WeakSet

CALL_S = 5.0  # for each request of a transaction, and beyond the request timeout of a produce
CLOSE_S = 1.0
_CANCEL_S = 1.0  # for a call that was cancelled to end

_T = TypeVar("_T")


class LateError(Exception):
    """A call of the library had not ended in time."""


class Owner:
    """The tasks of one producer or consumer."""

    def __init__(self) -> None:
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    def add(self, task: asyncio.Task[Any]) -> None:
        """A task that it has started."""
        self._tasks.add(task)

    def is_at_work(self) -> bool:
        """Whether the code that asks runs in one of its tasks."""
        return _OWNER.get() is self

    async def call(self, coroutine: Coroutine[Any, Any, _T], limit_s: float) -> _T:
        """Perform a call of the library; the tasks that it starts are this owner's. LateError at the limit: it is cancelled."""
        context = copy_context()
        context.run(_OWNER.set, self)
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        await asyncio.wait({task}, timeout=limit_s)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_S)
        if not task.done() or task.cancelled():
            raise LateError
        return task.result()

    async def end(self, stop: Coroutine[Any, Any, Any], limit_s: float) -> None:
        """End it by its own way, at most so long; then drop it."""
        with suppress(Exception):  # it is given up anyway
            await self.call(stop, limit_s)
        self.drop()

    async def discard(self, stop: Coroutine[Any, Any, Any]) -> None:
        """Drop it with all that it has not sent; then close what is left of it."""
        self.drop()
        await self.end(stop, CLOSE_S)

    def drop(self) -> None:
        """Cancel its tasks: nothing more is sent."""
        for task in list(self._tasks):
            task.cancel()


_OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)


def follow_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Enter each task that begins in this loop from now on with its owner, if it has one."""

    def make(of: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=of, **options)
        context = options.get("context")
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        if owner is not None:
            owner.add(task)
        return task

    loop.set_task_factory(make)
