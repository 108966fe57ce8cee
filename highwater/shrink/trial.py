"""A trial: whether a smaller plan still fails in the same way (docs/shrink.md).

A plan fits if its run has the signature of the first run and the run on the protocol that it is compared
with, normally `safe`, is VALID and live. A search tries many plans that do not fit, so the cheap questions come first:

    1. the run without its quiet time, judged by the one checker of the signature, then by all checkers
    2. the whole run on the compared protocol, judged by all checkers
    3. the whole run, judged by all checkers: the record of an accepted plan

The search asks the first question alone while it chains the proposals of a pass, and all three of the plan that it accepts.
On real nodes a run cannot be repeated exactly: there a plan fits if `failing` of `runs` whole runs have the signature.
"""

from time import process_time

import msgspec
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from checkers.causes.signature import Signature, signature
from checkers.engine.anomalies import NOT_LIVE
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge as judge_with
from checkers.registry import ALL
from highwater.errors import CrashError, HarnessError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan
from highwater.rig.backend import Backend, BackendName, Run
from highwater.runs.provenance import Build
from highwater.runs.run import attempting, backend_named, judge, perform
from highwater.runs.summary import Summary, crash_signature, of_failure, summarize
from highwater.shrink.story import story
from history.event import EventKind as K
from history.history import History
from history.op import ADMIN_REQUESTS, OpType
from reference.types import TopicPartition, index_of, topic_of
from workloads.parameters import Step

MS = 1_000_000  # ns
NOTHING_TO_COMPARE = "nothing to compare"


class Goal(Struct, frozen=True, kw_only=True):
    """What must stay while a plan is shrunk."""

    signature: str
    checker: str  # that alone judges the first run of a trial; empty for a crash of the protocol
    early: bool  # the failure is proven before the faults are healed: a trial needs no quiet time
    against: str | None  # the protocol on which each plan must be VALID and live; None: nothing to compare
    backend: BackendName = "sim"
    runs: int = 1  # of each plan, on real nodes
    failing: int = 1  # of these must fail


class RunFacts(Struct, frozen=True, kw_only=True):
    """What the harness saw in one whole run. `operations` and `acked` are of clients, up to the proof of the failure."""

    summary: Summary
    signature: str = ""  # empty if the run did not fail
    checker: str = ""
    key: str = ""  # partition or client of the failure
    proof_ms: int | None = None  # when it was proven, after the start of the workload; None: after healing, or at no moment
    hits: dict[str, tuple[int, ...]] = {}  # brokers that each window hit
    operations: int = 0
    produces: int = 0  # of them
    acked: int = 0
    requests: tuple[Step, ...] = ()  # of administrators, as a script that makes them again
    story: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is something to shrink: an anomaly, a crash of the protocol, or a cluster that is not live."""
        return self.summary.exit_code in (ExitCode.INVALID, ExitCode.NOT_LIVE)


class Trial(Struct, frozen=True, kw_only=True):
    """The answer on one plan. `seen` is its whole run, where one was performed."""

    fits: bool
    why: str = ""  # it does not fit
    cpu_seconds: float = 0.0
    seen: RunFacts | None = None


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of a plan: with a goal whether it fits, without one what its whole run shows."""

    plan: Plan
    build: Build
    backend: BackendName = "sim"
    goal: Goal | None = None
    quick: bool = False  # ask only the one checker


def answer_encoded(payload: bytes) -> bytes:
    """Answer a question as an item of work (`pipeline.work`); returns the trial as JSON."""
    return msgspec.json.encode(answer(msgspec.json.decode(payload, type=Question)))


def answer(question: Question) -> Trial:
    """Answer a question in this process. HarnessError if the harness failed, KeyboardInterrupt after Ctrl-C."""
    start = process_time()
    if question.goal is None:
        trial = Trial(fits=False, seen=look(question.plan, backend_named(question.backend), question.build))
    elif question.quick:
        backend = backend_named(question.backend)
        trial = Trial(fits=_still_fails(question.plan, question.goal, question.build, backend))
    else:
        trial = _trial(question.plan, question.goal, question.build)
    return replace(trial, cpu_seconds=round(process_time() - start, 3))


def look(plan: Plan, backend: Backend, build: Build) -> RunFacts:
    """Perform a plan and judge its whole run with all checkers."""
    try:
        run = _run(plan, backend, build)
    except CrashError as error:
        failed = of_failure(
            plan.name,
            seed=plan.seed,
            protocol=plan.protocol,
            backend=backend.name,
            failure=str(error),
            repeat="",
            crash=error.where,
        )
        return RunFacts(summary=failed, signature=crash_signature(error.where), checker="")
    verdict = judge(run.history)
    failure = signature(run.history, verdict) if verdict.validity is Validity.INVALID or verdict.live is False else None
    summary = summarize(plan, run.history, verdict, repeat="", wall_seconds=0.0)
    if failure is None:
        return RunFacts(summary=summary)
    return _facts(plan, run.history, verdict, failure, summary)


def _trial(plan: Plan, goal: Goal, build: Build) -> Trial:
    """The trial of a plan: whether it fails in this way, and does not fail where it must not."""
    backend = backend_named(goal.backend)
    if goal.backend != "sim":
        return _trial_of_runs(plan, goal, build, backend)
    if not _still_fails(plan, goal, build, backend):
        return Trial(fits=False, why="it does not fail in this way")
    refusal = _refusal(plan, goal, build, backend)
    if refusal is not None:
        return Trial(fits=False, why=refusal)
    facts = look(plan, backend, build)
    if facts.signature != goal.signature:
        return Trial(fits=False, why=f"the whole run has the signature {facts.signature or 'of no failure'}", seen=facts)
    return Trial(fits=True, seen=facts)


def _still_fails(plan: Plan, goal: Goal, build: Build, backend: Backend) -> bool:
    """Whether the one checker sees this kind of failure, and all checkers the signature.

    A run without quiet time is the same up to its healing. One checker alone does not know which partition lost a record first,
    so it may name another step.
    """
    try:
        run = _run(replace(plan, quiet_ms=1, audit_ms=0) if goal.early else plan, backend, build)
    except CrashError as error:
        return crash_signature(error.where) == goal.signature
    if not goal.checker:
        return False
    verdict_of_checker = judge_with(run.history, tuple(checker for checker in ALL if checker.name == goal.checker))
    kinds = {failure.kind for failure in verdict_of_checker.anomalies} | ({NOT_LIVE} if verdict_of_checker.not_live else set())
    if goal.signature.partition("/")[0] not in kinds:
        return False
    failure = signature(run.history, replace(judge_with(run.history, ALL), unchecked=()))
    return failure is not None and failure.text == goal.signature


def _refusal(plan: Plan, goal: Goal, build: Build, backend: Backend) -> str | None:
    """Why the plan proves nothing about the difference of the two protocols; None if the compared one is VALID and live."""
    if goal.against is None:
        return None
    summary = look(replace(plan, protocol=goal.against, variant=None), backend, build).summary
    return None if summary.exit_code is ExitCode.VALID else f"{goal.against} is {summary.words} on it, too"


def _trial_of_runs(plan: Plan, goal: Goal, build: Build, backend: Backend) -> Trial:
    """Perform a plan on real nodes until `failing` runs have the signature, or until too few are left."""
    fitting: list[RunFacts] = []
    for number in range(goal.runs):
        if len(fitting) + goal.runs - number < goal.failing:
            break
        facts = look(plan, backend, build)
        fitting += [facts] * (facts.signature == goal.signature)
        if len(fitting) == goal.failing:
            refusal = _refusal(plan, goal, build, backend)
            return Trial(fits=refusal is None, why=refusal or "", seen=fitting[0])
    return Trial(fits=False, why=f"fewer than {goal.failing} of {goal.runs} runs fail in this way")


def _run(plan: Plan, backend: Backend, build: Build) -> Run:
    """Perform the plan. Raises HarnessError if the harness fails."""
    with attempting(f"performing {plan.name} on {backend.name}", "highwater shrink"):
        run = perform(plan, backend, build)
    if run.history.manifest.outcome == "interrupted":
        raise KeyboardInterrupt
    if run.failure is not None:
        raise HarnessError(f"performing {plan.name} on {backend.name}: {run.failure}")
    return run


def _facts(plan: Plan, history: History, verdict: Verdict, failure: Signature, summary: Summary) -> RunFacts:
    """What shrinking needs to know of a run that failed."""
    zero_ns = _zero_ns(plan, history)
    healed_ns = history.manifest.healed_at_ns
    proven = failure.at_ns is not None and healed_ns is not None and failure.at_ns < healed_ns
    last = history.manifest.end_ns if failure.at_ns is None else failure.at_ns
    calls = history.operations_frame.filter((pl.col("slot") == 0) & (pl.col("time_ns") <= last))
    invoked = calls.filter(pl.col("type") == OpType.INVOKE.value)
    acked = (pl.col("type") == OpType.OK.value) & (pl.col("f") == "produce")
    return RunFacts(
        summary=summary,
        signature=failure.text,
        checker=failure.checker,
        key=failure.key,
        proof_ms=(failure.at_ns - zero_ns) // MS + 1 if proven and failure.at_ns is not None else None,
        hits=_hits(history),
        operations=invoked.height,
        produces=invoked.filter(pl.col("f") == "produce").height,
        acked=calls.filter(acked).height,
        requests=_requests(invoked, zero_ns),
        story=story(history, failure, zero_ns=zero_ns),
    )


def _requests(invoked: pl.DataFrame, zero_ns: int) -> tuple[Step, ...]:
    """Without the edits of an operator: their znodes are not in the history."""
    rows = invoked.filter(pl.col("f").is_in(ADMIN_REQUESTS) & (pl.col("f") != "edit-znode")).sort("index")
    return tuple(
        step_of(do, value or "", (at_ns - zero_ns) // MS) for do, value, at_ns in rows.select("f", "value", "time_ns").iter_rows()
    )


def step_of(do: str, value: str, at_ms: int) -> Step:
    """The request of a history's row: its value is a topic or a partition, and after ` on ` its replicas."""
    subject, _, placed = value.partition(" on ")
    replicas = tuple(tuple(map(int, of.split(","))) for of in placed.split())
    whole = do in ("create-topic", "delete-topic") or not subject
    step = (
        {"topic": subject}
        if whole
        else {"topic": topic_of(TopicPartition(subject)), "partition": index_of(TopicPartition(subject))}
    )
    return msgspec.convert({"at_ms": max(0, at_ms), "do": do, "replicas": replicas, **step}, Step)


def _zero_ns(plan: Plan, history: History) -> int:
    """When the workload began."""
    healed_ns = history.manifest.healed_at_ns
    return 0 if healed_ns is None else healed_ns - plan.faults_ms * MS


def _hits(history: History) -> dict[str, tuple[int, ...]]:
    """The brokers that each window hit."""
    begun = history.events_frame.filter(
        (pl.col("kind") == str(K.FAULT_BEGUN)) & pl.col("partition").is_null() & pl.col("node").str.contains(r"^b\d+$")
    )
    hits: dict[str, list[int]] = {}
    for window, node in begun.select("fault", "node").iter_rows():
        hits.setdefault(window, []).append(int(node[1:]))
    return {window: tuple(sorted(set(brokers))) for window, brokers in hits.items()}
