"""Work: items, a function, and a ledger with one row for each item, here or on Spark. The only caller of `mapInArrow`.

    items ─┬─ local processes (pipeline.local) ─┬─▶ perform_item: deadline, row ─▶ ledger
           └─ Spark tasks (mapInArrow)         ─┘

An item whose key the ledger holds is not done again. A function that raises, or that is not ready by its deadline, ends its item
with a row that says so; the other items go on. A worker that dies is replaced and its items are done again; an item whose workers
died `ATTEMPTS_MAX` times ends with a row that says so.
"""

import os
import re
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from time import monotonic, perf_counter
from types import FrameType
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
from msgspec import Struct

from pipeline.errors import PipelineError
from pipeline.ledger import Ledger, Row, State
from pipeline.local import call_on_processes
from pipeline.session import cause
from pipeline.stamp import MISMATCH, check_stamp, present_stamp
from pipeline.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS_MAX = 4
_AGAIN_S = 0.5  # from one alarm of a passed deadline to the next
TASKS_MAX = 10_000  # of one Spark job: its driver keeps some kB for each
_FOLLOW_S = 0.5  # between two looks at the ledger while a Spark job runs
_CANCEL_S_MAX = 10.0
_VISIBLE_S_MAX = 5.0  # until the driver sees a row that an executor wrote to a shared folder

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


def _ignored(row: Row) -> None:
    """The default for `on_row`."""


def perform(
    items: Iterable[Item],
    job: Job,
    *,
    spark: "SparkSession | None" = None,
    jobs: int = 1,
    on_row: Callable[[Row], None] = _ignored,
    per_task: int | None = None,
) -> None:
    """Do the items that the ledger does not hold: on Spark if there is a session, else in `jobs` local processes.

    `on_row` gets each new row, in the order of completion. To stop the work, `on_row` raises; that and Ctrl-C end the local
    workers or cancel the Spark job, and rows in the ledger stay. With one job the items are done in this process. `items` is
    consumed as workers become free. `per_task` is the number of items of a Spark task; without it, one item or as many as
    `TASKS_MAX` needs. Raises PipelineError if Spark fails before it reaches any item, OSError if the ledger cannot be written.
    """
    ledger = Ledger(storage_at(job.ledger))
    held = ledger.keys()
    missing = (item for item in items if item.key not in held)
    with closing(_rows(missing, job, ledger, spark, jobs=jobs, per_task=per_task)) as rows:
        for row in rows:
            on_row(row)


def _rows(
    items: Iterator[Item], job: Job, ledger: Ledger, spark: "SparkSession | None", *, jobs: int, per_task: int | None
) -> Generator[Row, None, None]:
    """Perform the items on Spark, in this process or in several; yield a row as each ends."""
    if spark is not None:
        yield from _rows_on_spark(spark, list(items), job, ledger, per_task)
    elif jobs == 1:
        for item in items:
            yield perform_item(job, ledger, item, attempt=1, end_hung=False)
    else:
        died = partial(_died_row, ledger)
        yield from call_on_processes(partial(_perform_here, job), items, jobs=jobs, died=died)


def _perform_here(job: Job, item: Item, attempt: int) -> Row:
    return perform_item(job, Ledger(storage_at(job.ledger)), item, attempt=attempt)


def _died_row(ledger: Ledger, item: Item, attempt: int, how: str) -> Row | None:
    """The row of an item whose local worker died; None: try again."""
    if ledger.holds(item.key):  # it died after the row was written
        return ledger.read(item.key)
    return _give_up(ledger, item.key, attempt, f" ({how})") if attempt >= ATTEMPTS_MAX else None


def _give_up(ledger: Ledger, key: str, attempts: int, how: str = "") -> Row:
    row = Row(key=key, state="lost", attempt=attempts, seconds=0.0, words=f"its worker process died {attempts} times{how}")
    return ledger.commit(row)


class _LateError(BaseException):
    """The deadline of an item has passed. Not an Exception, because the function may handle those."""


def perform_item(job: Job, ledger: Ledger, item: Item, *, attempt: int, end_hung: bool = True) -> Row:
    """Do one item in this process and commit its row. Must run in the main thread, because a signal keeps the deadline.

    `end_hung`: end this process `grace_s` after the deadline if the item is then still busy.
    """
    start = perf_counter()

    def ended(state: State, words: str = "", result: bytes = b"null") -> Row:
        seconds = round(perf_counter() - start, 3)
        return Row(key=item.key, state=state, attempt=attempt, seconds=seconds, words=words, result=msgspec.Raw(result))

    late = f"not ready after {job.deadline_s} s"
    deadline = _Deadline(job, on_hang=(lambda: ledger.commit(ended("late", late))) if end_hung else None)
    try:
        with deadline:
            row = ended("done", result=job.function(item.payload))
    except _LateError:
        row = ended("late", late)
    except Exception as error:  # noqa: BLE001 - the ledger records it; other items must go on
        environment = isinstance(error, OSError | MemoryError | PipelineError)
        row = ended("lost" if environment else "failed", " ".join(f"{type(error).__name__}: {error}".split()))
    finally:
        deadline.stop()  # again, because the alarm may have interrupted the first
    return ledger.commit(row)


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


def _rows_on_spark(
    spark: "SparkSession", items: Sequence[Item], job: Job, ledger: Ledger, per_task: int | None
) -> Generator[Row, None, None]:
    """Do the items in Spark jobs until each has a row, and yield the rows as they appear in the ledger.

    A job ends early if one task fails as often as the master permits. The next job does the rest. Items whose last permitted
    attempt had begun then (at least the culprit) are done alone afterwards, so that no item is blamed for another.
    """
    permitted = _attempts_permitted(spark)
    missing = {item.key: item for item in items}
    suspects: dict[str, int] = {}  # attempts so far
    ledger.clear_marks(*ledger.marks())  # of a driver that was killed
    while missing:
        batch = [item for key, item in missing.items() if key not in suspects] or [missing[key] for key in [*suspects][:1]]
        before = len(missing)
        tried = {item.key: suspects.get(item.key, 0) for item in batch}
        spark_job = _SparkJob(spark, batch, _task(job, permitted), tried, per_task)
        for row in spark_job.rows(ledger):
            del missing[row.key]
            suspects.pop(row.key, None)
            yield row
        if spark_job.failure is None:
            unseen = [key for key in tried if key in missing]
            if unseen:
                words = f"the Spark job ended without the rows of {len(unseen)} items; can all executors write this folder?"
                raise PipelineError(f"{job.ledger}: {words}")
            continue
        marks = {key: count for key, count in ledger.marks().items() if key in missing and key in tried}
        if MISMATCH in spark_job.failure or (not marks and len(missing) == before):
            raise PipelineError(f"Spark gave up: {spark_job.failure}")
        for key, count in marks.items():
            if len(batch) == 1 and count >= ATTEMPTS_MAX:
                del missing[key]
                suspects.pop(key, None)
                yield _give_up(ledger, key, count)
            else:
                suspects[key] = count
        ledger.clear_marks(*marks)


def _attempts_permitted(spark: "SparkSession") -> int:
    """How often Spark starts a task before it ends the job."""
    local = re.fullmatch(r"local(?:\[[^,\]]+(?:,(\d+))?\])?", spark.sparkContext.master or "")
    if local is not None:
        return int(local[1] or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures", "4"))


_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class _SparkJob:
    """One Spark job, run in a thread of its own so that this one can follow the ledger and cancel it."""

    def __init__(
        self, spark: "SparkSession", items: Sequence[Item], task: _Task, tried: dict[str, int], per_task: int | None
    ) -> None:
        self.failure: str | None = None  # why Spark ended the job early
        self._context = spark.sparkContext
        self._group = f"highwater-{uuid4()}"
        self._waiting = set(tried)
        size = per_task or -(-len(items) // TASKS_MAX)
        rows = self._context.parallelize([(item.key, item.payload, tried[item.key]) for item in items], -(-len(items) // size))
        frame = spark.createDataFrame(rows, "key string, payload binary, tried int")
        # The sink `noop` makes Spark compute the rows and drops them.
        self._run = frame.mapInArrow(task, "key string").write.format("noop").mode("overwrite").save
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._stirred = threading.Event()  # set when the job ends

    def rows(self, ledger: Ledger) -> Generator[Row, None, None]:
        """Start the job and yield the rows of its items until it has ended. If the generator is closed, the job is cancelled."""
        self._thread.start()
        try:
            ended: float | None = None
            while self._waiting and (ended is None or monotonic() < ended + _VISIBLE_S_MAX):
                if not self._thread.is_alive():  # asked before the look: what was written before the end is seen
                    ended = ended or monotonic()
                start = monotonic()
                for row in ledger.rows(sorted(ledger.keys() & self._waiting)):
                    self._waiting.remove(row.key)
                    yield row
                if ended is not None and self.failure is not None:
                    break
                # A look at a ledger of a million rows takes seconds: spend a tenth of the time on it.
                self._stirred.wait(max(_FOLLOW_S, 10 * (monotonic() - start)))
                self._stirred.clear()
            self._thread.join()
        finally:
            if self._thread.is_alive():
                self._cancel()

    def _perform(self) -> None:
        """Run the job, on its own thread; a failure is kept for the caller."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self._context.setJobGroup(self._group, "highwater", interruptOnCancel=True)
            self._run()
        except (PySparkException, Py4JError, OSError) as error:
            self.failure = cause(str(error))
        finally:
            self._stirred.set()

    def _cancel(self) -> None:
        """Cancel the job and wait for its thread."""
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):  # Spark may have ended by the same signal
            self._context.cancelJobGroup(self._group)
        self._thread.join(_CANCEL_S_MAX)


def _task(job: Job, permitted: int) -> _Task:
    """The function that Spark maps over batches of items; items that the ledger holds are not done again."""
    driver = present_stamp()

    def perform_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        check_stamp(driver)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver decides what is kept
        context = TaskContext.get()
        attempt = 1 if context is None else context.attemptNumber() + 1
        ledger = Ledger(storage_at(job.ledger))
        for batch in batches:
            for order in batch.to_pylist():
                key, tried = order["key"], order["tried"]
                if ledger.holds(key):  # an earlier attempt of this task finished the item
                    pass
                elif tried and attempt > 1 and tried + attempt > ATTEMPTS_MAX:  # it killed its worker alone, too
                    _give_up(ledger, key, tried + attempt - 1)
                else:
                    item = Item(key, order["payload"])
                    _perform_marked(job, ledger, item, attempt=tried + attempt, marked=attempt >= permitted)
                yield pa.RecordBatch.from_pydict({"key": [key]})

    return perform_batches


def _perform_marked(job: Job, ledger: Ledger, item: Item, *, attempt: int, marked: bool) -> None:
    """Do an item. A mark stays if, and only if, its last permitted attempt kills this process."""
    if marked:
        ledger.mark(item.key, attempt)
    try:
        perform_item(job, ledger, item, attempt=attempt)
    finally:
        if marked:
            ledger.clear_marks(item.key)
