"""Shrink a plan in a folder: the smallest plan so far is always on disk, and a shrink that was ended goes on where it was.

STORE/shrunk/<plan>-<protocol>/request.json   what was asked for, by which code
                               before.yaml    the plan as it was given
                               ledger/        the answer on each plan that was tried (pipeline.ledger)
                               plan.yaml      the smallest plan so far, with its story
                               neighbours.txt what happens without each fault that is left; written last
                               nearest.yaml   the nearest plan that passes, if one was found
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan, is_foreign, plan_digest, system_of, topics_of
from highwater.plans.systems import words_of
from highwater.plans.text import plan_to_yaml
from highwater.rig.backend import BackendName
from highwater.runs.provenance import present_build
from highwater.shrink.neighbours import Neighbour, nearest, neighbours
from highwater.shrink.search import Budget, Judges, Smallest, SpentError, shrink
from highwater.shrink.trial import NOTHING_TO_COMPARE, Goal, RunFacts
from history.store import PLAN, write_file
from pipeline.ledger import Ledger
from pipeline.owner import owned
from pipeline.stamp import present_stamp
from pipeline.storage import storage_at

FOLDER = "shrunk"
REQUEST, BEFORE, LEDGER, NEIGHBOURS, NEAREST = "request.json", "before.yaml", "ledger", "neighbours.txt", "nearest.yaml"
INTERRUPTED = "interrupted"


class ShrinkOrder(Struct, frozen=True, kw_only=True):
    """What is to be shrunk, and how. On real nodes `failing` of `runs` runs of a plan must fail."""

    plan: Plan
    against: str = "safe"
    backend: BackendName = "sim"
    runs: int = 1
    failing: int = 1


class Size(Struct, frozen=True, kw_only=True):
    """How large a plan is. `operations` and `acked` are calls of clients, and acknowledged produces, up to the proof."""

    windows: int
    steps: int
    brokers: int
    replicas: int  # the largest replication factor
    partitions: int
    clients: int
    faults_ms: int
    operations: int
    acked: int


class Shrunk(Struct, frozen=True, kw_only=True):
    """The result of shrinking a plan; `shrink --json` prints it."""

    plan: str  # file
    signature: str
    compared: str  # the protocol that is VALID on it, or why there is none
    before: Size
    after: Size
    story: tuple[str, ...]
    neighbours: tuple[Neighbour, ...]
    nearest: str = ""  # the nearest neighbour that passes, in words; its plan is nearest.yaml
    against: str = ""  # the protocol that is VALID and live on the plan; empty if none was compared
    verdict: str
    accepted: dict[str, int]  # smaller plans, by pass
    trials: int
    cpu_seconds: float
    stopped: str | None  # why it may be smaller still
    exit: ExitCode


class _Identity(Struct, frozen=True, kw_only=True):
    """The content of request.json: the ledger of another request is of no use."""

    plan_digest: str
    protocol: str
    goal: Goal
    code: str


def folder_of(store: Path, plan: Plan, backend: BackendName = "sim") -> Path:
    """The folder in a store in which a plan is shrunk."""
    return store / FOLDER / (f"{plan.name}-{plan.protocol}" + (f"-{backend}" if backend != "sim" else ""))


def shrink_in(
    folder: Path, order: ShrinkOrder, *, budget: Budget, workers: int, tell: Callable[[Smallest], None] = lambda smallest: None
) -> Shrunk:
    """Shrink a failing plan in this folder; goes on where an earlier shrink of the same plan by the same code was ended.

    After Ctrl-C the smallest plan so far is returned, with the reason. UsageError if the plan does not fail.
    """
    build = present_build()
    is_new = not folder.exists()
    ledger = folder / LEDGER
    judges = Judges(str(ledger), build, budget=budget, workers=workers, backend=order.backend)
    with owned(storage_at(str(folder))), closing(judges):
        write_file(folder / BEFORE, plan_to_yaml(order.plan))
        _forget_other_code(folder)
        facts = judges.whole_run(order.plan)
        if not facts.failed:
            if is_new:
                rmtree(folder)
            raise UsageError(f"{order.plan.name} on {order.plan.protocol} is {facts.summary.words}: nothing to shrink")
        goal, compared = _goal(order, facts, judges)
        _keep_ledger(folder, order.plan, goal)
        start = Smallest(plan=order.plan, seen=facts)
        return _Shrinking(folder, start, goal, compared=compared, judges=judges, tell=tell).run()


def _goal(order: ShrinkOrder, facts: RunFacts, judges: Judges) -> tuple[Goal, str]:
    """What must stay, and the protocol that is compared in words."""
    plan = order.plan
    against: str | None = order.against
    compared = f"{order.against} is VALID and live on it"
    if is_foreign(plan):
        against = None
        compared = f"{NOTHING_TO_COMPARE}: the plan is of {words_of(system_of(plan))}"
    elif plan.variant is None and plan.protocol == order.against:
        against = None
        compared = f"{NOTHING_TO_COMPARE}: the plan is of {order.against} itself"
    else:
        judged_against = judges.whole_run(replace(plan, protocol=order.against, variant=None))
        if judged_against.summary.exit_code is not ExitCode.VALID:
            against = None
            compared = f"{NOTHING_TO_COMPARE}: {order.against} is {judged_against.summary.words} on the given plan, too"
    goal = Goal(
        signature=facts.signature,
        checker=facts.checker,
        early=facts.proof_ms is not None,
        against=against,
        backend=order.backend,
        runs=order.runs,
        failing=order.failing,
    )
    return goal, compared


def _forget_other_code(folder: Path) -> None:
    """Forget the answers of other code."""
    try:
        identity = msgspec.json.decode((folder / REQUEST).read_bytes(), type=_Identity)
        same = identity.code == present_stamp().code
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        same = False
    if not same:
        _forget(folder)


def _forget(folder: Path) -> None:
    ledger = Ledger(storage_at(str(folder / LEDGER)))
    ledger.forget(ledger.keys())


def _keep_ledger(folder: Path, plan: Plan, goal: Goal) -> None:
    """Write what is asked for; forget the answers to another question."""
    identity = _Identity(plan_digest=plan_digest(plan), protocol=plan.protocol, goal=goal, code=present_stamp().code)
    path = folder / REQUEST
    text = msgspec.json.format(msgspec.json.encode(identity), indent=2) + b"\n"
    if path.exists() and path.read_bytes() != text:
        _forget(folder)
    Ledger(storage_at(str(folder / LEDGER))).mend()
    write_file(path, text)


class _Shrinking:
    """A shrink under way, with the smallest plan so far on disk."""

    def __init__(
        self, folder: Path, start: Smallest, goal: Goal, *, compared: str, judges: Judges, tell: Callable[[Smallest], None]
    ) -> None:
        self._folder = folder
        self._before = size_of(start.plan, start.seen)
        self._best = start
        self._goal = goal
        self._compared = compared
        self._judges = judges
        self._tell = tell
        self._neighbours: tuple[Neighbour, ...] = ()
        self._nearest = ""

    def run(self) -> Shrunk:
        """Shrink until nothing gets smaller, the budget is spent or Ctrl-C is pressed; the result is on disk in any case."""
        self._write()
        try:
            self._best = shrink(self._best.plan, self._best.seen, self._goal, self._judges, self._on_accepted)
            self._try_neighbours()
        except SpentError as spent:
            self._best = replace(self._best, stopped=str(spent))
        except KeyboardInterrupt:
            self._best = replace(self._best, stopped=INTERRUPTED)
        self._write()
        return self._shrunk()

    def _try_neighbours(self) -> None:
        """Try the nearest neighbours, and store the nearest that passes."""
        tried = neighbours(self._best.plan, self._judges)
        self._neighbours = tuple(trial.neighbour for trial in tried)
        near = nearest(tried)
        if near is not None:
            self._nearest = near.neighbour.what
            write_file(self._folder / NEAREST, plan_to_yaml(near.plan))

    def _on_accepted(self, smallest: Smallest) -> None:
        self._best = smallest
        self._write()
        self._tell(smallest)

    def _write(self) -> None:
        write_file(self._folder / PLAN, plan_to_yaml(shrunk_in(self._best)))
        text = "".join(f"{neighbour.words}\n" for neighbour in self._neighbours)
        if text:
            write_file(self._folder / NEIGHBOURS, text)

    def _shrunk(self) -> Shrunk:
        """The result so far."""
        best, summary = self._best, self._best.seen.summary
        return Shrunk(
            plan=str(self._folder / PLAN),
            signature=self._goal.signature,
            compared=self._compared,
            before=self._before,
            after=size_of(best.plan, best.seen),
            story=best.seen.story,
            neighbours=self._neighbours,
            nearest=self._nearest,
            against=self._goal.against or "",
            verdict=summary.words,
            accepted=best.accepted,
            trials=self._judges.trials,
            cpu_seconds=round(self._judges.cpu_seconds, 1),
            stopped=best.stopped,
            exit=ExitCode.UNKNOWN if best.stopped == INTERRUPTED else summary.exit_code,
        )


def shrunk_in(smallest: Smallest) -> Plan:
    """The plan with the story of its failure."""
    return replace(smallest.plan, story=" ".join(smallest.seen.story)) if smallest.seen.story else smallest.plan


def size_of(plan: Plan, facts: RunFacts) -> Size:
    """How large a plan is, and its failing run up to the proof."""
    topics = topics_of(plan)
    return Size(
        windows=len(plan.schedule),
        steps=len(plan.script),
        brokers=plan.cluster.brokers,
        replicas=max(topic.replication_factor for topic in topics),
        partitions=sum(topic.partitions for topic in topics),
        clients=plan.workload.producers + plan.workload.consumers,
        faults_ms=plan.faults_ms,
        operations=facts.operations,
        acked=facts.acked,
    )


def sizes(shrunk: Shrunk) -> Iterator[tuple[str, int, int]]:
    """What is counted of both plans: name, before, after."""
    for name in Size.__struct_fields__:
        yield name, getattr(shrunk.before, name), getattr(shrunk.after, name)
