"""A campaign runs many seeds of one protocol and counts verdicts, anomalies, faults and the first seed of each anomaly.

A campaign is a function of its seeds; only wall seconds and the order of completion depend on the machine. After Ctrl-C or a
limit the finished runs are reported with the reason; a campaign with missing seeds is never VALID.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

from msgspec import Struct
from msgspec.structs import replace

from highwater.campaigns.goals import Reached, table
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode, worst
from highwater.plans.derive import MIXED, PLAIN, derive
from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.runs.run import BackendName, Keep
from highwater.runs.summary import Summary, ValidityName
from highwater.runs.workers import Done, Task, perform_all
from nemesis.capability import performable, refusals
from nemesis.profiles import ProfileName

INTERRUPTED = "interrupted"  # why seeds are missing after Ctrl-C


class Request(Struct, frozen=True, kw_only=True):
    """The command-line options of a run or campaign; together with a seed they give a plan."""

    protocol: str = "safe"
    faults: tuple[str, ...] = ()
    profile: ProfileName = "within"
    seconds: int | None = None
    workload: str = MIXED
    backend: BackendName = "sim"

    def command(self, seed: int) -> str:
        """The command line that repeats the run of one seed."""
        parts = [f"highwater run --seed {seed}"]
        parts += [f"--protocol {self.protocol}"] if self.protocol != "safe" else []
        parts += [f"--faults {','.join(self.faults)}"] if self.faults else []
        parts += [f"--profile {self.profile}"] if self.profile != "within" else []
        parts += [f"--seconds {self.seconds}"] if self.seconds is not None else []
        parts += [f"--workload {self.workload}"] if self.workload != MIXED else []
        parts += [f"--backend {self.backend}"] if self.backend != "sim" else []
        return " ".join(parts)

    def plan(self, seed: int) -> Plan:
        """The plan of one seed. PlanError for an unknown protocol, fault, profile or workload.

        Windows of families and mixes that the backend cannot perform are dropped; a kind given by name is kept and refused later.
        """
        plan = derive(
            seed,
            protocol=self.protocol,
            faults=self.faults,
            profile=self.profile,
            seconds=self.seconds,
            workload=PLAIN if self.workload == MIXED and self.backend != "sim" else self.workload,
        )
        can = performable(self.backend, plan.schedule)
        return replace(plan, schedule=tuple(window for window in plan.schedule if window in can or window.kind in self.faults))

    def check(self, seeds: Sequence[int]) -> None:
        """Raise PlanError or UsageError if a run of these seeds would be refused."""
        for seed in seeds[:1] if self.backend == "sim" else seeds:
            reason = next(iter(refusals(self.backend, self.plan(seed).schedule)), None)
            if reason is not None:
                raise UsageError(f"seed {seed}: {reason}")

    def task(self, seed: int, *, build: Build, keep: Keep) -> Task:
        """The task that makes a worker process perform and judge this seed (`runs.workers`)."""
        plan = self.plan(seed)
        return Task(plan=plan, repeat=self.command(seed), build=build, keep=keep, backend=self.backend)


class Limits(Struct, frozen=True, kw_only=True):
    """Limits at which a campaign stops before its last seed; None means no such limit."""

    invalid_runs: int | None = None
    anomaly: str | None = None  # a kind: stop after the first run with it
    wall_seconds: float | None = None


class Campaign(Struct, frozen=True, kw_only=True):
    """The finished runs of a campaign, in the order of the seeds."""

    protocol: str
    wanted: int
    summaries: tuple[Summary, ...]
    stopped: str | None = None  # why seeds are missing
    goals: tuple[str, ...] = ()  # that the runs together must reach (highwater.campaigns.goals)
    wall_seconds: float = 0.0


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
    reached: tuple[Reached, ...]

    @property
    def missed(self) -> tuple[str, ...]:
        """The required goals (situations, see `campaigns.goals`) that no run of the campaign reached."""
        return tuple(goal.name for goal in self.reached if goal.missed)


def run_campaign(
    tasks: Iterator[Task], *, wanted: int, jobs: int, limits: Limits, seen: Callable[[Done], None], goals: tuple[str, ...] = ()
) -> Campaign:
    """Perform the tasks of a campaign in worker processes until all have ended, a limit is reached or Ctrl-C is pressed.

    `seen` is called for each finished task.
    """
    start = perf_counter()
    done: list[Done] = []
    stopped: str | None = None
    results = perform_all(tasks, jobs=jobs)
    try:
        for finished in results:
            done.append(finished)
            seen(finished)
            stopped = _reached(limits, done, perf_counter() - start)
            if stopped is not None:
                break
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    finally:
        results.close()
    summaries = tuple(d.summary for d in sorted(done, key=lambda d: d.position))
    missing = stopped if len(summaries) < wanted else None
    protocol = summaries[0].protocol if summaries else ""
    return Campaign(
        protocol=protocol,
        wanted=wanted,
        summaries=summaries,
        stopped=missing,
        goals=goals,
        wall_seconds=round(perf_counter() - start, 1),
    )


def _reached(limits: Limits, done: Sequence[Done], wall_seconds: float) -> str | None:
    invalid = sum(d.summary.verdict == "INVALID" for d in done)
    if limits.invalid_runs is not None and invalid >= limits.invalid_runs:
        return f"stopped after {invalid} INVALID run{'s' if invalid > 1 else ''}"
    if limits.anomaly is not None and any(a.kind == limits.anomaly for a in done[-1].summary.anomalies):
        return f"stopped after the first {limits.anomaly}"
    if limits.wall_seconds is not None and wall_seconds >= limits.wall_seconds:
        return f"stopped after {wall_seconds:.0f} s"
    return None


def tally(summaries: Sequence[Summary], goals: Sequence[str] = ()) -> Tally:
    """Count the verdicts, faults, anomalies and reached goals of the runs of a campaign."""
    verdicts: dict[ValidityName, int] = {"VALID": 0, "UNKNOWN": 0, "INVALID": 0}
    for summary in summaries:
        verdicts[summary.verdict] += 1
    return Tally(
        runs=len(summaries),
        verdicts=verdicts,
        live=sum(s.live is True for s in summaries),
        not_live=sum(s.live is False for s in summaries),
        laboratory_failed=sum(s.outcome == "harness-fault" for s in summaries),
        excused=sum(s.excused for s in summaries),
        acked=sum(s.acked for s in summaries),
        leader_changes=sum(s.leader_changes for s in summaries),
        recovery_elections=sum(s.recovery_elections for s in summaries),
        elections_from_elr=sum(s.elections_from_elr for s in summaries),
        wounds_counted_on=sum(s.wounds_counted_on for s in summaries),
        sim_seconds=round(sum(s.sim_seconds for s in summaries), 1),
        anomalies=_anomalies(summaries),
        faults=_faults(summaries),
        reached=table(summaries, goals),
    )


def _anomalies(summaries: Sequence[Summary]) -> tuple[AnomalyTally, ...]:
    by_kind: dict[tuple[str, str], list[Summary]] = {}
    for summary in summaries:
        for key in dict.fromkeys((a.kind, a.checker) for a in summary.anomalies):
            by_kind.setdefault(key, []).append(summary)
    tallies = []
    for (kind, checker), runs in sorted(by_kind.items()):
        acting = Counter(f.kind for run in runs for f in run.faults if f.acted)
        first = runs[0]
        tallies.append(
            AnomalyTally(
                kind=kind,
                checker=checker,
                runs=len(runs),
                first_seed=first.seed,
                repeat=first.repeat,
                faults=dict(sorted(acting.items())),
            )
        )
    return tuple(tallies)


def _faults(summaries: Sequence[Summary]) -> tuple[FaultTally, ...]:
    begun: Counter[str] = Counter()
    acted: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for fault in (f for s in summaries for f in s.faults):
        begun[fault.kind] += fault.begun
        acted[fault.kind] += fault.acted
        runs[fault.kind] += fault.acted > 0
    return tuple(FaultTally(kind=k, runs=runs[k], begun=begun[k], acted=acted[k]) for k in sorted(begun))


def exit_code(campaign: Campaign, *, unknown_allowed_percent: int) -> ExitCode:
    """The exit code of a campaign: the worst of its runs. Some UNKNOWN runs are allowed; missing runs are not.

    If no run is missing, a required goal that no run reached is a failure of the harness.
    """
    codes = [s.exit_code for s in campaign.summaries]
    unknown = sum(code is ExitCode.UNKNOWN for code in codes)
    reasons: list[ExitCode] = [code for code in codes if code is not ExitCode.UNKNOWN]
    if 100 * unknown > unknown_allowed_percent * len(codes) or len(codes) < campaign.wanted or not codes:
        reasons.append(ExitCode.UNKNOWN)
    if len(codes) >= campaign.wanted and any(goal.missed for goal in table(campaign.summaries, campaign.goals)):
        reasons.append(ExitCode.LABORATORY_FAILED)
    return worst(reasons)


def folder_of(store: Path, *, protocol: str, first: int, last: int) -> Path:
    """The folder to which a campaign writes its index page, JUnit file and summaries."""
    return store / "campaigns" / f"{protocol}-{first}-{last}"
