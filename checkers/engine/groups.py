"""Groups of rows: what one checker call judges, usually one partition. The contract of a group:

* rows are sorted by index (operations by index and slot);
* a row without a value in the group columns (a session that ended, a node that started) belongs to every group;
* rows of topics that shared a name are kept apart (`lives`).
"""

from functools import cached_property
from typing import TypeVar

import polars as pl

from checkers.engine.lives import Life, lives
from checkers.engine.tables import Events, Operations, Table

PARTITION = ("topic", "partition")
WHOLE_RUN: tuple[str, ...] = ()
_Table = TypeVar("_Table", bound=Table)
Key = tuple[object, ...]


class Group:
    """The rows that one checker call judges, usually one partition; rows of topics that shared a name are kept apart."""

    def __init__(self, operations: Operations, events: Events) -> None:
        self.operations = operations
        self.events = events

    @cached_property
    def lives(self) -> list[Life]:
        """The topics (by topic id) that the rows are about, oldest first."""
        return lives(self.operations, self.events)


def groups(operations: Operations, events: Events, group_by: tuple[str, ...]) -> list[Group]:
    """Divide a history into groups, sorted by name. A row without a value in the group columns goes into every group."""
    if not group_by:
        return [Group(operations, events)]
    by_operations, all_operations = divided(operations, group_by)
    by_events, all_events = divided(events, group_by)
    keys = sorted(by_operations.keys() | by_events.keys(), key=str)
    return [Group(by_operations.get(key, all_operations), by_events.get(key, all_events)) for key in keys]


def divided(table: _Table, group_by: tuple[str, ...]) -> tuple[dict[Key, _Table], _Table]:
    """Divide a table into groups by these columns, each with the rows that belong to every group; return those alone, too."""
    if not table.is_small:
        return _divided_frame(table, group_by)
    places: dict[Key, list[int]] = {}
    for place, key in zip(table.places, table.columns(*group_by), strict=True):
        places.setdefault(key, []).append(place)
    shared = places.pop((None,) * len(group_by), [])
    return {key: table.at(sorted([*of_group, *shared])) for key, of_group in places.items()}, table.at(shared)


def _divided_frame(table: _Table, group_by: tuple[str, ...]) -> tuple[dict[Key, _Table], _Table]:
    """The rows by group, each with the rows of no group among them; and the rows of no group alone."""
    everywhere = pl.all_horizontal([pl.col(column).is_null() for column in group_by])
    shared = table.frame.filter(everywhere)
    parts = table.frame.filter(~everywhere).partition_by(group_by, as_dict=True)
    kind = type(table)
    by_key = {key: kind.sorted(pl.concat([parts[key], shared]), small_max=-1) for key in sorted(parts, key=str)}
    return by_key, kind(shared, small_max=-1)


def partition_of(operations: Operations, events: Events) -> tuple[str, int]:
    """Return the topic and partition of a group's rows; ("", -1) if all its rows concern nodes."""
    return operations.first_partition() or events.first_partition() or ("", -1)


def group_name(group_by: tuple[str, ...], operations: Operations, events: Events) -> str:
    """Name a group for messages: "orders-0" for a partition, "" for the whole run."""
    if group_by != PARTITION:
        return ""
    topic, partition = partition_of(operations, events)
    return f"{topic}-{partition}"
