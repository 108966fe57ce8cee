"""The guided search on another system: signs of behaviour in the place of branches, edits that the system can suffer."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.systems.registry import bearable, system_for
from highwater.campaigns import folder as folders
from highwater.campaigns.campaign import Campaign, Limits, Request, Watch
from highwater.campaigns.drafts import Draft, Source, kinds_for
from highwater.campaigns.edits import EDITS, EDITS_ON_SYSTEMS
from highwater.campaigns.folder import CampaignFolder, CampaignOrder
from highwater.campaigns.generations import Planned, Search
from highwater.campaigns.guided import perform_guided
from highwater.campaigns.order import Order
from highwater.coverage.signs import Sign
from highwater.errors import UsageError
from highwater.plans.plan import Plan, plan_digest
from highwater.plans.text import load_plan
from highwater.rig.backend import Backend
from highwater.runs.provenance import Build
from highwater.runs.run import Judged
from highwater.runs.summary import Summary, of_failure
from highwater.runs.workers import Task
from history.seed import Rng
from nemesis.capability import refusals
from nemesis.faults import Clog, kinds_of
from nemesis.schedule import Window
from nemesis.targets import INTERNAL, Named, OfPartition
from pipeline.storage import storage_at
from pipeline.work import perform

REQUEST = Request(system="kafka:1.1.1", backend="process", settings="alike", seconds=20, workload="produce-consume")
ORDER = Order(
    first=1,
    last=8,
    seconds=20,
    workload="produce-consume",
    settings="alike",
    system="kafka:1.1.1",
    backend="process",
    generation=4,
)
HERE = Build(commit="abc", dirty=False, versions={})


def _shown(plan: Plan) -> tuple[Sign, ...]:
    """What a fake run shows: some signs, by the digest of its plan."""
    digest = plan_digest(plan)
    return tuple(Sign(f"sign {digest[at : at + 2]}", 3000, 1) for at in range(0, 8, 2))


def _generations(request: Request = REQUEST, runs: int = 12) -> list[tuple[Planned, ...]]:
    search = Search(request, first=1, runs=runs, generation=4)
    found = []
    while planned := search.planned():
        found.append(planned)
        search.learn(planned, [_shown(planned_run.plan) for planned_run in planned])
    return found


@pytest.fixture(scope="module")
def generations() -> list[tuple[Planned, ...]]:
    return _generations()


def test_search_on_a_system_plans_the_same_again(generations: Sequence[tuple[Planned, ...]]) -> None:
    """Of the same signs follow the same plans, so a campaign that was interrupted goes on."""
    assert list(generations) == _generations()


def test_edited_plan_can_be_performed_on_the_system(generations: Sequence[tuple[Planned, ...]]) -> None:
    plans = [planned_run.plan for planned in generations for planned_run in planned if planned_run.seed is None]

    assert plans
    for plan in plans:
        assert not refusals("process", plan.schedule)
        assert bearable(plan, plan.schedule) == plan.schedule
        assert not plan.script


def test_edited_plan_shares_the_brokers_of_its_parent(generations: Sequence[tuple[Planned, ...]]) -> None:
    """Else each run of a search would wait for brokers that start."""
    plans = [planned_run.plan for planned in generations for planned_run in planned]
    names = [topic.name for plan in plans for topic in plan.cluster.topics]

    assert len(set(names)) == len(names)
    assert len({system_for(plan).brokers() for plan in plans}) == 1  # type: ignore[attr-defined]


def test_search_aims_at_the_coordinators_of_its_clients() -> None:
    of_groups = replace(REQUEST, system="kafka:4.1.0", workload="read-process-write")
    windows = [window for planned in _generations(of_groups, 40) for one in planned for window in one.plan.schedule]

    topics = {window.target.topic for window in windows if isinstance(window.target, OfPartition)}
    assert {topic for topic in topics if topic.startswith(INTERNAL)} == {"__consumer_offsets", "__transaction_state"}


def test_parent_whose_edits_show_something_new_is_chosen_more() -> None:
    """Runs are dear: they go where the last ones found something."""
    search = Search(REQUEST, first=1, runs=99, generation=2)
    seeds = tuple(Planned(number=n, plan=REQUEST.plan(n), seed=n) for n in (1, 2))
    search.learn(seeds, [(Sign("a", 0, 1),), (Sign("b", 0, 1),)])
    before = [search._weight(entry) for entry in search._pool]
    children = [Planned(number=n, plan=REQUEST.plan(n), seed=None, parent="seed-1") for n in (3, 4)]
    search.learn(children, [(Sign("c", 0, 1),), (Sign("c", 0, 1),)])

    weights = [search._weight(entry) for entry in search._pool]
    assert before[0] == before[1]
    assert weights[0] == 2 * weights[1] - 1


def test_edit_aims_a_fault_at_another_request() -> None:
    parent = REQUEST.plan(1)
    fault = Clog(links=("peers",), kinds=("fetch",), direction="outbound")
    window = Window(id="w", kind="clog", at_ms=0, until_ms=900, fault=fault, target=Named(brokers=(1,)))
    source = Source(parent=parent, notable=(), others=(), kinds=kinds_for(parent, (), "within"))
    draft = Draft(schedule=(window,), script=(), acks=(-1,))
    edit = next(edit for edit in EDITS_ON_SYSTEMS if edit not in EDITS)

    aims = {kinds_of(made.schedule[0].fault) for draw in range(40) if (made := edit(Rng(draw), source, draft)) is not None}
    assert len(aims) > 5
    assert edit(Rng(1), source, replace(draft, schedule=())) is None


def test_kinds_of_faults_are_those_that_the_system_can_suffer() -> None:
    kinds = {kind.name for kind in kinds_for(REQUEST.plan(1), (), "within")}

    assert {"message-held", "crash-leader"} <= kinds
    assert not kinds & {"clock-jump", "disk-slow"}


# --- the campaign ----------------------------------------------------------------------------------------------------------


class Played:
    """Takes the place of runs: each shows signs by its plan. `limit`: Ctrl-C at this run."""

    def __init__(self, limit: int | None = None) -> None:
        self.performed: list[str] = []
        self._limit = limit

    def attempt(self, task: Task, backend: Backend | None = None) -> tuple[Summary, Judged | None]:
        assert (task.signs, task.backend) == (True, "process")
        if len(self.performed) == self._limit:
            raise KeyboardInterrupt
        self.performed.append(task.plan.name)
        words = {"seed": task.plan.seed, "protocol": "safe", "failure": "played", "repeat": task.repeat}
        failed = of_failure(task.plan.name, backend="process", **words)  # type: ignore[arg-type]
        return replace(failed, signs=_shown(task.plan), reach=UNSET), None


def _campaign(place: Path, played: Played, monkeypatch: pytest.MonkeyPatch, *, resume: bool = False) -> Campaign:
    monkeypatch.setattr(folders, "attempt", played.attempt)
    monkeypatch.setattr(folders, "performed_record", lambda *_, **__: None)
    monkeypatch.setattr(folders, "encode", lambda _: b"")
    folder = CampaignFolder(storage_at(str(place)), CampaignOrder(order=ORDER, build=HERE))
    if not resume:
        folder.begin()
    return perform_guided(folder, partial(perform, jobs=1), Watch(Limits()), lambda *_: None, store=str(place))


def test_interrupted_campaign_on_a_system_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, first, rest = Played(), Played(5), Played()
    _campaign(tmp_path / "whole", whole, monkeypatch)
    stopped = _campaign(tmp_path / "cut", first, monkeypatch)
    done = _campaign(tmp_path / "cut", rest, monkeypatch, resume=True)

    assert (stopped.stopped, done.stopped, len(whole.performed)) == ("interrupted", None, 8)
    assert [*first.performed, *rest.performed] == whole.performed


def test_edited_plan_of_a_system_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A red line names it, and it names the system."""
    _campaign(tmp_path, Played(), monkeypatch)

    files = sorted((tmp_path / "campaigns" / ORDER.name / "plans").iterdir())
    assert {load_plan(file).system is not UNSET for file in files} == {True}


@pytest.mark.parametrize("system", [{"system": "", "backend": "process"}, {"system": "kafka:4.1.0", "backend": "docker"}])
def test_search_is_refused_where_nobody_sees_behaviour(system: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="--guided"):
        replace(ORDER, **system).check()
