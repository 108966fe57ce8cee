"""How often a value was read at more than one offset. Counted, never an anomaly: without idempotence a resent attempt may
appear once for each time that it was sent (docs/promise.md O3).
"""

import polars as pl

from checkers.checker import PARTITION, Checker, Facts
from checkers.verdict import Cut, Findings


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Counts `duplicates`: values of one partition that were read at two offsets or more."""
    read = operations.filter((pl.col("type") == "ok") & pl.col("value").is_not_null())
    offsets = read.group_by("value").agg(pl.col("offset").n_unique().alias("places"))
    return Findings(counts={"duplicates": offsets.filter(pl.col("places") > 1).height})


CHECKER = Checker(
    name="duplicates",
    claim="Nothing: it counts values that were read at more than one offset.",
    assumes="Values are unique to an attempt.",
    blind="Duplicates that nobody read.",
    kinds=(),
    group_by=PARTITION,
    operations=("poll",),
    check=check,
)
