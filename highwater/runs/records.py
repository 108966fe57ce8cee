"""Records of runs for a dataset (`pipeline.record`): of a run that was performed just now, and of a run that is stored."""

import re
from pathlib import Path
from typing import TypeVar

import msgspec

from checkers.engine.verdict import Verdict
from highwater.exit_codes import of_verdict
from highwater.plans.derive import MIXED
from highwater.plans.plan import Plan, plan_digest
from highwater.runs.judging import digest_of_judges
from highwater.runs.run import SUMMARY, Judged, judge
from highwater.runs.summary import Summary
from history import store
from history.errors import NOT_JSON, HistoryError
from history.history import History
from history.manifest import RunManifest
from pipeline.dataset import with_evidence
from pipeline.record import Known, Record, record_of, record_of_failure


def performed_record(summary: Summary, judged_run: Judged | None, plan: Plan, *, mix: str, workload: str, commit: str) -> Record:
    """The record of a run that was performed just now, or that the harness failed to perform (`judged_run` is None).

    `mix` and `workload` are those that were asked for; `commit` is that of the build.
    """
    digest = plan_digest(plan)
    repeatable = f"{summary.backend}-{plan.protocol}-{digest[:12]}"
    facts = Known(
        plan=plan.name,
        run_id=repeatable if judged_run is None else judged_run.history.manifest.run_id,
        protocol=plan.protocol,
        seed=plan.seed,
        plan_digest=digest,
        mix=mix,
        profile=plan.promise.profile,
        workload=workload,
        backend=summary.backend,
        commit=commit,
        checkers=digest_of_judges(),
        outcome=summary.outcome,
        exit=int(summary.exit_code),
        repeat=summary.repeat,
        failure=summary.failure,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
    )
    return record_of_failure(facts) if judged_run is None else record_of(facts, judged_run.history, judged_run.verdict)


def stored_run(directory: Path) -> str:
    """The key of a stored run. Raises HistoryError where the folder's manifest is no manifest of a run."""
    return f"{directory.parent.name}/{store.load_manifest(directory).run_id}"


def stored_record(directory: Path, *, evidence: bool) -> Record:
    """The record of a stored run, with the verdict that is stored beside it, else judged now.

    `evidence`: with its operations and events. Raises HistoryError where a file is damaged.
    """
    history = store.load_run(directory)
    verdict = verdict_of(directory, history)
    # Which checkers gave a stored verdict is not stored.
    checkers = "" if (directory / store.VERDICT).exists() else digest_of_judges()
    record = record_of(_facts_of_run(directory, history.manifest, verdict, checkers), history, verdict)
    return with_evidence(record, history) if evidence else record


def verdict_of(directory: Path, history: History) -> Verdict:
    """The verdict that is stored beside a run, else judged now. Raises HistoryError where it is damaged."""
    stored = directory / store.VERDICT
    return _decoded_file(stored, Verdict) if stored.exists() else judge(history)


def _facts_of_run(directory: Path, manifest: RunManifest, verdict: Verdict, checkers: str) -> Known:
    """From the manifest and, where there is a summary, the command that repeats the run and its options."""
    path = directory / SUMMARY
    summary = _decoded_file(path, Summary) if path.exists() else None
    repeat = "" if summary is None else summary.repeat
    failed = manifest.outcome == "harness-fault"
    return Known(
        plan=directory.parent.name,
        run_id=manifest.run_id,
        protocol=manifest.protocol,
        seed=manifest.seed,
        plan_digest=manifest.plan_digest,
        mix=_option(repeat, "faults"),
        profile=manifest.promise.profile,
        workload=_option(repeat, "workload") or (MIXED if repeat else ""),
        backend=manifest.backend,
        commit=manifest.commit,
        checkers=checkers,
        outcome=manifest.outcome,
        exit=int(of_verdict(verdict.validity, live=verdict.live, laboratory_failed=failed)),
        repeat=repeat,
        failure=None if summary is None else summary.failure,
        sim_seconds=manifest.sim_seconds,
        wall_seconds=manifest.wall_seconds if summary is None else summary.wall_seconds,
    )


_T = TypeVar("_T")


def _decoded_file(path: Path, type: type[_T]) -> _T:
    """Read a JSON file of a stored run. Raises HistoryError where it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type)
    except (OSError, *NOT_JSON) as error:
        raise HistoryError(f"{path}: not the {path.name} of a run: {error}") from error


def _option(command: str, name: str) -> str:
    """The value of an option in the command that repeats a run; empty if it has none."""
    match = re.search(rf"--{name} (\S+)", command)
    return "" if match is None else match[1]
