"""One run, from a plan to a report: perform, judge, store, report. Read this module first.

    plan ─perform─▶ history ─judge─▶ verdict ─summarize─▶ summary ─store─▶ files and a report

The recorded history is stored before it is judged, also if the run ended early. A run that did not complete is never VALID. A
failure of the harness becomes a `HarnessError` that says what was attempted and how to repeat it.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import reference
from checkers.causes.signature import signature
from checkers.engine.collector import without_collector
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge as judge_history
from highwater.backends.real.interrupts import held
from highwater.errors import CrashError, HarnessError, HighwaterError, UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan, is_foreign, plan_digest, system_of
from highwater.plans.systems import words_of
from highwater.plans.text import plan_to_yaml
from highwater.rig.backend import REPEATABLE, Backend, BackendName, Provenance, Run
from highwater.runs.provenance import Build
from highwater.runs.summary import Summary, summarize
from history import store
from history.errors import HistoryError
from history.history import History
from history.manifest import RunManifest

SUMMARY = "summary.json"
SLOWED_MAX = 3.0  # chosen: runs under a load of 20 to 40 on two cores were slowed by 9 to 32; no idle machine was measured


class Keep(Struct, frozen=True, kw_only=True):
    """Which files of a run are stored, and where. `store` is the folder of the runs; None stores nothing."""

    store: Path | None = None
    report: bool = True
    only_failures: bool = False  # a VALID and live run is not stored
    only_failed_pages: bool = False  # a VALID and live run has no page


class Judged(Struct, frozen=True, kw_only=True):
    """A performed run with its verdict and summary."""

    plan: Plan
    history: History
    verdict: Verdict
    summary: Summary


def carry_out(plan: Plan, backend: Backend, *, build: Build, repeat: str, keep: Keep) -> Judged:
    """Perform a plan, judge its history, store both and write the report.

    UsageError if the backend cannot perform the plan, HarnessError if the harness failed.
    """
    if plan.path:
        from highwater.explore.backend import ExploreBackend

        backend = ExploreBackend()  # only the explorer performs a path, whichever backend was given
    start = perf_counter()
    with attempting(f"performing {plan.name} on {backend.name}", repeat):
        run = perform(plan, backend, build, folder=keep.store)
    directory = None
    if keep.store is not None and not keep.only_failures:
        with held() as interrupts:
            directory = store_evidence(plan, run.history, keep.store)
        if interrupts.pressed:
            raise KeyboardInterrupt
    with attempting(f"judging {plan.name}", repeat):
        verdict = judge(run.history)
        summary = summarize(plan, run.history, verdict, repeat=repeat, wall_seconds=perf_counter() - start)
        if summary.exit_code is not ExitCode.VALID and (sign := signature(run.history, verdict)) is not None:
            summary = replace(summary, signature=sign.text)
    judged_run = Judged(plan=plan, history=run.history, verdict=verdict, summary=replace(summary, failure=run.failure))
    if keep.store is None or (keep.only_failures and summary.exit_code is ExitCode.VALID):
        return judged_run
    if directory is None:
        directory = store_evidence(plan, run.history, keep.store)
    with attempting(f"reporting {plan.name}", repeat):
        page = keep.report and not (keep.only_failed_pages and summary.exit_code is ExitCode.VALID)
        return replace(judged_run, summary=store_judgement(judged_run, directory, keep.store, report=page))


def perform(plan: Plan, backend: Backend, build: Build, *, folder: Path | None = None) -> Run:
    """Perform a plan without judging it; UsageError if the backend cannot. `folder` is where the run will be stored."""
    refusal = backend.refuse(plan)
    if refusal is not None:
        raise UsageError(refusal)
    digest = plan_digest(plan)
    performed = words_of(system_of(plan)).replace(":", "-") if is_foreign(plan) else plan.protocol
    provenance = Provenance(
        run_id=_run_id(
            f"{backend.name}-{performed}-{digest[:12]}",
            None if folder is None or backend.name in REPEATABLE else folder / plan.name,
        ),
        plan_digest=digest,
        commit=build.commit,
        dirty=build.dirty,
        versions=build.versions,
    )
    with without_collector():  # a run makes next to no cycles until it ends
        return backend.perform(plan, provenance)


def _run_id(base: str, folder: Path | None) -> str:
    """Repeatable runs overwrite their earlier copy; other runs are numbered, so that each is kept."""
    if folder is None:
        return base
    return next(name for n in count(1) if not (folder / (name := f"{base}-{n}")).exists())


def judge(history: History) -> Verdict:
    """Judge a history with all checkers in this process; a run that did not complete is never VALID."""
    return honest(judge_history(history), history.manifest)


def honest(verdict: Verdict, manifest: RunManifest) -> Verdict:
    """Change the verdict VALID to UNKNOWN if the run ended early, or if it is not live and the machine was overloaded.

    On an overloaded machine nobody can tell a cluster that does not answer from one that was not allowed to run; one that
    answered all the same is live.
    """
    slowed = manifest.slowed
    if verdict.not_live and slowed is not None and slowed > SLOWED_MAX:
        reason = f"the machine was overloaded: after healing, work took {slowed} times its CPU time (more than {SLOWED_MAX})"
        unchecked = (*(f"{reason}: {words}" for words in verdict.not_live), *verdict.unchecked)
        validity = max(verdict.validity, Validity.UNKNOWN)
        verdict = replace(verdict, validity=validity, live=None, not_live=(), unchecked=unchecked)
    if manifest.outcome == "completed" or verdict.validity is not Validity.VALID:
        return verdict
    return replace(verdict, validity=Validity.UNKNOWN, unchecked=(*verdict.unchecked, f"the run is {manifest.outcome}"))


def store_evidence(plan: Plan, history: History, folder: Path) -> Path:
    """Write plan and history under `folder` and return the run's folder; verdict and report of an earlier run are deleted."""
    directory = store.run_directory(folder, plan_name=plan.name, run_id=history.manifest.run_id)
    for name in (store.VERDICT, store.REPORT, store.BESIDE, store.FIRST_CALL, SUMMARY):
        (directory / name).unlink(missing_ok=True)
    store.write_file(directory / store.PLAN, plan_to_yaml(plan))
    store.save(directory, history)
    return directory


def store_judgement(judged_run: Judged, directory: Path, folder: Path, *, report: bool) -> Summary:
    """Write the verdict, the HTML report and the summary of a run beside its history.

    The returned summary has their paths relative to `folder`, the store.
    """
    store.write_file(directory / store.VERDICT, encode_verdict(judged_run.verdict))
    summary = replace(judged_run.summary, store=directory.relative_to(folder).as_posix())
    if report:
        from highwater.runs.page import write_page  # imported here because many runs are stored without one

        page = directory / store.REPORT
        write_page(page, judged_run.history, judged_run.verdict, plan=plan_to_yaml(judged_run.plan), repeat=summary.repeat)
        summary = replace(summary, report=page.relative_to(folder).as_posix())
    store.write_file(directory / SUMMARY, _pretty(summary))
    return summary


def encode_verdict(verdict: Verdict) -> bytes:
    """Encode a verdict as the content of verdict.json."""
    return _pretty(verdict)


@contextmanager
def attempting(what: str, repeat: str) -> Iterator[None]:
    """Turn any unexpected exception into a HarnessError with the command that repeats it; nothing else catches `Exception`.

    It is a CrashError if the exception came out of the protocol.
    """
    try:
        yield
    except (HighwaterError, HistoryError):
        raise
    except Exception as error:
        where = crash_of(error)
        if where is not None:
            raise CrashError(f"{what}: the protocol crashed at {where}; repeat: {repeat}", where) from error
        raise HarnessError(f"{what}: {type(error).__name__}: {error}; repeat: {repeat}") from error


def crash_of(error: Exception) -> str | None:
    """The last line of `reference/` that an exception passed, with the exception; None if it passed none."""
    root = Path(reference.__file__).parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            where = f"{root.name}/{path.relative_to(root).as_posix()}:{frame.lineno}"
            return f"{where} in {frame.name}: {type(error).__name__}: {error}"
    return None


def backend_named(name: BackendName) -> Backend:
    """The backend of this name. Imported here so that a simulated run does not need the packages of the real backends."""
    match name:
        case "sim":
            from highwater.backends.sim.backend import SimBackend

            return SimBackend()
        case "process":
            from highwater.backends.real.processes.backend import ProcessBackend

            return ProcessBackend()
        case "docker":
            from highwater.backends.real.containers.backend import DockerBackend

            return DockerBackend()
        case _:
            assert_never(name)


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
