"""Pages of many runs: names, verdict and causes are the same in the terminal, in JUnit and on the index page."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from highwater.campaigns.campaign import Campaign
from highwater.campaigns.pages import INDEX, JUNIT, known_causes, write_pages
from highwater.campaigns.tally import tally
from highwater.cli.campaign import show
from highwater.exit_codes import ExitCode
from highwater.runs.summary import Summary
from pipeline.storage import Storage, storage_at
from tests.highwater.test_campaign import BAD, GOOD

_LOST = replace(
    BAD,
    plan="seed-2",
    protocol="v3",
    repeat="highwater run --seed 2 --protocol v3 --faults crash",
    signature="lost-write/acked-loss/truncate",
    cause="Step truncate lost it",
    store="seed-2/sim-v3-abc",
    report="seed-2/sim-v3-abc/report.html",
)


def _write(storage: Storage, under: str, *runs: Summary, known: frozenset[str] | None = None) -> None:
    write_pages(storage, under, runs, tally(runs), title="t", repeat="again", code=ExitCode.INVALID, known=known)


def test_failure_has_one_name_in_terminal_junit_and_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(storage_at(str(tmp_path)), "campaigns/one", GOOD, _LOST)
    show(Campaign(wanted=2, summaries=(GOOD, _LOST), tally=tally((GOOD, _LOST))), ExitCode.INVALID, {})

    folder = tmp_path / "campaigns" / "one"
    cases = [case.get("name") for case in ElementTree.parse(folder / JUNIT).iter("testcase")]
    assert cases == ["seed-1 on safe", "seed-2 on v3 with crash"]
    assert '<a href="../../seed-2/sim-v3-abc/report.html">seed-2 on v3 with crash</a>' in (folder / INDEX).read_text()
    lines = capsys.readouterr().out.splitlines()
    assert "1 x INVALID, live: seed-2 on v3 with crash: lost-write t-0: gone (and 1 more)" in lines
    assert len(lines) <= 10


def test_index_page_has_the_verdict_of_the_campaign(tmp_path: Path) -> None:
    """Few UNKNOWN runs are allowed, and missed goals are not: only the campaign knows its verdict."""
    _write(storage_at(str(tmp_path)), "campaigns/one", GOOD)
    assert '<header class="banner invalid">' in (tmp_path / "campaigns" / "one" / INDEX).read_text()


def test_cause_is_new_unless_an_earlier_campaign_had_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = storage_at(str(tmp_path))
    assert known_causes(storage, "campaigns/two") is None
    _write(storage, "campaigns/one", _LOST)

    known = known_causes(storage, "campaigns/two")
    new_cause = replace(_LOST, signature="other", plan="seed-3")
    _write(storage, "campaigns/two", _LOST, new_cause, known=frozenset(known or ()))
    show(Campaign(wanted=2, summaries=(_LOST, new_cause), tally=tally((_LOST, new_cause))), ExitCode.INVALID, {}, known)

    assert known == {_LOST.signature}
    failed = [line for line in capsys.readouterr().out.splitlines() if " x INVALID" in line]
    assert [line.startswith("new: ") for line in failed] == [True, False]
    assert "2 runs failed, of 2 causes, 1 of them new" in (tmp_path / "campaigns" / "two" / INDEX).read_text()


def test_resumed_campaign_does_not_know_its_own_causes(tmp_path: Path) -> None:
    """Otherwise what its first part found would be old news in its second."""
    storage = storage_at(str(tmp_path))
    _write(storage, "campaigns/one", _LOST)

    assert known_causes(storage, "campaigns/one", resumed=True) is None
    assert known_causes(storage, "campaigns/one") == {_LOST.signature}


def test_damaged_account_of_causes_counts_as_none(tmp_path: Path) -> None:
    storage = storage_at(str(tmp_path))
    storage.write("campaigns/one/causes.json", b'{"known": 3')
    assert known_causes(storage, "campaigns/two") is None


def test_end_of_a_campaign_is_about_ten_lines(capsys: pytest.CaptureFixture[str]) -> None:
    runs = tuple(replace(_LOST, signature=f"cause {number % 9}", plan=f"seed-{number}") for number in range(400))
    show(Campaign(wanted=400, summaries=runs, tally=tally(runs), stopped="interrupted"), ExitCode.INVALID, {})

    assert len(capsys.readouterr().out.splitlines()) <= 12
