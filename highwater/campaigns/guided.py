"""A guided campaign in a folder of a store: generations of plans (`campaigns.generations`), each performed as items of work.

    STORE/campaigns/<name>/plans/<plan>.yaml    each edited plan, written before its run; the rest is as in `campaigns.folder`

A generation is planned when all runs of the one before have their rows, and learns from them in the order of its plans. So the
plans are the same with any number of workers, and a campaign that is resumed plans the same ones again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter

import msgspec
from msgspec import Struct

from highwater.campaigns.campaign import Campaign, Performer, Request, Watch, perform_until, summary_of
from highwater.campaigns.folder import PLANS, CampaignFolder, CampaignOrder, Keeping, OnRuns, perform_and_store
from highwater.campaigns.generations import Planned, Search, shown_by
from highwater.campaigns.order import Trial
from highwater.campaigns.tally import tally
from highwater.plans.plan import Plan
from highwater.plans.text import plan_to_yaml
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from pipeline.items import Item, Job
from pipeline.ledger import Row


class _Work(Struct, frozen=True, kw_only=True):
    """The payload of an item."""

    key: str
    plan: Plan
    repeat: str


def perform_guided(
    folder: CampaignFolder,
    performer: Performer,
    watch: Watch,
    on_runs: OnRuns,
    *,
    store: str,
    deadline_s: float | None = None,
    goals: tuple[str, ...] = (),
) -> Campaign:
    """Do the runs of a guided campaign that have no row, until all are done, a limit is reached or Ctrl-C is pressed.

    Runs are seen and counted in the order of their numbers. `store` is the folder as the user names it, for the commands that
    repeat a run.
    """
    start = perf_counter()
    order = folder.asked.order
    request = order.request(Trial(seed=order.first, protocol=order.protocols[0], faults=order.mixes[0]))
    search = Search(request, first=order.first, runs=order.runs, generation=order.generation)
    counted: list[Summary] = []
    stopped: str | None = None
    while stopped is None and (planned := search.planned()):
        generation = _Generation(folder, request, planned, f"{store.rstrip('/')}/{folder.under}")
        stopped = generation.perform(performer, watch, on_runs, deadline_s)
        counted += generation.counted
        search.learn(planned[: len(generation.counted)], [shown_by(summary) for summary in generation.counted])
    folder.tidy()
    runs = folder.write_runs(map(msgspec.json.encode, counted))
    return Campaign(
        wanted=order.runs,
        summaries=runs,
        tally=tally(counted, goals),
        stopped=stopped if len(runs) < order.runs else None,
        wall_seconds=round(perf_counter() - start, 1),
    )


class _Generation:
    """The runs of one generation; `counted` has the summaries of the first ones, without a gap."""

    def __init__(self, folder: CampaignFolder, request: Request, planned: Sequence[Planned], place: str) -> None:
        self.counted: list[Summary] = []
        self._folder = folder
        self._request = request
        self._works = [self._work_of(planned_run, place) for planned_run in planned]
        self._planned = planned
        self._early: dict[str, Row] = {}  # rows of runs that ended before an earlier one

    def perform(self, performer: Performer, watch: Watch, on_runs: OnRuns, deadline_s: float | None) -> str | None:
        """Do the runs without a row; returns why it ended early."""
        for planned_run in self._planned:
            if planned_run.seed is None:
                self._store(planned_run.plan)
        finished_keys = self._folder.ledger.keys()
        rows = list(self._folder.ledger.rows(work.key for work in self._works if work.key in finished_keys))
        finished = partial(self._summaries_to_count, on_runs)
        for row in rows:
            for summary in finished(row):
                watch.count(summary)
                if watch.reached is not None:
                    return watch.reached
        items = (Item(work.key, msgspec.json.encode(work)) for work in self._works)
        function = partial(perform_work, self._folder.asked, self._folder.storage.location, kept=self._folder.kept)
        job = Job(function=function, ledger=self._folder.ledger.location, deadline_s=deadline_s)
        return perform_until(items, job, finished, watch, performer=performer)

    def _summaries_to_count(self, on_runs: OnRuns, row: Row) -> Iterator[Summary]:
        """The summaries that can be counted now that this row is there."""
        self._early[row.key] = row
        while len(self.counted) < len(self._works) and (work := self._works[len(self.counted)]).key in self._early:
            planned_run = self._planned[len(self.counted)]
            ended = self._early.pop(work.key)
            summary = summary_of(
                ended,
                planned_run.plan.name,
                planned_run.seed,
                planned_run.plan.protocol,
                self._request.backend,
                repeat=work.repeat,
            )
            self.counted.append(summary)
            on_runs(1, f"{summary.plan} {summary.verdict}")
            yield summary

    def _work_of(self, planned_run: Planned, place: str) -> _Work:
        """The work of a planned run: an edited plan is repeated from its file, a fresh one from its seed."""
        if planned_run.seed is None:
            return _Work(
                key=planned_run.plan.name,
                plan=planned_run.plan,
                repeat=f"highwater run --plan {place}/{PLANS}/{planned_run.plan.name}.yaml",
            )
        key = Trial(seed=planned_run.seed, protocol=self._request.protocol, faults=self._request.faults).key
        return _Work(key=key, plan=planned_run.plan, repeat=self._request.command(planned_run.seed))

    def _store(self, plan: Plan) -> None:
        self._folder.storage.write(f"{self._folder.under}/{PLANS}/{plan.name}.yaml", plan_to_yaml(plan).encode())


def perform_work(ordered: CampaignOrder, location: str, payload: bytes, *, kept: Keeping | None = None) -> bytes:
    """Perform and judge one run of a guided campaign and store what is kept of it; returns the summary as JSON."""
    work = msgspec.json.decode(payload, type=_Work)
    task = Task(plan=work.plan, repeat=work.repeat, build=ordered.build, backend=ordered.order.backend)
    return perform_and_store(ordered, location, task, key=work.key, mix=ordered.order.mixes[0], kept=kept)
