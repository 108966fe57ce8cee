"""The checkers of our own histories against their definitions (`tests.proof.log_definitions`), on drawn partitions.

Many partitions are judged at once, as in one run: that the checkers keep them apart is part of what is proven.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from checkers.registry import ALL
from checkers.single import judge
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation
from history.seed import Rng
from tests.checkers.story import manifest, promise
from tests.proof.log_definitions import DEFINITIONS
from tests.proof.log_histories import drawn_controllers, drawn_events, drawn_operations, drawn_topics

_TOGETHER = 500  # partitions in one history
_ROOM = 100  # indices of one partition


@dataclass(slots=True)
class Tally:
    """What was compared, by kind of anomaly."""

    name: str
    total: int = 0
    good: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


STATE = ClusterEvent(
    index=0, kind=EventKind.STATE_WRITTEN, time_ns=0, topic="t", partition=0, leader="b1", leader_epoch=1, isr=("b1", "b2")
)
Case = tuple[list[Operation], list[ClusterEvent]]


def drawn(rng: Rng, what: str) -> Case:
    """`both` is one of the two; a loss is judged only where ZooKeeper had a word."""
    if what == "controllers":
        return [], drawn_controllers(rng)
    if what == "topics":
        return drawn_topics(rng)
    if what == "events" or (what == "both" and rng.below(2)):
        return [], drawn_events(rng)
    return drawn_operations(rng), [STATE] if what == "operations and state" else []


def prove(name: str, count: int) -> Tally:
    """Compare the kinds that are found in each partition with those that its definition finds."""
    tally = Tally(name)
    definition, what = DEFINITIONS[name]
    checker = next(one for one in ALL if one.name == name)
    rng = Rng(1).fork(name)
    while tally.total < count:
        cases = [drawn(rng, what) for _ in range(min(1 if what == "controllers" else _TOGETHER, count - tally.total))]
        found = _found(cases, name)
        for number, case in enumerate(cases):
            wanted = definition(*case) & set(checker.kinds)
            tally.total += 1
            tally.good += not wanted
            tally.bad.update(wanted)
            if found.get(number, set()) != wanted:
                tally.wrong.append(f"found {found.get(number)}, by definition {wanted}: {case}")
    return tally


def _found(cases: Sequence[Case], name: str) -> dict[int, set[str]]:
    history = History(
        manifest(promise(topics=("t",)), partitions=len(cases)),
        operations=[row for number, (rows, _) in enumerate(cases) for row in _moved(rows, number)],
        events=[row for number, (_, rows) in enumerate(cases) for row in _moved_events(rows, number)],
    )
    verdict = judge(history, tuple(checker for checker in ALL if checker.name == name))
    found: dict[int, set[str]] = {}
    for one in verdict.anomalies:
        found.setdefault(int(one.key.rpartition("-")[2] or 0), set()).add(one.kind)
    return found


def _moved(rows: Sequence[Operation], number: int) -> list[Operation]:
    base = number * _ROOM
    return [
        replace(row, index=base + row.index, time_ns=base + row.time_ns, partition=number, process=10 * number + row.process)
        for row in rows
    ]


def _moved_events(rows: Sequence[ClusterEvent], number: int) -> list[ClusterEvent]:
    base = number * _ROOM
    return [replace(row, index=base + row.index, time_ns=base + row.time_ns, partition=number) for row in rows]
