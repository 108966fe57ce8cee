"""The main job: does the reference protocol keep its promise, and does the harness still see those that do not?

    1. corpus      every plan that found something once, against every protocol it speaks of
    2. repetition  one seed in another process with another PYTHONHASHSEED: the same digest
    3. safe        fresh seeds over every fault mix: nothing INVALID, everything live
    4. known bad   protocols with a known mistake, until each is caught, within its budget of seeds

    5. containers  two plans of the corpus for real, where a Docker engine answers; with CI=true there has to be one

A known-bad protocol that escapes is a failure of the laboratory: its VALIDs are then worth nothing.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from highwater.campaigns import corpus
from highwater.campaigns.campaign import INTERRUPTED, Campaign, Limits, Request, exit_code, run_campaign
from highwater.campaigns.corpus import Case
from highwater.errors import HarnessError
from highwater.exit_codes import ExitCode, worst
from highwater.plans.derive import PLAIN
from highwater.runs.provenance import Laboratory
from highwater.runs.run import BackendName, Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Done, Task


class KnownBad(Struct, frozen=True, kw_only=True):
    """A protocol that must show an anomaly of this kind within so many seeds."""

    protocol: str
    anomaly: str
    budget: int = 60
    faults: tuple[str, ...] = ()


# Every mix that the fresh seeds run through in turn; empty is what the profile holds harmless, all together.
MIXES: tuple[tuple[str, ...], ...] = (
    (),
    ("partitions",),
    ("crash-heavy",),
    ("zk-flap",),
    ("clocks",),
    ("network",),
    ("disk-slow", "disk-full", "dir-unreadable", "dir-file", "dir-failure"),
)

# One for each judge that random faults can feed within seconds; the rest of the catalogue is for `corpus/` and its plans.
KNOWN_BAD: tuple[KnownBad, ...] = (
    KnownBad(protocol="v3", anomaly="lost-write"),
    KnownBad(protocol="article", anomaly="lost-write"),
    KnownBad(protocol="unclean-election", anomaly="unclean-election"),
    KnownBad(protocol="truncate-to-hw", anomaly="strong-isr"),
    KnownBad(protocol="isr-eager", anomaly="weak-isr"),
    KnownBad(protocol="hw-not-monotone", anomaly="hw-regressed"),
    KnownBad(protocol="consumers-read-to-leo", anomaly="inconsistent-offsets"),
)


# Entries of the corpus that containers perform in time, each on a protocol with the mistake and on `safe`.
IN_CONTAINERS: tuple[tuple[str, str], ...] = (
    ("jepsen-2013", "unclean-election"),
    ("jepsen-2013", "safe"),
    ("kip112-leader", "offline-replica-recreated"),
    ("kip112-leader", "safe"),
)


class Check(Struct, frozen=True, kw_only=True):
    """One thing that had to hold; `complaint` says how it does not."""

    name: str
    code: ExitCode = ExitCode.VALID
    complaint: str = ""
    wall_seconds: float = 0.0


class Stage(Struct, frozen=True, kw_only=True):
    """One of the parts, done: what had to hold, and the runs that were performed for it."""

    name: str
    checks: tuple[Check, ...]
    summaries: tuple[Summary, ...] = ()
    stopped: str | None = None  # why runs are missing
    code: ExitCode

    @property
    def interrupted(self) -> bool:
        """Whether somebody pressed Ctrl-C: then no further part is begun."""
        return self.stopped == INTERRUPTED


class Means(Struct, frozen=True, kw_only=True):
    """What every stage works with."""

    laboratory: Laboratory
    keep: Keep
    jobs: int
    seen: Callable[[Done], None]


def replay_corpus(cases: Sequence[Case], means: Means) -> Stage:
    """Stage 1."""
    return _stage_of_cases("corpus", cases, means, "sim")


def in_containers(cases: Sequence[Case], means: Means) -> Stage:
    """Stage 5: what there is of `IN_CONTAINERS` among these cases. No engine is a failure where CI=true, else a remark."""
    wanted = [case for case in cases if (case.entry, case.expectation.protocol) in IN_CONTAINERS]
    reason = _no_containers() if wanted else None
    if reason is None:
        return _stage_of_cases("containers", wanted, means, "docker")
    if os.environ.get("CI") != "true":
        return Stage(name="containers", checks=(), stopped=f"not performed: {reason}", code=ExitCode.VALID)
    check = Check(name="a Docker engine", code=ExitCode.LABORATORY_FAILED, complaint=reason)
    return Stage(name="containers", checks=(check,), code=check.code)


def _no_containers() -> str | None:
    """Why there are none, with images that are up to date."""
    from highwater.backends.real.containers.engine import Engine  # a simulated campaign needs no SDK of an engine
    from highwater.backends.real.containers.images import build_all

    try:
        with Engine() as engine:
            build_all(engine)
    except HarnessError as error:
        return str(error)
    return None


def _stage_of_cases(name: str, cases: Sequence[Case], means: Means, backend: BackendName) -> Stage:
    tasks = corpus.tasks_of(cases, laboratory=means.laboratory, keep=means.keep, backend=backend)
    found = _all(tasks, len(cases), means)
    checks = tuple(
        Check(
            name=f"{case.entry} on {case.expectation.protocol}",
            code=corpus.exit_code(case, summary),
            complaint=_with_repeat(corpus.complaint(case, summary), summary),
            wall_seconds=summary.wall_seconds,
        )
        for case, summary in zip(cases, found.summaries, strict=False)
    )
    codes = [check.code for check in checks]
    if len(codes) < len(cases):
        codes.append(ExitCode.UNKNOWN)
    return Stage(name=name, checks=checks, summaries=found.summaries, stopped=found.stopped, code=worst(codes))


def repeat_elsewhere(seed: int) -> Stage:
    """Stage 2: the digest of a seed in two fresh processes that hash strings differently."""
    try:
        one, other = (_digest_elsewhere(seed, hash_seed) for hash_seed in ("1", "2"))
    except KeyboardInterrupt:
        return Stage(name="repetition", checks=(), stopped=INTERRUPTED, code=ExitCode.UNKNOWN)
    name = f"seed {seed} twice"
    if one == other:
        return Stage(name="repetition", checks=(Check(name=name),), code=ExitCode.VALID)
    complaint = f"seed {seed} gives digest {one} under PYTHONHASHSEED=1 and {other} under 2; repeat: highwater replay {seed}"
    check = Check(name=name, code=ExitCode.NOT_DETERMINISTIC, complaint=complaint)
    return Stage(name="repetition", checks=(check,), code=check.code)


def fresh_seeds(seeds: Sequence[int], means: Means, *, unknown_allowed_percent: int) -> Stage:
    """Stage 3: seed after seed, the mixes in turn."""
    requests = ((seed, Request(faults=MIXES[number % len(MIXES)])) for number, seed in enumerate(seeds))
    tasks = (request.task(seed, laboratory=means.laboratory, keep=means.keep) for seed, request in requests)
    found = _all(tasks, len(seeds), means)
    checks = tuple(
        Check(name=f"{s.plan} on {s.protocol}", code=s.exit_code, complaint=_with_repeat(_why(s), s), wall_seconds=s.wall_seconds)
        for s in found.summaries
    )
    code = exit_code(found, unknown_allowed_percent=unknown_allowed_percent)
    return Stage(name="safe", checks=checks, summaries=found.summaries, stopped=found.stopped, code=code)


def catch(bad: KnownBad, first: int, means: Means) -> Stage:
    """Stage 4 for one protocol: seeds until a run shows what this protocol is known for."""
    request = Request(protocol=bad.protocol, faults=bad.faults, workload=PLAIN)
    tasks = (request.task(first + n, laboratory=means.laboratory, keep=means.keep) for n in range(bad.budget))
    found = run_campaign(tasks, wanted=bad.budget, jobs=means.jobs, limits=Limits(anomaly=bad.anomaly), seen=means.seen)
    caught = any(a.kind == bad.anomaly for s in found.summaries for a in s.anomalies)
    complaint = "" if caught else f"no {bad.anomaly} of {bad.protocol} in {len(found.summaries)} seeds from {first}"
    check = Check(
        name=f"{bad.protocol} is caught by {bad.anomaly}",
        code=ExitCode.VALID if caught else _of_escape(found),
        complaint=complaint,
        wall_seconds=found.wall_seconds,
    )
    stopped = None if caught and found.stopped != INTERRUPTED else found.stopped
    return Stage(name=bad.protocol, checks=(check,), summaries=found.summaries, stopped=stopped, code=check.code)


def _of_escape(found: Campaign) -> ExitCode:
    """A protocol that nobody had the time to catch has not escaped."""
    return ExitCode.UNKNOWN if found.stopped == INTERRUPTED else ExitCode.LABORATORY_FAILED


def _why(summary: Summary) -> str | None:
    if summary.exit_code is ExitCode.VALID:
        return None
    reasons = [*(a.words for a in summary.anomalies), *summary.not_live, *summary.unchecked]
    return f"{summary.plan}: {summary.words}: {reasons[0] if reasons else ''}"


def _with_repeat(complaint: str | None, summary: Summary) -> str:
    return "" if complaint is None else f"{complaint}; repeat: {summary.repeat}"


def _digest_elsewhere(seed: int, hash_seed: str) -> str:
    command = [sys.executable, "-m", "highwater", "run", "--seed", str(seed), "--json", "--no-store"]
    done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, check=False)
    try:
        return msgspec.json.decode(done.stdout, type=Summary).digest
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip()
        raise HarnessError(f"{' '.join(command)} printed no summary: {said or done.returncode}") from None


def _all(tasks: Iterator[Task], wanted: int, means: Means) -> Campaign:
    return run_campaign(tasks, wanted=wanted, jobs=means.jobs, limits=Limits(), seen=means.seen)
