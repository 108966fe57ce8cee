"""`highwater watch` reads a campaign's folder and nothing else."""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.campaigns.folder import REQUEST, CampaignOrder
from highwater.campaigns.order import Order
from highwater.campaigns.progress import CampaignProgress, Failure
from highwater.cli.main import run_command_line
from highwater.runs.findings import FoundAnomaly
from highwater.runs.provenance import Build
from highwater.runs.summary import Summary
from pipeline.blocks import Blocks, block_name
from pipeline.ledger import Ledger, Row
from pipeline.storage import storage_at

VALID = Summary(
    seed=1,
    protocol="safe",
    verdict="VALID",
    live=True,
    plan="seed-1",
    plan_digest="d1",
    backend="sim",
    outcome="completed",
    repeat="highwater run --seed 1",
)
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="orders-0", words="v1 is gone")
INVALID = replace(VALID, verdict="INVALID", anomalies=(LOST,), repeat="highwater run --seed 2")
STUCK = replace(VALID, live=False, not_live=("orders-0 has no leader",), repeat="highwater run --seed 3")
START = 1_700_000_000


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A campaign of 2 x 2 x 3 runs, none of them finished."""
    order = Order(first=1, last=3, protocols=("safe", "v3"), mixes=((), ("clog",)))
    campaign_order = CampaignOrder(order=order, build=Build(commit="c0ffee", dirty=False, versions={}))
    (tmp_path / REQUEST).write_bytes(msgspec.json.encode(campaign_order))
    return tmp_path


def commit_finished_row(campaign: Path, key: str, row: Row | Summary, *, at: int) -> None:
    """Commit a row that is `at` seconds old from START on."""
    done = Row(key=key, state="done", attempt=1, seconds=1.0, result=msgspec.Raw(msgspec.json.encode(row)))
    Ledger(storage_at(campaign / "ledger")).commit(row if isinstance(row, Row) else done)
    os.utime(campaign / "ledger" / f"{key}.json", (START + at, START + at))


def test_status_counts_finished_runs_and_verdicts(campaign: Path) -> None:
    commit_finished_row(campaign, "a", VALID, at=0)
    commit_finished_row(campaign, "b", INVALID, at=10)
    commit_finished_row(campaign, "c", STUCK, at=20)
    late_row = Row(key="d", state="late", attempt=1, seconds=9.0, words="not ready after 9 s")
    commit_finished_row(campaign, "d", late_row, at=30)

    status = CampaignProgress(str(campaign)).status(datetime.fromtimestamp(START + 35, UTC))

    assert (status.wanted, status.finished, status.verdicts) == (12, 4, {"INVALID": 1, "VALID": 2})
    assert (status.not_live, status.lost, status.runs_per_minute, status.eta_s, status.idle_s) == (1, 1, 6.0, 80.0, 5.0)
    assert status.failures == (
        Failure(key="d", words="late: not ready after 9 s"),
        Failure(key="c", words="VALID, not live: orders-0 has no leader", repeat=STUCK.repeat),
        Failure(key="b", words="INVALID, live: v1 is gone", repeat=INVALID.repeat),
    )


def test_status_counts_the_runs_of_blocks(campaign: Path) -> None:
    """Spark stores up to a hundred runs at once; the rate is that of runs, not of blocks."""
    blocks = Blocks(storage_at(campaign / "ledger"))
    for number, summaries in enumerate([(VALID, INVALID), (VALID, VALID, STUCK)]):
        results = [msgspec.Raw(msgspec.json.encode(summary)) for summary in summaries]
        blocks.write(number, [Row(key="a", state="done", attempt=1, seconds=1.0, result=result) for result in results])
        (path,) = (campaign / "ledger").rglob(f"{block_name(number)}.*")
        os.utime(path, (START + 30 * number, START + 30 * number))

    status = CampaignProgress(str(campaign)).status(datetime.fromtimestamp(START + 35, UTC))

    assert (status.wanted, status.finished, status.verdicts, status.not_live) == (12, 5, {"INVALID": 1, "VALID": 4}, 1)
    assert (status.runs_per_minute, status.idle_s) == (6.0, 5.0)


def test_damaged_row_is_no_finished_run(campaign: Path) -> None:
    commit_finished_row(campaign, "safe.default.1", VALID, at=0)
    commit_finished_row(campaign, "safe.default.2", VALID, at=1)
    (campaign / "ledger" / "safe.default.2.json").write_bytes(b"")

    status = CampaignProgress(str(campaign)).status()

    assert (status.finished, status.verdicts) == (1, {"VALID": 1})
    assert "an empty row of a ledger; --resume does it again" in status.failures[0].words


def test_second_look_adds_only_new_rows(campaign: Path) -> None:
    progress = CampaignProgress(str(campaign))
    commit_finished_row(campaign, "a", VALID, at=0)
    first = progress.status()
    commit_finished_row(campaign, "b", INVALID, at=10)

    second = progress.status()

    assert (first.verdicts, second.verdicts) == ({"VALID": 1}, {"INVALID": 1, "VALID": 1})


def test_watch_once_prints_one_status(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for key in "abcdef":
        commit_finished_row(campaign, key, VALID, at=ord(key))

    assert run_command_line(["watch", str(campaign), "--once"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{'█' * 20}{'░' * 20} 6 of 12 runs, 50 %"
    assert lines[1] == "verdicts  6 VALID, 0 not live, 0 without a run"
    assert lines[2].startswith("rate      60.0 runs a minute, 6 s left; ")


def test_watch_ends_when_all_runs_are_finished(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        commit_finished_row(campaign, f"k{number}", VALID, at=number)

    assert run_command_line(["watch", str(campaign)]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "complete"


def test_campaign_without_runs_has_a_status(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["watch", str(campaign), "--once"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "no run is finished yet"


@pytest.mark.parametrize("content", [None, "{}", "[1", '{"order": {"first": "a"}}'])
def test_folder_that_is_no_campaign_is_refused(content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if content is not None:
        (tmp_path / REQUEST).write_text(content)

    assert run_command_line(["watch", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
