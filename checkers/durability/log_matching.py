"""Checker of log matching: logs are equal where their epochs are, and no replica truncates a committed record.

Source: docs/oracles.md §7.1 LogMatching; B-01, B-02. Only the leader of an epoch writes in it, each offset once. One offset and
record epoch therefore hold one value on every replica, committed or not. A replica never truncates a committed record, even if it
would fetch it again at once: until then it is in the ISR without the record. No high watermark, of a leader or a follower, covers
a record other than the committed one. Bytes that the harness destroyed were not truncated; a record that a later generation
replaced may be truncated (docs/promise.md CUT-1). A broker from which the partition was taken may begin a new log when it is
assigned anew, even if the old one is still in a failed directory (KIP-112, R-302).

    >>> from checkers.sketches import sketch
    >>> sketch("log-matching", "append node=b1 offset=0 value=a", "append node=b2 offset=0 value=b detail=follower")
    ['log-mismatch']
"""

from typing import NamedTuple

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.replay import REPLAYED, Replicas
from history.event import EventKind as K

NAME = "log-matching"
_NEVER = 1 << 62


class _Committed(NamedTuple):
    """A record below the HW of a leader: its value and epoch, the leader's epoch, and the row of the HW."""

    value: str | None
    epoch: int | None
    by: int
    at: int


class _Logs:
    """The replica logs and committed records of one partition after the rows applied so far."""

    def __init__(self, key: str, cuts: tuple[Cut, ...]) -> None:
        self.key, self.cuts = key, cuts
        self.replicas = Replicas()
        self.written: dict[tuple[int, int], tuple[str, str, int]] = {}  # (offset, epoch) -> value, node, row
        self.committed: list[_Committed | None] = []  # by offset; None if no row shows the leader's entry
        self.dropped: set[str] = set()  # nodes from which the partition was taken since they last wrote
        self.compared: dict[str, int] = {}  # node -> its entries below this offset equal the committed ones
        self.newest = -1  # the highest leader epoch of an HW row so far
        self.accused: set[tuple[str, int]] = set()  # (kind, offset)
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Take in a row: an HW, an assignment, or a change of a log."""
        if row.kind == K.HW:
            self._begin_epoch(row.leader_epoch)
            self._check_covered(row)
            if row.detail == "leader":
                self._commit(row)
            return
        if row.kind == K.ASSIGNED:
            self.dropped.update(node for node in self.replicas.logs if node not in row.replicas)
            return
        log = self.replicas.log(row.node)
        begins = row.kind == K.APPEND and row.offset == 0 and row.node in self.dropped
        if row.kind == K.APPEND:
            self.dropped.discard(row.node)
        # An append in the middle of a log removes the entries behind it, too.
        cuts_off = row.kind in (K.APPEND, K.TRUNCATE) and row.offset < len(log.values)
        removed = list(zip(log.values[row.offset :], log.epochs[row.offset :], strict=True)) if cuts_off else []
        self.replicas.replay(row)
        self.compared[row.node] = min(self.compared.get(row.node, 0), len(log.values) - (row.kind == K.APPEND))
        if row.kind == K.APPEND:
            self._match_written(row)
        if removed and not begins:
            self._check_truncation(row, removed)

    def _match_written(self, row: EventRow) -> None:
        """Compare an append with the first one at this offset under this leader epoch: both must have the same value."""
        value, node, at = self.written.setdefault((row.offset, row.leader_epoch), (row.value, row.node, row.at))
        if value != row.value:
            where = f"at offset {row.offset} under epoch {row.leader_epoch}"
            self._accuse("log-mismatch", row.offset, (at, row.at), f"{node} has {value} {where}, {row.node} has {row.value}")

    def _check_covered(self, row: EventRow) -> None:
        """Find records below a leader's HW that differ from the committed ones: consumers could read them."""
        log = self.replicas.log(row.node)
        limit = min(row.hw, self._first_ignored_offset(row.leader_epoch), len(self.committed))
        for offset in range(self.compared.get(row.node, 0), min(limit, len(log.values))):
            record = self.committed[offset]
            entry = (log.values[offset], log.epochs[offset])
            if record is None or None in entry or entry == (record.value, record.epoch):
                continue
            covered = f"covers {entry[0]} at offset {offset}, where {record.value} is committed"
            words = f"the high watermark {row.hw} of {row.node} {covered}"
            self._accuse("uncommitted-below-hw", offset, (record.at, row.at), words)
            break
        self.compared[row.node] = max(self.compared.get(row.node, 0), min(limit, len(log.values)))

    def _first_ignored_offset(self, epoch: int) -> int:
        """The offset from which on HWs of this epoch are ignored: a later generation began there with a cut (CUT-1)."""
        if not self.cuts:
            return _NEVER
        return min((cut.offset for cut in self.cuts if epoch < cut.leader_epoch <= self.newest), default=_NEVER)

    def _begin_epoch(self, epoch: int) -> None:
        """If the epoch is the first after a cut, forget the committed records from the cut's offset on."""
        for cut in self.cuts:
            if self.newest < cut.leader_epoch <= epoch:
                del self.committed[cut.offset :]
                self.compared = {node: min(upto, cut.offset) for node, upto in self.compared.items()}
        self.newest = max(self.newest, epoch)

    def _commit(self, row: EventRow) -> None:
        """The leader's HW rises: remember what is committed below it."""
        log = self.replicas.log(row.node)
        for offset in range(len(self.committed), min(row.hw, len(log.values), self._first_ignored_offset(row.leader_epoch))):
            value, epoch = log.values[offset], log.epochs[offset]
            is_known = value is not None and epoch is not None
            self.committed.append(_Committed(value, epoch, row.leader_epoch, row.at) if is_known else None)

    def _check_truncation(self, row: EventRow, removed: list[tuple[str | None, int | None]]) -> None:
        """Accuse the truncation if it removed a committed record."""
        for offset, entry in enumerate(removed, row.offset):
            record = self.committed[offset] if offset < len(self.committed) else None
            # The same value under another epoch is another record: it was sent again after a leader that had it was deposed.
            if record is None or entry != (record.value, record.epoch):
                continue
            if any(offset >= cut.offset and record.by < cut.leader_epoch for cut in self.cuts):
                continue  # the generation behind the cut has begun, even if its leader has committed nothing yet
            words = f"{row.node} truncated {record.value} at offset {offset}, which was committed in epoch {record.by}"
            self._accuse("truncated-committed", offset, (record.at, row.at), words)
            return

    def _accuse(self, kind: str, offset: int, witness: tuple[int, ...], words: str) -> None:
        if (kind, offset) not in self.accused:
            self.accused.add((kind, offset))
            self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Check log matching in one partition by replaying its replicas' logs."""
    topic, partition = partition_of(operations, events)
    logs = _Logs(f"{topic}-{partition}", cuts_of(cuts, topic, partition))
    for row in events.rows:
        logs.see(row)
    return Findings(anomalies=tuple(logs.anomalies))


LOG_MISMATCH = Kind("log-mismatch", Harm.LOSS_NEXT, 90, breaks=("LM",), shown_by=("no-epoch-bump",))
UNCOMMITTED_BELOW_HW = Kind("uncommitted-below-hw", Harm.LOSS_NEXT, 80, breaks=("HWM",), shown_by=("hw-before-truncation",))

CHECKER = Checker(
    name=NAME,
    claim="One offset and record epoch hold one value everywhere; HWs cover only committed records, which are never truncated.",
    assumes="Brokers record each append with the epoch of the record, each truncation and HW.",
    blind="Log entries that no row shows; a log that begins anew after a move away and back; records committed by a leader whose "
    "HW was not recorded.",
    reports=(
        LOG_MISMATCH,
        Kind("truncated-committed", Harm.LOSS, 20, breaks=("ISR",), shown_by=("truncate-to-hw",)),
        UNCOMMITTED_BELOW_HW,
    ),
    group_by=PARTITION,
    events=(*REPLAYED, K.HW, K.ASSIGNED),
    check=check,
)
