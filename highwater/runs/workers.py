"""Perform and judge one run as an item of work (`pipeline.work`)."""

from time import perf_counter, process_time

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.behaviour.rows import rows_of
from highwater.behaviour.tap import tapped
from highwater.coverage.branches import counting, names_of
from highwater.coverage.reach import watching
from highwater.coverage.signs import signs_of
from highwater.errors import CrashError, HarnessError
from highwater.plans.plan import Plan
from highwater.rig.backend import Backend, BackendName
from highwater.runs.provenance import Build
from highwater.runs.run import Judged, Keep, backend_named, carry_out
from highwater.runs.summary import Summary, of_failure


class Task(Struct, frozen=True, kw_only=True):
    """One run that a worker performs and judges."""

    plan: Plan
    repeat: str
    build: Build
    keep: Keep = Keep()
    backend: BackendName = "sim"
    branches: bool = False  # the summary says which branches the run took (simulator only)
    signs: bool = False  # the summary has the signs of the run's behaviour
    behaviour: bool = False  # the summary has the rows of the run's behaviour (simulator only)
    watched: frozenset[str] = frozenset()  # functions of the protocol: the summary says which of their branches the run took


def perform(task: Task) -> Summary:
    """Perform and judge one run in this process. A failure of the harness becomes a summary, so that the other runs go on."""
    return attempt(task)[0]


def attempt(task: Task, backend: Backend | None = None) -> tuple[Summary, Judged | None]:
    """As `perform`; with the judged run, unless the harness failed. `backend` performs it in place of the one that it names."""
    if backend is not None:
        return _perform_or_fail(task, backend)
    if task.watched:
        with counting(task.watched) as marks:
            summary, judged = attempt(replace(task, watched=frozenset()))
        return replace(summary, taken=names_of(marks)), judged
    if task.behaviour:
        with tapped() as (backend, messages_sent):
            summary, judged_case = _perform_or_fail(task, backend)
            return summary if judged_case is None else replace(
                summary, behaviour=rows_of(judged_case.history, messages_sent)
            ), judged_case
    if not task.branches:
        return _perform_or_fail(task, backend_named(task.backend))
    with watching() as (backend, watcher):
        summary, judged_case = _perform_or_fail(task, backend)
        return replace(summary, reach=watcher.reach()), judged_case


def _perform_or_fail(task: Task, backend: Backend) -> tuple[Summary, Judged | None]:
    """Perform and judge; a failure of the harness becomes a summary without a verdict."""
    start, cpu = perf_counter(), process_time()
    try:
        judged_run = carry_out(task.plan, backend, build=task.build, repeat=task.repeat, keep=task.keep)
    except HarnessError as error:
        failed = of_failure(
            task.plan.name,
            seed=task.plan.seed,
            protocol=task.plan.protocol,
            backend=task.backend,
            failure=str(error),
            repeat=task.repeat,
            crash=error.where if isinstance(error, CrashError) else None,
        )
        failed = replace(failed, wall_seconds=round(perf_counter() - start, 3))
        return replace(failed, cpu_seconds=round(process_time() - cpu, 3)), None
    signs = signs_of(judged_run.history) if task.signs else UNSET
    return replace(judged_run.summary, signs=signs, cpu_seconds=round(process_time() - cpu, 3)), judged_run


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
