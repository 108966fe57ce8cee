"""Checker of order: acknowledgements come in offset order, and what is read was sent (docs/promise.md ORD-2, ORD-4).

ORD-2: an offset acknowledged under acks=all exceeds every offset that was acknowledged under acks=all before the call began.
ORD-4: a record whose send certainly failed is never read. Every record that is read was sent before. A poll that failed, or whose
outcome is unknown, proves nothing.

    >>> from checkers.sketches import sketch
    >>> sketch("order", "ok produce value=a offset=1", "ok produce value=b offset=0")
    ['offset-order']
"""

from checkers.engine import screens
from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "order"


def _highest_by_generation(highest: list[int], generation: int, cuts: tuple[Cut, ...]) -> int:
    """Return the highest offset acknowledged so far, which a new acknowledgement must exceed.

    Of generations before an excused loss, only offsets up to that loss's cut count.
    """
    floor = highest[generation]
    bound: int | None = None
    for earlier in range(generation - 1, -1, -1):
        bound = cuts[earlier].offset if bound is None else min(bound, cuts[earlier].offset)
        floor = max(floor, min(highest[earlier], bound - 1))
    return floor


def _acknowledgements_out_of_order(calls: list[Call], cuts: tuple[Cut, ...], key: str) -> list[Anomaly]:
    """Acknowledgements at or below an offset that was acknowledged before their call began."""
    acked = [call for call in calls if call.f == "produce" and call.type == "ok" and call.asked[0].acks == -1]
    steps = sorted([(call.invoked, 0, call) for call in acked] + [(call.ended, 1, call) for call in acked], key=lambda s: s[:2])
    highest = [-1] * (len(cuts) + 1)
    newest = [-1] * (len(cuts) + 1)  # index of the acknowledgement that set it
    highest_at_call: dict[int, tuple[list[int], list[int]]] = {}  # invocation -> `highest` and `newest` at that time
    anomalies: list[Anomaly] = []
    for at, ended, call in steps:
        if not ended:
            highest_at_call[at] = (list(highest), list(newest)) if cuts else ([highest[0]], [newest[0]])
            continue
        before, since = highest_at_call.pop(call.invoked)
        for row in call.rows:
            if row.offset is None or (cuts and row.leader_epoch is None):
                continue
            generation = sum(1 for cut in cuts if row.leader_epoch is not None and row.leader_epoch >= cut.leader_epoch)
            floor = _highest_by_generation(before, generation, cuts)
            if row.offset <= floor:
                lateness_in_words = f"though offset {floor} was acknowledged before it sent"
                words = f"a produce of process {call.process} was acknowledged at offset {row.offset}, {lateness_in_words}"
                witness = tuple(sorted({max(since), call.invoked, at}))
                anomalies.append(Anomaly(kind="offset-order", checker=NAME, key=key, witness=witness, words=words))
            if row.offset > highest[generation]:
                highest[generation], newest[generation] = row.offset, at
    return anomalies


def _reads_of_unsent_values(calls: list[Call], key: str) -> list[Anomaly]:
    """Reads of values that nobody had sent, or whose send had certainly failed."""
    first_sent: dict[str, int] = {}
    not_failed: set[str] = set()
    failed: dict[str, int] = {}
    for call in calls:
        if call.f != "produce":
            continue
        for row in call.asked:
            if row.value is not None:
                first_sent[row.value] = min(call.invoked, first_sent.get(row.value, call.invoked))
                if call.type == "fail":
                    failed[row.value] = call.ended
                else:
                    not_failed.add(row.value)
    anomalies: list[Anomaly] = []
    accused: set[str] = set()
    for call in calls:
        if call.f != "poll" or call.type != "ok":
            continue
        for row in call.rows:
            value = row.value
            if value is None or value in accused:
                continue
            sent = first_sent.get(value)
            if sent is None or sent > call.ended:
                accused.add(value)
                words = f"process {call.process} read {value} at offset {row.offset}, which no process had sent to this partition"
                anomalies.append(Anomaly(kind="phantom-read", checker=NAME, key=key, witness=(row.at,), words=words))
            elif value in failed and value not in not_failed:
                accused.add(value)
                words = f"process {call.process} read {value} at offset {row.offset}, whose send had certainly failed"
                witness = tuple(sorted({failed[value], row.at}))
                anomalies.append(Anomaly(kind="failed-write-read", checker=NAME, key=key, witness=witness, words=words))
    return anomalies


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the order of acknowledgements and the origin of read records in one partition, by client operations alone."""
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    calls = operations.calls
    anomalies = _acknowledgements_out_of_order(calls, cuts_of(cuts, topic, partition), key) + _reads_of_unsent_values(calls, key)
    return Findings(anomalies=tuple(anomalies))


PHANTOM_READ = Kind("phantom-read", Harm.FALSE_READ, 30, breaks=("MONO",), unshown=HISTORIES)

CHECKER = Checker(
    name=NAME,
    claim="Acknowledged offsets grow in real time; a record is read only if it was sent before and its send did not surely fail.",
    assumes="No two sends share a value; a send is reported as failed only if it certainly failed (workloads.completion).",
    blind="acks=0 and acks=1, which promise no order; failed records in a log that no consumer read.",
    reports=(
        Kind("offset-order", Harm.DISORDER, 30, breaks=("MONO",), shown_by=("kip320",)),
        PHANTOM_READ,
        Kind("failed-write-read", Harm.FALSE_READ, 40, breaks=("MONO",), unshown=HISTORIES),
    ),
    group_by=PARTITION,
    operations=("produce", "poll"),
    check=check,
    screen=screens.order,
)
