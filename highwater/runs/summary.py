"""The summary of one run: `run --json` prints it, a campaign counts it, an index page lists it.

It follows from the plan, the history and the verdict; only the measured seconds differ when a simulated run is repeated.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import polars as pl
from msgspec import UNSET, Struct, UnsetType

from checkers.causes.cause import Cause, cause_of
from checkers.causes.steps import leader_changes
from checkers.causes.telling import clause
from checkers.engine.verdict import Validity, Verdict
from highwater.behaviour.rows import Row
from highwater.coverage.branches import Reach
from highwater.coverage.signs import Sign
from highwater.coverage.sources import SOURCES
from highwater.exit_codes import WORDS, ExitCode, of_verdict
from highwater.plans.plan import Plan, is_foreign, system_of
from highwater.plans.systems import words_of
from highwater.rig.backend import REPEATABLE
from highwater.runs.findings import VALIDITY_NAMES, FoundAnomaly, ValidityName, by_kind, told_then_worst
from highwater.runs.hazards import Shown, hazard_of
from history.event import ClusterEvent
from history.history import History
from history.manifest import FaultCount, MessageCount, Outcome
from history.op import OpType
from reports.rows import event_line
from workloads.client import RequestF

CLIENTS = "clients"  # kind of the error counts that clients report, of any origin


class Done(Struct, frozen=True, kw_only=True):
    """How many operations of one kind, such as produce, completed with OK in a run."""

    f: str
    count: int


class Summary(Struct, frozen=True, kw_only=True):
    """The numbers and the verdict of one run. `ops` counts calls of clients; `acked` the acknowledged produce calls.

    In a run of transactions, `acked` counts those that certainly committed a send.
    """

    seed: int | None
    protocol: str
    system: str | UnsetType = UNSET  # name and version, of a run on another system than the reference
    verdict: ValidityName
    live: bool | None
    excused: int = 0  # lost records that a wound excuses
    cause: str = ""  # in one sentence; empty for a run that is VALID and live, or UNKNOWN
    origin: str = ""  # the row with which it began, in words, and the function of the reference that makes such rows
    anomalies: tuple[FoundAnomaly, ...] = ()  # the one that `cause` tells, then worst first
    signature: str = ""  # of the cause (docs/triage.md)
    unchecked: tuple[str, ...] = ()
    not_live: tuple[str, ...] = ()  # first what `cause` tells
    digest: str = ""
    ops: int = 0
    acked: int = 0
    faults: tuple[FaultCount, ...] = ()
    messages: tuple[MessageCount, ...] = ()  # messages that reached a process; kind CLIENTS: errors that calls ended with
    done: tuple[Done, ...] = ()  # operations of administrators
    idempotent: int = 0  # acknowledged produce calls of idempotent producers
    legacy_brokers: int = 0  # with the inter-broker protocol before KIP-343
    leader_changes: int = 0
    recovery_elections: int = 0  # docs/promise.md VAC-3
    elections_from_elr: int = 0
    wounds_counted_on: int = 0  # wounds of replicas that the promise counts on
    events: int = 0  # handled by the backend, not rows
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0  # of performing and judging
    cpu_seconds: float = 0.0  # of performing, judging and storing, in the worker's process
    store: str | None = None  # the run's folder, relative to the store
    report: str | None = None  # its page, relative to the store
    plan: str
    plan_digest: str
    backend: str
    outcome: Outcome
    hazard: Shown | UnsetType = UNSET  # whether the run met its plan's hazard, where the plan has one
    failure: str | None = None  # of the harness, in words
    crash: str | None = None  # an exception of the protocol that ended the run: where in `reference/`, and its words
    repeat: str  # the command that repeats it
    reach: Reach | UnsetType = UNSET  # with --branches and --guided
    signs: tuple[Sign, ...] | UnsetType = UNSET  # of behaviour, with --guided on another system
    behaviour: tuple[Row, ...] | UnsetType = UNSET  # until `chaos` has compared it
    taken: tuple[str, ...] | UnsetType = UNSET  # branches of the watched functions, until `chaos` has counted them

    @property
    def name(self) -> str:
        """What this run is called in the terminal, in JUnit, on pages and by `highwater serve`."""
        mix = f" with {self.mix}" if self.mix else ""
        return f"{self.plan} on {self.played}{mix}"

    @property
    def played(self) -> str:
        """The system that was tested, or the protocol of the reference."""
        return self.protocol if self.system is UNSET else self.system

    @property
    def mix(self) -> str:
        """The fault kinds, families or mixes that were asked for; "" for the default ones, or those of a plan."""
        match = re.search(r"--faults (\S+)", self.repeat)
        return "" if match is None else match[1]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code for this run alone."""
        if self.crash is not None:
            return ExitCode.INVALID
        validity = Validity.UNKNOWN if self.vacuous else Validity[self.verdict]
        return of_verdict(validity, live=self.live, laboratory_failed=self.outcome == "harness-fault")

    @property
    def vacuous(self) -> bool:
        """Whether the run was judged VALID and did not meet its plan's hazard: it shows nothing."""
        return self.verdict == "VALID" and self.hazard == "not shown"

    @property
    def shown_verdict(self) -> ValidityName | None:
        """The verdict in lists of runs: INVALID too if the protocol crashed, None if only the harness failed."""
        if self.crash is not None:
            return "INVALID"
        return None if self.outcome == "harness-fault" and self.verdict != "INVALID" else self.verdict

    @property
    def words(self) -> str:
        """The result of a run in words: verdict, liveness and failure of the harness, for example `VALID, live`."""
        live = {True: "live", False: "not live", None: "liveness not judged"}[self.live]
        if self.crash is not None:
            return f"{self.verdict}, the protocol crashed"
        failed = f", {WORDS[ExitCode.LABORATORY_FAILED]}" if self.outcome == "harness-fault" else ""
        vacuous = ", vacuous (the plan's hazard was not met)" if self.vacuous else ""
        return f"{self.verdict}, {live}{vacuous}{failed}"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run is not VALID and live, worst first: a crash, an anomaly of each kind, a failure, what was missing."""
        if self.crash is not None:
            return (f"the protocol crashed at {self.crash}", *by_kind(self.anomalies), *self.not_live)
        failed = () if self.failure is None else (self.failure,)
        return (*by_kind(self.anomalies), *failed, *self.not_live, *self.unchecked)


def told_first_of(not_live: Sequence[str], cause: Cause) -> tuple[str, ...]:
    """What a cluster lacks, and first what its cause tells: headline and cause are of one partition."""
    return tuple(sorted(not_live, key=lambda words: words != cause.words))


def origin_words(history: History, cause: Cause) -> str:
    """The row with which a failure began, and the function of the reference that makes such rows; empty where none is known."""
    row = None if cause.origin is None else history.row(cause.origin)
    if row is None:
        return ""
    first = row[0] if isinstance(row, tuple) else row
    source = SOURCES.get(event_line(first).kind) if isinstance(first, ClusterEvent) and history.manifest.system is None else None
    by = "" if source is None else f", by {' or '.join(source.functions)}"
    return f"row {first.index}: {clause(first).words}{by}"


def next_commands(summary: Summary, folder: Path | str) -> Iterator[str]:
    """The commands that look further into a stored run that failed: `shrink`, and `inspect` where its origin is known."""
    if summary.exit_code not in (ExitCode.INVALID, ExitCode.NOT_LIVE):
        return
    if summary.backend == "sim":
        yield f"highwater shrink {folder}"
    if summary.origin and summary.backend in REPEATABLE:
        yield f"highwater inspect {folder} --{summary.origin.partition(':')[0]}"  # the words begin with "row 7:"


def summarize(plan: Plan, history: History, verdict: Verdict, *, repeat: str, wall_seconds: float) -> Summary:
    """Make the summary of a judged run; the paths of stored files are added later."""
    manifest = history.manifest
    cause = cause_of(history, verdict)
    cause_anomaly = None if cause is None else cause.anomaly
    calls = history.operations_frame.filter(pl.col("slot") == 0)
    done = calls.filter(pl.col("type") == OpType.OK.value)
    return Summary(
        seed=plan.seed,
        protocol=plan.protocol,
        system=words_of(system_of(plan)) if is_foreign(plan) else UNSET,
        verdict=VALIDITY_NAMES[verdict.validity],
        live=verdict.live,
        excused=len(verdict.excused),
        cause="" if cause is None else cause.sentence,
        origin="" if cause is None else origin_words(history, cause),
        anomalies=tuple(
            FoundAnomaly(kind=a.kind, checker=a.checker, key=a.key, words=a.words)
            for a in told_then_worst(verdict.anomalies, cause_anomaly)
        ),
        unchecked=verdict.unchecked,
        not_live=verdict.not_live if cause is None else told_first_of(verdict.not_live, cause),
        digest=manifest.digest,
        ops=calls.filter(pl.col("type") == OpType.INVOKE.value).height,
        acked=done.filter(pl.col("f") == "produce").height + verdict.counts.get("transactions", 0),
        faults=manifest.faults,
        messages=(*manifest.messages, *_reported(calls)),
        done=_administered(done),
        idempotent=done.filter((pl.col("f") == "produce") & (pl.col("delivery") == "once")).height,
        legacy_brokers=len(plan.cluster.legacy_brokers),
        leader_changes=leader_changes(history.events_frame),
        recovery_elections=verdict.counts.get("recovery_elections", 0),
        elections_from_elr=verdict.counts.get("elections_from_elr", 0),
        wounds_counted_on=verdict.counts.get("wounds_counted_on", 0),
        events=manifest.events_handled,
        sim_seconds=manifest.sim_seconds,
        wall_seconds=round(wall_seconds, 3),
        plan=plan.name,
        plan_digest=manifest.plan_digest,
        backend=manifest.backend,
        outcome=manifest.outcome,
        hazard=hazard_of(plan, history, accused=bool(verdict.anomalies)),
        repeat=repeat,
    )


def _administered(done: pl.DataFrame) -> tuple[Done, ...]:
    counted = done.filter(pl.col("f").is_in(get_args(RequestF))).group_by("f").len().sort("f")
    return tuple(Done(f=f, count=count) for f, count in counted.iter_rows())


def _reported(calls: pl.DataFrame) -> tuple[MessageCount, ...]:
    """The errors that calls of clients ended with, including the client's own such as timeouts."""
    counted = calls.drop_nulls("error").group_by("error").len().sort("error")
    return tuple(MessageCount(kind=CLIENTS, error=error, count=count) for error, count in counted.iter_rows())


def crash_signature(where: str) -> str:
    """The cause of runs that one exception ended: its place and type without its words, which name records and offsets."""
    return f"crash/{': '.join(where.split(': ')[:2])}"


def of_failure(
    plan: str, *, seed: int | None, protocol: str, backend: str, failure: str, repeat: str, crash: str | None = None
) -> Summary:
    """The summary of a run without a history because the harness or the protocol failed: UNKNOWN. `plan` is the plan's name."""
    return Summary(
        seed=seed,
        protocol=protocol,
        verdict="UNKNOWN",
        live=None,
        unchecked=(failure,),
        plan=plan,
        plan_digest="",
        backend=backend,
        outcome="harness-fault",
        failure=failure,
        crash=crash,
        signature="" if crash is None else crash_signature(crash),
        repeat=repeat,
    )
