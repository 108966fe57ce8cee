"""Calls on the processors of this machine: one spawned worker process for each, and a pipe to each worker.

A worker gets one item at a time, so the parent knows which item a dead worker had, and shares no lock with other workers, so a
killed worker stops nobody. Only the parent handles signals; workers block them from their start. A worker ends when its parent
ends, even if the parent is killed.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END_S_MAX = 10.0  # wait for a killed worker
# Ctrl-C and `timeout` signal the whole process group, but only the parent decides what is kept.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def call_on_processes(
    do: Callable[[T, int], R], items: Iterable[T], *, jobs: int, died: Callable[[T, int, str], R | None]
) -> Generator[R, None, None]:
    """Yield `do(item, attempt)` for each item, in the order of completion; `items` is consumed as workers become free.

    `do` must be picklable; attempts count from 1. If a worker dies, `died(item, attempt, how)` is called here and returns a
    result, or None to try the item again on a new worker. An exception of `do` is raised here. The consumer may close the
    generator at any time; calls in flight are then abandoned.
    """
    # There is one worker for each core, so Polars' own threads would only compete.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    orders = _Orders(items)
    workers: list[_Worker[T, R]] = []
    try:
        while True:
            _order_idle_workers(orders, workers, do, jobs)
            busy = [worker for worker in workers if worker.order is not None]
            if not busy:
                return
            wait_for_any([end for worker in busy for end in (worker.pipe, worker.process.sentinel)])
            for worker in busy:
                if not worker.has_news:
                    continue
                assert worker.order is not None
                item, attempt = worker.order
                answer = worker.answer()
                if isinstance(answer, _Failure):
                    raise answer.error
                if answer is None:
                    workers.remove(worker)
                    result = died(item, attempt, worker.end())
                    if result is None:
                        orders.again.append((item, attempt + 1))
                        continue
                else:
                    result = answer.result
                yield result
    finally:
        _end_workers(workers)


class _Orders(Generic[T]):
    """What is still to do: items to try again, then new items. Each with the number of its attempt."""

    def __init__(self, items: Iterable[T]) -> None:
        self.again: deque[tuple[T, int]] = deque()
        self._new = iter(items)

    def next(self) -> tuple[T, int] | None:
        """The next item; None if there is none at present."""
        if self.again:
            return self.again.popleft()
        return next(((item, 1) for item in self._new), None)


class _Worker(Generic[T, R]):
    """A worker process with its pipe and the order that it performs."""

    def __init__(self, do: Callable[[T, int], R]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=_serve_orders, args=(child_pipe, do))
        with _signals_held_back():
            self.process.start()
        child_pipe.close()
        self.order: tuple[T, int] | None = None

    def give(self, order: tuple[T, int]) -> None:
        """Hand an order to the idle worker. Raises OSError if the worker is dead."""
        self.pipe.send(order)
        self.order = order

    @property
    def has_news(self) -> bool:
        """Whether the worker has answered or died."""
        return self.pipe.poll() or not self.process.is_alive()

    def answer(self) -> "_Answer[R] | _Failure | None":
        """The answer to the order; None if the worker died before it gave one."""
        try:
            answer: _Answer[R] | _Failure | None = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None
        self.order = None
        return answer

    def end(self) -> str:
        """Kill the worker if it still runs and say how it ended."""
        self.process.kill()  # workers block SIGTERM
        self.process.join(_END_S_MAX)
        self.pipe.close()
        code = self.process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


@dataclass(frozen=True, slots=True)
class _Answer(Generic[R]):
    """What a call returned."""

    result: R


@dataclass(frozen=True, slots=True)
class _Failure:
    """What a call raised."""

    error: Exception


def _order_idle_workers(orders: "_Orders[T]", workers: "list[_Worker[T, R]]", do: Callable[[T, int], R], jobs: int) -> None:
    """Give an order to every idle worker; start workers as long as there are orders and processors."""
    while True:
        idle = next((worker for worker in workers if worker.order is None), None)
        if idle is None and len(workers) == jobs:
            return
        order = orders.next()
        if order is None:
            return
        if idle is None:
            idle = _Worker(do)
            workers.append(idle)
        try:
            idle.give(order)
        except OSError:  # the worker died between two items
            workers.remove(idle)
            idle.end()
            orders.again.appendleft(order)


def _end_workers(workers: "Sequence[_Worker[T, R]]") -> None:
    """Kill all workers, then wait for each."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.end()


def _serve_orders(pipe: Connection, do: Callable[[T, int], R]) -> None:
    """The life of a worker: one order after the other until the parent closes the pipe."""
    _end_with_the_parent()
    while True:
        try:
            item, attempt = pipe.recv()
        except EOFError:
            return
        try:
            answer: _Answer[R] | _Failure = _Answer(do(item, attempt))
        except Exception as error:  # noqa: BLE001 - raised in the parent
            answer = _Failure(error)
        pipe.send(answer)


def _end_with_the_parent() -> None:
    """End this worker when its parent ends; otherwise it would finish its item for nobody."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Deliver signals of the body at its end. A process started in the body blocks them for good, also during its imports."""
    arrived: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in _ENDING}
    # New processes inherit the mask. In this process the handlers above are needed as well: another thread may receive the
    # signal, and an interrupt while a worker starts prints a traceback.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        # The first process that is spawned starts Python's resource tracker, and that unblocks SIGINT and SIGTERM afterwards.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late_signal in arrived:
        signal.raise_signal(late_signal)
