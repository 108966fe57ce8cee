"""Logs match where they say the same epoch, and nobody cuts off what is committed (docs/oracles.md §7.1 LogMatching; B-01, B-02).

Only the leader of an epoch writes in it, each offset once: one offset and epoch of record hold one value, on every replica,
whether that is committed or not. And a replica that has a committed record at its offset never truncates it, though it may fetch
it again at once: until then it stands in the ISR without it. Bytes that the laboratory destroyed were not truncated; what a later
generation took the place of may be (docs/promise.md C1).
"""

from typing import NamedTuple

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, cuts_of, partition_of
from checkers.replay import REPLAYED, Replicas
from checkers.rows import EventRow, event_rows
from checkers.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "log-matching"


class _Committed(NamedTuple):
    """A record below the HW of a leader: its value and epoch, the epoch of the leader, and the row that said so."""

    value: str | None
    epoch: int | None
    by: int
    at: int


class _Logs:
    """One pass over one partition."""

    def __init__(self, key: str, cuts: tuple[Cut, ...]) -> None:
        self.key, self.cuts = key, cuts
        self.replicas = Replicas()
        self.written: dict[tuple[int, int], tuple[str, str, int]] = {}  # (offset, epoch) -> value, node, row
        self.committed: list[_Committed | None] = []  # by offset; None where the leader's entry was not told
        self.accused: set[tuple[str, int]] = set()  # (kind, offset)
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Apply one row."""
        if row.kind == K.HW:
            if row.detail == "leader":
                self._commit(row)
            return
        log = self.replicas.log(row.node)
        # An append in the middle of a log takes away what stood behind it, too.
        cuts_off = row.kind in (K.APPEND, K.TRUNCATE) and row.offset < len(log.values)
        gone = list(zip(log.values[row.offset :], log.epochs[row.offset :], strict=True)) if cuts_off else []
        self.replicas.replay(row)
        if row.kind == K.APPEND:
            self._match(row)
        if gone:
            self._truncated(row, gone)

    def _match(self, row: EventRow) -> None:
        value, node, at = self.written.setdefault((row.offset, row.leader_epoch), (row.value, row.node, row.at))
        if value != row.value:
            where = f"at offset {row.offset} under epoch {row.leader_epoch}"
            self._accuse("log-mismatch", row.offset, (at, row.at), f"{node} has {value} {where}, {row.node} has {row.value}")

    def _commit(self, row: EventRow) -> None:
        log = self.replicas.log(row.node)
        for offset in range(len(self.committed), min(row.hw, len(log.values))):
            value, epoch = log.values[offset], log.epochs[offset]
            known = value is not None and epoch is not None
            self.committed.append(_Committed(value, epoch, row.leader_epoch, row.at) if known else None)

    def _truncated(self, row: EventRow, gone: list[tuple[str | None, int | None]]) -> None:
        for offset, entry in enumerate(gone, row.offset):
            record = self.committed[offset] if offset < len(self.committed) else None
            # The same value under another epoch is another record: sent again, after a leader that had it was deposed.
            if record is None or entry != (record.value, record.epoch):
                continue
            if any(offset >= cut.offset and record.by < cut.leader_epoch for cut in self.cuts):
                continue
            words = f"{row.node} cut off {record.value} at offset {offset}, which was committed in epoch {record.by}"
            self._accuse("truncated-committed", offset, (record.at, row.at), words)
            return

    def _accuse(self, kind: str, offset: int, witness: tuple[int, ...], words: str) -> None:
        if (kind, offset) not in self.accused:
            self.accused.add((kind, offset))
            self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Replay one partition."""
    topic, partition = partition_of(operations, events)
    logs = _Logs(f"{topic}-{partition}", cuts_of(cuts, topic, partition))
    for row in event_rows(events):
        logs.see(row)
    return Findings(anomalies=tuple(logs.anomalies))


CHECKER = Checker(
    name=NAME,
    claim="One offset and epoch of record hold one value on all replicas; no replica truncates a committed record that it has.",
    assumes="Brokers note each append with the epoch of the record, each truncation and HW.",
    blind="Entries that nobody told of; what was committed by a leader whose HW nobody noted.",
    kinds=("log-mismatch", "truncated-committed"),
    group_by=PARTITION,
    events=(*REPLAYED, K.HW),
    check=check,
)
