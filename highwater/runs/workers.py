"""Perform and judge one run as an item of work (`pipeline.work`)."""

import traceback
from pathlib import Path
from time import process_time

import msgspec
from msgspec import Struct
from msgspec.structs import replace

import reference
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.runs.run import BackendName, Judged, Keep, backend_named, carry_out
from highwater.runs.summary import Summary, of_failure


class Task(Struct, frozen=True, kw_only=True):
    """One run that a worker performs and judges."""

    plan: Plan
    repeat: str
    build: Build
    keep: Keep = Keep()
    backend: BackendName = "sim"


def perform(task: Task) -> Summary:
    """Perform and judge one run in this process. A failure of the harness becomes a summary, so that the other runs go on."""
    return attempt(task)[0]


def attempt(task: Task) -> tuple[Summary, Judged | None]:
    """As `perform`; with the judged run, unless the harness failed."""
    start = process_time()
    try:
        judged = carry_out(task.plan, backend_named(task.backend), build=task.build, repeat=task.repeat, keep=task.keep)
    except HarnessError as error:
        failed = of_failure(
            task.plan.name,
            seed=task.plan.seed,
            protocol=task.plan.protocol,
            backend=task.backend,
            failure=str(error),
            repeat=task.repeat,
            crash=crash_of(error),
        )
        return replace(failed, cpu_seconds=_since(start)), None
    return replace(judged.summary, cpu_seconds=_since(start)), judged


def crash_of(error: HarnessError) -> str | None:
    """The exception that caused this error and the line of `reference/` that it passed last; None if it passed none."""
    cause = error.__cause__
    if cause is None:
        return None
    root = Path(reference.__file__).parent
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root):
            where = f"{root.name}/{path.relative_to(root).as_posix()}:{frame.lineno}"
            return f"{where} in {frame.name}: {type(cause).__name__}: {cause}"
    return None


def _since(start: float) -> float:
    return round(process_time() - start, 3)


def encode_task(task: Task) -> bytes:
    """A task as the payload of an item."""
    return msgspec.json.encode(task, enc_hook=str)


def decode_task(payload: bytes) -> Task:
    """The task of an item."""
    return msgspec.json.decode(payload, type=Task, dec_hook=lambda kind, text: kind(text))


def perform_encoded(payload: bytes) -> bytes:
    """Perform the task of an item; returns the summary as JSON. Ctrl-C stores the run as far as it got and ends the work."""
    summary = perform(decode_task(payload))
    if summary.outcome == "interrupted":
        raise KeyboardInterrupt
    return msgspec.json.encode(summary)
