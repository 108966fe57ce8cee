"""Checker of the records on the disks at the end, for systems whose brokers note nothing: do the replicas hold one log?

It judges as `log_matching` does, without the appends. Only the leader of an epoch writes in it, each offset once: one
offset and record epoch hold one value on every replica. At the end, after the quiet time, each member of the ISR holds what the
leader holds, at least below the high watermark of its checkpoint, which lags.

Each replica compacts its own log, so replicas of a compacted topic may lack what others hold (docs/promise.md DUR-9).

A replica outside of the ISR may hold other records above its high watermark. A wounded one may hold any: it is left out unless
it is in the ISR at the end (docs/promise.md CUT-2). Formats v0 and v1 have no record epoch, so only the ISR is compared there.

    >>> from checkers.durability.stored_records import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> row = "record-on-disk dir=0 offset=0 leader_epoch=1"
    >>> history = history_of(f"{row} node=b1 value=a", f"{row} node=b2 value=b")
    >>> [one.kind for one in judge(history, (CHECKER,)).anomalies]
    ['log-mismatch']
"""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.durability.log_matching import LOG_MISMATCH, UNCOMMITTED_BELOW_HW
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_compacted
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "stored-records"


_Records = dict[str, dict[int, EventRow]]  # node -> offset -> row


class _Found(NamedTuple):
    """What an anomaly will say."""

    kind: str
    witness: tuple[int, int]
    words: str


class _End(NamedTuple):
    """What the brokers tell of a partition at the end, if they agree: its leader and ISR."""

    leader: str | None
    isr: tuple[str, ...]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Compare the replicas of one partition, record by record."""
    topic, partition = partition_of(operations, events)
    rows = events.rows
    records: _Records = {}
    for row in rows:
        if row.kind == K.RECORD_ON_DISK:
            records.setdefault(row.node, {})[row.offset] = row
    end = _end(rows)
    wounded = {row.node for row in rows if row.kind == K.WOUND} - set(end.isr)
    checkpoints = {row.node: row.hw or 0 for row in rows if row.kind == K.LOG_ON_DISK}
    findings_found = [
        *_mismatches({node: held_rows for node, held_rows in records.items() if node not in wounded}),
        *(() if is_compacted(facts, topic) else _uncommitted_records(records, end, checkpoints)),
    ]
    key = f"{topic}-{partition}"
    accused = (
        Anomaly(kind=finding.kind, checker=NAME, key=key, witness=finding.witness, words=finding.words)
        for finding in findings_found
    )
    return Findings(anomalies=tuple(accused), counts={"stored": sum(map(len, records.values()))})


def _end(rows: list[EventRow]) -> _End:
    ends_told = {_End(row.leader, tuple(sorted(row.isr or ()))) for row in rows if row.kind == K.METADATA_VIEW}
    return ends_told.pop() if len(ends_told) == 1 else _End(None, ())


def _mismatches(records: _Records) -> Iterator[_Found]:
    """Offsets and record epochs with two values."""
    first: dict[tuple[int, int], EventRow] = {}
    rows = (row for held_rows in records.values() for row in held_rows.values() if row.leader_epoch >= 0)
    for row in rows:
        first_row = first.setdefault((row.offset, row.leader_epoch), row)
        if first_row.value != row.value:
            where = f"at offset {row.offset} under epoch {row.leader_epoch}"
            yield _Found(
                "log-mismatch",
                (first_row.at, row.at),
                f"{first_row.node} has {first_row.value} {where}, {row.node} has {row.value}",
            )


def _uncommitted_records(records: _Records, end: _End, high_watermarks: dict[str, int]) -> Iterator[_Found]:
    """The records of members of the ISR below their high watermark that differ from the leader's."""
    leader_records = {} if end.leader is None else records.get(end.leader, {})
    for node in end.isr:
        hw = high_watermarks.get(node, 0)
        for offset, row in records.get(node, {}).items():
            right = leader_records.get(offset)
            if right is None or offset >= hw or (row.value, row.leader_epoch) == (right.value, right.leader_epoch):
                continue
            covers = f"the high watermark {hw} of {node} covers {row.value} at offset {offset}"
            words = f"{covers}, where leader {end.leader} has {right.value}"
            yield _Found("uncommitted-below-hw", (right.at, row.at), words)


CHECKER = Checker(
    name=NAME,
    claim="At the end one offset and record epoch hold one value on every disk; below its HW each ISR member holds the leader's.",
    assumes="The disks are read after the brokers ended, once nothing changes any more.",
    blind="What was on the disks before; replicas outside of the ISR, in formats without a record epoch; missing records.",
    reports=(
        LOG_MISMATCH,
        UNCOMMITTED_BELOW_HW,
    ),
    group_by=PARTITION,
    events=(K.RECORD_ON_DISK, K.LOG_ON_DISK, K.METADATA_VIEW, K.WOUND),
    check=check,
)
