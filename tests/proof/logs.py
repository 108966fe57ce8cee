"""The checkers of our own histories against their definitions (`tests.proof.log_definitions`), on drawn partitions.

Many partitions are judged at once by all checkers, as in one run: that they keep them apart is part of what is proven. Of every
two such runs one goes through the screens (`checkers.screens`), the other without.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from checkers.registry import ALL
from checkers.single import judge
from history.event import ClusterEvent
from history.history import History
from history.op import Operation
from history.seed import Rng
from tests.checkers.story import manifest, promise
from tests.proof.log_definitions import DEFINITIONS
from tests.proof.log_histories import drawn_calls, drawn_controllers, drawn_events, drawn_topics

_TOGETHER = 500  # partitions in one history
_ROOM = 100  # indices of one partition
_NEVER = 1 << 62
_MS = 1_000_000


@dataclass(slots=True)
class Tally:
    """What was compared, by kind of anomaly."""

    name: str
    total: int = 0
    good: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


Case = tuple[list[Operation], list[ClusterEvent]]


def drawn(rng: Rng, what: str) -> Case:
    """A history of one of the four sorts of `DEFINITIONS`."""
    match what:
        case "operations":
            return drawn_calls(rng)
        case "events":
            return [], drawn_events(rng)
        case "topics":
            return drawn_topics(rng)
        case _:
            return [], drawn_controllers(rng)


def prove(what: str, count: int, part: int = 0) -> list[Tally]:
    """Compare, checker by checker, the kinds found in each partition with those that the definition finds.

    Another `part` draws other histories, so that parts can be proven one by one.
    """
    tallies = {name: Tally(name) for name in DEFINITIONS[what]}
    rng = Rng(part).fork(what)
    # Elections of controllers are about the whole run: one history each.
    together = 1 if what == "controllers" else _TOGETHER
    for round, done in enumerate(range(0, count, together)):
        cases = [drawn(rng, what) for _ in range(min(together, count - done))]
        found = _found(cases, tuple(tallies), screened=round % 2 == 1)
        for number, case in enumerate(cases):
            for name, tally in tallies.items():
                _compare(tally, case, DEFINITIONS[what][name](*case), found.get((number, name), set()))
    return list(tallies.values())


def _compare(tally: Tally, case: Case, wanted: set[str], found: set[str]) -> None:
    tally.total += 1
    tally.good += not wanted
    tally.bad.update(wanted)
    if found != wanted:
        tally.wrong.append(f"{tally.name} finds {found}, by definition it is {wanted}: {case}")


def _found(cases: Sequence[Case], names: Sequence[str], *, screened: bool) -> dict[tuple[int, str], set[str]]:
    history = History(
        manifest(promise(topics=("t",)), partitions=len(cases)),
        operations=[row for number, (rows, _) in enumerate(cases) for row in _moved(rows, number)],
        events=[row for number, (_, rows) in enumerate(cases) for row in _moved_events(rows, number)],
    )
    checkers = tuple(checker for checker in ALL if checker.name in names)
    verdict = judge(history, checkers, screened_min=0 if screened else _NEVER)
    found: dict[tuple[int, str], set[str]] = {}
    for one in verdict.anomalies:
        found.setdefault((int(one.key.rpartition("-")[2] or 0), one.checker), set()).add(one.kind)
    return found


def _moved(rows: Sequence[Operation], number: int) -> list[Operation]:
    base = number * _ROOM
    at = base * 10 * _MS
    return [
        replace(row, index=base + row.index, time_ns=at + row.time_ns, partition=number, process=10 * number + row.process)
        for row in rows
    ]


def _moved_events(rows: Sequence[ClusterEvent], number: int) -> list[ClusterEvent]:
    base = number * _ROOM
    return [replace(row, index=base + row.index, time_ns=base * 10 * _MS + row.time_ns, partition=number) for row in rows]
