"""Checker of the values of idempotent producers in the logs: no replica's log holds one twice (docs/promise.md ORD-3; B-66).

That holds for the log of every replica at every moment, whether a consumer reads the value or a truncation removes it.

    >>> from checkers.sketches import sketch
    >>> sent = "invoke produce value=a delivery=once"
    >>> sketch("producers", sent, "append node=b1 offset=0 value=a", "append node=b1 offset=1 value=a")
    ['sequence-doubled']
"""

from checkers.clients.duplicates import ONCE
from checkers.engine import screens
from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.replay import REPLAYED, Replicas

NAME = "producers"


def _values_in_log_twice(calls: list[Call], rows: list[EventRow], key: str) -> list[Anomaly]:
    """Find values of idempotent producers that are in one log twice."""
    once = {row.value for call in calls if call.asked[0].delivery == ONCE for row in call.asked}
    replicas = Replicas()
    places: dict[tuple[str, str], tuple[int, int]] = {}  # (node, value) -> offset, row
    anomalies = []
    for row in rows:
        for _, value in replicas.replay(row):
            places.pop((row.node, value), None)
        if row.kind != "append" or row.value not in once:
            continue
        earlier = places.setdefault((row.node, row.value), (row.offset, row.at))
        if earlier[0] != row.offset:
            words = f"{row.node} has {row.value} of an idempotent producer at offsets {earlier[0]} and {row.offset}"
            anomalies.append(_anomaly("sequence-doubled", key, (earlier[1], row.at), words))
    return anomalies


def _anomaly(kind: str, key: str, witness: tuple[int, int], words: str) -> Anomaly:
    return Anomaly(kind=kind, checker=NAME, key=key, witness=witness, words=f"{key}: {words}")


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the logs of one partition's replicas."""
    topic, partition = partition_of(operations, events)
    calls = operations.calls
    key = f"{topic}-{partition}"
    return Findings(anomalies=tuple(_values_in_log_twice(calls, events.rows, key)))


CHECKER = Checker(
    name=NAME,
    claim="No log of a replica ever holds a value of an idempotent producer twice.",
    assumes="Brokers record each append and truncation.",
    blind="Values of other producers.",
    reports=(
        Kind("sequence-doubled", Harm.DISORDER, 110, breaks=("MONO",), shown_by=("no-idempotence", "idempotence-of-the-leader")),
    ),
    group_by=PARTITION,
    operations=("produce",),
    events=REPLAYED,
    check=check,
    screen=screens.producers,
)
