"""Checker of duplicates: how often each value is in the log against how often it was sent (docs/promise.md ORD-3, ORD-4).

A value of an idempotent producer is in the log at most once, and its values are in the order in which it sent them, across
failovers. Any other value may be there once for each attempt that was sent; values that are there more than once are counted. The
evidence is what consumers read: a value read at two offsets is there twice. A value that an excused loss removed may be appended
again behind the cut, so offsets are compared within one generation only (CUT-1).

    >>> from checkers.sketches import sketch
    >>> rows = "ok produce value=a offset=0 delivery=once attempts=1", "ok poll offset=0 value=a"
    >>> sketch("duplicates", *rows, "ok poll offset=1 value=a")
    ['duplicate']
"""

from checkers.engine import screens
from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "duplicates"
ONCE = "once"
_Places = dict[tuple[str, int], dict[int, int]]  # (value, generation) -> offset -> the first row that read it there


def _places_read(calls: list[Call], cuts: tuple[Cut, ...]) -> _Places:
    """Where each value was read, by generation of the log: offset and row."""
    places: _Places = {}
    for call in calls:
        if call.f != "poll" or call.type != "ok":
            continue
        for row in call.rows:
            if row.value is None or row.offset is None or (cuts and row.leader_epoch is None):
                continue
            generation = sum(1 for cut in cuts if row.leader_epoch is not None and row.leader_epoch >= cut.leader_epoch)
            places.setdefault((row.value, generation), {}).setdefault(row.offset, row.at)
    return places


def _times_allowed(calls: list[Call]) -> dict[str, int | None]:
    """How often each produced value may be in the log; None if it is unknown how often the client sent it."""
    allowed: dict[str, int | None] = {}
    for call in calls:
        if call.f != "produce":
            continue
        times = 1 if call.asked[0].delivery == ONCE else call.rows[0].attempts if call.rows else None
        for row in call.asked:
            if row.value is not None:
                before = allowed.get(row.value, 0)
                allowed[row.value] = None if times is None or before is None else before + times
    return allowed


def _reordered_values(calls: list[Call], places: _Places, key: str) -> list[Anomaly]:
    """Find values of an idempotent producer that are not in the log in the order in which it sent them."""
    last: dict[tuple[int, int], tuple[int, int, str]] = {}  # (process, generation) -> offset, row, value
    generations = sorted({generation for _, generation in places})
    anomalies: list[Anomaly] = []
    for call in sorted((c for c in calls if c.f == "produce" and c.asked[0].delivery == ONCE), key=lambda c: c.invoked):
        for row in call.asked:
            for generation in generations:
                offset, at = min(places.get((row.value or "", generation), {}).items(), default=(-1, -1))
                if offset < 0:
                    continue
                before = last.get((call.process, generation))
                if before is not None and offset < before[0]:
                    words = (
                        f"process {call.process} sent {before[2]} before {row.value}, which is earlier in the log, at {offset}"
                    )
                    witness = tuple(sorted({before[1], at}))
                    anomalies.append(Anomaly(kind="reordered", checker=NAME, key=key, witness=witness, words=words))
                last[(call.process, generation)] = (offset, at, row.value or "")
    return anomalies


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find duplicates in one partition's log; the count `duplicates` is the number of values read at two or more offsets."""
    topic, partition = partition_of(operations, events)
    key = f"{topic}-{partition}"
    calls = operations.calls
    places, allowed = _places_read(calls, cuts_of(cuts, topic, partition)), _times_allowed(calls)
    anomalies = _reordered_values(calls, places, key)
    doubled: set[str] = set()
    for (value, _), rows in places.items():
        if len(rows) < 2:
            continue
        doubled.add(value)
        times = allowed.get(value)
        if times is not None and len(rows) > times:
            where = " and ".join(str(offset) for offset in sorted(rows))
            often = "once" if times == 1 else f"{times} times"
            words = f"{value} is at offsets {where}, but may be in the log at most {often}"
            witness = tuple(sorted(rows.values()))[: times + 1]
            anomalies.append(Anomaly(kind="duplicate", checker=NAME, key=key, witness=witness, words=words))
    return Findings(anomalies=tuple(anomalies), counts={"duplicates": len(doubled)})


DUPLICATE = Kind("duplicate", Harm.DISORDER, 90, breaks=("MONO",), shown_by=("no-idempotence", "idempotence-of-the-leader"))

CHECKER = Checker(
    name=NAME,
    claim="A value of an idempotent producer is in the log at most once and in order, any other value once for each attempt.",
    assumes="No two produces share a value; a completion says how often its produce was sent.",
    blind="Duplicates that no consumer read; the order of a producer's values across its sessions.",
    reports=(
        DUPLICATE,
        Kind("reordered", Harm.DISORDER, 40, breaks=("MONO",), unshown=HISTORIES),
    ),
    group_by=PARTITION,
    operations=("produce", "poll"),
    check=check,
    screen=screens.duplicates,
)
