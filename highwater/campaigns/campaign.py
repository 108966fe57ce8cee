"""A campaign runs many seeds and counts verdicts, anomalies, faults and the first seed of each anomaly.

A campaign is a function of its seeds; only wall seconds and the order of completion depend on the machine. After Ctrl-C or a
limit the finished runs are reported with the reason; a campaign with missing seeds is never VALID.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from functools import partial
from shlex import quote
from time import perf_counter
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from highwater.campaigns.load import Load, words_of_load
from highwater.campaigns.marks import NONE, Marks
from highwater.campaigns.tally import Tally, tally
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode, worst
from highwater.plans.derive import MIXED, NO_WISHES, PLAIN, Wishes, as_documented, derivation_of, derive
from highwater.plans.plan import Plan
from highwater.plans.scaled import own_topics
from highwater.plans.systems import REFERENCE, OwnJars, SystemSpec, described_system
from highwater.rig.backend import BackendName
from highwater.run_folder import temporary_folder
from highwater.runs.provenance import Build
from highwater.runs.run import Keep, backend_named
from highwater.runs.summary import Summary, of_failure
from highwater.runs.workers import Task, encode_task, perform_encoded
from history.errors import NOT_JSON
from history.fault_kinds import family_of
from nemesis.capability import performable, refusals
from pipeline.blocks import Header
from pipeline.errors import PipelineError
from pipeline.items import Item, Job
from pipeline.ledger import Row
from pipeline.work import perform


class Performer(Protocol):
    """`pipeline.work.perform`, with the processes or the Spark session that it uses."""

    def __call__(
        self, items: Iterable[Item], job: Job, *, on_row: Callable[[Row], None], on_block: Callable[[Header], None]
    ) -> None:
        """Do the items that the job's ledger does not hold."""


INTERRUPTED = "interrupted"  # why seeds are missing after Ctrl-C


class Request(Load, frozen=True, kw_only=True):
    """The command-line options of a run or campaign; together with a seed they give a plan."""

    protocol: str = "safe"
    faults: tuple[str, ...] = ()
    backend: BackendName = "sim"
    system: str = ""  # "kafka:3.9.1"; empty: the reference
    described: str = ""  # the file that describes the user's cluster, for the system "external"
    jars: OwnJars | None = None  # a build of the user's own, for the system "kafka"
    client: str = ""  # "java:4.1.0"; empty: librdkafka

    @property
    def spec(self) -> SystemSpec:
        """The system; the reference if none is named. UsageError for a file, build or version that its system does not take."""
        return described_system(self.system or REFERENCE, self.described, self.jars)

    @property
    def foreign(self) -> bool:
        """Whether it is of a system other than the reference."""
        return self.spec.name != REFERENCE

    @property
    def words(self) -> str:
        """The options that name the system, with a space before each; empty for the reference."""
        named = (("--system", self.system), ("--with", self.described), ("--jars", self.jars.path if self.jars else ""))
        return "".join(f" {option} {quote(value)}" for option, value in named if value)

    @property
    def options(self) -> str:
        """The options that name the system and the clients, with a space before each."""
        return self.words + (f" --client {quote(self.client)}" if self.client else "")

    def command(self, seed: int) -> str:
        """The command line that repeats the run of one seed."""
        parts = [f"highwater run --seed {seed} --derivation {derivation_of(foreign=self.foreign)}"]
        parts += [f"--protocol {self.protocol}"] if self.protocol != "safe" else []
        parts += [f"--faults {','.join(self.faults)}"] if self.faults else []
        parts += words_of_load(self)
        parts += [self.options.strip()] if self.options else []
        parts += [f"--backend {self.backend}"] if self.backend != ("process" if self.system else "sim") else []
        return " ".join(parts)

    def plan(self, seed: int) -> Plan:
        """The plan of one seed. PlanError for an unknown protocol, fault, profile or workload, UsageError if no fault can act.

        Windows of families and mixes that the backend cannot perform are dropped; a kind given by name is kept and refused later.
        So are windows of messages that the system does not have.
        """
        if self.backend == "sim" and "message" in self.faults:
            raise UsageError("faults message: the simulator cannot pick single messages; name a system with --system")
        alike = self.settings == "alike"
        if alike and self.described:
            raise UsageError("--settings alike is for brokers that highwater starts; those of the user's cluster have their own")
        if self.words:
            # A simulated campaign needs no real backend.
            from highwater.backends.real.systems.registry import bearable, fitted, put_on, size_of
        plan = derive(
            seed,
            wishes=Wishes(brokers=size_of(self.spec), alike=alike) if self.words else replace(NO_WISHES, alike=alike),
            protocol=self.protocol,
            faults=self.faults,
            profile=self.profile,
            seconds=self.seconds,
            workload=PLAIN if self.workload == MIXED and self.backend != "sim" else self.workload,
            foreign=self.foreign,
        )
        plan = as_documented(plan) if self.settings == "document" else plan
        plan = own_topics(plan) if alike else plan
        plan = self.adapted(fitted(put_on(plan, self.spec)) if self.words else plan)
        if self.foreign:
            there = bearable(plan, plan.schedule)
            schedule = tuple(window for window in plan.schedule if window in there or family_of(window.kind) != "message")
            plan = replace(plan, schedule=schedule)
        can = performable(self.backend, plan.schedule)
        can = bearable(plan, can) if self.words else can
        return replace(plan, schedule=tuple(window for window in plan.schedule if window in can or window.kind in self.faults))

    def adapted(self, plan: Plan) -> Plan:
        """The plan with the client library of this request, and with the scrapes that it asks for."""
        plan = replace(plan, workload=replace(plan.workload, client=self.client)) if self.client else plan
        return replace(plan, metrics_ms=self.metrics) if self.metrics is not None else plan

    def check(self, seeds: Sequence[int]) -> None:
        """Raise PlanError or UsageError if a run of these seeds would be refused."""
        if self.client or self.metrics is not None or self.spec.starts:  # which the backend refuses for all seeds or for none
            refusal = backend_named(self.backend).refuse(self.plan(seeds[0]))
            if refusal is not None:
                raise UsageError(refusal)
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
    until: Callable[[Summary], str | None] | None = None  # why the campaign stops after this run; None: it goes on


class Campaign(Struct, frozen=True, kw_only=True):
    """The finished runs of a campaign, in the order in which they were asked for."""

    wanted: int
    summaries: Collection[Summary]
    tally: Tally
    stopped: str | None = None  # why seeds are missing
    wall_seconds: float = 0.0


def run_campaign(
    tasks: Iterable[Task],
    *,
    wanted: int,
    jobs: int,
    limits: Limits,
    on_summary: Callable[[Summary], None] = lambda summary: None,
    deadline_s: float | None = None,
) -> Campaign:
    """Perform tasks in worker processes until all have ended, a limit is reached or Ctrl-C is pressed; keeps no ledger.

    Runs are seen and counted in the order of the tasks, so the runs up to a limit are the same with any number of workers. A run
    that is not ready `deadline_s` after its start is a failure of the harness.
    """
    start = perf_counter()
    begun: dict[str, Task] = {}
    early: dict[str, Summary] = {}  # runs that ended before an earlier one
    done: list[Summary] = []

    def items() -> Iterator[Item]:
        for number, task in enumerate(tasks):
            key = f"{number:06}"
            begun[key] = task
            yield Item(key, encode_task(task))

    def finished(row: Row) -> Iterator[Summary]:
        task = begun[row.key]
        early[row.key] = summary_of(row, task.plan.name, task.plan.seed, task.plan.protocol, task.backend, repeat=task.repeat)
        while (key := f"{len(done):06}") in early:
            del begun[key]
            done.append(early.pop(key))
            on_summary(done[-1])
            yield done[-1]

    with temporary_folder("ledger") as ledger:
        job = Job(function=perform_encoded, ledger=str(ledger), deadline_s=deadline_s)
        stopped = perform_until(items(), job, finished, Watch(limits), performer=partial(perform, jobs=jobs))
    return Campaign(
        wanted=wanted,
        summaries=tuple(done),
        tally=tally(done),
        stopped=stopped if len(done) < wanted else None,
        wall_seconds=round(perf_counter() - start, 1),
    )


def result_of(row: Row, repeat: str | None) -> Summary:
    """The summary in the row of a finished item; `repeat` is the command that repeats its run, if its key tells that.

    Raises ValueError where the row holds none, or that of another run.
    """
    try:
        summary = msgspec.json.decode(row.result, type=Summary)
    except NOT_JSON as error:
        raise ValueError(f"the row of its run holds no summary: {error}") from error
    if repeat not in (None, summary.repeat):
        raise ValueError(f"the row of another run: {summary.repeat}")
    return summary


def tally_of_block(header: Header) -> Tally:
    """What the worker of a block counted. Raises PipelineError where it did not count."""
    try:
        return msgspec.json.decode(header.total, type=Tally)
    except NOT_JSON as error:
        raise PipelineError(f"block {header.block}: no tally of runs: {error}") from error


def summary_of(row: Row, plan: str, seed: int | None, protocol: str, backend: BackendName, *, repeat: str) -> Summary:
    """The summary of a finished item. An item that has no result is a run in which the harness failed."""
    if row.state == "done":
        return msgspec.json.decode(row.result, type=Summary)
    failed = of_failure(plan, seed=seed, protocol=protocol, backend=backend, failure=f"{plan}: {row.words}", repeat=repeat)
    return replace(failed, wall_seconds=row.seconds)


def perform_until(
    items: Iterable[Item],
    job: Job,
    finished: Callable[[Row], Iterable[Summary]],
    watch: "Watch",
    *,
    performer: Performer,
    finished_block: Callable[[Header], Tally] = tally_of_block,
) -> str | None:
    """Do the items until none is left, a limit is reached or Ctrl-C is pressed; returns why it ended early.

    `finished` gets each new row and yields the summaries of the runs that are to be counted now; `finished_block` gets the header
    of each new block.
    """

    def count_finished(row: Row) -> None:
        for summary in finished(row):
            watch.count(summary)
            if watch.reached is not None:
                raise _LimitError

    def count_block(header: Header) -> None:
        watch.count_block(finished_block(header))
        if watch.reached is not None:
            raise _LimitError

    try:
        performer(items, job, on_row=count_finished, on_block=count_block)
    except _LimitError:
        return watch.reached
    except KeyboardInterrupt:
        return INTERRUPTED
    return None


class _LimitError(Exception):
    """The campaign reached one of its limits."""


class Watch:
    """Whether a campaign has reached one of its limits, and which."""

    def __init__(self, limits: Limits) -> None:
        self.reached: str | None = None
        self._limits = limits
        self._invalid = 0
        self._start = perf_counter()

    def count(self, summary: Summary) -> None:
        """Count a finished run."""
        self._count_and_check_limits(int(summary.verdict == "INVALID"), {anomaly.kind for anomaly in summary.anomalies})
        if self.reached is None and self._limits.until is not None:
            self.reached = self._limits.until(summary)

    def count_block(self, block: Tally) -> None:
        """Count the finished runs of a block, for all limits but `until`."""
        self._count_and_check_limits(block.verdicts["INVALID"], {anomaly.kind for anomaly in block.anomalies})

    def _count_and_check_limits(self, invalid: int, kinds: Set[str]) -> None:
        """Count a run or a block, and say in `reached` which limit stops the campaign."""
        limits = self._limits
        seconds = perf_counter() - self._start
        self._invalid += invalid
        if limits.invalid_runs is not None and self._invalid >= limits.invalid_runs:
            self.reached = f"stopped after {self._invalid} INVALID run{'s' if self._invalid > 1 else ''}"
        elif limits.anomaly in kinds:
            self.reached = f"stopped after the first {limits.anomaly}"
        elif limits.wall_seconds is not None and seconds >= limits.wall_seconds:
            self.reached = f"stopped after {seconds:.0f} s"


def exit_code(campaign: Campaign, *, unknown_allowed_percent: int, marks: Marks = NONE) -> ExitCode:
    """The exit code of a campaign: the worst of its runs, without those of an ignored cause. Some UNKNOWN runs are allowed;
    missing runs are not.

    If no run is missing, a required goal that no run reached is a failure of the harness.
    """
    codes = Counter(campaign.tally.exits)
    runs = campaign.tally.runs
    if any(marks.ignores(signature) for signature in campaign.tally.signatures):  # else no run need be looked at
        codes.subtract(summary.exit_code for summary in campaign.summaries if marks.ignores(summary.signature))
        codes = +codes
    reasons: list[ExitCode] = [code for code in codes if code is not ExitCode.UNKNOWN]
    if 100 * codes[ExitCode.UNKNOWN] > unknown_allowed_percent * runs or runs < campaign.wanted or not runs:
        reasons.append(ExitCode.UNKNOWN)
    if runs >= campaign.wanted and campaign.tally.missed:
        reasons.append(ExitCode.LABORATORY_FAILED)
    return worst(reasons)
