"""Perform many runs on all cores. There is one worker process for each core; it is spawned, so that it inherits only its tasks.

Results come in the order of completion, each with the position of its task. The consumer may stop at any time; runs in flight are
then abandoned. If a worker dies, the campaign fails with HarnessError. Only the parent handles signals; workers block them from
their start. A worker ends when its parent ends, even if the parent is killed.
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
from highwater.runs.provenance import Build
from highwater.runs.run import BackendName, Keep, backend_named, carry_out
from highwater.runs.summary import Summary, of_failure

# Queued tasks for each worker: enough that no worker waits, few enough to stop soon.
_AHEAD = 1
_END_S_MAX = 10.0  # wait for a killed worker
# Ctrl-C and `timeout` signal the whole process group, but only the parent decides what is kept.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Task(Struct, frozen=True, kw_only=True):
    """One run that a worker process performs and judges."""

    plan: Plan
    repeat: str
    build: Build
    keep: Keep = Keep()
    backend: BackendName = "sim"


class Done(NamedTuple):
    """The summary of a finished run, with the position of its task in the order of all tasks."""

    position: int
    summary: Summary


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def perform(task: Task) -> Summary:
    """Perform and judge one run in this process. A failure of the harness becomes a summary, so that the other runs go on."""
    try:
        backend = backend_named(task.backend)
        return carry_out(task.plan, backend, build=task.build, repeat=task.repeat, keep=task.keep).summary
    except HarnessError as error:
        return of_failure(task.plan, backend=task.backend, failure=str(error), repeat=task.repeat)


def perform_all(tasks: Iterable[Task], *, jobs: int) -> Generator[Done, None, None]:
    """Perform all tasks; `tasks` is consumed as workers become free. With one job they run in this process."""
    assert jobs >= 1
    if jobs == 1:
        for position, task in enumerate(tasks):
            summary = perform(task)
            yield Done(position, summary)
            if summary.outcome == "interrupted":  # the run was stored as far as it got; do not start the others
                raise KeyboardInterrupt
        return
    # There is one worker for each core, so Polars' own threads would only compete.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with _signals_held_back():  # this starts Python's resource tracker process
        pool = ProcessPoolExecutor(max_workers=jobs, mp_context=context, initializer=_end_with_the_parent)
    try:
        yield from _stream(pool, enumerate(tasks), jobs * (1 + _AHEAD))
    except BrokenProcessPool as error:
        raise HarnessError("a worker process died (out of memory?); fewer --jobs may help") from error
    finally:
        # Finished or abandoned: the results of the remaining runs are not needed.
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()  # workers block SIGTERM
        for process in processes:
            wait_for_any([process.sentinel], timeout=_END_S_MAX)


def _stream(pool: ProcessPoolExecutor, tasks: Iterator[tuple[int, Task]], ahead: int) -> Iterator[Done]:
    running: dict[Future[Summary], int] = {}
    while True:
        for position, task in islice(tasks, ahead - len(running)):
            with _signals_held_back():  # `submit` may start a worker, which inherits the blocked signals
                future = pool.submit(perform, task)
            running[future] = position
        if not running:
            return
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(finished, key=running.__getitem__):
            yield Done(running.pop(future), future.result())


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Deliver signals of the body at its end. A process started in the body blocks them for good, also during its imports."""
    arrived: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: arrived.append(number)) for number in _ENDING}
    # New processes inherit the mask. In this process the handlers above are needed as well: another thread may receive the
    # signal, and an interrupt while a worker starts prints a traceback.
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
    """End this worker when its parent ends; otherwise it would wait for its next task forever."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
