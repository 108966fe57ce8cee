"""Records of runs for a dataset (`pipeline.record`): of a run that was performed just now, and of a run that is stored."""

import re
from pathlib import Path

import msgspec

from checkers.verdict import Verdict
from highwater.exit_codes import of_verdict
from highwater.runs.run import SUMMARY, judge
from highwater.runs.summary import Summary
from history import store
from history.errors import HistoryError
from history.history import History
from history.manifest import RunManifest
from pipeline.dataset import with_evidence
from pipeline.record import Known, Record, record_of


def known_of(summary: Summary, *, run_id: str, mix: str, workload: str, profile: str, commit: str, checkers: str = "") -> Known:
    """What a record needs beside history and verdict, from the summary of a run that was performed just now."""
    return Known(
        plan=summary.plan,
        run_id=run_id,
        protocol=summary.protocol,
        seed=summary.seed,
        plan_digest=summary.plan_digest,
        mix=mix,
        profile=profile,
        workload=workload,
        backend=summary.backend,
        commit=commit,
        checkers=checkers,
        outcome=summary.outcome,
        exit=int(summary.exit_code),
        repeat=summary.repeat,
        failure=summary.failure,
        sim_seconds=summary.sim_seconds,
        wall_seconds=summary.wall_seconds,
    )


def stored_run(directory: Path) -> str:
    """The key of a stored run. Raises HistoryError where the folder's manifest is no manifest of a run."""
    return f"{directory.parent.name}/{store.load_manifest(directory).run_id}"


def stored_record(directory: Path, *, evidence: bool) -> Record:
    """The record of a stored run, with the verdict that is stored beside it, else judged now.

    `evidence`: with its operations and events. Raises HistoryError where a file is damaged.
    """
    history = store.load_run(directory)
    verdict = _verdict(directory, history)
    record = record_of(_known(directory, history.manifest, verdict), history, verdict)
    return with_evidence(record, history) if evidence else record


def _verdict(directory: Path, history: History) -> Verdict:
    path = directory / store.VERDICT
    if not path.exists():
        return judge(history)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Verdict)
    except (OSError, msgspec.DecodeError) as error:
        raise HistoryError(f"{path}: not a verdict: {error}") from error


def _known(directory: Path, manifest: RunManifest, verdict: Verdict) -> Known:
    """From the manifest and, where there is a summary, the command that repeats the run and its options."""
    path = directory / SUMMARY
    try:
        summary = msgspec.json.decode(path.read_bytes(), type=Summary) if path.exists() else None
    except (OSError, msgspec.DecodeError) as error:
        raise HistoryError(f"{path}: not the summary of a run: {error}") from error
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
        workload=_option(repeat, "workload"),
        backend=manifest.backend,
        commit=manifest.commit,
        outcome=manifest.outcome,
        exit=int(of_verdict(verdict.validity, live=verdict.live, laboratory_failed=failed)),
        repeat=repeat,
        failure=None if summary is None else summary.failure,
        sim_seconds=manifest.sim_seconds,
        wall_seconds=manifest.wall_seconds if summary is None else summary.wall_seconds,
    )


def _option(command: str, name: str) -> str:
    """The value of an option in the command that repeats a run; empty if it has none."""
    found = re.search(rf"--{name} (\S+)", command)
    return "" if found is None else found[1]
