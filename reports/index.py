"""The data of a campaign's index page: one row for each run, totals, anomalies by kind of fault, faults begun and acted.

Rows are made from stored verdicts and manifests alone, so an index of ten thousand runs needs no history.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from checkers.verdict import Validity
from history.manifest import FaultCount


class RunRow(Struct, frozen=True, kw_only=True):
    """One run on a campaign's index page. `validity` is None if the harness failed; `error` then holds the reason."""

    name: str
    seed: int | None
    protocol: str
    validity: Validity | None
    live: bool | None
    anomalies: tuple[tuple[str, int], ...] = ()  # kind, count
    words: tuple[str, ...] = ()  # words of the anomalies, or the reasons for unknown or not live
    excused: int = 0
    acked: int = 0
    leader_changes: int = 0
    faults: tuple[FaultCount, ...] = ()
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0
    link: str = ""  # to its page, relative to the index
    repeat: str = ""  # the command that repeats it
    error: str = ""


class GoalRow(Struct, frozen=True, kw_only=True):
    """How often all runs of a campaign together reached a goal. `wanted` marks the goals that it had to reach."""

    name: str
    count: int
    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultTotal:
    """One kind of fault, counted over all runs of a campaign."""

    kind: str
    runs: int
    begun: int
    acted: int
    runs_acted: int
    invalid: int  # INVALID runs in which the fault acted
    anomalies: tuple[int, ...]  # for each kind of the page, in its order: runs in which the fault acted and the kind was found


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPage:
    """The view model of a campaign's index page."""

    title: str
    repeat: str
    rows: tuple[RunRow, ...]
    totals: tuple[tuple[str, str], ...]
    anomalies: tuple[tuple[str, int, int], ...]  # kind, runs, anomalies
    faults: tuple[FaultTotal, ...]
    goals: tuple[GoalRow, ...]


def campaign_of(rows: Sequence[RunRow], *, title: str, repeat: str, goals: Sequence[GoalRow] = ()) -> CampaignPage:
    """Make the index page of a campaign's runs, worst runs first."""
    anomalies = _anomalies(rows)
    return CampaignPage(
        title=title,
        repeat=repeat,
        rows=tuple(sorted(rows, key=_worst_first)),
        totals=_totals(rows),
        anomalies=anomalies,
        faults=_faults(rows, [kind for kind, _, _ in anomalies]),
        goals=tuple(goals),
    )


def _worst_first(row: RunRow) -> tuple[int, bool, str, int, str]:
    severity = 3 if row.validity is None else int(row.validity)
    return (-severity, row.live is not False, row.protocol, -1 if row.seed is None else row.seed, row.name)


def _totals(rows: Sequence[RunRow]) -> tuple[tuple[str, str], ...]:
    validity = Counter(row.validity for row in rows)
    played, wall = sum(row.sim_seconds for row in rows), sum(row.wall_seconds for row in rows)
    return (
        ("runs", str(len(rows))),
        ("valid", str(validity[Validity.VALID])),
        ("invalid", str(validity[Validity.INVALID])),
        ("unknown", str(validity[Validity.UNKNOWN])),
        ("harness failed", str(validity[None])),
        ("not live", str(sum(row.live is False for row in rows))),
        ("excused losses", str(sum(row.excused for row in rows))),
        ("acknowledged", str(sum(row.acked for row in rows))),
        ("leader changes", str(sum(row.leader_changes for row in rows))),
        ("total length of runs", f"{played:.0f} s"),
        ("run seconds per worker second", f"{played / wall:.1f} s" if wall else "none"),
    )


def _anomalies(rows: Sequence[RunRow]) -> tuple[tuple[str, int, int], ...]:
    runs: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for row in rows:
        for kind, count in row.anomalies:
            runs[kind] += 1
            counts[kind] += count
    return tuple((kind, runs[kind], counts[kind]) for kind in sorted(runs))


def _faults(rows: Sequence[RunRow], kinds: Sequence[str]) -> tuple[FaultTotal, ...]:
    totals = []
    for kind in sorted({fault.kind for row in rows for fault in row.faults}):
        own = [(row, fault) for row in rows for fault in row.faults if fault.kind == kind and fault.begun]
        acted = [row for row, fault in own if fault.acted]
        together = Counter(anomaly for row in acted for anomaly, _ in row.anomalies)
        totals.append(
            FaultTotal(
                kind=kind,
                runs=len(own),
                begun=sum(fault.begun for _, fault in own),
                acted=sum(fault.acted for _, fault in own),
                runs_acted=len(acted),
                invalid=sum(row.validity is Validity.INVALID for row in acted),
                anomalies=tuple(together[kind] for kind in kinds),
            )
        )
    return tuple(totals)
