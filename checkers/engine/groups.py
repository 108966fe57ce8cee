"""Groups of rows: what one checker call judges, usually one partition. The contract of a group:

* rows are sorted by index (operations by index and slot);
* a row without a value in the group columns (a session that ended, a node that started) belongs to every group;
* rows of topics that shared a name are kept apart (`lives`).
"""

from functools import cached_property

import polars as pl

from checkers.engine.lives import Life, lives

PARTITION = ("topic", "partition")
WHOLE_RUN: tuple[str, ...] = ()


class Group:
    """The rows that one checker call judges, usually one partition; rows of topics that shared a name are kept apart."""

    def __init__(self, operations: pl.DataFrame, events: pl.DataFrame) -> None:
        self.operations = operations
        self.events = events

    @cached_property
    def lives(self) -> list[Life]:
        """The topics (by topic id) that the rows are about, oldest first."""
        return lives(self.operations, self.events)


def groups(operations: pl.DataFrame, events: pl.DataFrame, group_by: tuple[str, ...]) -> list[Group]:
    """Divide a history into groups, sorted by name. A row without a value in the group columns goes into every group."""
    if not group_by:
        return [Group(operations.sort("index", "slot"), events.sort("index"))]
    by_operations, all_operations = divided(operations, group_by, ("index", "slot"))
    by_events, all_events = divided(events, group_by, ("index",))
    keys = sorted(by_operations.keys() | by_events.keys(), key=str)
    return [Group(by_operations.get(key, all_operations), by_events.get(key, all_events)) for key in keys]


def divided(
    frame: pl.DataFrame, group_by: tuple[str, ...], order: tuple[str, ...]
) -> tuple[dict[tuple[object, ...], pl.DataFrame], pl.DataFrame]:
    """Divide a frame into groups by these columns, each with the rows that belong to every group; return those alone, too."""
    everywhere = pl.all_horizontal([pl.col(column).is_null() for column in group_by])
    shared = frame.filter(everywhere)
    parts = frame.filter(~everywhere).partition_by(group_by, as_dict=True)
    groups = {key: pl.concat([parts[key], shared]).sort(order) for key in sorted(parts, key=str)}
    return groups, shared


def kinds_in(events: pl.DataFrame) -> set[str]:
    """The kinds of these events."""
    return set(events["kind"].unique().to_list())


def partition_of(operations: pl.DataFrame, events: pl.DataFrame) -> tuple[str, int]:
    """Return the topic and partition of a group's rows; ("", -1) if all its rows concern nodes."""
    for frame in (operations, events):
        about = frame.head(1)
        if about.height and about["partition"][0] is None:
            about = frame.filter(pl.col("partition").is_not_null()).head(1)
        if about.height:
            return str(about["topic"][0]), int(about["partition"][0])
    return "", -1


def group_name(group_by: tuple[str, ...], operations: pl.DataFrame, events: pl.DataFrame) -> str:
    """Name a group for messages: "orders-0" for a partition, "" for the whole run."""
    if group_by != PARTITION:
        return ""
    topic, partition = partition_of(operations, events)
    return f"{topic}-{partition}"
