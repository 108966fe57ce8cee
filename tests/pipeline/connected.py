"""A driver without a JVM, on Spark Connect: ADDRESS FOLDER ITEMS. It stops a series at its first row, and then does all of it."""

import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from pipeline.blocks import Series
from pipeline.items import Item, Job
from pipeline.ledger import Row
from pipeline.session import session
from pipeline.work import perform
from tests.pipeline.deeds import Deeds, do, numbered


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
            perform(series, Job(function=do, ledger=str(folder / "series")), spark=spark, on_row=_stop)
        (folder / "stopped").touch()
        perform(series, Job(function=do, ledger=str(folder / "series")), spark=spark)
        perform(listed, Job(function=do, ledger=str(folder / "listed")), spark=spark)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
