"""Client calls for the figures: an invocation and its completion as one value with a start, an end and a latency.

A call without an answer has the type `info` and stays open to the end of the run, because its outcome is unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from history.history import Attempt
from history.op import OpType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One client operation, from invocation to completion. `records` counts what a produce carried or a poll returned."""

    index: int  # of the invocation
    completed: int | None  # index of the completion
    process: int
    f: str
    type: OpType  # never INVOKE
    topic: str | None
    partition: int | None
    start_ns: int
    end_ns: int | None
    records: int
    offset: int | None  # of the first row of the completion
    error: str | None
    node: str | None

    @property
    def latency_ns(self) -> int | None:
        """The time from a client's invocation to its completion; None for a call without an answer."""
        return None if self.end_ns is None else self.end_ns - self.start_ns


def calls_of(attempts: Iterable[Attempt]) -> tuple[Call, ...]:
    """The client calls of a history, in the order of its operations."""
    return tuple(_call_of(attempt) for attempt in attempts)


def _call_of(attempt: Attempt) -> Call:
    """An invocation and its completion as one call."""
    invocation, answered = attempt.invoke, attempt.completion
    first = invocation[0]
    end = answered[0] if answered else None
    counted = answered if end is not None and first.f == "poll" else invocation
    return Call(
        index=first.index,
        completed=None if end is None else end.index,
        process=first.process,
        f=first.f,
        type=OpType.INFO if end is None else end.type,
        topic=first.topic,
        partition=first.partition,
        start_ns=first.time_ns,
        end_ns=None if end is None else end.time_ns,
        records=sum(row.value is not None for row in counted),
        offset=None if end is None else end.offset,
        error=None if end is None else end.error,
        node=first.node if end is None or end.node is None else end.node,
    )


def quantile(ordered: Sequence[int], per_mille: int) -> int:
    """The nearest-rank quantile of a non-empty ascending sequence, in integers: 500 is the median, 1000 the maximum."""
    rank = -(-len(ordered) * per_mille // 1000)
    return ordered[max(rank, 1) - 1]
