"""A driver without a JVM, on Spark Connect: ADDRESS FOLDER ITEMS. It stops a series at its first row, and then does all of it.

Then it takes the campaign in the folder into a dataset, and verifies that.
"""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from highwater.campaigns.records import CampaignRecords, entries_of_unit
from pipeline.blocks import Series
from pipeline.dataset_on_spark import Units, ingest_on_spark, verify_on_spark
from pipeline.items import Item, Job
from pipeline.ledger import Row
from pipeline.session import session
from pipeline.storage import storage_at
from pipeline.work import perform
from tests.pipeline.deeds import Deeds, do_deed, numbered


class EnoughError(Exception):
    """The first row is there."""


def _stop(row: Row) -> None:
    raise EnoughError


def main(address: str, folder: Path, items: int) -> None:
    """Leave a ledger of the series, and one of as many items as a list."""
    slow = dict.fromkeys(range(0, items, 8), "slow")
    item = partial(numbered, folder / "trace", slow)
    series = Series(count=items, item=item, batch=partial(Deeds, folder / "stored"))
    listed: list[Item] = [item(number) for number in range(items)]
    with session(address) as spark:
        with suppress(EnoughError):
            perform(series, Job(function=do_deed, ledger=str(folder / "series")), spark=spark, on_row=_stop)
        (folder / "stopped").touch()
        perform(series, Job(function=do_deed, ledger=str(folder / "series")), spark=spark)
        perform(listed, Job(function=do_deed, ledger=str(folder / "listed")), spark=spark)
        records, dataset = CampaignRecords(storage_at(folder / "campaign")), storage_at(folder / "dataset")
        entries = partial(entries_of_unit, str(folder / "campaign"), "connected")
        units = Units(count=-(-records.wanted // records.unit), runs=records.unit, entries=entries)
        ingested = ingest_on_spark(spark, dataset, "one", units)
        (folder / "told").write_text(f"{ingested.new} new, {len(verify_on_spark(spark, dataset))} damages")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
