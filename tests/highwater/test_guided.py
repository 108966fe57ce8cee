"""Guided campaigns: the same runs whatever performs them, plans that replay, and resuming."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Campaign, Limits, Request, Watch
from highwater.campaigns.folder import PLANS, CampaignFolder, CampaignOrder
from highwater.campaigns.generations import Planned, Search
from highwater.campaigns.guided import perform_guided
from highwater.campaigns.order import Order
from highwater.campaigns.records import CampaignRecords
from highwater.coverage.branches import Reach, Step, packed
from highwater.errors import UsageError
from highwater.plans.plan import plan_digest
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import Judged
from highwater.runs.run import perform as perform_run
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from pipeline.storage import below, storage_at
from pipeline.work import perform

HERE = Build(commit="abc", dirty=False, versions={})
ORDER = Order(first=3, last=14, seconds=2, generation=4)
NO_LIMITS = Limits()


def _reach(digest: str) -> Reach:
    """What a fake run reaches: some branches, by the digest of its plan."""
    numbers = sorted({int(digest[at : at + 2], 16) for at in range(0, 16, 2)})
    return packed([Step(700, 1, "leader calm", tuple(numbers))])


def _generations(first: int, size: int, runs: int = 12) -> list[tuple[Planned, ...]]:
    search = Search(Request(seconds=2), first=first, runs=runs, generation=size)
    found = []
    while planned := search.planned():
        found.append(planned)
        search.learn(planned, [_reach(plan_digest(planned_run.plan)) for planned_run in planned])
    return found


def test_search_plans_the_asked_number_of_runs() -> None:
    assert [len(planned) for planned in _generations(3, 5)] == [5, 5, 2]


def test_search_of_one_first_seed_plans_the_same_again() -> None:
    assert _generations(3, 4) == _generations(3, 4) != _generations(4, 4)


def _parent(one: Planned) -> str:
    """What a plan was edited from; a seed without an edit is its own parent."""
    return one.plan.story.split()[2].rstrip(":") if one.seed is None else one.plan.name


@pytest.mark.usefixtures("catalogue")
def test_search_edits_new_seeds_and_its_pool_in_turn() -> None:
    """The run of an edited new seed is new as a whole; one run of eight is a seed without an edit, as where no edit fits."""
    earlier: set[str] = set()
    new: list[str] = []
    for planned in _generations(3, 4, runs=32):
        for planned_run in planned:
            assert planned_run.seed is not None or planned_run.number % 8 != 7
            if planned_run.number % 2 == 1 and planned_run.seed is None and earlier:
                assert _parent(planned_run) in earlier
            else:
                new.append(_parent(planned_run))
        earlier |= {planned_run.plan.name for planned_run in planned}

    assert len(new) < 32 - 5
    assert new == sorted(set(new), key=lambda name: int(name.removeprefix("seed-")))


def test_search_without_anything_new_edits_new_seeds() -> None:
    """A run that reached nothing gives no plan to edit."""
    search = Search(Request(seconds=2), first=3, runs=8, generation=4)
    first = search.planned()
    search.learn(first, [None] * 4)
    parents = {_parent(planned_run) for planned_run in (*first, *search.planned())}

    assert len(parents) == 8
    assert all(name.startswith("seed-") for name in parents)


def test_search_edits_the_plan_that_alone_reached_a_branch_most() -> None:
    search = Search(Request(seconds=2), first=3, runs=400, generation=4)
    common = packed([Step(700, 1, "leader calm", (0, 1, 2, 3))])
    rare = packed([Step(700, 1, "leader calm", (0, 1, 2, 3)), Step(800, 1, "leader calm", (7, 8, 9))])
    first = search.planned()
    search.learn(first, [common, common, rare, common])
    parents: Counter[str] = Counter()
    for _ in range(20):
        planned = search.planned()
        parents.update(_parent(planned_run) for planned_run in planned)
        search.learn(planned, [None] * 4)
    chosen = [parents[planned_run.plan.name] for planned_run in first]

    assert chosen[2] > chosen[0] > chosen[1] == chosen[3] == 0


def _folder(store: Path, order: Order = ORDER, build: Build = HERE) -> CampaignFolder:
    return CampaignFolder(storage_at(store), CampaignOrder(order=order, build=build))


def _perform(folder: CampaignFolder, *, jobs: int = 1, limits: Limits = NO_LIMITS, deadline_s: float | None = None) -> Campaign:
    performer = partial(perform, jobs=jobs)
    return perform_guided(folder, performer, Watch(limits), lambda runs, words: None, store="store", deadline_s=deadline_s)


@pytest.fixture
def plans_performed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the plans that a fake worker was given; edited plans with an even number are INVALID."""
    commands: list[str] = []

    def attempt(task: Task) -> tuple[Summary, Judged | None]:
        assert task.branches
        commands.append(task.plan.name)
        is_red = task.plan.seed is None and task.plan.name[-1] in "02468"
        summary = Summary(
            seed=task.plan.seed,
            protocol=task.plan.protocol,
            verdict="INVALID" if is_red else "VALID",
            live=True,
            plan=task.plan.name,
            plan_digest=plan_digest(task.plan),
            backend="sim",
            outcome="completed",
            repeat=task.repeat,
            reach=_reach(plan_digest(task.plan)),
        )
        return summary, None

    monkeypatch.setattr("highwater.campaigns.folder.attempt", attempt)
    return commands


def test_resumed_guided_campaign_does_the_missing_runs(plans_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()
    whole = [summary.plan_digest for summary in _perform(folder).summaries]
    names = list(plans_performed)
    lost = [name for name in names if name.startswith("guided-")][4:6]
    folder.ledger.forget(set(lost))
    plans_performed.clear()
    second_run = _perform(folder)

    assert plans_performed == lost
    assert [summary.plan_digest for summary in second_run.summaries] == whole
    assert len(set(names)) == len(names) == second_run.wanted


def test_limit_ends_a_guided_campaign_at_the_same_run(plans_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()
    campaign = _perform(folder, limits=Limits(invalid_runs=2))

    assert [summary.verdict for summary in campaign.summaries].count("INVALID") == 2
    assert campaign.stopped == "stopped after 2 INVALID runs"
    assert list(campaign.summaries)[-1].verdict == "INVALID"


def test_red_line_of_an_edited_plan_names_its_file(plans_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()
    red = next(summary for summary in _perform(folder).summaries if summary.verdict == "INVALID")
    stored = load_plan(tmp_path / folder.under / PLANS / f"{red.plan}.yaml")

    assert red.repeat == f"highwater run --plan store/{folder.under}/{PLANS}/{red.plan}.yaml"
    assert plan_digest(stored) == red.plan_digest


def test_record_of_a_lost_edited_run_has_its_plan(
    monkeypatch: pytest.MonkeyPatch, plans_performed: list[str], tmp_path: Path
) -> None:
    """A run whose worker died has a row in the ledger and no record of its own."""
    folder = _folder(tmp_path)
    folder.begin()
    _perform(folder)
    storage = storage_at(tmp_path)
    name = next(name for name in plans_performed if name.startswith("guided-"))
    (lost,) = [file for file in storage.names(folder.under) if file.endswith(f"records/{name}.parquet")]
    storage.delete([lost])
    row = folder.ledger.read(name)
    folder.ledger.forget({row.key})
    folder.ledger.commit(type(row)(key=row.key, state="failed", attempt=4, seconds=1.0, words="its worker process died"))
    records = CampaignRecords(storage_at(below(str(tmp_path), folder.under)))

    assert str(records.told(name)["run"]).startswith(f"{name}/")


def test_guided_orders_of_different_runs_have_different_names() -> None:
    orders = [ORDER, Order(first=3, last=14, seconds=2), Order(first=3, last=14, seconds=2, generation=5)]

    assert len({order.name for order in orders}) == len(orders)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (Order(first=0, last=3, generation=2, protocols=("safe", "v3")), "one --protocol"),
        (Order(first=0, last=3, generation=2, mixes=((), ("crash",))), "one value of --faults"),
        (Order(first=0, last=3, generation=2, backend="process"), "--guided needs simulated runs"),
        (Order(first=0, last=3, branches=True, backend="docker"), "--branches needs simulated runs"),
    ],
)
def test_order_that_cannot_be_guided_is_refused(order: Order, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        order.check()


@pytest.mark.slow
def test_guided_campaign_is_the_same_with_two_workers(tmp_path: Path) -> None:
    """The same commit and first seed give the same runs, whatever the workers; a stored plan gives its run again."""
    order = Order(first=3, last=7, seconds=1, generation=2)
    runs = []
    for jobs in (1, 2):
        folder = _folder(tmp_path / str(jobs), order)
        folder.begin()
        runs.append(list(_perform(folder, jobs=jobs).summaries))
    digests = [[(summary.plan, summary.plan_digest, summary.digest) for summary in summaries] for summaries in runs]
    last = next(summary for summary in reversed(runs[1]) if summary.seed is None)
    stored = load_plan(tmp_path / "2" / folder.under / PLANS / f"{last.plan}.yaml")

    assert digests[0] == digests[1]
    assert len({digest for _, _, digest in digests[0]}) == 5
    assert perform_run(stored, SimBackend(), HERE).history.manifest.digest == last.digest
