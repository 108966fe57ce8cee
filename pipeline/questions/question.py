"""What a question to a dataset is: a name, its words, its columns, and one statement of Spark SQL over `pipeline.tables`.

The name of a column ends with its unit: `_ns` for nanoseconds, `share` for a part of 1. Most questions answer for each campaign
and protocol by itself, because two campaigns may hold the same plans.
"""

import re

from msgspec import Struct

from pipeline.tables import TABLES, Table

# A duration that no run reaches, for what did not recover. A hundred times this is still a 64-bit integer.
NEVER_NS = 10**16


class Column(Struct, frozen=True, kw_only=True):
    """One column of an answer; `words` is its meaning as docs/data.md gives it."""

    name: str
    words: str


class Question(Struct, frozen=True, kw_only=True):
    """A question; `title` is the heading of its page. The columns of `sql` are `columns`, in this order."""

    name: str
    title: str
    words: str
    columns: tuple[Column, ...]
    sql: str


def columns(**words: str) -> tuple[Column, ...]:
    """Columns from names and meanings, in the order given."""
    return tuple(Column(name=name, words=text) for name, text in words.items())


CAMPAIGN = "campaign of the runs"
PROTOCOL = "protocol variant of the runs"


def quantile(share: float, value: str) -> str:
    """SQL of the exact nearest-rank quantile of a group: the smallest value that `share` of the rows do not exceed."""
    # Spark gives a double, which is exact up to 2^53 ns, 104 days.
    return f"cast(percentile_disc({share}) within group (order by {value}) as bigint)"


def tables_in(*statements: str) -> tuple[Table, ...]:
    """The tables that these SQL statements name, or more: every word counts."""
    words = {word.lower() for sql in statements for word in re.findall(r"\w+", sql)}
    return tuple(table for table in TABLES if table in words)
