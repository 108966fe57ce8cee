"""Trends over campaigns: like runs alone are compared, and shares have intervals."""

import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.runs.summary import Summary
from highwater.serve.catalog import Catalog
from highwater.serve.trends import Trends, trends_of
from history import store
from reports.trends import Share, trend_figure
from tests.highwater.serve.stores import LOST, VALID
from tests.highwater.serve.test_catalog import _campaign as campaign


def put_campaign(root: Path, name: str, *runs: Summary, begun: int, wanted: int | None = None) -> None:
    """A campaign of these runs that began at a second of the clock; by default it has ended."""
    folder = campaign(root, name, wanted or len(runs))
    os.utime(folder / "request.json", (begun, begun))
    store.write_file(folder / "runs.jsonl", b"".join(msgspec.json.encode(run) + b"\n" for run in runs))


def seeded(run: Summary, seed: int, options: str = "") -> Summary:
    return replace(run, seed=seed, plan=f"seed-{seed}", repeat=f"highwater run --seed {seed} --protocol v3{options}")


def trends_in(root: Path) -> Trends:
    return trends_of(Catalog(root).refresh())


def test_campaigns_of_one_command_are_a_trend_in_order_of_time(tmp_path: Path) -> None:
    put_campaign(tmp_path, "late", seeded(VALID, 4), seeded(VALID, 5), begun=200)
    put_campaign(tmp_path, "early", seeded(LOST, 1), seeded(replace(VALID, live=False), 2), begun=100)

    (trend,) = trends_in(tmp_path).found

    assert trend.command == "highwater run --protocol v3"
    assert [(step.campaign.name, step.seeds) for step in trend.steps] == [("early", "1 to 2"), ("late", "4 to 5")]
    assert [(step.invalid.count, step.stuck.count, step.acted) for step in trend.steps] == [(1, 1, 1), (0, 0, 1)]


@pytest.mark.parametrize("other_option", [" --faults crash", " --workload misuse", " --seconds 9"])
def test_campaigns_of_other_options_are_not_compared(other_option: str, tmp_path: Path) -> None:
    """A fault mix that provokes more failures would look like a worse protocol."""
    put_campaign(tmp_path, "one", seeded(LOST, 1), begun=100)
    put_campaign(tmp_path, "two", seeded(LOST, 2, other_option), begun=200)

    trends = trends_in(tmp_path)

    assert (trends.found, trends.single) == ((), 2)


def test_campaign_that_has_not_ended_is_left_out(tmp_path: Path) -> None:
    """Runs that fail soon end soon, so the share of INVALID falls while a campaign runs."""
    put_campaign(tmp_path, "one", seeded(LOST, 1), begun=100)
    put_campaign(tmp_path, "two", seeded(LOST, 2), begun=200, wanted=9)

    trends = trends_in(tmp_path)

    assert (trends.found, trends.left_out) == ((), 1)


def test_runs_of_plans_have_no_trend(tmp_path: Path) -> None:
    for number in (1, 2):
        put_campaign(tmp_path, f"c{number}", replace(LOST, repeat="highwater run --plan x.yaml"), begun=number)

    assert trends_in(tmp_path) == Trends(found=(), single=0, left_out=0)


@pytest.mark.parametrize(("count", "runs", "low", "high"), [(0, 100, 0.0, 0.037), (50, 100, 0.404, 0.596), (1, 1, 0.207, 1.0)])
def test_share_has_the_wilson_interval(count: int, runs: int, low: float, high: float) -> None:
    """Figures of scipy.stats.binomtest(count, runs).proportion_ci(method="wilson")."""
    found = Share(campaign="c", count=count, runs=runs).interval

    assert found == pytest.approx((low, high), abs=0.001)


def test_picture_of_a_trend_shows_each_share_with_its_words() -> None:
    shares = [Share(campaign=name, count=1, runs=4) for name in ("<one>", "two")]
    drawing = trend_figure((("invalid", shares), ("stuck", shares)), "shares")

    assert drawing.count('class="median invalid"') == drawing.count('class="median stuck"') == 2
    assert "&lt;one&gt;: 1 of 4 runs, 25.0 % (4.6 to 69.9 %); 1 of 4 runs" in drawing
