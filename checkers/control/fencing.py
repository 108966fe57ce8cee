"""Checker of fencing: a fenced broker appends nothing as leader, raises no HW and answers no client (R-186, B-43).

The fence lasts from the broker's FENCED note to its UNFENCED note, or to the end of its process. When the fence begins, the
broker answers waiting requests with an error, so a successful answer during the fence belongs to a request sent before it. Two
things may still finish behind the fence (R-186). An ISR change sent before the fence may end, and a high watermark that waited
for it then rises. Under flush=before_ack the leader's own flush may end, and a high watermark that waited for it then rises, if
the rest of the ISR held the records before the fence.

    >>> from checkers.sketches import sketch
    >>> sketch("fencing", "fenced node=b1", "append node=b1 offset=0 value=a")
    ['fenced-append']
"""

from checkers.engine import screens
from checkers.engine.anomalies import BROKEN_MACHINE, HISTORIES, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "fencing"
_NEVER = 1 << 62
_Fence = tuple[int, int]  # first and last row of a fence


def _fenced_periods(rows: list[EventRow]) -> dict[str, list[_Fence]]:
    """The periods in which each broker was fenced, the oldest first."""
    fences: dict[str, list[_Fence]] = {}
    since: dict[str, int] = {}
    for row in rows:
        if row.kind == K.FENCED:
            since.setdefault(row.node, row.at)
        elif row.kind in (K.UNFENCED, K.NODE_STARTED, K.NODE_STOPPED) and row.node in since:
            fences.setdefault(row.node, []).append((since.pop(row.node), row.at))
    for node, at in since.items():
        fences.setdefault(node, []).append((at, _NEVER))
    return fences


def _behind(fences: dict[str, list[_Fence]], node: str | None, first: int, last: int) -> int | None:
    """If a broker was fenced during all rows from `first` to `last`, the row that began the fence; else None."""
    return next((begun for begun, ended in fences.get(node or "", ()) if begun < first and last < ended), None)


def _had_reached(rows: list[EventRow], node: str, end: int, before: int) -> bool:
    """True if a broker's log had reached offset `end` before row `before` of the history.

    The node may have lost the records since, but it could report its log end to the leader first.
    """
    return any(
        (row.kind == K.APPEND and row.offset + 1 >= end) or (row.kind == K.RECOVERED and row.leo is not None and row.leo >= end)
        for row in rows
        if row.node == node and row.at < before
    )


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report what the leaders of one partition accepted while they were fenced."""
    if K.FENCED not in events.words:
        return Findings()
    rows = events.rows
    fences = _fenced_periods(rows)
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    anomalies: list[Anomaly] = []
    standing: dict[tuple[str, int], int] = {}  # (node, epoch) -> HW
    sent: dict[str, int] = {}  # node -> row of its pending ISR change
    finished: dict[str, tuple[int, int]] = {}  # node -> rows at which its last completed ISR change was sent and ended
    isr: dict[str, tuple[str, ...]] = {}  # node -> the ISR that it knows as leader
    flushes = any(promised.topic == topic and promised.flush == "before_ack" for promised in facts.promise.topics)
    for row in rows:
        happened = ""
        if row.kind in (K.BECAME_LEADER, K.ISR_CHANGE_ENDED):
            isr[row.node] = row.isr
        if row.kind == K.ISR_CHANGE_SENT:
            sent[row.node] = row.at
        elif row.kind == K.ISR_CHANGE_ENDED and row.node in sent:
            finished[row.node] = (sent.pop(row.node), row.at)
        if row.kind == K.APPEND and row.detail == "leader":
            happened = f"appended {row.value} as leader"
        elif row.kind == K.HW and row.detail == "leader":
            before = standing.get((row.node, row.leader_epoch))
            standing[(row.node, row.leader_epoch)] = row.hw
            happened = f"raised its high watermark to {row.hw}" if before is not None and row.hw > before else ""
        begun = _behind(fences, row.node, row.at, row.at) if happened else None
        if begun is not None and row.kind == K.HW:
            request_index, ended = finished.get(row.node, (begun, begun))
            others = set(isr.get(row.node) or ()) - {row.node}
            if request_index < begun < ended or (flushes and all(_had_reached(rows, node, row.hw, begun) for node in others)):
                begun = None
        if begun is not None:
            kind = "fenced-append" if row.kind == K.APPEND else "fenced-commit"
            words = f"{row.node} {happened} while it was fenced"
            anomalies.append(Anomaly(kind=kind, checker=NAME, key=key, witness=(begun, row.at), words=words))
    for call in operations.calls:
        # Under acks=0 the broker does not answer: ok means that the request was sent.
        answered = call.type == "ok" and call.asked[0].acks != 0
        begun = _behind(fences, call.rows[0].node, call.invoked, call.ended) if answered else None
        if begun is not None:
            words = f"{call.rows[0].node} answered a {call.f} of process {call.process} that was sent while it was fenced"
            anomaly = Anomaly(kind="fenced-answer", checker=NAME, key=key, witness=(begun, call.invoked, call.ended), words=words)
            anomalies.append(anomaly)
    return Findings(anomalies=tuple(anomalies))


CHECKER = Checker(
    name=NAME,
    claim="A fenced broker appends nothing as leader, commits nothing new and answers no client.",
    assumes="Brokers record when they are fenced and unfenced; answers name the broker that gave them.",
    blind="Protocol variants without fencing; answers to fetches of followers, except for what these commit; under "
    "flush=before_ack, rises of the HW over records that every follower held before the fence.",
    reports=(
        Kind("fenced-append", Harm.USURPED, 140, breaks=("CTL",), unshown=BROKEN_MACHINE),
        Kind("fenced-commit", Harm.USURPED, 130, breaks=("CTL",), unshown=HISTORIES),
        Kind("fenced-answer", Harm.USURPED, 150, breaks=("CTL",), unshown=BROKEN_MACHINE),
    ),
    group_by=PARTITION,
    operations=("produce", "poll", "latest", "earliest"),
    events=(
        K.FENCED,
        K.UNFENCED,
        K.NODE_STARTED,
        K.NODE_STOPPED,
        K.BECAME_LEADER,
        K.RECOVERED,
        K.APPEND,
        K.HW,
        K.ISR_CHANGE_SENT,
        K.ISR_CHANGE_ENDED,
    ),
    check=check,
    screen=screens.nothing,
    tied=(K.FENCED,),
)
