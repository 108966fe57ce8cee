"""Many runs on all cores: one worker process for each, spawned, so that no worker inherits anything but its task.

Results come in the order of completion, each with the position of its task. Whoever consumes them may stop at any time: what
is in flight is then given up. A worker that dies takes the laboratory with it (HarnessError), never a run in silence. Signals are
the parent's affair, from the first moment of a worker on; and no worker outlives its parent, however that ends.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait as wait_for_any
from typing import NamedTuple

from msgspec import Struct

from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.runs.provenance import Laboratory
from highwater.runs.run import BackendName, Keep, backend_named, carry_out
from highwater.runs.summary import Summary, of_failure

# Tasks handed out beyond those being worked on, for each worker: enough that none waits, few enough to stop soon.
_AHEAD = 1
_END_S_MAX = 10.0  # of a worker that was killed
# What ends a command: Ctrl-C and `timeout` send it to the whole group of processes, but the parent alone decides what is kept.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Task(Struct, frozen=True, kw_only=True):
    """One run to be performed and judged."""

    plan: Plan
    repeat: str
    laboratory: Laboratory
    keep: Keep = Keep()
    backend: BackendName = "sim"


class Done(NamedTuple):
    """A finished task by its position."""

    position: int
    summary: Summary


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def perform(task: Task) -> Summary:
    """One task, in whatever process this is. A failed laboratory is a summary too: the other runs go on."""
    try:
        backend = backend_named(task.backend)
        return carry_out(task.plan, backend, laboratory=task.laboratory, repeat=task.repeat, keep=task.keep).summary
    except HarnessError as error:
        return of_failure(task.plan, backend=task.backend, failure=str(error), repeat=task.repeat)


def perform_all(tasks: Iterable[Task], *, jobs: int) -> Generator[Done, None, None]:
    """Perform all tasks, which are drawn as they are needed. With one job, in this process."""
    assert jobs >= 1
    if jobs == 1:
        for position, task in enumerate(tasks):
            summary = perform(task)
            yield Done(position, summary)
            if summary.outcome == "interrupted":  # the run has kept what it had; the others are not begun
                raise KeyboardInterrupt
        return
    # A worker is one of as many as there are cores; Polars' own threads would only stand in each other's way.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with _signals_held_back():  # Python's own tracker of shared things is started here
        pool = ProcessPoolExecutor(max_workers=jobs, mp_context=context, initializer=_end_with_the_parent)
    try:
        yield from _stream(pool, enumerate(tasks), jobs * (1 + _AHEAD))
    except BrokenProcessPool as error:
        raise HarnessError("a worker process died (out of memory?); fewer --jobs may help") from error
    finally:
        # Given up or finished: nobody waits for runs that nobody will read.
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # SIGTERM is held back there
        for process in processes:
            wait_for_any([process.sentinel], timeout=_END_S_MAX)


def _stream(pool: ProcessPoolExecutor, tasks: Iterator[tuple[int, Task]], ahead: int) -> Iterator[Done]:
    running: dict[Future[Summary], int] = {}
    while True:
        for position, task in islice(tasks, ahead - len(running)):
            with _signals_held_back():  # a submission may start a worker, which inherits this
                future = pool.submit(perform, task)
            running[future] = position
        if not running:
            return
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(finished, key=running.__getitem__):
            yield Done(running.pop(future), future.result())


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """What comes meanwhile is delivered at the end. A process started inside never gets it, not even while it is importing."""
    arrived: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in _ENDING}
    # New processes inherit the mask. It does not save this one: Python hears of a signal that any of its threads received, and
    # a worker that is started by half complains.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for late in arrived:
        signal.raise_signal(late)


def _end_with_the_parent() -> None:
    """A worker whose parent was killed would wait for its next task for ever."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
