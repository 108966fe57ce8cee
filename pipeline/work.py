"""Work: items, a function, and a ledger with one row for each item, here or on Spark. The only caller of `mapInArrow`.

    items ─┬─ local processes (pipeline.local) ─┬─▶ perform_item: deadline, row ─▶ ledger
           └─ Spark tasks (mapInArrow)         ─┘

An item whose key the ledger holds is not done again. A function that raises, or that is not ready by its deadline, ends its item
with a row that says so; the other items go on. A worker that dies is replaced and its items are done again, `ATTEMPTS_MAX` times.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec import Struct

from pipeline.ledger import Ledger, Row, State
from pipeline.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS_MAX = 4
# Python code is interrupted at the deadline. A worker that is then still busy, in a library without Python code, is ended.
GRACE_S = 30.0

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


class _LateError(Exception):
    """The deadline of an item has passed."""


def perform_item(job: Job, ledger: Ledger, item: Item, *, attempt: int) -> Row:
    """Do one item in this process and commit its row. Must run in the main thread, because a signal keeps the deadline."""
    start = perf_counter()

    def ended(state: State, words: str = "", result: bytes = b"null") -> Row:
        seconds = round(perf_counter() - start, 3)
        return Row(key=item.key, state=state, attempt=attempt, seconds=seconds, words=words, result=msgspec.Raw(result))

    late = f"not ready after {job.deadline_s} s"
    try:
        with _Deadline(job.deadline_s, on_hang=lambda: ledger.commit(ended("late", late))):
            row = ended("done", result=job.function(item.payload))
    except _LateError:
        row = ended("late", late)
    except Exception as error:  # noqa: BLE001 - the ledger records it; other items must go on
        row = ended("failed", " ".join(f"{type(error).__name__}: {error}".split()))
    ledger.commit(row)
    return row


class _Deadline:
    """Raise `_LateError` in the main thread after some seconds; end the process if that does not help."""

    def __init__(self, seconds: float | None, *, on_hang: Callable[[], None]) -> None:
        self._seconds = seconds
        self._on_hang = on_hang
        self._watch: threading.Timer | None = None

    def __enter__(self) -> None:
        if self._seconds is None:
            return
        self._before = signal.signal(signal.SIGALRM, self._raise)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        self._watch = threading.Timer(self._seconds + GRACE_S, self._end)
        self._watch.daemon = True
        self._watch.start()

    def __exit__(self, *_: object) -> None:
        if self._watch is None:
            return
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        self._watch.cancel()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise _LateError

    def _end(self) -> None:
        self._on_hang()
        os._exit(1)


def perform_on_spark(spark: "SparkSession", items: Sequence[Item], job: Job, *, per_task: int = 1) -> None:
    """Do these items as Spark tasks of `per_task` items each. What came of them is in the ledger.

    Raises a PySpark error where a task failed more often than the master allows.
    """
    if not items:
        return
    tasks = -(-len(items) // per_task)
    rows = spark.sparkContext.parallelize([(item.key, item.payload) for item in items], tasks)
    frame = spark.createDataFrame(rows, "key string, payload binary")
    frame.mapInArrow(_task(job), "key string").foreach(_nothing)


def _nothing(row: object) -> None:
    """Spark computes the rows only if something asks for them."""


def _task(job: Job) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def perform(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        attempt = 1 if context is None else context.attemptNumber() + 1
        ledger = Ledger(storage_at(job.ledger))
        for batch in batches:
            for key, payload in zip(batch["key"].to_pylist(), batch["payload"].to_pylist(), strict=True):
                # An earlier attempt of this task may have finished the item.
                if not ledger.holds(key):
                    perform_item(job, ledger, Item(key, payload), attempt=attempt)
                yield pa.RecordBatch.from_pydict({"key": [key]})

    return perform
