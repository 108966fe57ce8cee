"""Work on Spark: the only caller of `mapInArrow`, and of what Spark offers a driver to follow and cancel a job.

Nothing here needs an RDD or the driver's JVM, so a session of Spark Connect does as well.

    a list of items    ─▶ a local table, an item a row         ─▶ a row of the ledger for each item
    a series of blocks ─▶ spark.range, the number of a block   ─▶ an object for each block (pipeline.blocks)
    a function         ─▶ spark.range, its argument            ─▶ its results, or rows for Spark to group
"""

import re
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from pipeline.blocks import Blocks, Header, Series, block_name
from pipeline.errors import PipelineError
from pipeline.items import ATTEMPTS_MAX, Item, Job, attempt_item, give_up, perform_item
from pipeline.ledger import Ledger, Row
from pipeline.session import cause
from pipeline.stamp import MISMATCH, check_stamp, present_stamp
from pipeline.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

K = TypeVar("K")
R = TypeVar("R")

TASKS_MAX = 10_000  # of one Spark job: its driver keeps some kB for each
RESULTS_MAX = 1_000  # of one Spark job, which are in the memory of the driver together
_FOLLOW_S = 0.5  # between two looks at the ledger while a Spark job runs
_CANCEL_S_MAX = 10.0
_VISIBLE_S_MAX = 5.0  # until the driver sees what an executor wrote to a shared folder
_ITEMS_SCHEMA = pa.schema([("key", pa.string()), ("payload", pa.binary()), ("tried", pa.int32())])
_SLICES = "spark.sql.leafNodeDefaultParallelism"  # the partitions of a local table

_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


# --- items ----------------------------------------------------------------------------------------------------------------------


def rows_on_spark(
    spark: "SparkSession", items: Sequence[Item], job: Job, ledger: Ledger, per_task: int | None
) -> Generator[Row, None, None]:
    """Do the items in Spark jobs until each has a row, and yield the rows as they appear in the ledger."""
    with _own_session(spark) as own:
        yield from _do_items(own, items, job, ledger, per_task)


def _do_items(
    spark: "SparkSession", items: Sequence[Item], job: Job, ledger: Ledger, per_task: int | None
) -> Generator[Row, None, None]:
    """As `rows_on_spark`, in a session that has no other job.

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
        spark_job = _SparkJob(spark, _frame_of_items(spark, batch, _items_task(job, permitted), tried, per_task))
        for row in spark_job.follow(set(tried), lambda waiting: _new_rows(ledger, waiting)):
            del missing[row.key]
            suspects.pop(row.key, None)
            yield row
        if spark_job.failure is None:
            unseen = [key for key in tried if key in missing]
            if unseen:
                raise _unseen(job, f"{len(unseen)} items")
            continue
        marks = {key: count for key, count in ledger.marks().items() if key in missing and key in tried}
        if MISMATCH in spark_job.failure or (not marks and len(missing) == before):
            raise PipelineError(f"Spark gave up: {spark_job.failure}")
        for key, count in marks.items():
            if len(batch) == 1 and count >= ATTEMPTS_MAX:
                del missing[key]
                suspects.pop(key, None)
                yield give_up(ledger, key, count)
            else:
                suspects[key] = count
        ledger.clear_marks(*marks)


def _new_rows(ledger: Ledger, waiting: set[str]) -> Iterator[tuple[str, Row]]:
    return ((row.key, row) for row in ledger.rows(sorted(ledger.keys() & waiting)))


def _unseen(job: Job, what: str) -> PipelineError:
    words = f"the Spark job ended without the rows of {what}; can all executors write this folder?"
    return PipelineError(f"{job.ledger}: {words}")


def _attempts_permitted(spark: "SparkSession") -> int:
    """How often Spark starts a task before it ends the job."""
    local = re.fullmatch(r"local(?:\[[^,\]]+(?:,(\d+))?\])?", spark.conf.get("spark.master", "") or "")
    if local is not None:
        return int(local[1] or 1)
    return int(spark.conf.get("spark.task.maxFailures", "4") or 4)


def _frame_of_items(
    spark: "SparkSession", items: Sequence[Item], task: _Task, tried: dict[str, int], per_task: int | None
) -> "DataFrame":
    """The items as a DataFrame that performs them, `per_task` in each task; TASKS_MAX tasks at most if that is not given."""
    size = per_task or -(-len(items) // TASKS_MAX)
    rows = [{"key": item.key, "payload": item.payload, "tried": tried[item.key]} for item in items]
    spark.conf.set(_SLICES, str(-(-len(items) // size)))
    return spark.createDataFrame(pa.Table.from_pylist(rows, _ITEMS_SCHEMA)).mapInArrow(task, "key string")


def _items_task(job: Job, permitted: int) -> _Task:
    """The function that Spark maps over batches of items; items that the ledger holds are not done again."""
    driver = present_stamp()

    def perform_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_stamp(driver)
        attempt = _begun_attempt()
        ledger = Ledger(storage_at(job.ledger))
        for batch in batches:
            for order in batch.to_pylist():
                key, tried = order["key"], order["tried"]
                if ledger.holds(key):  # an earlier attempt of this task finished the item
                    pass
                elif tried and attempt > 1 and tried + attempt > ATTEMPTS_MAX:  # it killed its worker alone, too
                    give_up(ledger, key, tried + attempt - 1)
                else:
                    item = Item(key, order["payload"])
                    _perform_marked(job, ledger, item, attempt=tried + attempt, marked=attempt >= permitted)
                yield pa.RecordBatch.from_pydict({"key": [key]})

    return perform_batches


def _begun_attempt() -> int:
    """The number of this attempt at a task, from 1."""
    from pyspark import TaskContext

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver decides what is kept
    context = TaskContext.get()
    return 1 if context is None else context.attemptNumber() + 1


def _perform_marked(job: Job, ledger: Ledger, item: Item, *, attempt: int, marked: bool) -> None:
    """Do an item. A mark stays if, and only if, its last permitted attempt kills this process."""
    if marked:
        ledger.mark(item.key, attempt)
    try:
        perform_item(job, ledger, item, attempt=attempt)
    finally:
        if marked:
            ledger.clear_marks(item.key)


# --- blocks ---------------------------------------------------------------------------------------------------------------------


def series_on_spark(spark: "SparkSession", series: Series, job: Job, ledger: Ledger) -> Generator[Header, None, None]:
    """Do the blocks that are not finished, a task each, and yield the header of each block as it appears."""
    with _own_session(spark) as own:
        yield from _do_blocks(own, series, job, ledger)


def _do_blocks(spark: "SparkSession", series: Series, job: Job, ledger: Ledger) -> Generator[Header, None, None]:
    """As `series_on_spark`, in a session that has no other job.

    The driver holds the numbers of the blocks of one job. If a job ends early, the items of the blocks whose last permitted
    attempt had begun get rows of their own (`rows_on_spark`), so that each item is blamed for itself alone.
    """
    blocks, permitted = Blocks(storage_at(job.ledger)), _attempts_permitted(spark)
    ledger.clear_marks(*ledger.marks())  # of a driver that was killed
    finished = blocks.finished()
    for first in range(0, len(series.blocks), TASKS_MAX):
        missing = set(series.blocks[first : first + TASKS_MAX]) - finished
        while missing:
            before = len(missing)
            task = _blocks_task(series, job, permitted, has_rows=bool(ledger.keys()))
            spark_job = _SparkJob(spark, _frame_of_blocks(spark, missing, task))
            for header in spark_job.follow(set(missing), lambda waiting: _new_blocks(blocks, waiting)):
                missing.remove(header.block)
                yield header
            if spark_job.failure is None:
                if missing:
                    raise _unseen(job, f"{len(missing)} blocks")
                continue
            alone = _suspected_items(series, missing, ledger)
            if MISMATCH in spark_job.failure or (not alone and len(missing) == before):
                raise PipelineError(f"Spark gave up: {spark_job.failure}")
            for _ in _do_items(spark, alone, job, ledger, per_task=1):
                pass  # told when the block is finished


def _suspected_items(series: Series, missing: set[int], ledger: Ledger) -> list[Item]:
    """The items without a row of the missing blocks whose last permitted attempt had begun."""
    marks = ledger.marks()
    begun = [item for block in sorted(missing) if block_name(block) in marks for item in series.items(block)]
    return [item for item in begun if not ledger.holds(item.key)]


def _new_blocks(blocks: Blocks, waiting: set[int]) -> Iterator[tuple[int, Header]]:
    return ((block, blocks.header(block)) for block in sorted(blocks.finished() & waiting))


def _frame_of_blocks(spark: "SparkSession", missing: set[int], task: _Task) -> "DataFrame":
    first = min(missing)
    end = max(missing) + 1
    return spark.range(first, end, 1, end - first).mapInArrow(task, "block long")


def _blocks_task(series: Series, job: Job, permitted: int, *, has_rows: bool) -> _Task:
    """The function that Spark maps over numbers of blocks. `has_rows`: some items have rows of their own."""
    driver = present_stamp()

    def perform_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_stamp(driver)
        attempt = _begun_attempt()
        ledger = Ledger(storage_at(job.ledger))
        for batch in batches:
            for block in batch.column(0).to_pylist():
                if attempt >= permitted:
                    ledger.mark(block_name(block), attempt)
                perform_block(series, job, block, attempt=attempt, one_by_one=has_rows or attempt > 1)
                if attempt >= permitted:
                    ledger.clear_marks(block_name(block))
                yield pa.RecordBatch.from_pydict({"block": [block]})

    return perform_blocks


def perform_block(series: Series, job: Job, block: int, *, attempt: int, one_by_one: bool) -> None:
    """Do the items of a block and write it, unless it is finished.

    `one_by_one`: keep what has a row of its own, and give each other item one; the block then takes these rows over. So an
    attempt that follows a killed worker goes on where that one died.
    """
    storage = storage_at(job.ledger)
    blocks, ledger = Blocks(storage), Ledger(storage)
    if blocks.holds(block):
        return
    items, batch = series.items(block), series.batch()
    if one_by_one:
        rows = [ledger.read(i.key) if ledger.holds(i.key) else perform_item(job, ledger, i, attempt=attempt) for i in items]
        blocks.write(block, rows, batch.total(rows))
        ledger.forget({item.key for item in items})
        return
    together = replace(job, function=batch.do)
    rows = [attempt_item(together, item, attempt=attempt, on_hang=ledger.commit) for item in items]
    batch.store(block_name(block))
    blocks.write(block, rows, batch.total(rows))


# --- functions of a number ------------------------------------------------------------------------------------------------------


def results_on_spark(spark: "SparkSession", count: int, function: Callable[[int], bytes]) -> Iterator[bytes]:
    """The results of a function of each number below `count`: a task each, `RESULTS_MAX` in one job after the other.

    The driver holds the results of one job. A function that raises is tried again as often as the master permits.
    """
    with _own_session(spark) as own:
        for first in range(0, count, RESULTS_MAX):
            frame = frame_of_numbers(own, range(first, min(first + RESULTS_MAX, count)), partial(_result, function), "r binary")
            try:
                results = frame.toArrow().column("r")
            except BaseException:
                with suppress(Exception):  # Spark may have ended by the same signal
                    own.interruptAll()
                raise
            yield from results.to_pylist()


def _result(function: Callable[[int], bytes], number: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"r": [function(number)]})


def frame_of_numbers(
    spark: "SparkSession", numbers: range, rows: Callable[[int], Iterator[pa.RecordBatch]], schema: str
) -> "DataFrame":
    """The rows that a function makes of each of these numbers, which must not be none; a task each."""
    driver = present_stamp()

    def of_each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_stamp(driver)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver decides what is kept
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows(number)

    return spark.range(numbers.start, numbers.stop, 1, len(numbers)).mapInArrow(of_each, schema)


# --- jobs -----------------------------------------------------------------------------------------------------------------------


@contextmanager
def _own_session(spark: "SparkSession") -> Iterator["SparkSession"]:
    """A new session of the same application, for one job at a time."""
    own = spark.newSession()
    try:
        yield own
    finally:
        # A session of Spark Connect has threads of its own, which keep the driver from ending; of others, `stop` ends Spark.
        if type(own).__module__.startswith("pyspark.sql.connect"):
            own.stop()


class _SparkJob:
    """One Spark job, run in a thread of its own so that this one can follow the ledger and cancel it.

    The session must have no other job: to cancel this one, all work of the session is interrupted. Spark finds the jobs of a tag
    only from the thread that set it, unless the session is one of Spark Connect.
    """

    def __init__(self, spark: "SparkSession", frame: "DataFrame") -> None:
        self.failure: str | None = None  # why Spark ended the job early
        self._spark = spark
        # The sink `noop` makes Spark compute the rows and drops them.
        self._run = frame.write.format("noop").mode("overwrite").save
        self._thread = threading.Thread(target=self._perform, daemon=True)
        self._stirred = threading.Event()  # set when the job ends

    def follow(self, waiting: set[K], look: Callable[[set[K]], Iterable[tuple[K, R]]]) -> Generator[R, None, None]:
        """Start the job and yield what `look` finds of what is waited for, until the job has ended.

        If the generator is closed, the job is cancelled.
        """
        self._thread.start()
        try:
            ended: float | None = None
            while waiting and (ended is None or monotonic() < ended + _VISIBLE_S_MAX):
                if not self._thread.is_alive():  # asked before the look: what was written before the end is seen
                    ended = ended or monotonic()
                start = monotonic()
                for key, found in look(waiting):
                    waiting.remove(key)
                    yield found
                if ended is not None and self.failure is not None:
                    break
                # A look at many names takes seconds: spend a tenth of the time on it.
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
            self._run()
        except (PySparkException, Py4JError, OSError) as error:
            self.failure = cause(str(error))
        finally:
            self._stirred.set()

    def _cancel(self) -> None:
        """Cancel the job and wait for its thread."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(Py4JError, PySparkException, OSError):  # Spark may have ended by the same signal
            self._spark.interruptAll()
        self._thread.join(_CANCEL_S_MAX)
