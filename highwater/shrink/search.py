"""The search for the smallest plan: passes over proposals, on all cores, within a budget, with a ledger of what was answered.

    passes ─proposals in order─▶ judges (workers) ─answers─▶ the first that fits is taken ─▶ its pass goes on from there

A pass chains the proposals that fail in the short run. The plan at its end is judged whole, and on the compared protocol; where
it is refused, the pass is done again with every proposal judged so. Only plans that were judged whole are accepted and written.

Proposals are tried ahead on all cores, but accepted in their order, and only those up to the accepted one count for the budget.
So the result does not depend on the number of workers. The answer on each plan is a row of the ledger under the plan's digest:
a search that is begun again asks nothing twice.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from enum import Enum
from functools import partial
from itertools import islice

import msgspec
from msgspec import Struct

from highwater.errors import HarnessError
from highwater.plans.plan import Plan, plan_digest
from highwater.rig.backend import BackendName
from highwater.runs.provenance import Build
from highwater.shrink.passes import LAST, PASSES, Pass, Reduction, first_proposals, proposals
from highwater.shrink.trial import Goal, Question, RunFacts, Trial, answer_encoded
from pipeline.items import Item, Job, perform_item
from pipeline.ledger import Ledger, Row
from pipeline.local import call_on_processes
from pipeline.storage import storage_at

ROUNDS_MAX = 6  # of all passes
DEADLINE_S = 3600.0  # of one answer


class Budget(Struct, frozen=True, kw_only=True):
    """How much a search may spend: plans that it tries, and CPU seconds of trying them."""

    trials: int
    cpu_seconds: float


class Smallest(Struct, frozen=True, kw_only=True):
    """The smallest plan so far. `accepted`: proposals by pass; `stopped`: why the search ended early."""

    plan: Plan
    seen: RunFacts
    trials: int = 0
    cpu_seconds: float = 0.0
    accepted: dict[str, int] = {}
    stopped: str | None = None


class SpentError(Exception):
    """The budget is spent; the message says which part."""


class _Nothing(Enum):
    MORE = 0


class Judges:
    """Answers questions on worker processes and keeps the answers in a ledger. Counts what it answered."""

    def __init__(self, ledger: str, build: Build, *, budget: Budget, workers: int, backend: BackendName = "sim") -> None:
        self.trials = 0
        self.cpu_seconds = 0.0
        self._build = build
        self._backend = backend
        self._budget = budget
        self._workers = workers
        self._ledger = Ledger(storage_at(ledger))
        self._job = Job(function=answer_encoded, ledger=self._ledger.location, deadline_s=DEADLINE_S)
        self._counted: set[str] = set()
        self._queue: deque[Item] = deque()
        self._under_way: set[str] = set()
        self._rows: Generator[Row, None, None] | None = None

    def close(self) -> None:
        """End the workers."""
        if self._rows is not None:
            self._rows.close()

    def whole_run(self, plan: Plan) -> RunFacts:
        """What the whole run of a plan shows, whatever is left of the budget.

        Raises HarnessError if it could not be performed.
        """
        item = self._item(plan, goal=None)
        row = self._row(item)
        if row.state != "done":
            raise HarnessError(f"{plan.name}: {row.words}")
        facts = self._count(item.key, row).seen
        assert facts is not None
        return facts

    def first_fitting(self, plans: Iterator[Plan], goal: Goal, *, quick: bool) -> tuple[int, Plan, RunFacts | None] | None:
        """The first of these plans that fits, its number among them, and its whole run (None if `quick`). Raises SpentError."""
        ahead: deque[tuple[int, Plan, Item]] = deque()
        numbered = enumerate(plans)
        while True:
            while len(ahead) < self._workers and (after := next(numbered, None)) is not None:
                number, plan = after
                item = self._item(plan, goal=goal, quick=quick)
                ahead.append((number, plan, item))
                self._ask(item)
            if not ahead:
                return None
            number, plan, item = ahead.popleft()
            trial = self._count(item.key, self._row(item))
            self.check_budget()
            if trial.fits:
                self._queue.clear()
                return number, plan, trial.seen

    def check_budget(self) -> None:
        """Raise SpentError if more trials or CPU seconds were needed than the budget has."""
        if self.trials > self._budget.trials:
            raise SpentError(f"the budget of {self._budget.trials} trial{'s' * (self._budget.trials > 1)} is spent")
        if self.cpu_seconds > self._budget.cpu_seconds:
            raise SpentError(f"the budget of {self._budget.cpu_seconds:g} s of CPU is spent")

    def _item(self, plan: Plan, *, goal: Goal | None, quick: bool = False) -> Item:
        question = Question(plan=plan, build=self._build, backend=self._backend, goal=goal, quick=quick)
        question_kind = "look" if goal is None else "quick" if quick else "fits"
        return Item(f"{plan_digest(plan)}-{question_kind}", msgspec.json.encode(question))

    def _ask(self, item: Item) -> None:
        if self._workers == 1 or item.key in self._under_way or self._ledger.holds(item.key):
            return
        if all(item.key != queued.key for queued in self._queue):
            self._queue.append(item)

    def _row(self, item: Item) -> Row:
        """The row of an item, which is done now unless the ledger holds it."""
        if self._ledger.holds(item.key):
            return self._ledger.read(item.key)
        if self._workers == 1:
            return perform_item(self._job, self._ledger, item, attempt=1, end_hung=False)
        self._ask(item)
        while True:
            if self._rows is None:
                self._rows = call_on_processes(
                    partial(_perform_here, self._job),
                    _Feed(self._queue, self._under_way),
                    jobs=self._workers,
                    died=self._row_of_dead_worker,
                )
            row = next(self._rows, _Nothing.MORE)
            if isinstance(row, _Nothing):
                self._rows = None
                continue
            self._under_way.discard(row.key)
            if row.key == item.key:
                return row

    def _row_of_dead_worker(self, item: Item, attempt: int, how: str) -> Row | None:
        """The row of an item whose worker died; None after the first time, so that it is tried again."""
        if attempt == 1:
            return None
        row = Row(key=item.key, state="failed", attempt=attempt, seconds=0.0, words=f"its worker process died ({how})")
        self._ledger.commit(row)
        return row

    def _count(self, key: str, row: Row) -> Trial:
        """Count an answer that the search needs, once; a plan that could not be performed does not fit."""
        done = row.state == "done"
        trial = msgspec.json.decode(row.result, type=Trial) if done else Trial(fits=False, why=row.words, cpu_seconds=row.seconds)
        if key not in self._counted:
            self._counted.add(key)
            self.trials += 1
            self.cpu_seconds += trial.cpu_seconds
        return trial


class _Feed:
    """The questions that wait for a worker; it may be empty now and not later."""

    def __init__(self, queue: deque[Item], under_way: set[str]) -> None:
        self._queue = queue
        self._under_way = under_way

    def __iter__(self) -> "_Feed":
        return self

    def __next__(self) -> Item:
        """The next trial for a worker."""
        if not self._queue:
            raise StopIteration
        item = self._queue.popleft()
        self._under_way.add(item.key)
        return item


def _perform_here(job: Job, item: Item, attempt: int) -> Row:
    return perform_item(job, Ledger(storage_at(job.ledger)), item, attempt=attempt)


def shrink(plan: Plan, seen: RunFacts, goal: Goal, judges: Judges, accepted: Callable[[Smallest], None]) -> Smallest:
    """Shrink a plan whose whole run was seen to fail. `accepted` is called with each smaller plan, before the search goes on."""
    search = _Search(Smallest(plan=plan, seen=seen), goal, judges, accepted)
    try:
        search.run()
    except SpentError as spent:
        return search.outcome(stopped=str(spent))
    return search.outcome()


class _Search:
    """The smallest plan so far, and the passes over it."""

    def __init__(self, best: Smallest, goal: Goal, judges: Judges, accepted: Callable[[Smallest], None]) -> None:
        self._best = best
        self._goal = goal
        self._judges = judges
        self._accepted = accepted
        self._counts: dict[str, int] = {}

    def run(self) -> None:
        """Repeat all passes until none of them finds a smaller plan."""
        first = PASSES[0].name
        for plan in first_proposals(self._best.plan, self._best.seen):
            if self._accept(first, plan):
                break
        for _ in range(ROUNDS_MAX):
            before = self._best.plan
            for pass_ in PASSES:
                self._pass(pass_)
            if self._best.plan == before:
                break
        self._pass(LAST)

    def outcome(self, stopped: str | None = None) -> Smallest:
        """The smallest plan with what the search has spent."""
        return msgspec.structs.replace(
            self._best,
            trials=self._judges.trials,
            cpu_seconds=round(self._judges.cpu_seconds, 1),
            accepted=dict(self._counts),
            stopped=stopped,
        )

    def _pass(self, pass_: Pass) -> None:
        """Take proposals of each reduction until none is left; after each one taken from its place on."""
        if self._goal.backend == "sim":
            chained = self._chained_plan(pass_)
            if chained == self._best.plan or self._accept(pass_.name, chained):
                return
        for reduction in pass_.reductions(self._best.plan, self._best.seen):
            place = 0
            while (accepted_trial := self._first(reduction, self._best.plan, place, quick=False)) is not None:
                place, plan, facts = accepted_trial
                assert facts is not None
                self._accepted_by(pass_.name, plan, facts)

    def _chained_plan(self, pass_: Pass) -> Plan:
        """The plan after the proposals of a pass that the one checker lets through."""
        plan = self._best.plan
        for reduction in pass_.reductions(plan, self._best.seen):
            place = 0
            while (fitting := self._first(reduction, plan, place, quick=True)) is not None:
                place, plan, _ = fitting
        return plan

    def _first(self, reduction: Reduction, plan: Plan, place: int, *, quick: bool) -> tuple[int, Plan, RunFacts | None] | None:
        """The first proposal from a place on that fits: its place, the plan and its run."""
        places: list[int] = []

        def others() -> Iterator[Plan]:
            for number, proposal in islice(enumerate(proposals(reduction, plan, self._best.seen)), place, None):
                if proposal != plan:
                    places.append(number)
                    yield proposal

        fitting = self._judges.first_fitting(others(), self._goal, quick=quick)
        return None if fitting is None else (places[fitting[0]], fitting[1], fitting[2])

    def _accept(self, name: str, plan: Plan) -> bool:
        """Accept a plan if its whole run fits."""
        fitting = self._judges.first_fitting(iter([plan]), self._goal, quick=False)
        if fitting is None:
            return False
        assert fitting[2] is not None
        self._accepted_by(name, plan, fitting[2])
        return True

    def _accepted_by(self, name: str, plan: Plan, facts: RunFacts) -> None:
        self._best = Smallest(plan=plan, seen=facts)
        self._counts[name] = self._counts.get(name, 0) + 1
        self._accepted(self.outcome())
