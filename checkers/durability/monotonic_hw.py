"""Checker: the high watermark only rises, within its leader's epoch, in each replica process, and as consumers see it.

docs/promise.md VIS-1 and VIS-2. After a failover a new leader may start with a lower HW, so leaders are judged within one epoch.
A replica that follows it keeps the HW that it had (U-04): what one process knew to be committed stays committed in later epochs,
as long as nothing is taken from its log and it keeps a role: one that resigned may go on with another log, if a directory failed.

Consumers are judged by end offsets and positions, which never go back except to a cut. The `high_watermark` field of a fetch
response is a hint and is compared within one epoch only. An answer with an epoch below one that the consumer has already seen is
stale, as answers of a deposed leader may be (VIS-3), and is not compared.

    >>> from checkers.sketches import sketch
    >>> sketch("monotonic-hw", "hw node=b1 hw=2 leo=2", "hw node=b1 hw=1 leo=2")
    ['hw-regressed']
    >>> follows = "hw node=b1 hw=1 leo=2 leader_epoch=2 detail=follower"
    >>> sketch("monotonic-hw", "hw node=b1 hw=2 leo=2", follows)
    ['hw-regressed']
    >>> sketch("monotonic-hw", "hw node=b1 hw=2 leo=2", "truncate node=b1 offset=1", follows)
    []
"""

from typing import NamedTuple

from checkers.engine import screens
from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "monotonic-hw"


class _Seen(NamedTuple):
    """The lowest offset that later HWs may have, with the epoch and the row that established it."""

    offset: int
    epoch: int
    at: int


def _falls_of_replicas(events: Events, key: str) -> list[Anomaly]:
    """Judge the high watermarks that brokers recorded: of each process until its log gets shorter, and within epoch and role."""
    anomalies: list[Anomaly] = []
    last: dict[tuple[str, int | None, int, str | None], _Seen] = {}
    last_of_process: dict[str, tuple[int | None, _Seen]] = {}  # node -> the process that noted its last HW, and that HW
    for row in events.rows:
        if row.kind != K.HW:
            last_of_process.pop(row.node, None)
            continue
        if row.leo is not None and row.hw > row.leo:
            words = f"{row.node} has the high watermark {row.hw} above its log end offset {row.leo}"
            anomalies.append(Anomaly(kind="hw-above-leo", checker=NAME, key=key, witness=(row.at,), words=words))
        scope = (row.node, row.life, row.leader_epoch, row.detail)
        life, last_noted = last_of_process.get(row.node, (None, None))
        earlier = [noted for noted in (last.get(scope), last_noted if life == row.life else None) if noted is not None]
        before = max(earlier, key=lambda noted: noted.offset, default=None)
        if before is not None and row.hw < before.offset:
            since = "" if before.epoch == row.leader_epoch else f", and nothing was taken from its log since epoch {before.epoch}"
            fall = f"fell from {before.offset} to {row.hw} in epoch {row.leader_epoch}{since}"
            words = f"the high watermark of {row.node} ({row.detail}) {fall}"
            witness = (before.at, row.at)
            anomalies.append(Anomaly(kind="hw-regressed", checker=NAME, key=key, witness=witness, words=words))
        last[scope] = _Seen(row.hw, row.leader_epoch, row.at)
        last_of_process[row.node] = (row.life, last[scope])
    return anomalies


class _Consumer:
    """What one consumer knows of a partition: its end offset, and the newest leader epoch that answered."""

    def __init__(self, process: int, key: str, cuts: tuple[Cut, ...]) -> None:
        self.process, self.key, self.cuts = process, key, cuts
        self.end: _Seen | None = None
        self.hint: _Seen | None = None
        self.anomalies: list[Anomaly] = []

    def see(self, call: Call) -> None:
        """Judge one answer to a consumer: of a poll, or of an end offset request (`latest`)."""
        row = call.rows[0]
        if call.type == "ok" and call.f == "latest" and row.offset is not None and row.leader_epoch is not None:
            self._see_end(row.offset, row.leader_epoch, row.at)
        elif call.type == "ok" and call.f == "poll":
            self._see_poll(call)
        elif call.type == "fail" and row.error == "OFFSET_OUT_OF_RANGE":
            self._see_refusal(call)

    def _floor(self, epoch: int | None) -> int:
        """The lowest end offset that an answer of this epoch may give: the known end, or a lower cut in between."""
        if self.end is None:
            return 0
        epoch_seen = self.end.epoch
        cut_offsets = [c.offset for c in self.cuts if c.leader_epoch > epoch_seen and (epoch is None or c.leader_epoch <= epoch)]
        return min([self.end.offset, *cut_offsets])

    def _see_end(self, end: int, epoch: int, index: int) -> None:
        """The consumer was told the end of the log."""
        if self.end is not None and epoch < self.end.epoch:
            return
        if self.end is not None and end < self._floor(epoch):
            words = f"process {self.process} was told end offset {end} after it had seen end offset {self.end.offset}"
            self._accuse("latest-regressed", (self.end.at, index), words)
        if self.end is None or end >= self.end.offset or epoch > self.end.epoch:
            self.end = _Seen(end, epoch, index)

    def _see_poll(self, call: Call) -> None:
        """The consumer got records, none below what it asked for, none at or above the HW."""
        position = call.asked[0].offset
        got = [row for row in call.rows if row.offset is not None and row.value is not None]
        for row in got:
            assert row.offset is not None
            if position is not None and row.offset < position:
                words = f"process {self.process} asked for offset {position} and was given {row.offset}"
                self._accuse("position-regressed", (call.invoked, row.at), words)
            if row.hw is not None and row.offset >= row.hw:
                words = f"process {self.process} was given offset {row.offset} with the high watermark at {row.hw}"
                self._accuse("read-above-hw", (row.at,), words)
                break
        first = call.rows[0]
        self._see_hint(first.hw, first.leader_epoch, first.at)
        epochs = [row.leader_epoch for row in got if row.leader_epoch is not None]
        if epochs and self.end is not None and got[-1].offset is not None and got[-1].offset >= self.end.offset:
            self.end = _Seen(got[-1].offset + 1, max(self.end.epoch, *epochs), call.ended)
        elif epochs and self.end is None and got[-1].offset is not None:
            self.end = _Seen(got[-1].offset + 1, max(epochs), call.ended)

    def _see_hint(self, hw: int | None, epoch: int | None, index: int) -> None:
        """The consumer was told an HW, which must not fall within its epoch."""
        if hw is None or epoch is None:
            return
        if self.hint is not None and epoch < self.hint.epoch:
            return  # a stale answer; the next HW of the newer leader is not compared with it
        if self.hint is not None and self.hint.epoch == epoch and hw < self.hint.offset:
            words = f"process {self.process} saw the high watermark fall from {self.hint.offset} to {hw} in epoch {epoch}"
            self._accuse("hw-regressed", (self.hint.at, index), words)
        self.hint = _Seen(hw, epoch, index)

    def _see_refusal(self, call: Call) -> None:
        """The consumer got OFFSET_OUT_OF_RANGE for an offset that it had seen exist."""
        position = call.asked[0].offset
        if self.end is None or position is None or position > self._floor(None):
            return
        end_seen = f"the end offset it had seen was {self.end.offset}"
        words = f"process {self.process} asked for offset {position} and got OFFSET_OUT_OF_RANGE; {end_seen}"
        self._accuse("out-of-range", (self.end.at, call.ended), words)

    def _accuse(self, kind: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the high watermarks of one partition: of brokers by their HW rows, of consumers by the answers they got."""
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    anomalies = _falls_of_replicas(events, key)
    consumers: dict[int, _Consumer] = {}
    for call in operations.calls:
        if call.rows:
            consumer = consumers.get(call.process)
            if consumer is None:
                consumer = consumers[call.process] = _Consumer(call.process, key, cuts_of(cuts, topic, partition))
            consumer.see(call)
    anomalies.extend(anomaly for process in sorted(consumers) for anomaly in consumers[process].anomalies)
    return Findings(anomalies=tuple(anomalies))


CHECKER = Checker(
    name=NAME,
    claim="The HW never falls within a leader epoch, nor in a process that keeps its log; "
    "a consumer's end offsets and positions fall only to an excused loss.",
    assumes="Brokers record each change of the HW; answers carry the epoch of the leader that gave them.",
    blind="A fall from one leader epoch to another where a log got shorter or a process began, which is allowed; "
    "answers without a leader epoch.",
    reports=(
        Kind("hw-regressed", Harm.LOSS_NEXT, 100, breaks=("HWM",), shown_by=("hw-not-monotone", "no-broker-incarnation")),
        Kind("hw-above-leo", Harm.LOSS_NEXT, 110, breaks=("HWM",), shown_by=("hw-not-clamped",)),
        Kind("latest-regressed", Harm.MISSED, 40, breaks=("HWM",), shown_by=("latest-before-epoch-start",)),
        Kind("position-regressed", Harm.MISSED, 50, breaks=("HWM",), unshown=HISTORIES),
        Kind("read-above-hw", Harm.FALSE_READ, 110, breaks=("DUR", "HWM"), shown_by=("consumers-read-to-leo",)),
        Kind("out-of-range", Harm.MISSED, 30, breaks=("HWM",), shown_by=("out-of-range-above-hw",)),
    ),
    group_by=PARTITION,
    operations=("poll", "latest"),
    events=(K.HW, K.TRUNCATE, K.WOUND, K.REPLICA_DELETED, K.RESIGNED),
    check=check,
    screen=screens.monotonic_hw,
)
