"""Checker: one offset holds one value, in all reads, acks=all acknowledgements and replicas below their HW (ORD-1).

An acknowledgement under acks=1 promises nothing, so its offset may be given to another record. Offsets that an excused loss took
hold one value for each generation: rows of epochs before the cut are not compared with later rows (docs/promise.md CUT-1).

    >>> from checkers.sketches import sketch
    >>> sketch("offset-agreement", "ok poll offset=0 value=a", "ok poll offset=0 value=b")
    ['inconsistent-offsets']
"""

from checkers.engine import screens
from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.replay import REPLAYED, Replicas
from history.event import EventKind as K

NAME = "offset-agreement"


class _Offsets:
    # The value observed at each offset of one partition, separately for each generation (between excused losses).

    def __init__(self, key: str, cuts: tuple[Cut, ...]) -> None:
        self.key, self.cuts = key, cuts
        self.replicas = Replicas()
        self.compared: dict[str, int] = {}  # node -> entries below this offset were compared
        self.seen: dict[tuple[int, int], tuple[str, int, str, int | None]] = {}  # (offset, generation) -> value, row, who, epoch
        self.accused: set[int] = set()
        self.anomalies: list[Anomaly] = []

    def hold(self, offset: int, value: str, epoch: int | None, at: int, holder: str) -> None:
        """Record that `holder` observed this value at this offset, and report a different earlier value."""
        generation = 0
        if self.cuts:
            above = [cut for cut in self.cuts if offset >= cut.offset]
            if above and epoch is None:
                return
            generation = sum(1 for cut in above if epoch is not None and epoch >= cut.leader_epoch)
        first = self.seen.setdefault((offset, generation), (value, at, holder, epoch))
        if first[0] == value or offset in self.accused:
            return
        self.accused.add(offset)
        then, now = (_when(first[3], first[1]), _when(epoch, at)) if first[2] == holder else ("", "")
        words = f"offset {offset} holds {first[0]} for {first[2]}{then} and {value} for {holder}{now}"
        witness = tuple(sorted({first[1], at}))
        anomaly = Anomaly(kind="inconsistent-offsets", checker=NAME, key=self.key, witness=witness, words=words)
        self.anomalies.append(anomaly)

    def see_event(self, row: EventRow) -> None:
        """Replay a replica's log, and at each HW compare the entries that it newly covers."""
        if row.kind != K.HW:
            if self.replicas.replay(row):
                leo = len(self.replicas.log(row.node).values)
                self.compared[row.node] = min(self.compared.get(row.node, 0), leo)
            return
        log = self.replicas.log(row.node)
        start, end = self.compared.get(row.node, 0), min(row.hw, len(log.values))
        for offset in range(start, end):
            value = log.values[offset]
            if value is not None:
                # Use the epoch of the HW, not of the record: power loss may undo a truncation and bring an old record back.
                self.hold(offset, value, row.leader_epoch, row.at, row.node)
        self.compared[row.node] = max(start, end)

    def see_call(self, call: Call) -> None:
        """Compare the records of a poll, or of an acks=all acknowledgement, with the values known at their offsets."""
        if call.f == "produce" and call.asked[0].acks != -1:
            return
        holder = f"{'a read of' if call.f == 'poll' else 'the acknowledgement to'} process {call.process}"
        for row in call.rows:
            if row.offset is not None and row.value is not None:
                self.hold(row.offset, row.value, row.leader_epoch, row.at, holder)


def _when(epoch: int | None, row: int) -> str:
    """When one observer saw a value, to tell it from what the same one saw at another time."""
    return f" ({'' if epoch is None else f'epoch {epoch}, '}row {row})"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge one partition by comparing all values observed at each offset."""
    topic, partition = partition_of(operations, events)
    offsets = _Offsets(f"{topic}-{partition}", cuts_of(cuts, topic, partition))
    for event in events.rows:
        offsets.see_event(event)
    for call in operations.calls:
        if call.type == "ok":
            offsets.see_call(call)
    return Findings(anomalies=tuple(offsets.anomalies))


INCONSISTENT_OFFSETS = Kind(
    "inconsistent-offsets", Harm.FALSE_READ, 10, breaks=("LM", "MONO"),
    shown_by=(
        "v3", "article", "kip101", "kip279", "no-fetch-fencing", "follower-by-leader-id", "hw-before-truncation",
        "truncate-to-hw-no-incarnation", "no-purgatory-epoch-check",
    ),
)  # fmt: skip

CHECKER = Checker(
    name=NAME,
    claim="One offset of a partition holds one value: in every read, every acks=all acknowledgement, every replica below its HW.",
    assumes="After an excused loss in the partition, answers to clients carry a leader epoch.",
    blind="Replicas above their HW, which may differ; acknowledgements under acks=0 and acks=1.",
    reports=(INCONSISTENT_OFFSETS,),
    group_by=PARTITION,
    operations=("produce", "poll"),
    events=(*REPLAYED, K.HW),
    check=check,
    screen=screens.offset_agreement,
    tied=REPLAYED,
)
