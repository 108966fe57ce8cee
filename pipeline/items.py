"""Items of work: a function, its deadline, and the row that an attempt at an item ends with."""

import os
import signal
import threading
from collections.abc import Callable
from time import perf_counter
from types import FrameType

import msgspec
from msgspec import Struct

from pipeline.errors import PipelineError
from pipeline.ledger import Ledger, Row, State

ATTEMPTS_MAX = 4
_AGAIN_S = 0.5  # from one alarm of a passed deadline to the next

# From the payload of an item to its result, both as JSON. It must be importable or a `partial` of such a function.
Function = Callable[[bytes], bytes]


class Item(Struct, frozen=True):
    """One unit of work: a run to perform or to judge, or a declared part of a large history."""

    key: str
    payload: bytes


class Job(Struct, frozen=True, kw_only=True):
    """What a worker needs beside its items."""

    function: Function
    ledger: str  # location
    deadline_s: float | None = None
    # Python code is interrupted at the deadline. A worker that is then still busy, in a library without Python code, is ended.
    grace_s: float = 30.0


def give_up(ledger: Ledger, key: str, attempts: int, how: str = "") -> Row:
    """Commit and return the row of an item whose workers died too often."""
    row = Row(key=key, state="lost", attempt=attempts, seconds=0.0, words=f"its worker process died {attempts} times{how}")
    return ledger.commit(row)


class _LateError(BaseException):
    """The deadline of an item has passed. Not an Exception, because the function may handle those."""


def perform_item(job: Job, ledger: Ledger, item: Item, *, attempt: int, end_hung: bool = True) -> Row:
    """Do one item in this process and commit its row. Must run in the main thread, because a signal keeps the deadline.

    `end_hung`: end this process `grace_s` after the deadline if the item is then still busy.
    """
    return ledger.commit(attempt_item(job, item, attempt=attempt, on_hang=ledger.commit if end_hung else None))


def attempt_item(job: Job, item: Item, *, attempt: int, on_hang: Callable[[Row], object] | None) -> Row:
    """Do one item in this process and return its row. `on_hang` as in `perform_item`: it gets the row before the process ends."""
    start = perf_counter()

    def ended(state: State, words: str = "", result: bytes = b"null") -> Row:
        seconds = round(perf_counter() - start, 3)
        return Row(key=item.key, state=state, attempt=attempt, seconds=seconds, words=words, result=msgspec.Raw(result))

    late_words = f"not ready after {job.deadline_s} s"
    deadline = _Deadline(job, on_hang=None if on_hang is None else (lambda: on_hang(ended("late", late_words))))
    try:
        with deadline:
            row = ended("done", result=job.function(item.payload))
    except _LateError:
        row = ended("late", late_words)
    except Exception as error:  # noqa: BLE001 - the ledger records it; other items must go on
        environment = isinstance(error, OSError | MemoryError | PipelineError)
        row = ended("lost" if environment else "failed", " ".join(f"{type(error).__name__}: {error}".split()))
    finally:
        deadline.stop()  # again, because the alarm may have interrupted the first
    return row


class _Deadline:
    """Raise `_LateError` in the main thread after some seconds, then every `_AGAIN_S`; end the process if that does not help.

    Python drops an exception that is raised in a finalizer or in a callback of the garbage collector, so one may be lost.
    `on_hang` is called before the process is ended; None: it is not ended.
    """

    def __init__(self, job: Job, *, on_hang: Callable[[], object] | None) -> None:
        self._seconds = job.deadline_s
        self._grace_s = job.grace_s
        self._on_hang = on_hang
        self._watch: threading.Timer | None = None
        self._before: signal._HANDLER = None

    def __enter__(self) -> None:
        """Arm the alarm, and the timer that ends a process whose item ignores the alarm."""
        if self._seconds is None:
            return
        if self._on_hang is not None:
            self._watch = threading.Timer(self._seconds + self._grace_s, self._end)
            self._watch.daemon = True
            self._watch.start()
        self._before = signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_S)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Cancel alarm and watch. May be called twice."""
        if self._seconds is None:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self._before is not None:
            signal.signal(signal.SIGALRM, self._before)
        if self._watch is not None:
            self._watch.cancel()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise _LateError

    def _end(self) -> None:
        assert self._on_hang is not None
        self._on_hang()
        os._exit(1)
