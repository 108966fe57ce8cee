"""The rows of one partition that a cause is told from: who led at a row, who was in the ISR, who held a record."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import polars as pl

from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from history.op import Operation, OpType

_LOGS = (K.APPEND, K.TRUNCATE, K.WOUND, K.REPLICA_DELETED, K.RECOVERED)


class Record(NamedTuple):
    """A record that a log holds at an offset."""

    value: str
    offset: int


class Change(NamedTuple):
    """The row from which on a replica holds a record, or holds it no more."""

    row: ClusterEvent
    holds: bool


@dataclass(frozen=True)
class Scene:
    """The events of one partition in the order of index, with those of whole brokers between them."""

    history: History
    key: str  # "orders-0"; "" for the whole run
    topic: str | None
    partition: int | None
    events: tuple[ClusterEvent, ...]

    @cached_property
    def here(self) -> tuple[ClusterEvent, ...]:
        """The events of the partition alone."""
        return tuple(event for event in self.events if event.partition is not None)

    @cached_property
    def _replayed(self) -> dict[tuple[str, Record], tuple[Change, ...]]:
        """What `changes` found: it is asked again for every row that may have committed a record."""
        return {}

    @cached_property
    def replicas(self) -> tuple[str, ...]:
        """The brokers that ever held a replica or were in the ISR, sorted."""
        named = {e.node for e in self.here if e.kind in _LOGS and e.node} | {n for e in self.written for n in e.isr or ()}
        return tuple(sorted(named))

    @cached_property
    def written(self) -> tuple[ClusterEvent, ...]:
        """The states of the partition in ZooKeeper."""
        return self.of(K.STATE_WRITTEN)

    def of(self, *kinds: K, node: str | None = None, after: int = -1, before: int | None = None) -> tuple[ClusterEvent, ...]:
        """The events of these kinds between two rows, both left out; of one broker where `node` is given."""
        return tuple(
            event
            for event in self.events
            if event.kind in kinds and event.index > after and (before is None or event.index < before)
            if node is None or event.node == node
        )

    def last(self, *kinds: K, node: str | None = None, before: int | None = None) -> ClusterEvent | None:
        """The last event of these kinds before a row."""
        rows_of_kinds = self.of(*kinds, node=node, before=before)
        return rows_of_kinds[-1] if rows_of_kinds else None

    def state(self, before: int) -> ClusterEvent | None:
        """The state in ZooKeeper right before a row."""
        return next((row for row in reversed(self.written) if row.index < before), None)

    def isr(self, before: int) -> tuple[str, ...]:
        """The ISR in ZooKeeper right before a row; empty before the first write."""
        state = self.state(before)
        return (state.isr or ()) if state is not None else ()

    def election(self, node: str, epoch: int | None) -> ClusterEvent | None:
        """The write to ZooKeeper that made a broker the leader of an epoch."""
        mine = (row for row in self.written if row.leader == node and (epoch is None or row.leader_epoch == epoch))
        return next(mine, None)

    def changes(self, node: str, record: Record) -> tuple[Change, ...]:
        """When the replica of a broker got a record and when it lost it, in the order of index."""
        cached = self._replayed.get((node, record))
        if cached is None:
            rows_of_node = (event for event in self.here if event.node == node and event.kind in _LOGS)
            cached = self._replayed[node, record] = tuple(_changes_of_replica(rows_of_node, record))
        return cached

    def holds(self, node: str, record: Record, before: int) -> bool:
        """Whether the replica of a broker held a record right before a row."""
        held_before = [change.holds for change in self.changes(node, record) if change.row.index < before]
        return bool(held_before) and held_before[-1]

    def holders(self, record: Record, before: int) -> tuple[str, ...]:
        """The brokers whose replicas held a record right before a row."""
        return tuple(node for node in self.replicas if self.holds(node, record, before))

    def runs(self, node: str, before: int) -> bool:
        """Whether a broker is up right before a row; True where no row tells it."""
        last = self.last(K.NODE_STARTED, K.NODE_STOPPED, node=node, before=before)
        return last is None or last.kind is K.NODE_STARTED

    def row_of_log_end(self, node: str, before: int) -> ClusterEvent | None:
        """The row that tells the log end offset of a replica right before a row."""
        kinds = (*_LOGS, K.BECAME_LEADER, K.HW)
        return next((e for e in reversed(self.here) if e.node == node and e.index < before and e.kind in kinds), None)

    def log_end(self, node: str, before: int) -> int | None:
        """The log end offset of a replica right before a row; None where no row tells it."""
        row = self.row_of_log_end(node, before)
        if row is None:
            return None
        if row.kind is K.APPEND and row.offset is not None:
            return row.offset + 1
        return row.offset if row.kind in (K.TRUNCATE, K.WOUND) else row.leo

    def arrivals(self, record: Record, holders: Iterable[str], before: int) -> tuple[int, ...]:
        """The rows with which replicas that held a record right before a row had got it."""
        return tuple([one.row.index for one in self.changes(node, record) if one.row.index < before][-1] for node in holders)

    def high_watermark(self, node: str, before: int) -> int | None:
        """The high watermark that a broker last noted before a row; None where no row tells it."""
        noted = self.row_of_high_watermark(node, before)
        return None if noted is None else noted.hw

    def row_of_high_watermark(self, node: str, before: int) -> ClusterEvent | None:
        """The row with which a broker last noted its high watermark before a row."""
        noted = [event for event in self.of(K.HW, K.BECAME_LEADER, K.RECOVERED, node=node, before=before) if event.hw is not None]
        return noted[-1] if noted else None

    def answers(self, record: Record, f: str) -> tuple[Operation, ...]:
        """The answers to calls of `f` that told a client of a record, in the order of index."""
        frame = self.history.operations_frame
        at = (pl.col("topic") == self.topic) & (pl.col("partition") == self.partition) & (pl.col("offset") == record.offset)
        acknowledgements = frame.filter(at & (pl.col("value") == record.value) & (pl.col("type") == OpType.OK.value))
        indexes = acknowledgements.filter(pl.col("f") == f)["index"].to_list()
        return tuple(row for index in indexes for row in self.rows(index) if (row.value, row.offset) == record)

    def row(self, index: int) -> ClusterEvent | Operation | None:
        """The event under an index, or the first row of the operation; None where there is neither."""
        found = self.history.row(index)
        return found[0] if isinstance(found, tuple) else found

    def rows(self, index: int) -> tuple[Operation, ...]:
        """The rows of the operation under an index; empty where it is an event."""
        found = self.history.row(index)
        return found if isinstance(found, tuple) else ()

    def event(self, index: int) -> ClusterEvent | None:
        """The event under an index; None where it is an operation."""
        found = self.history.row(index)
        return found if isinstance(found, ClusterEvent) else None

    def events_at(self, indices: Iterable[int]) -> list[ClusterEvent]:
        """The events under these indices, in the order of index."""
        return [event for event in map(self.event, sorted(indices)) if event is not None]


def scene_of(history: History, key: str, topic_id: str | None = None) -> Scene:
    """The scene of the partition that `key` names as in anomalies; where it names none, the events without a partition."""
    place = next(((p.topic, p.partition) for p in history.partitions if f"{p.topic}-{p.partition}" == key), (None, None))
    topic, partition = place
    events = tuple(
        event
        for event in history.events
        if event.partition is None
        or ((event.topic, event.partition) == place and (topic_id is None or event.topic_id in (None, topic_id)))
    )
    return Scene(history=history, key=key if topic is not None else "", topic=topic, partition=partition, events=events)


def _changes_of_replica(events: Iterable[ClusterEvent], record: Record) -> Iterator[Change]:
    """Each event by which a replica's log gained or lost the record."""
    holds = False
    for event in events:
        was = holds
        if event.kind is K.APPEND:
            holds = event.value == record.value if event.offset == record.offset else holds
        elif event.kind is K.REPLICA_DELETED:
            holds = False
        else:
            end = event.leo if event.kind is K.RECOVERED else event.offset
            holds = holds and (end is None or end > record.offset)
        if holds != was:
            yield Change(event, holds)
