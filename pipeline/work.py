"""Work: items, a function, and a ledger with one row for each item, here or on Spark.

    items ─┬─ local processes (pipeline.local) ─┬─▶ perform_item: deadline, row ─▶ ledger
           └─ Spark tasks (pipeline.tasks)     ─┘

An item whose key the ledger holds is not done again. A function that raises, or that is not ready by its deadline, ends its item
with a row that says so; the other items go on. A worker that dies is replaced and its items are done again; an item whose workers
died `ATTEMPTS_MAX` times ends with a row that says so.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from pipeline.blocks import Blocks, Header, Series
from pipeline.items import ATTEMPTS_MAX, Item, Job, give_up, perform_item
from pipeline.ledger import Ledger, Row
from pipeline.local import call_on_processes
from pipeline.storage import storage_at
from pipeline.tasks import rows_on_spark, series_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _ignored(part: Row | Header) -> None:
    """The default for `on_row` and `on_block`."""


def perform(
    items: Iterable[Item],
    job: Job,
    *,
    spark: "SparkSession | None" = None,
    jobs: int = 1,
    on_row: Callable[[Row], None] = _ignored,
    on_block: Callable[[Header], None] = _ignored,
    per_task: int | None = None,
) -> None:
    """Do the items that the ledger does not hold: on Spark if there is a session, else in `jobs` local processes.

    `on_row` gets each new row, in the order of completion. Of a `Series` Spark does whole blocks (`pipeline.blocks`), and
    `on_block` gets the header of each. To stop the work, they raise; that and Ctrl-C end the local workers or cancel the Spark
    job, and rows in the ledger stay. With one job the items are done in this process. `items` is consumed as workers become free.
    `per_task` is the number of items of a Spark task; without it, one item or as many as `TASKS_MAX` needs. Raises PipelineError
    if Spark fails before it reaches any item, OSError if the ledger cannot be written.
    """
    ledger = Ledger(storage_at(job.ledger))
    if spark is not None and isinstance(items, Series):
        with closing(series_on_spark(spark, items, job, ledger)) as headers:
            for header in headers:
                on_block(header)
        return
    held = ledger.keys()
    left = items.outside(Blocks(storage_at(job.ledger)).finished()) if isinstance(items, Series) else items
    missing = (item for item in left if item.key not in held)
    with closing(_rows_of_items(missing, job, ledger, spark, jobs=jobs, per_task=per_task)) as rows:
        for row in rows:
            on_row(row)


def _rows_of_items(
    items: Iterator[Item], job: Job, ledger: Ledger, spark: "SparkSession | None", *, jobs: int, per_task: int | None
) -> Generator[Row, None, None]:
    """Perform the items on Spark, in this process or in several; yield a row as each ends."""
    if spark is not None:
        yield from rows_on_spark(spark, list(items), job, ledger, per_task)
    elif jobs == 1:
        for item in items:
            yield perform_item(job, ledger, item, attempt=1, end_hung=False)
    else:
        died = partial(_row_of_dead_worker, ledger)
        yield from call_on_processes(partial(_perform_here, job), items, jobs=jobs, died=died)


def _perform_here(job: Job, item: Item, attempt: int) -> Row:
    return perform_item(job, Ledger(storage_at(job.ledger)), item, attempt=attempt)


def _row_of_dead_worker(ledger: Ledger, item: Item, attempt: int, how: str) -> Row | None:
    """The row of an item whose local worker died; None: try again."""
    if ledger.holds(item.key):  # it died after the row was written
        return ledger.read(item.key)
    return give_up(ledger, item.key, attempt, f" ({how})") if attempt >= ATTEMPTS_MAX else None
