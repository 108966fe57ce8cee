"""The driver of a piece of work, to be given to `spark-submit`: FOLDER ITEMS."""

import sys
from pathlib import Path

from pipeline.items import Job
from pipeline.session import SUBMITTED, session
from pipeline.work import perform
from tests.pipeline.deeds import do_deed, item_of_deed


def main(folder: Path, items: int) -> None:
    """Do so many items of a second each; the ledger and the traces are left in the folder."""
    work = [item_of_deed(f"{number:02}", folder / "trace", "slow") for number in range(items)]
    with session(SUBMITTED) as spark:
        perform(work, Job(function=do_deed, ledger=str(folder / "ledger")), spark=spark, per_task=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
