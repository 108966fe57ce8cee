"""Records the history of a run while it goes on; rows are only appended.

One counter numbers operations and events, so index order is the order of recording. The clock is injected and read once for each
call. The recorder does no IO. It is called about a thousand times for each
simulated second, so a call only makes its rows. Rows are never dropped: the plan's limits bound the memory of a run.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict, Unpack

from msgspec import Struct

from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import RunManifest
from history.op import Operation, OpType


class Record(Struct, frozen=True, kw_only=True):
    """One Kafka record in an operation's rows: an operation has one row for each record sent, acknowledged or read."""

    value: str | None = None
    offset: int | None = None
    leader_epoch: int | None = None


class OperationColumns(TypedDict, total=False):
    """The columns of an invocation or completion that all its rows share, beside process, type and f."""

    topic: str | None
    topic_id: str | None
    partition: int | None
    acks: int | None
    delivery: str | None
    attempts: int | None
    hw: int | None
    error: str | None
    node: str | None


class EventColumns(TypedDict, total=False):
    """The columns of a cluster event that the caller fills, beside kind."""

    node: str | None
    life: int | None
    broker: str | None
    incarnation: int | None
    topic: str | None
    topic_id: str | None
    partition: int | None
    leader: str | None
    leader_epoch: int | None
    controller_epoch: int | None
    zk_version: int | None
    isr: tuple[str, ...] | None
    stamps: tuple[int, ...] | None
    elr: tuple[str, ...] | None
    replicas: tuple[str, ...] | None
    hw: int | None
    leo: int | None
    offset: int | None
    count: int | None
    gauge: int | None
    value: str | None
    digest: str | None
    dir: int | None
    fault: str | None
    detail: str | None


EventRow = tuple[EventKind, EventColumns]
_NO_RECORD = (Record(),)


class Recorder:
    """Collects the rows of a run's history in the order of recording. `clock` gives nanoseconds since the run's start."""

    __slots__ = ("_clock", "_next_index", "events", "operations")

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._next_index = 0
        self.operations: list[Operation] = []
        self.events: list[ClusterEvent] = []

    def operation(
        self,
        *,
        process: int,
        type: OpType,
        f: str,
        records: Sequence[Record] = (),
        **columns: Unpack[OperationColumns],
    ) -> int:
        """Record one invocation or completion: one row for each Kafka record in it, or one row. Returns their index."""
        index, time_ns = self._tick()
        for slot, record in enumerate(records or _NO_RECORD):
            self.operations.append(
                Operation(
                    index=index,
                    slot=slot,
                    process=process,
                    type=type,
                    f=f,
                    value=record.value,
                    offset=record.offset,
                    leader_epoch=record.leader_epoch,
                    time_ns=time_ns,
                    **columns,
                )
            )
        return index

    def event(self, kind: EventKind, **columns: Unpack[EventColumns]) -> int:
        """Record one cluster event. Returns the index of its row."""
        index, time_ns = self._tick()
        self.events.append(ClusterEvent(index=index, kind=kind, time_ns=time_ns, **columns))
        return index

    def record(self, rows: Iterable[EventRow]) -> None:
        """Record cluster events, in this order."""
        for kind, columns in rows:
            self.event(kind, **columns)

    @property
    def next_index(self) -> int:
        """The index that the next row will have."""
        return self._next_index

    def history(self, manifest: RunManifest) -> History:
        """The history of a run from the rows recorded so far and this manifest."""
        return History(manifest, operations=self.operations, events=self.events)

    def _tick(self) -> tuple[int, int]:
        index = self._next_index
        self._next_index = index + 1
        return index, self._clock()
