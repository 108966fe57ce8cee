"""The `chaos` job checks that `safe` keeps the promise and that the harness still catches known-bad protocols.

    phase         what it performs
    corpus        the entries of the regression corpus on `safe`
    plans         every other stored plan (`corpus/plans`) on `safe`: most were written to break a known-bad protocol
    seeds         seeds on `safe`, over every fault mix: no run INVALID, all live
    guided        the guided search on `safe`, half as many runs: edited plans with all kinds of faults, patterns of known bugs
    known-bad     the corpus on its known-bad protocols; then seeds on some of them, until the known anomaly is found
    determinism   one seed in two processes with different PYTHONHASHSEED: the same digest
    containers    some corpus entries in containers, if a Docker engine answers; with CI=true an engine is required

The behaviour of the runs of `corpus` and `plans` is compared with the snapshot (`highwater.campaigns.behaviour`).

The runs of a phase and their order are fixed, whatever the number of workers. A known-bad protocol that is not caught is a
failure of the harness: a VALID then proves nothing.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, assert_never, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from highwater.behaviour.difference import Behaviour
from highwater.behaviour.snapshot import Recorded, recorded
from highwater.campaigns import corpus
from highwater.campaigns.campaign import INTERRUPTED, Campaign, Limits, Request, run_campaign
from highwater.campaigns.corpus import SAFE, Case, Expectation, Unread
from highwater.campaigns.generations import GENERATION, Planned, Search, shown_by
from highwater.campaigns.marks import NONE, Marks
from highwater.coverage.branches import Reach, names_in
from highwater.errors import HarnessError
from highwater.exit_codes import ExitCode, worst
from highwater.plans.derive import DERIVATION, PLAIN
from highwater.plans.text import plan_to_yaml
from highwater.rig.backend import BackendName
from highwater.runs.findings import ValidityName
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from history.errors import NOT_JSON
from history.store import write_file

Phase = Literal["corpus", "plans", "seeds", "guided", "known-bad", "determinism", "containers"]
PHASES: tuple[Phase, ...] = get_args(Phase)
RED = "stopped after the first red run"


class KnownBad(Struct, frozen=True, kw_only=True):
    """A known-bad protocol: one of the first `budget` seeds must show an anomaly of this kind."""

    protocol: str
    anomaly: str
    budget: int = 60
    faults: tuple[str, ...] = ()


# The seeds use these mixes in turn; the empty one means all default kinds of the profile.
MIXES: tuple[tuple[str, ...], ...] = (
    (),
    ("partitions",),
    ("isolate-long", "cut-peers-long", "cut-zookeeper-long"),
    ("crash-heavy",),
    ("zk-flap",),
    ("clocks",),
    ("network",),
    ("disk-slow", "disk-full", "dir-unreadable", "dir-file", "dir-failure"),
    ("step",),
    ("combined", "power-loss-unseen"),
)

# One for each checker that random faults can trigger within seconds; `corpus/` covers the rest of the catalogue.
KNOWN_BAD: tuple[KnownBad, ...] = (
    KnownBad(protocol="v3", anomaly="lost-write"),
    KnownBad(protocol="article", anomaly="lost-write"),
    KnownBad(protocol="unclean-election", anomaly="unclean-election"),
    KnownBad(protocol="truncate-to-hw", anomaly="strong-isr"),
    KnownBad(protocol="isr-eager", anomaly="weak-isr"),
    KnownBad(protocol="hw-not-monotone", anomaly="hw-regressed"),
    KnownBad(protocol="consumers-read-to-leo", anomaly="inconsistent-offsets"),
)


# Corpus entries that containers perform in time, each on a protocol with the bug and on `safe`.
IN_CONTAINERS: tuple[tuple[str, str], ...] = (
    ("jepsen-2013", "unclean-election"),
    ("jepsen-2013", "safe"),
    ("kip112-leader", "offline-replica-recreated"),
    ("kip112-leader", "safe"),
)


SEEDS_TO_A_GUIDED_RUN = 2
_GUIDED = Request(faults=("all",))
_IS_SAFE = Expectation(protocol=SAFE, verdict="VALID", live=True)


class Check(Struct, frozen=True, kw_only=True):
    """One condition that a part of the chaos job checks; `complaint` says how it is violated, empty if it holds.

    `met` is None for a run that is UNKNOWN where some may be, or failed for a cause that is ignored.
    """

    name: str
    met: bool | None = True
    code: ExitCode = ExitCode.VALID
    complaint: str = ""
    wall_seconds: float = 0.0
    run: int | None = None  # number of its run among those of the part; None: it is about several runs
    plan: str = ""  # file
    repeat: str = ""


class Part(Struct, frozen=True, kw_only=True):
    """The result of one part of the chaos job: its checks and the runs that were performed for them."""

    name: str
    checks: tuple[Check, ...]
    summaries: tuple[Summary, ...] = ()
    expected: tuple[bool | None, ...] = ()  # for each run: whether it went as it had to; None: it had to be VALID and live
    stopped: str | None = None  # why runs are missing
    code: ExitCode

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended this part of the chaos job; if so, the next parts are not started."""
        return self.stopped == INTERRUPTED


class RunLine(Struct, frozen=True, kw_only=True):
    """One run as a line of `chaos --runs FILE`; `protocol` is the system, where another than the reference is tested."""

    part: str
    name: str  # of the corpus entry or the plan
    protocol: str
    expected: ValidityName | None  # None: no verdict is expected of this run alone
    verdict: ValidityName
    live: bool | None
    red: bool  # whether this run alone makes the job fail
    kinds: tuple[str, ...]  # of anomalies, without repetitions
    crash: str | None  # of the protocol
    failure: str | None  # of the harness; also given for a run that crashed or met its deadline
    digest: str
    plan_digest: str
    acked: int
    seed: int | None
    cpu_seconds: float
    wall_seconds: float
    repeat: str
    behaviour: Recorded | UnsetType = UNSET  # of the phases corpus, plans and seeds


class Means(Struct, frozen=True, kw_only=True):
    """Settings that all parts of the chaos job share. `on_line` is called for each run, in the order of the runs."""

    build: Build
    keep: Keep
    jobs: int
    on_line: Callable[[RunLine], None]
    fail_fast: bool = False  # the first red run ends its part
    deadline_s: float | None = None  # of one run
    marks: Marks = NONE
    on_behaviour: Callable[[str, Behaviour], None] = lambda name, behaviour: None  # of corpus, plans and seeds: phase/name
    watched: frozenset[str] = frozenset()  # changed functions: which of their branches the runs on `safe` take
    on_taken: Callable[[Iterable[str]], None] = lambda branches: None  # of each such run


class Inputs(Struct, frozen=True, kw_only=True):
    """What the chaos job performs: entries of the corpus, other stored plans on `safe`, seeds."""

    entries: tuple[Case, ...]
    plans: tuple[Case, ...]
    unread: tuple[Unread, ...] = ()  # files among the plans that are none
    seeds: range
    unknown_allowed: int  # percentage of the seeds that may be UNKNOWN


def _unread_part(unread: Sequence[Unread]) -> Part:
    """The part of the plan files that are no plans: each is a failed check, beside the runs of the others."""
    checks = [
        Check(
            name=f"{unread_case.name} not read",
            met=False,
            code=ExitCode.USAGE,
            complaint=unread_case.complaint,
            plan=str(unread_case.file),
            repeat=f"highwater run --plan {unread_case.file}",
        )
        for unread_case in unread
    ]
    return Part(name="plans not read", checks=tuple(checks), code=ExitCode.USAGE)


def parts_of(phase: Phase, inputs: Inputs, means: Means) -> list[Callable[[], Part]]:
    """The parts of one phase in order, not yet started."""
    first = inputs.seeds[0]
    match phase:
        case "corpus":
            safe = [case for case in inputs.entries if case.expectation.protocol == SAFE]
            return [partial(perform_cases, "corpus", safe, means, behaviour=True)]
        case "plans":
            performed = partial(perform_cases, "plans", inputs.plans, means, behaviour=True)
            return [performed, partial(_unread_part, inputs.unread)] if inputs.unread else [performed]
        case "seeds":
            seeds = cases_of(inputs.seeds)
            return [partial(perform_cases, "seeds", seeds, means, unknown_allowed=inputs.unknown_allowed, behaviour=True)]
        case "guided":
            return [partial(search, inputs.seeds, means, unknown_allowed=inputs.unknown_allowed)]
        case "known-bad":
            bad = [case for case in inputs.entries if case.expectation.protocol != SAFE]
            return [
                partial(perform_cases, "known-bad", bad, means),
                *(partial(catch, known_bad, first, means) for known_bad in KNOWN_BAD),
            ]
        case "determinism":
            return [partial(repeat_elsewhere, first)]
        case "containers":
            return [partial(in_containers, inputs.entries, means)]
        case _:
            assert_never(phase)


def cases_of(seeds: Sequence[int]) -> list[Case]:
    """The cases of seeds on `safe`, with the fault mixes in turn."""
    return [_case_of(seed, Request(faults=MIXES[number % len(MIXES)])) for number, seed in enumerate(seeds)]


def _case_of(seed: int, request: Request) -> Case:
    """The case that this seed's run keeps the promise."""
    plan = request.plan(seed)
    return Case(
        entry=plan.name,
        expectation=_IS_SAFE,
        plan=plan,
        repeat=request.command(seed),
    )


def search(seeds: range, means: Means, *, unknown_allowed: int) -> Part:
    """Perform the guided search on `safe` from the first of these seeds on, generation by generation.

    Each edited plan is stored before its run, so that a red line can name its file.
    """
    store = means.keep.store
    runs_wanted = len(seeds) // SEEDS_TO_A_GUIDED_RUN
    assert store is not None
    plans = Search(_GUIDED, first=seeds[0], runs=runs_wanted, generation=GENERATION)
    parts: list[Part] = []
    while planned := plans.planned():
        cases = [_case_of_planned(planned_run, store) for planned_run in planned]
        parts.append(perform_cases("guided", cases, means, unknown_allowed=unknown_allowed, branches=True))
        shown = [shown_by(summary) for summary in parts[-1].summaries]
        for reach in shown if means.watched else ():
            if isinstance(reach, Reach):
                means.on_taken(names_in(reach))
        if parts[-1].stopped is not None:
            break
        plans.learn(planned, shown)
    checks: list[Check] = []
    for part in parts:
        first = len(checks)
        checks += (replace(check, run=first + number) for number, check in enumerate(part.checks))
    return Part(
        name="guided",
        checks=tuple(checks),
        summaries=tuple(summary for part in parts for summary in part.summaries),
        expected=tuple(check.met for check in checks),
        stopped=parts[-1].stopped if parts else None,
        code=code_of(checks, wanted=runs_wanted, unknown_allowed=unknown_allowed),
    )


def _case_of_planned(planned: Planned, store: Path) -> Case:
    """The case of a plan that the guided search made; a plan without a seed is stored, so that it can be repeated."""
    if planned.seed is not None:
        return _case_of(planned.seed, _GUIDED)
    file = store / "guided" / f"{planned.plan.name}.yaml"
    write_file(file, plan_to_yaml(planned.plan))
    repeat = f"highwater run --plan {file}"
    return Case(entry=planned.plan.name, expectation=_IS_SAFE, plan=planned.plan, repeat=repeat, file=file)


def perform_cases(
    name: str,
    cases: Sequence[Case],
    means: Means,
    *,
    backend: BackendName = "sim",
    unknown_allowed: int = 0,
    branches: bool = False,
    behaviour: bool = False,
) -> Part:
    """Perform plans that must get certain verdicts. `unknown_allowed` per cent of them may be UNKNOWN.

    With `branches` the summaries say which branches the runs took. With `behaviour` each run's goes to `means.on_behaviour`.
    """
    checks: list[Check] = []
    waiting = iter(cases)

    def judge(summary: Summary) -> str | None:
        case = next(waiting)
        check = check_of(case, summary, number=len(checks), tolerant=unknown_allowed > 0, marks=means.marks)
        checks.append(check)
        line = line_of(name, case.entry, summary, expected=case.expectation.verdict, red=check.met is False)
        if summary.behaviour is not UNSET:
            digest, rows = summary.plan_digest, summary.behaviour
            line = replace(line, behaviour=recorded(digest, rows))
            means.on_behaviour(f"{name}/{case.entry}", Behaviour(digest, rows, summary.repeat, check.plan, case.plan))
        if summary.taken is not UNSET:
            means.on_taken(summary.taken)
        means.on_line(line)
        return RED if check.met is False and means.fail_fast else None

    watched = means.watched if behaviour else frozenset()
    tasks = corpus.tasks_of(
        cases, build=means.build, keep=means.keep, backend=backend, branches=branches, behaviour=behaviour, watched=watched
    )
    deadline_s = means.deadline_s if backend == "sim" else None
    performed = run_campaign(tasks, wanted=len(cases), jobs=means.jobs, limits=Limits(until=judge), deadline_s=deadline_s)
    code = code_of(checks, wanted=len(cases), unknown_allowed=unknown_allowed)
    return Part(
        name=name,
        checks=tuple(checks),
        summaries=tuple(replace(summary, behaviour=UNSET, taken=UNSET) for summary in performed.summaries),
        expected=tuple(check.met for check in checks),
        stopped=performed.stopped,
        code=code,
    )


def check_of(case: Case, summary: Summary, *, number: int, tolerant: bool, marks: Marks) -> Check:
    """The check of one run; if `tolerant`, it may be UNKNOWN. It may have failed for a cause that is ignored.

    But not where it had to be INVALID: there another cause means that a checker has missed a mistake.
    """
    code = corpus.exit_code(case, summary)
    had_to_fail = case.expectation.verdict == "INVALID"
    is_ignored = code is not ExitCode.VALID and not had_to_fail and marks.ignores(summary.signature)
    return Check(
        name=f"{case.entry} on {case.expectation.subject}",
        met=None if is_ignored or (tolerant and code is ExitCode.UNKNOWN) else code is ExitCode.VALID,
        code=ExitCode.VALID if is_ignored else code,
        complaint=corpus.complaint(case, summary) or "",
        wall_seconds=summary.wall_seconds,
        run=number,
        plan=str(case.file or ""),
        repeat=summary.repeat,
    )


def line_of(part: str, name: str, summary: Summary, *, expected: ValidityName | None, red: bool) -> RunLine:
    """The line of one run."""
    return RunLine(
        part=part,
        name=name,
        protocol=summary.played,
        expected=expected,
        verdict=summary.verdict,
        live=summary.live,
        red=red,
        kinds=tuple(dict.fromkeys(anomaly.kind for anomaly in summary.anomalies)),
        crash=summary.crash,
        failure=summary.failure,
        digest=summary.digest,
        plan_digest=summary.plan_digest,
        acked=summary.acked,
        seed=summary.seed,
        cpu_seconds=summary.cpu_seconds,
        wall_seconds=summary.wall_seconds,
        repeat=summary.repeat,
    )


def code_of(checks: Sequence[Check], *, wanted: int, unknown_allowed: int) -> ExitCode:
    """The worst code of the checks; missing runs are UNKNOWN, and so are too many UNKNOWN ones."""
    codes = [check.code for check in checks]
    unknown = codes.count(ExitCode.UNKNOWN)
    missed = len(codes) < wanted or 100 * unknown > unknown_allowed * len(codes)
    return worst([code for code in codes if code is not ExitCode.UNKNOWN] + [ExitCode.UNKNOWN] * missed)


def in_containers(cases: Sequence[Case], means: Means) -> Part:
    """Perform the corpus cases of `IN_CONTAINERS` in containers.

    A missing container engine is a failure with CI=true, else a remark.
    """
    chosen = [case for case in cases if (case.entry, case.expectation.protocol) in IN_CONTAINERS]
    reason = _no_containers() if chosen else None
    if reason is None:
        return perform_cases("containers", chosen, means, backend="docker")
    if os.environ.get("CI") != "true":
        return Part(name="containers", checks=(), stopped=f"not performed: {reason}", code=ExitCode.VALID)
    check = Check(name="a Docker engine", met=False, code=ExitCode.LABORATORY_FAILED, complaint=reason)
    return Part(name="containers", checks=(check,), code=check.code)


def _no_containers() -> str | None:
    """Build the images; the reason if no engine can run containers."""
    from highwater.backends.real.containers.engine import Engine  # a simulated campaign does not need the Docker SDK
    from highwater.backends.real.containers.images import build_all

    try:
        with Engine() as engine:
            build_all(engine)
    except HarnessError as error:
        return str(error)
    return None


def repeat_elsewhere(seed: int) -> Part:
    """Compare the digests of a seed in two new processes with different PYTHONHASHSEED."""
    try:
        first, second = (_digest_elsewhere(seed, hash_seed) for hash_seed in ("1", "2"))
    except KeyboardInterrupt:
        return Part(name="determinism", checks=(), stopped=INTERRUPTED, code=ExitCode.UNKNOWN)
    name = f"seed {seed} twice"
    if first == second:
        return Part(name="determinism", checks=(Check(name=name),), code=ExitCode.VALID)
    check = Check(
        name=name,
        met=False,
        code=ExitCode.NOT_DETERMINISTIC,
        complaint=f"seed {seed} gives digest {first} under PYTHONHASHSEED=1 and {second} under 2",
        repeat=f"highwater replay {seed} --derivation {DERIVATION}",
    )
    return Part(name="determinism", checks=(check,), code=check.code)


def catch(bad: KnownBad, first: int, means: Means) -> Part:
    """Run seeds on one known-bad protocol until one shows the known anomaly."""
    request = Request(protocol=bad.protocol, faults=bad.faults, workload=PLAIN)
    tasks = (request.task(first + n, build=means.build, keep=means.keep) for n in range(bad.budget))
    performed = run_campaign(
        tasks,
        wanted=bad.budget,
        jobs=means.jobs,
        limits=Limits(anomaly=bad.anomaly),
        on_summary=lambda summary: means.on_line(line_of(bad.protocol, summary.plan, summary, expected=None, red=False)),
        deadline_s=means.deadline_s,
    )
    caught = any(a.kind == bad.anomaly for s in performed.summaries for a in s.anomalies)
    complaint = "" if caught else f"no {bad.anomaly} of {bad.protocol} in {len(performed.summaries)} seeds from {first}"
    check = Check(
        name=f"{bad.protocol} is caught by {bad.anomaly}",
        met=caught,
        code=ExitCode.VALID if caught else _code_of_escape(performed),
        complaint=complaint,
        wall_seconds=performed.wall_seconds,
    )
    stopped = None if caught and performed.stopped != INTERRUPTED else performed.stopped
    runs = tuple(performed.summaries)
    expected = (True,) * len(runs)
    return Part(name=bad.protocol, checks=(check,), summaries=runs, expected=expected, stopped=stopped, code=check.code)


def _code_of_escape(performed: Campaign) -> ExitCode:
    """An interrupted search is UNKNOWN; a complete one without the anomaly is a failure of the harness."""
    return ExitCode.UNKNOWN if performed.stopped == INTERRUPTED else ExitCode.LABORATORY_FAILED


def _digest_elsewhere(seed: int, hash_seed: str) -> str:
    """The digest of a seed's run in another process with this hash seed."""
    command = [sys.executable, "-m", "highwater", "run", "--seed", str(seed), "--json", "--no-store"]
    completed = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, check=False)
    try:
        return msgspec.json.decode(completed.stdout, type=Summary).digest
    except NOT_JSON:
        stderr = completed.stderr.decode(errors="replace").strip()
        raise HarnessError(f"{' '.join(command)} printed no summary: {stderr or completed.returncode}") from None
