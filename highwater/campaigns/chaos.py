"""The `chaos` job checks that protocol `safe` keeps the promise and that the harness still catches known-bad protocols.

    1. corpus      every plan that once found a bug, under every protocol that its entry lists
    2. repetition  one seed in another process with another PYTHONHASHSEED: the same digest
    3. safe        fresh seeds over every fault mix: no run INVALID, all live
    4. known bad   each protocol with a known bug is run until its anomaly is found, within its budget of seeds
    5. containers  two plans of the corpus in containers, if a Docker engine answers; with CI=true an engine is required

A known-bad protocol that is not caught is a failure of the harness: a VALID then proves nothing.
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
from highwater.runs.provenance import Build
from highwater.runs.run import BackendName, Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Task


class KnownBad(Struct, frozen=True, kw_only=True):
    """A known-bad protocol: one of the first `budget` seeds must show an anomaly of this kind."""

    protocol: str
    anomaly: str
    budget: int = 60
    faults: tuple[str, ...] = ()


# The fresh seeds use these mixes in turn; the empty one means all default kinds of the profile.
MIXES: tuple[tuple[str, ...], ...] = (
    (),
    ("partitions",),
    ("crash-heavy",),
    ("zk-flap",),
    ("clocks",),
    ("network",),
    ("disk-slow", "disk-full", "dir-unreadable", "dir-file", "dir-failure"),
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


class Check(Struct, frozen=True, kw_only=True):
    """One condition that a part of the chaos job checks; `complaint` says how it is violated, empty if it holds."""

    name: str
    code: ExitCode = ExitCode.VALID
    complaint: str = ""
    wall_seconds: float = 0.0


class Part(Struct, frozen=True, kw_only=True):
    """The result of one part of the chaos job: its checks and the runs that were performed for them."""

    name: str
    checks: tuple[Check, ...]
    summaries: tuple[Summary, ...] = ()
    stopped: str | None = None  # why runs are missing
    code: ExitCode

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended this part of the chaos job; if so, the next parts are not started."""
        return self.stopped == INTERRUPTED


class Means(Struct, frozen=True, kw_only=True):
    """Settings that all parts of the chaos job share: build, storage, number of worker processes, progress callback."""

    build: Build
    keep: Keep
    jobs: int
    seen: Callable[[Summary], None]


def replay_corpus(cases: Sequence[Case], means: Means) -> Part:
    """Part 1 of the chaos job: perform every case of the corpus in the simulator."""
    return _part_of_cases("corpus", cases, means, "sim")


def in_containers(cases: Sequence[Case], means: Means) -> Part:
    """Part 5 of the chaos job: perform the corpus cases of `IN_CONTAINERS` in containers.

    A missing container engine is a failure with CI=true, else a remark.
    """
    wanted = [case for case in cases if (case.entry, case.expectation.protocol) in IN_CONTAINERS]
    reason = _no_containers() if wanted else None
    if reason is None:
        return _part_of_cases("containers", wanted, means, "docker")
    if os.environ.get("CI") != "true":
        return Part(name="containers", checks=(), stopped=f"not performed: {reason}", code=ExitCode.VALID)
    check = Check(name="a Docker engine", code=ExitCode.LABORATORY_FAILED, complaint=reason)
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


def _part_of_cases(name: str, cases: Sequence[Case], means: Means, backend: BackendName) -> Part:
    tasks = corpus.tasks_of(cases, build=means.build, keep=means.keep, backend=backend)
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
    return Part(name=name, checks=checks, summaries=tuple(found.summaries), stopped=found.stopped, code=worst(codes))


def repeat_elsewhere(seed: int) -> Part:
    """Part 2 of the chaos job: compare the digests of a seed in two new processes with different PYTHONHASHSEED."""
    try:
        one, other = (_digest_elsewhere(seed, hash_seed) for hash_seed in ("1", "2"))
    except KeyboardInterrupt:
        return Part(name="repetition", checks=(), stopped=INTERRUPTED, code=ExitCode.UNKNOWN)
    name = f"seed {seed} twice"
    if one == other:
        return Part(name="repetition", checks=(Check(name=name),), code=ExitCode.VALID)
    complaint = f"seed {seed} gives digest {one} under PYTHONHASHSEED=1 and {other} under 2; repeat: highwater replay {seed}"
    check = Check(name=name, code=ExitCode.NOT_DETERMINISTIC, complaint=complaint)
    return Part(name="repetition", checks=(check,), code=check.code)


def fresh_seeds(seeds: Sequence[int], means: Means, *, unknown_allowed_percent: int) -> Part:
    """Part 3 of the chaos job: run new seeds on protocol `safe`, with the fault mixes in turn."""
    requests = ((seed, Request(faults=MIXES[number % len(MIXES)])) for number, seed in enumerate(seeds))
    tasks = (request.task(seed, build=means.build, keep=means.keep) for seed, request in requests)
    found = _all(tasks, len(seeds), means)
    checks = tuple(
        Check(name=f"{s.plan} on {s.protocol}", code=s.exit_code, complaint=_with_repeat(_why(s), s), wall_seconds=s.wall_seconds)
        for s in found.summaries
    )
    code = exit_code(found, unknown_allowed_percent=unknown_allowed_percent)
    return Part(name="safe", checks=checks, summaries=tuple(found.summaries), stopped=found.stopped, code=code)


def catch(bad: KnownBad, first: int, means: Means) -> Part:
    """Part 4 of the chaos job, for one known-bad protocol: run seeds until one shows the known anomaly."""
    request = Request(protocol=bad.protocol, faults=bad.faults, workload=PLAIN)
    tasks = (request.task(first + n, build=means.build, keep=means.keep) for n in range(bad.budget))
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
    return Part(name=bad.protocol, checks=(check,), summaries=tuple(found.summaries), stopped=stopped, code=check.code)


def _of_escape(found: Campaign) -> ExitCode:
    """An interrupted search is UNKNOWN; a complete one without the anomaly is a failure of the harness."""
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
