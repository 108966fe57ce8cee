"""franz-go as the client of a run: on franz-go's own kfake in CI, and on Kafka."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.clients import franz_go
from highwater.plans.text import plan_to_yaml
from nemesis.faults import Pause
from nemesis.schedule import Window
from nemesis.targets import Named
from reference.config import TopicSpec
from tests.systems.conftest import KEPT, need, outcome
from tests.systems.test_kafka import highwater, last_run_with
from tests.systems.test_other_brokers import acted, checked
from tests.systems.test_toy import PLAN as TOY_PLAN

VERSION = "1.22.3"
HANGS = Window(id="hangs", kind="pause-short", at_ms=3000, until_ms=5000, fault=Pause(), target=Named(brokers=(1,)))
CLIENT = ("--client", f"franz-go:{VERSION}")

pytestmark = pytest.mark.slow


def need_franz_go() -> None:
    """Skip the test unless Go is here and finds the library."""
    missing = franz_go.missing(VERSION)
    if missing is not None:
        pytest.skip(missing)


def processing_plan(folder: Path) -> str:
    """The path of a plan of read-process-write for one node, which hangs for longer than clients wait."""
    names = ("highwater-in", "highwater-out")
    spec = TOY_PLAN.cluster.topics[0]
    topics: tuple[TopicSpec, ...] = tuple(replace(spec, name=name, partitions=2) for name in names)
    promise = replace(TOY_PLAN.promise, topics=tuple(replace(TOY_PLAN.promise.topics[0], topic=name) for name in names))
    cluster = replace(TOY_PLAN.cluster, topics=topics)
    workload = replace(TOY_PLAN.workload, name="read-process-write", consumers=2, request_timeout_ms=1000)
    plan = replace(TOY_PLAN, name="processing", system=UNSET, cluster=cluster, promise=promise, workload=workload)
    plan = replace(plan, schedule=(HANGS,), faults_ms=8000)
    path = folder / "plan.yaml"
    path.write_text(plan_to_yaml(plan))
    return str(path)


@pytest.mark.systems
def test_franz_go_processes_exactly_once_on_kfake(kfake_cluster: Callable[..., Path], tmp_path: Path) -> None:
    need_franz_go()
    file = kfake_cluster(1, cut="")
    checked(file)

    run = ("--plan", processing_plan(tmp_path), "--system", "external", "--with", str(file), *CLIENT)
    code, summary = highwater(*run, folder=tmp_path / "store")

    assert outcome(code, summary) == KEPT
    assert acted(summary) == {"pause-short": 1}


@pytest.mark.systems_all
@pytest.mark.parametrize(
    "name",
    [
        "failover",
        "transactions",
        "groups",
        "groups-auto-commit",
        "groups-cooperative",
        "groups-static",
        "read-process-write",
        "zombies",
        "compacted",
        "end-txn-answer-lost",
    ],
)
def test_franz_go_performs_workloads_on_kafka(name: str, tmp_path: Path) -> None:
    need("4.1.0")
    need_franz_go()
    code, summary = last_run_with(name, "--system", "kafka:4.1.0", *CLIENT, folder=tmp_path)

    assert outcome(code, summary) == KEPT
    assert all(fault["acted"] for fault in summary["faults"])


@pytest.mark.systems_all
@pytest.mark.parametrize("name", ["end-txn-late", "process-end-txn-late"])
def test_late_end_of_franz_go_is_refused(name: str, tmp_path: Path) -> None:
    """KIP-890: with the second version of transactions the broker knows an old request."""
    need("4.1.0")
    need_franz_go()
    code, summary = last_run_with(name, "--system", "kafka:4.1.0", *CLIENT, folder=tmp_path)

    assert (*outcome(code, summary), summary["hazard"]) == (*KEPT, "shown")
