"""The tally of runs: their counts, which add up. Whoever has some runs counts them, and the tally of all is the sum.

So a worker on Spark counts the runs of its block (`pipeline.blocks`), and the driver adds up blocks and looks at no run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from highwater.campaigns.goals import GoalCounts, Reached
from highwater.exit_codes import ExitCode
from highwater.runs.findings import ValidityName
from highwater.runs.summary import Summary

_SUMMED = ("excused", "acked", "leader_changes", "recovery_elections", "elections_from_elr", "wounds_counted_on")
_RUNS = ("runs", "live", "not_live", "laboratory_failed")


class AnomalyTally(Struct, frozen=True, kw_only=True):
    """How often one kind of anomaly was found in all runs of a campaign.

    `faults`: for each fault kind, the number of these runs in which it acted.
    """

    kind: str
    checker: str
    runs: int
    first_seed: int | None
    repeat: str
    faults: dict[str, int]


class FaultTally(Struct, frozen=True, kw_only=True):
    """How often one kind of fault was injected in all runs of a campaign."""

    kind: str
    runs: int  # in which it acted
    begun: int
    acted: int


class Tally(Struct, frozen=True, kw_only=True):
    """The counts over all runs of a campaign; `campaign --json` prints them."""

    runs: int
    verdicts: dict[ValidityName, int]
    exits: dict[ExitCode, int]  # runs, by their own exit code
    live: int
    not_live: int
    laboratory_failed: int
    excused: int
    acked: int
    leader_changes: int
    recovery_elections: int
    elections_from_elr: int
    wounds_counted_on: int
    sim_seconds: float
    anomalies: tuple[AnomalyTally, ...]
    faults: tuple[FaultTally, ...]
    signatures: tuple[str, ...]  # of the causes of failures, sorted
    reached: tuple[Reached, ...]

    @property
    def missed(self) -> tuple[str, ...]:
        """The required goals (situations, see `campaigns.goals`) that no run of the campaign reached."""
        return tuple(goal.name for goal in self.reached if goal.missed)


def tally(summaries: Iterable[Summary], goals: Sequence[str] = ()) -> Tally:
    """Count runs, in their order. `goals` are the required ones."""
    counts = Counts()
    for summary in summaries:
        counts.add(summary)
    return counts.told(goals)


class Counts:
    """A tally that grows."""

    def __init__(self) -> None:
        self._verdicts: dict[ValidityName, int] = {"VALID": 0, "UNKNOWN": 0, "INVALID": 0}
        self._exits: Counter[ExitCode] = Counter()
        self._numbers: Counter[str] = Counter()
        self._sim_ms = 0  # whole numbers have one sum, whoever adds up which runs
        self._anomalies: dict[tuple[str, str], _Found] = {}
        self._faults: dict[str, Counter[str]] = {}
        self._signatures: set[str] = set()
        self._goals = GoalCounts()

    def add(self, summary: Summary) -> None:
        """Count a run."""
        self._verdicts[summary.verdict] += 1
        self._exits[summary.exit_code] += 1
        self._numbers.update(runs=1, live=int(summary.live is True), not_live=int(summary.live is False))
        self._numbers.update(laboratory_failed=int(summary.outcome == "harness-fault"))
        self._numbers.update({name: getattr(summary, name) for name in _SUMMED})
        self._sim_ms += _ms(summary.sim_seconds)
        acting = Counter(fault.kind for fault in summary.faults if fault.acted)
        for kind, checker in dict.fromkeys((a.kind, a.checker) for a in summary.anomalies):
            self._anomalies.setdefault((kind, checker), _Found(summary.seed, summary.repeat)).add(1, acting)
        for fault in summary.faults:
            self._add_fault(fault.kind, runs=int(fault.acted > 0), begun=fault.begun, acted=fault.acted)
        self._signatures.update({summary.signature} - {""})
        self._goals.add(summary)

    def add_tally(self, part: Tally) -> None:
        """Count the runs of a tally."""
        for verdict, runs in part.verdicts.items():
            self._verdicts[verdict] += runs
        self._exits.update(part.exits)
        self._numbers.update({name: getattr(part, name) for name in (*_SUMMED, *_RUNS)})
        self._sim_ms += _ms(part.sim_seconds)
        for anomaly in part.anomalies:
            found = self._anomalies.setdefault((anomaly.kind, anomaly.checker), _Found(anomaly.first_seed, anomaly.repeat))
            found.add(anomaly.runs, anomaly.faults)
        for fault in part.faults:
            self._add_fault(fault.kind, runs=fault.runs, begun=fault.begun, acted=fault.acted)
        self._signatures.update(part.signatures)
        self._goals.add_counted(part.reached)

    def _add_fault(self, kind: str, *, runs: int, begun: int, acted: int) -> None:
        self._faults.setdefault(kind, Counter()).update(runs=runs, begun=begun, acted=acted)

    def told(self, goals: Sequence[str]) -> Tally:
        """The tally of what was added."""
        return Tally(
            **{name: self._numbers[name] for name in (*_SUMMED, *_RUNS)},
            verdicts=self._verdicts,
            exits={code: self._exits[code] for code in sorted(self._exits)},
            sim_seconds=self._sim_ms / 1000,
            anomalies=tuple(
                AnomalyTally(
                    kind=kind,
                    checker=checker,
                    runs=found.runs,
                    first_seed=found.first_seed,
                    repeat=found.repeat,
                    faults=dict(sorted(found.acting.items())),
                )
                for (kind, checker), found in sorted(self._anomalies.items(), key=lambda item: item[0])
            ),
            faults=tuple(
                FaultTally(kind=kind, runs=counts["runs"], begun=counts["begun"], acted=counts["acted"])
                for kind, counts in sorted(self._faults.items())
            ),
            signatures=tuple(sorted(self._signatures)),
            reached=self._goals.table(goals),
        )


class _Found:
    """The runs in which one kind of anomaly was found."""

    def __init__(self, first_seed: int | None, repeat: str) -> None:
        self.first_seed, self.repeat = first_seed, repeat
        self.runs = 0
        self.acting: Counter[str] = Counter()  # runs, by kind of fault that acted

    def add(self, runs: int, acting: Mapping[str, int]) -> None:
        self.runs += runs
        self.acting.update(acting)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
