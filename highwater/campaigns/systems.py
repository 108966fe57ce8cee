"""The `chaos` job on another system than the reference: it keeps the promise, and what it is known to lose is lost.

    phase       what it performs
    corpus      the entries of `corpus/systems` on which the system, or the releases next to it, must keep all records
    plans       the other plans of a folder: each must be VALID and live
    seeds       seeds with the faults that the system can suffer: each must be VALID and live
    known-bad   the entries on which the system is known to lose records; if it loses none, the harness is to blame

One cluster runs at a time, in real time. A run that shows nothing is repeated, at most `TRIES` times: one that is UNKNOWN or
vacuous, and one of a known loss that the system happened to survive. What is accused is never repeated.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from highwater.campaigns.campaign import INTERRUPTED, Limits, Request, run_campaign
from highwater.campaigns.chaos import RED, Check, Means, Part, Phase, check_of, code_of, line_of
from highwater.campaigns.corpus import Case, Expectation, load_corpus, load_plans_on, placed
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.systems import parsed_system, words_of
from highwater.rig.backend import BackendName
from highwater.runs.run import backend_named
from highwater.runs.summary import Summary
from highwater.runs.workers import Task

PHASES: tuple[Phase, ...] = ("corpus", "plans", "seeds", "known-bad")
CORPUS, PLANS = Path("corpus/systems"), Path("corpus/real")
TRIES = 3
BACKEND: BackendName = "process"
# The seeds use these mixes in turn; faults that the system cannot suffer are left out of them.
MIXES: tuple[tuple[str, ...], ...] = ((), ("partitions",), ("crash-heavy",))
# The same where brokers start as another version than the one under test.
ROLLING: tuple[tuple[str, ...], ...] = (("roll",), ("roll", "partitions"), ("roll", "crash-heavy"))
_SETTLED = "settled"


class Cases(Struct, frozen=True, kw_only=True):
    """The cases of one phase, and those that do not fit the system, with the reason."""

    fit: tuple[Case, ...]
    unfit: tuple[tuple[str, str], ...] = ()


def cases_on(request: Request, phases: Sequence[Phase], *, corpus: Path, plans: Path, seeds: Iterable[int]) -> dict[Phase, Cases]:
    """What each phase performs on the system of the request. UsageError if nothing can be performed, with the first reason."""
    system = request.spec
    every = load_corpus(corpus) if corpus.exists() else ()
    entries = [case for case in every if parsed_system(case.expectation.system).name == system.name]
    cases_of_entries = _cases_of_entries(request, entries)
    drawn = tuple(_cases_of_seeds(request, seeds)) if "seeds" in phases else ()
    cases_by_phase: dict[Phase, Iterable[Case]] = {
        "corpus": (case for case in cases_of_entries.fit if case.expectation.verdict != "INVALID"),
        "plans": load_plans_on(request, plans, entries) if plans.exists() else (),
        "seeds": (case for case in drawn if case.plan.schedule),
        "known-bad": (case for case in cases_of_entries.fit if case.expectation.verdict == "INVALID"),
    }
    cases = {phase: _performable_cases(cases_by_phase[phase]) for phase in phases}
    bare = tuple((case.entry, "none of its faults can be injected") for case in drawn if not case.plan.schedule)
    for phase, unfit in (("corpus", cases_of_entries.unfit), ("seeds", bare)):
        if phase in cases:
            cases[phase] = replace(cases[phase], unfit=(*cases[phase].unfit, *unfit))
    refusal = [reason for phase in cases.values() for _, reason in phase.unfit]
    if not any(phase.fit for phase in cases.values()):
        raise UsageError(refusal[0] if refusal else f"no plan for {words_of(system)} in {', '.join(phases)}")
    return cases


def _cases_of_entries(request: Request, entries: Iterable[Case]) -> Cases:
    """What the entries tell of the system: those that name it, else those of its neighbours.

    Between two that agree a release behaves as both. A mistake that is repaired does not come back, and what a release loses an
    older one loses, too: so VALID holds for newer releases, and INVALID for older ones.
    """
    from highwater.backends.real.systems.registry import akin

    system = request.spec
    fit: list[Case] = []
    unfit: list[tuple[str, str]] = []
    for name, group in groupby(entries, key=lambda case: case.entry):
        cases = {case.expectation.system: case for case in group}
        near = akin(system, cases)
        same, older, newer = (None if words is None else cases[words] for words in (near.same, near.older, near.newer))
        verdicts = [None if case is None else case.expectation.verdict for case in (older, newer)]
        if same is not None or verdicts in (["VALID", None], ["VALID", "VALID"], [None, "INVALID"], ["INVALID", "INVALID"]):
            matching_case = next(case for case in (same, older, newer) if case is not None)
            if request.client and matching_case.expectation.verdict == "INVALID":
                unfit.append((name, "what it loses was seen with librdkafka alone"))
            else:
                fit.append(placed(matching_case, request))
            continue
        beside = [case.expectation for case in (older, newer) if case is not None]
        told_words = " and ".join(f"{expectation.verdict} on {expectation.system}" for expectation in beside)
        unknown = f"it is {told_words}, so nobody knows for {words_of(system)}"
        unfit.append((name, unknown if beside else "no release like this one was tried with it"))
    return Cases(fit=tuple(fit), unfit=tuple(unfit))


def _cases_of_seeds(request: Request, seeds: Iterable[int]) -> Iterator[Case]:
    """The cases of drawn plans, each with the next mix of faults."""
    expectation = Expectation(system=words_of(request.spec), verdict="VALID", live=True)
    mixes = ROLLING if request.spec.starts else MIXES
    for number, seed in enumerate(seeds):
        request_of_seed = Request(
            system=request.system,
            described=request.described,
            jars=request.jars,
            client=request.client,
            backend=BACKEND,
            faults=mixes[number % len(mixes)],
        )
        plan = request_of_seed.plan(seed)
        yield Case(entry=plan.name, expectation=expectation, plan=plan, repeat=request_of_seed.command(seed))


def _performable_cases(cases: Iterable[Case]) -> Cases:
    """The cases that this machine can perform, and the names of the others with the reason."""
    backend = backend_named(BACKEND)
    judged = [(case, backend.refuse(case.plan)) for case in cases]
    return Cases(
        fit=tuple(case for case, reason in judged if reason is None),
        unfit=tuple((case.entry, reason) for case, reason in judged if reason is not None),
    )


def parts_of(phase: Phase, cases: Sequence[Case], means: Means, *, unknown_allowed: int = 0) -> list[Callable[[], Part]]:
    """The part of one phase, not yet started; none without cases. Of the seeds, `unknown_allowed` per cent may be UNKNOWN."""
    allowed = unknown_allowed if phase == "seeds" else 0
    return [partial(settle, phase, cases, means, unknown_allowed=allowed)] if cases else []


def settle(name: str, cases: Sequence[Case], means: Means, *, unknown_allowed: int = 0) -> Part:
    """Perform each case until a run shows something. The check of a case is about its last run."""
    checks: list[Check] = []
    runs: list[Summary] = []
    expected: list[bool | None] = []
    stopped = None
    for case in cases:
        performed = run_campaign(_tries(case, means), wanted=TRIES, jobs=1, limits=Limits(until=partial(_reason_to_stop, case)))
        runs += performed.summaries
        if performed.stopped == INTERRUPTED:
            expected += [None] * len(performed.summaries)
            stopped = INTERRUPTED
            break
        check = check_of(case, runs[-1], number=len(runs) - 1, tolerant=unknown_allowed > 0, marks=means.marks)
        checks.append(check)
        expected += [*[True] * (len(performed.summaries) - 1), check.met]
        for summary in performed.summaries:
            red = summary is runs[-1] and check.met is False
            means.on_line(line_of(name, case.entry, summary, expected=case.expectation.verdict, red=red))
        if means.fail_fast and check.met is False:
            stopped = RED
            break
    code = code_of(checks, wanted=len(cases), unknown_allowed=unknown_allowed)
    return Part(name=name, checks=tuple(checks), summaries=tuple(runs), expected=tuple(expected), stopped=stopped, code=code)


def _tries(case: Case, means: Means) -> Iterator[Task]:
    for _ in range(TRIES):
        yield Task(plan=case.plan, repeat=case.repeat, build=means.build, keep=means.keep, backend=BACKEND)


def _reason_to_stop(case: Case, summary: Summary) -> str | None:
    """Why the case is not tried again after this run; None if the run shows nothing."""
    if summary.outcome != "completed" or summary.verdict == "INVALID":
        return _SETTLED
    if case.expectation.verdict == "INVALID":
        return None
    return None if summary.exit_code is ExitCode.UNKNOWN else _SETTLED
