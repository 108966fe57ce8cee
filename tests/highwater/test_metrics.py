"""Metrics in runs: the rows of scrapes, their judge, and `highwater describe`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from checkers.judge import judge
from checkers.liveness.metrics import COUNTERS, short_name
from highwater.backends.sim.backend import SimBackend
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, PlanError, checked
from highwater.plans.text import plan_to_yaml
from highwater.rig.backend import Provenance
from highwater.rig.scrapes import Scrapes
from history.event import ClusterEvent, EventKind
from history.history import History
from history.recorder import Recorder
from reference import metrics
from reference.metrics import METRICS
from reference.node import Node
from reference.types import Address

B1 = Address("b1")
UNJUDGED = ("LastLeaderElectionTimeMs", "OfflineReplicaCount")  # said in the checker's `blind`


def plan(seed: int = 3, **changes: object) -> Plan:
    """A short run with crashes, in which each broker is scraped twice a second."""
    derived = derive(seed, faults=("crash-random",), seconds=15, workload="produce-consume")
    return checked(replace(derived, **{"metrics_ms": 500, **changes}))


def performed(of: Plan) -> History:
    return SimBackend().perform(of, Provenance(run_id="test", plan_digest="")).history


def gauges(history: History) -> list[ClusterEvent]:
    return [event for event in history.events if event.kind is EventKind.GAUGE]


def test_scrapes_record_what_changed_and_the_last_one_all() -> None:
    recorder = Recorder(lambda: 0)
    scrapes = Scrapes(recorder)
    scrapes.record(B1, 1, {"x": 0, "y": 0})
    scrapes.record(B1, 1, {"x": 0, "y": 1})
    scrapes.record(B1, 1, {"x": 0, "y": 1}, whole=True)
    scrapes.record(B1, 2, {"x": 0})

    gauges_recorded = [(event.life, event.detail, event.gauge) for event in recorder.events]
    assert gauges_recorded == [(1, "x", 0), (1, "y", 0), (1, "y", 1), (1, "x", 0), (1, "y", 1), (2, "x", 0)]


def test_scrapes_change_nothing_else_in_a_run() -> None:
    """Looking must not disturb: without its rows the history is that of the run without scrapes."""
    plain, scraped = performed(plan(metrics_ms=UNSET)), performed(plan())
    columns = [(event.kind, event.time_ns, event.node, event.detail) for event in plain.events]

    other_rows = [(e.kind, e.time_ns, e.node, e.detail) for e in scraped.events if e.kind is not EventKind.GAUGE]
    assert (other_rows, not gauges(plain)) == (columns, True)
    assert {event.detail for event in gauges(scraped)} == {metric.name for metric in METRICS}


def test_true_metrics_are_live() -> None:
    verdict = judge(performed(plan()))

    assert (verdict.not_live, verdict.live) == ((), True)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [short_name(metric.name) for metric in METRICS if short_name(metric.name) not in UNJUDGED])
def test_a_wrong_metric_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each metric has a judge: one that is one too high is told, and no other."""
    right: Callable[[Node], dict[str, int]] = metrics.read
    monkeypatch.setattr(
        metrics, "read", lambda node: {name: value + (short_name(name) == wrong) for name, value in right(node).items()}
    )
    verdict = judge(performed(plan()))

    assert verdict.not_live
    assert all(f" reports {wrong} " in words for words in verdict.not_live)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", ["LeaderCount", "BrokerState", "IsrExpandsPerSec"])
def test_a_metric_that_stands_still_is_caught(frozen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gauge that is right at the start and never moves is wrong after the first fault."""
    right: Callable[[Node], dict[str, int]] = metrics.read
    monkeypatch.setattr(metrics, "read", lambda node: {n: 0 if short_name(n) == frozen else v for n, v in right(node).items()})
    verdict = judge(performed(plan()))

    assert any(f" reports {frozen} 0 " in words for words in verdict.not_live)


def test_every_metric_has_a_judge_or_is_said_to_have_none() -> None:
    judged = {*COUNTERS, "OfflineLogDirectoryCount", "ActiveControllerCount", "BrokerState", "FencedBrokerCount"}
    judged |= {"OfflinePartitionsCount", "LeaderCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount"}

    assert judged | set(UNJUDGED) == {short_name(metric.name) for metric in METRICS}


@pytest.mark.parametrize("period_ms", [0, 99, 1001])
def test_period_of_scrapes_out_of_bounds_is_refused(period_ms: int) -> None:
    with pytest.raises(PlanError, match=f"metrics_ms must be from 100 to 1000, not {period_ms}"):
        plan(metrics_ms=period_ms)


def test_describe_shows_the_metrics_of_each_broker(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["describe", "3", "--metrics", "--at", "100"])

    lines = capsys.readouterr().out.splitlines()
    (controllers,) = [line for line in lines if "ActiveControllerCount" in line]
    assert (code, len(lines), controllers.count(": 1")) == (ExitCode.VALID, len(METRICS), 1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--metrics", "--bootstrap", "a:1"], "--metrics is for simulated runs; ask running brokers with --scrape"),
        (["1", "--scrape", "a:1"], "give a plan file or a seed, or --bootstrap or --scrape"),
        (["--scrape", "a"], "--scrape must be HOST:PORT, or several separated by commas, not a"),
        (["--scrape", "127.0.0.1:1"], "127.0.0.1:1: Connection refused\n"),
    ],
)
def test_describe_refuses_bad_requests_for_metrics(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["describe", *arguments])

    assert (code, error in capsys.readouterr().err) == (ExitCode.USAGE, True)


def test_describe_says_if_no_broker_has_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty line would be read as an answer."""
    dark = derive(1, faults=("power-loss-everyone",), seconds=15, workload="produce-consume")
    (tmp_path / "dark.yaml").write_text(plan_to_yaml(dark))
    at_ms = dark.schedule[0].until_ms - 1

    code = run_command_line(["describe", f"{tmp_path}/dark.yaml", "--metrics", "--at", str(at_ms)])

    assert (code, capsys.readouterr().err) == (
        ExitCode.USAGE,
        "highwater: plan seed-1: no broker is up at this time; give another --at\n",
    )


def test_every_metric_is_on_the_page_about_brokers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "brokers.md").read_text()

    assert [metric.name for metric in METRICS if f"| `{metric.name}` | {metric.kind} | {metric.words} |" not in page] == []
