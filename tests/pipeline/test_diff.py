"""Two campaigns side by side: planted changes are found, equal campaigns are equal, p-values are those of scipy."""

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace
from scipy import stats

from pipeline.questions.ask import Engine
from pipeline.questions.diff import compare
from pipeline.questions.findings import Finding, What
from tests.pipeline.datasets import STATES, Made, write_dataset
from tests.pipeline.engines import ENGINES, engine_of
from tests.pipeline.polars_answers import Store

NEVER = 2**60
BEFORE = range(40)
LATER = range(100, 140)  # other plans


def scenario(protocol: str, before: Made, after: Made | None) -> tuple[Made, ...]:
    """Both campaigns of one protocol; each scenario is a protocol, so that one comparison covers all."""
    first = replace(before, campaign="before", protocol=protocol)
    return (first,) if after is None else (first, replace(after, campaign="after", protocol=protocol))


SAFE = Made(campaign="", seeds=BEFORE)
WEAK = Made(campaign="", seeds=BEFORE, invalid=400, not_live=100)
CAMPAIGNS = (
    *scenario("broken", SAFE, replace(SAFE, invalid=100)),
    *scenario("equal", SAFE, SAFE),
    *scenario("equal-later", SAFE, replace(SAFE, seeds=LATER)),
    *scenario("gone", SAFE, None),
    *scenario("narrow", SAFE, replace(SAFE, states=STATES[:-1])),
    *scenario("rolled", SAFE, replace(SAFE, chance="second")),
    *scenario("slow", SAFE, replace(SAFE, slower=300)),
    *scenario("slow-later", SAFE, replace(SAFE, seeds=LATER, slower=800)),
    *scenario("stuck", SAFE, replace(SAFE, not_live=80)),
    *scenario("stuck-later", SAFE, replace(SAFE, seeds=LATER, not_live=80)),
    *scenario("weak", WEAK, WEAK),
    *scenario("weak-later", WEAK, replace(WEAK, seeds=LATER)),
    *scenario("weak-new-kind", WEAK, replace(WEAK, kinds=("torn",))),
)
WORSE: dict[str, set[What]] = {
    "broken": {"invalid", "new-anomaly"},
    "gone": {"protocol"},
    "narrow": {"coverage"},
    "slow": {"recovery"},
    "slow-later": {"recovery"},
    "stuck": {"not-live"},
    "stuck-later": {"not-live"},
    "weak-new-kind": {"new-anomaly"},
}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("campaigns"), CAMPAIGNS)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, dataset: Path) -> Engine:
    return engine_of(request, dataset)


@pytest.fixture(scope="module")
def findings(engine: Engine) -> list[Finding]:
    return compare(engine, "before", "after")


@pytest.mark.parametrize("protocol", sorted({made.protocol for made in CAMPAIGNS}))
def test_only_what_was_planted_is_worse(protocol: str, findings: list[Finding]) -> None:
    """Equal campaigns and two disjoint halves of one campaign show nothing."""
    assert {f.what for f in findings if f.worse and f.protocol == protocol} == WORSE.get(protocol, set())


def test_campaign_that_gets_better_shows_nothing_worse(engine: Engine, findings: list[Finding]) -> None:
    swapped = compare(engine, "after", "before")

    better = {"broken", "narrow", "slow", "slow-later", "stuck", "stuck-later"}
    assert [f for f in swapped if f.worse and f.protocol in better] == []


def test_campaign_compared_with_itself_shows_nothing_worse(engine: Engine) -> None:
    assert [f for f in compare(engine, "before", "before") if f.worse] == []


def test_worse_findings_come_first(findings: list[Finding]) -> None:
    flags = [finding.worse for finding in findings]

    assert flags == sorted(flags, reverse=True)


def slowest_by_plan(store: Store, campaign: str, protocol: str, fault: str) -> dict[str, int]:
    runs = store.table("runs").filter(pl.col("protocol") == protocol).select("campaign", "protocol", "run", "plan_digest")
    windows = store.table("windows").filter((pl.col("acted") > 0) & (pl.col("kind") == fault) & (pl.col("campaign") == campaign))
    worst = windows.with_columns(pl.col("recovery_ns").fill_null(NEVER)).join(runs, on=["campaign", "protocol", "run"])
    return dict(worst.group_by("plan_digest").agg(pl.col("recovery_ns").max()).iter_rows())


def expected_p(store: Store, finding: Finding) -> float:
    if finding.what != "recovery":
        shares = [(finding.after, finding.of_after), (finding.before, finding.of_before)]
        more, less = reversed(shares) if finding.what == "coverage" else shares
        table = np.array([[k, n - k] for k, n in (more, less) if k is not None])
        return float(stats.fisher_exact(table, alternative="greater").pvalue)
    b, a = (slowest_by_plan(store, campaign, finding.protocol, finding.subject) for campaign in ("before", "after"))
    pairs = [(b[plan], a[plan]) for plan in b if plan in a]
    if pairs:
        slower = sum(later > 1.1 * earlier for earlier, later in pairs)
        faster = sum(earlier > 1.1 * later for earlier, later in pairs)
        return float(stats.binomtest(slower, slower + faster, alternative="greater").pvalue) if slower + faster else 1.0
    shrunk = [ns if ns == NEVER else ns * 10 // 11 for ns in a.values()]
    return float(stats.mannwhitneyu(shrunk, list(b.values()), alternative="greater", method="asymptotic").pvalue)


def test_p_values_are_those_of_scipy(dataset: Path, findings: list[Finding]) -> None:
    store = Store(dataset)
    tested = [finding for finding in findings if finding.p is not None]
    kinds = Counter(finding.what for finding in tested)
    few = ("weak-later", "slow", "slow-later")

    for finding in tested:
        if finding.protocol in few:
            expected = min(1.0, expected_p(store, finding) * kinds[finding.what] * len(kinds))
            assert finding.p == pytest.approx(expected, abs=1e-12, rel=1e-6), finding
