"""Reads the rows of sessions for the definitions: answers in JSON, committed reads, final readers, and what faults excuse."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any, NamedTuple

from history.event import EventKind as K
from history.op import Operation
from history.promise import SESSIONS_KEEP
from history.results import Source
from proof.durability import acked_loss
from proof.log_rows import Call, Case, Operations, calls

NEVER = 1 << 62
UNJUDGED = "unjudged"
OTHER_PARTITION = 9  # no client of a session has records there
Place = tuple[str, int]  # partition as "topic-0", and offset


def said(row: Operation) -> dict[str, Any]:
    """The JSON value of a row."""
    return dict(json.loads(row.value)) if row.value else {}


def told_by(call: Call) -> dict[str, Any]:
    """What a client was told, or told of itself, at the end of its call."""
    return said(call.answer[0]) if call.answer else {}


def asked_at(call: Call) -> int:
    """The row of the invocation."""
    return call.asked[0].index


def answered_at(call: Call) -> int:
    """The row of the completion; NEVER if there is none."""
    return call.answer[0].index if call.answer else NEVER


def process_of(call: Call) -> int:
    """The process that made the call."""
    return call.asked[0].process


def is_excused(case: Case) -> bool:
    """Whether faults destroyed bytes of as many brokers as a topic, or a topic of sessions, has to keep, or a loss is excused."""
    wounded = {row.node for row in case.events if row.kind is K.WOUND}
    other = [row for row in case.events if row.partition == OTHER_PARTITION]
    losses = acked_loss(case._replace(operations=[], events=other))
    return len(wounded) >= min(case.m, SESSIONS_KEEP) or any(word.startswith("excused") for word in losses)


def acknowledged_records(operations: Operations) -> dict[Source, int]:
    """The records that were acknowledged under acks=all, each with the row that says so."""
    rows = [row for call in calls(operations, "produce") if call.ok and call.asked[0].acks == -1 for row in call.answer]
    return {Source(f"{r.topic}-{r.partition}", r.offset, r.value or ""): r.index for r in rows if r.offset is not None}


class Read(NamedTuple):
    """One record of an answer to a reader."""

    key: str
    offset: int
    value: str
    at: int  # the row of the answer


class Final(NamedTuple):
    """All that a reader was given, and when it asked for its last answer at the end of all partitions."""

    asked: int
    records: tuple[Read, ...]


def reads_in(operations: Operations) -> list[Read]:
    """What consumers of committed records were given, each record once, by its first answer."""
    reads = sorted((r for c in calls(operations, "read-committed") if c.ok for r in reads_of(c)), key=lambda read: read.at)
    return [read for number, read in enumerate(reads) if not any(read[:3] == earlier[:3] for earlier in reads[:number])]


def reads_of(call: Call) -> Iterator[Read]:
    """The records of an answer to a reader."""
    for key, placed in told_by(call).get("records", {}).items():
        yield from (Read(key, offset, value, answered_at(call)) for offset, value in placed)


def final_readers(case: Case) -> list[Final]:
    """The readers that came to the end in a final read; in any read if the history says that it makes none."""
    finals = []
    answered = [call for call in calls(case.operations, "read-committed") if call.ok]
    for process in sorted({process_of(call) for call in answered}):
        own = [call for call in answered if process_of(call) == process]
        ends = [asked_at(call) for call in own if told_by(call).get("end") and is_final(case, call)]
        if ends:
            finals.append(Final(max(ends), tuple(read for call in own for read in reads_of(call))))
    return finals


def is_final(case: Case, call: Call) -> bool:
    """Whether a read is a final one; each is if the history says that it makes none (VAC-4)."""
    is_late = case.final_reads_at_ns is not None and call.asked[0].time_ns >= case.final_reads_at_ns
    return is_late or not case.makes_final_reads


def subsets(of: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every choice of some of these."""
    return chain.from_iterable(combinations(of, size) for size in range(len(of) + 1))
