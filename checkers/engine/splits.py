"""Splits: how checkers of the whole run judge a history range by range of the index.

A group of `checker.PARTITION` is all rows of one partition, so a part of a large history is judged like a history of its
own. A checker of the whole run cannot be cut by partition, because a process alternates its calls over all of them. It is cut
by the index. What the order carries from one range to the next, such as the open call of a process, is part of both states.
"""

import io
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import polars as pl
from msgspec import Struct

from checkers.engine.checker import Check, Split
from checkers.engine.facts import Facts
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings

_State = TypeVar("_State", bound=Struct)


def ranged(
    state: type[_State],
    *,
    columns: tuple[str, ...],
    partial: Callable[[Operations, Events, Facts], _State],
    merge: Callable[[Sequence[_State], Facts, tuple[Cut, ...]], Findings],
) -> Split:
    """Make a split from functions on a Struct. `columns` are those of the operations that `partial` reads."""
    return Split(
        columns=columns,
        partial=lambda operations, events, facts: msgspec.json.encode(partial(operations, events, facts)),
        merge=lambda states, facts, cuts: merge(
            [msgspec.json.decode(state_json, type=state) for state_json in states], facts, cuts
        ),
    )


class _Rows(Struct, frozen=True):
    """The rows of a range that a checker reads, as Arrow streams."""

    operations: bytes
    events: bytes


def gathered(check: Check, keep: Callable[[pl.DataFrame], pl.DataFrame] = lambda events: events) -> Split:
    """Make a split whose state is the rows that the checker reads, for checkers of few rows. `keep` may leave out events."""

    def partial(operations: Operations, events: Events, facts: Facts) -> bytes:
        return msgspec.msgpack.encode(_Rows(_ipc_of_frame(operations.frame), _ipc_of_frame(keep(events.frame))))

    def merge(states: Sequence[bytes], facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
        rows = [msgspec.msgpack.decode(state, type=_Rows) for state in states]
        operations = Operations(pl.concat([pl.read_ipc_stream(part.operations) for part in rows]))
        return check(operations, Events(pl.concat([pl.read_ipc_stream(part.events) for part in rows])), facts, cuts)

    return Split(columns=(), partial=partial, merge=merge)


def _ipc_of_frame(frame: pl.DataFrame) -> bytes:
    """The rows of a frame as an Arrow IPC stream."""
    sink = io.BytesIO()
    frame.write_ipc_stream(sink, compression="zstd")
    return sink.getvalue()
