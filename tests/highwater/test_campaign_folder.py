"""The folder of a campaign: which runs there are, and which of them are done when it is resumed."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from highwater.campaigns import live
from highwater.campaigns.campaign import Campaign, Limits, Watch
from highwater.campaigns.folder import CampaignFolder, CampaignOrder
from highwater.campaigns.live import LivePage
from highwater.campaigns.order import Order
from highwater.campaigns.pages import INDEX
from highwater.campaigns.records import CampaignRecords
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import DERIVATION
from highwater.runs.provenance import Build
from highwater.runs.run import Judged, backend_named
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from pipeline import dataset
from pipeline.blocks import Blocks
from pipeline.items import Job
from pipeline.stamp import present_stamp
from pipeline.storage import storage_at
from pipeline.tasks import perform_block
from pipeline.work import perform
from reference.config import VARIANTS

HERE = Build(commit="abc", dirty=False, versions={"python": "3"})
ORDER = Order(first=0, last=3, protocols=("safe", "v3"), mixes=((), ("crash",)))
NO_LIMITS = Limits()


def _folder(store: Path, order: Order = ORDER, build: Build = HERE) -> CampaignFolder:
    return CampaignFolder(storage_at(store), CampaignOrder(order=order, build=build, code=present_stamp().code))


def _perform(folder: CampaignFolder, *, limits: Limits = NO_LIMITS, deadline_s: float | None = None) -> Campaign:
    return folder.perform(perform, Watch(limits), lambda runs, words: None, deadline_s=deadline_s)


@pytest.fixture
def commands_performed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of the runs that a fake worker was given; all are VALID, but those of seed 2 are INVALID."""
    commands: list[str] = []

    def attempt(task: Task) -> tuple[Summary, Judged | None]:
        commands.append(task.repeat)
        summary = Summary(
            seed=task.plan.seed,
            protocol=task.plan.protocol,
            verdict="INVALID" if task.plan.seed == 2 else "VALID",
            live=True,
            plan=task.plan.name,
            plan_digest="",
            backend="sim",
            outcome="completed",
            repeat=task.repeat,
        )
        return summary, None

    monkeypatch.setattr("highwater.campaigns.folder.attempt", attempt)
    return commands


def test_campaign_runs_seeds_x_protocols_x_mixes(commands_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()

    campaign = _perform(folder)

    assert (campaign.wanted, len(campaign.summaries), campaign.stopped) == (16, 16, None)
    assert commands_performed == [ORDER.request(trial).command(trial.seed) for trial in map(ORDER.trial, range(ORDER.runs))]
    assert [summary.repeat for summary in campaign.summaries] == commands_performed


def test_resumed_campaign_does_only_the_missing_runs(commands_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()
    stopped = _perform(folder, limits=Limits(invalid_runs=1))
    first = len(commands_performed)

    assert folder.is_resumable()
    campaign = _perform(folder)

    assert (stopped.stopped, len(stopped.summaries)) == ("stopped after 1 INVALID run", first)
    assert len(commands_performed) == len(set(commands_performed)) == 16
    assert [summary.repeat for summary in campaign.summaries] == commands_performed


def test_resumed_campaign_does_damaged_rows_again(commands_performed: list[str], tmp_path: Path) -> None:
    """A row that was edited by hand, and one that a full disk left empty."""
    folder = _folder(tmp_path)
    folder.begin()
    _perform(folder)
    edited, empty, *_ = sorted((tmp_path / folder.under / "ledger").iterdir())
    edited.write_bytes(edited.read_bytes().replace(b"INVALID", b"VALID").replace(b'"acked":', b'"acked":9'))
    empty.write_bytes(b"")

    lines = folder.mend_rows()
    second_run = _perform(folder)

    assert ["its checksum is another" in lines[0], "an empty row" in lines[1], len(lines)] == [True, True, 2]
    assert (len(commands_performed), len(second_run.summaries)) == (18, 16)


def test_resumed_campaign_counts_earlier_runs_for_its_limit(commands_performed: list[str], tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.begin()
    _perform(folder, limits=Limits(invalid_runs=2))
    before = len(commands_performed)

    second_run = _perform(folder, limits=Limits(invalid_runs=2))

    assert (len(commands_performed), second_run.stopped) == (before, "stopped after 2 INVALID runs")


def test_campaign_without_resume_begins_anew(commands_performed: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        folder = _folder(tmp_path)
        folder.begin()
        _perform(folder)

    assert len(commands_performed) == 2 * 16


def test_resume_of_nothing_begins(tmp_path: Path) -> None:
    assert not _folder(tmp_path).is_resumable()


@pytest.mark.parametrize(
    ("order", "build", "words"),
    [
        (replace(ORDER, keep_all=True), HERE, "its keep_all is False, not True"),
        (ORDER, replace(HERE, commit="def"), "it was performed by commit abc (python 3), not by commit def (python 3)"),
        (ORDER, replace(HERE, dirty=True), "not by commit abc with uncommitted changes (python 3)"),
    ],
)
def test_resume_of_another_campaign_is_refused(order: Order, build: Build, words: str, tmp_path: Path) -> None:
    _folder(tmp_path).begin()

    with pytest.raises(UsageError, match=re.escape(words)):
        _folder(tmp_path, order, build).is_resumable()


def test_resume_of_a_damaged_request_is_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    folder.storage.write(f"{folder.under}/request.json", b'{"hello": 1}')

    with pytest.raises(UsageError, match=r"request\.json: not the request of a campaign"):
        folder.is_resumable()


MIXES = st.lists(st.sampled_from([(), ("crash",), ("pause", "crash"), ("network",) * 20]), min_size=1, unique=True)


@given(
    mixes=MIXES, protocols=st.lists(st.sampled_from(["safe", "v3", "article"]), min_size=1, unique=True), first=st.integers(0, 99)
)
def test_every_trial_of_any_order_has_its_own_key(mixes: list[tuple[str, ...]], protocols: list[str], first: int) -> None:
    order = Order(first=first, last=first + 3, protocols=tuple(protocols), mixes=tuple(mixes))

    keys = [item.key for item in map(order.item, range(order.runs))]

    assert len(set(keys)) == order.runs
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", name) for name in (*keys, order.name))


def test_orders_of_different_runs_have_different_names() -> None:
    others = (
        replace(ORDER, mixes=((),)),
        replace(ORDER, mixes=(("pause",),)),
        replace(ORDER, last=4),
        replace(ORDER, seconds=3),
        replace(ORDER, protocols=("v3",)),
    )

    assert len({order.name for order in (ORDER, *others)}) == 6
    assert Order(first=0, last=9).name == "safe-0-9"


def test_campaign_of_many_protocols_has_a_name_for_a_dataset() -> None:
    order = Order(first=0, last=9, protocols=tuple(sorted(VARIANTS)))

    dataset._check_name("campaign", order.name)


def test_million_seeds_are_no_plans_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deriving a plan takes milliseconds, so a million of them take an hour before the first run begins."""

    def refused(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("highwater.campaigns.campaign.derive", refused)
    items = map((order := replace(ORDER, last=10**6)).item, range(order.runs))

    assert sum(len(next(items).payload) for _ in range(1000)) < 50_000


@contextmanager
def _garbage_kept() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_run_that_meets_its_deadline_fails_the_harness(tmp_path: Path) -> None:
    order = Order(first=0, last=0, protocols=("v3",), seconds=2)
    folder = _folder(tmp_path, order)
    folder.begin()
    # Python drops what is raised in an import's files or in a callback of the garbage collector, and warns of it.
    backend_named("sim")
    with _garbage_kept():
        (late_summary,) = _perform(folder, deadline_s=0.001).summaries

    assert late_summary.exit_code is ExitCode.LABORATORY_FAILED
    assert late_summary.failure == "seed-0: not ready after 0.001 s"
    assert late_summary.repeat == f"highwater run --seed 0 --derivation {DERIVATION} --protocol v3 --seconds 2"


@given(st.integers(0, 2**64 - 10), st.integers(1, 5), st.sampled_from([((),), ((), ("crash",)), (("clog", "crash"), ())]))
def test_trial_follows_from_its_number_and_its_key(first: int, seeds: int, mixes: tuple[tuple[str, ...], ...]) -> None:
    order = Order(first=first, last=first + seeds - 1, protocols=("safe", "v3"), mixes=mixes)
    trials = [order.trial(number) for number in range(order.runs)]

    assert len({trial.key for trial in trials}) == order.runs
    assert [order.number(trial.key) for trial in trials] == list(range(order.runs))
    assert [order.named(trial.key) for trial in trials] == trials


@pytest.mark.parametrize("key", ["", "safe.default.4", "safe.default.-1", "safe.default.01", "kip279.default.1", "block-0000001"])
def test_key_of_no_trial_has_no_number(key: str) -> None:
    assert ORDER.number(key) is None


def test_trials_in_blocks_give_the_same_campaign(commands_performed: list[str], tmp_path: Path) -> None:
    """What Spark's tasks do, in this process: the summaries of blocks are those of rows, and are not performed again."""
    rows, blocks = _folder(tmp_path / "rows"), _folder(tmp_path / "blocks")
    rows.begin()
    blocks.begin()
    for block in list(blocks.series.blocks)[:9]:
        job = Job(function=str.encode, ledger=blocks.ledger.location)  # type: ignore[arg-type] # not called
        perform_block(blocks.series, job, block, attempt=1, one_by_one=False)
    performed = len(commands_performed)
    by_rows, by_blocks = _perform(rows), _perform(blocks)

    assert (performed, len(commands_performed)) == (9, 32)
    assert list(by_rows.summaries) == list(by_blocks.summaries)
    assert by_rows.tally == by_blocks.tally
    assert sorted(CampaignRecords(rows.place).keys) == sorted(CampaignRecords(blocks.place).keys)


def _perform_blocks(folder: CampaignFolder) -> None:
    job = Job(function=str.encode, ledger=folder.ledger.location)  # type: ignore[arg-type] # not called
    for block in folder.series.blocks:
        perform_block(folder.series, job, block, attempt=1, one_by_one=False)


def test_damaged_block_of_a_campaign_is_done_again(commands_performed: list[str], tmp_path: Path) -> None:
    """A program that seals what it writes may count wrongly, or write the rows of other runs."""
    folder = _folder(tmp_path)
    folder.begin()
    _perform_blocks(folder)
    wanted = _perform(folder)
    blocks = Blocks(storage_at(folder.ledger.location))
    blocks.write(1, blocks.rows(1), b"null")
    blocks.write(2, blocks.rows(3), bytes(blocks.header(3).total))
    blocks.write(4, blocks.rows(4)[:-1], bytes(blocks.header(4).total))

    mended = folder.mend_rows()
    resumed = _perform(folder)

    assert [re.sub(r".*/block-0*(\d+)", r"\1", words) for words in mended] == [
        "1.rows: a total that is not that of its rows; done again",
        "2.rows: the rows of other items; done again",
        "4.rows: the rows of other items; done again",
    ]
    assert (resumed.tally, list(resumed.summaries)) == (wanted.tally, list(wanted.summaries))


def test_index_page_follows_a_running_campaign(
    commands_performed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    monkeypatch.setattr(live, "_SHARE", 0)
    folder = _folder(tmp_path)
    folder.begin()
    page, texts = LivePage(folder), []

    def look(runs: int, _: str) -> None:
        page.count(runs)
        texts.append((tmp_path / folder.under / INDEX).read_text())

    folder.perform(perform, Watch(NO_LIMITS), look)

    assert [f"RUNNING, {number} OF {ORDER.runs}:" in text for number, text in enumerate(texts, 1)] == [True] * ORDER.runs
    assert [text.partition('id="runs"')[2].count("<tr class=") for text in texts] == list(range(1, ORDER.runs + 1))
