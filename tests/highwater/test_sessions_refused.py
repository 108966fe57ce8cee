"""Workloads with transactions and groups are refused, in a sentence, where they cannot be performed."""

from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from highwater.backends.real.clients.libraries import refusal
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.sim.backend import SimBackend
from highwater.cli.main import run_command_line
from highwater.plans.derive import derive
from highwater.plans.plan import PlanError, checked, on_system
from highwater.plans.systems import parsed_system
from highwater.plans.text import load_plan
from tests.tidy.sources import ROOT
from workloads.parameters import AutoCommit

REAL = ROOT / "corpus" / "real"


@pytest.mark.parametrize(
    ("name", "lacks"),
    [
        ("transactions", "transactions"),
        ("groups", "consumer groups"),
        ("read-process-write", "transactions"),
        ("zombies", "transactions"),
        ("compacted", "topics that are compacted"),
    ],
)
def test_reference_refuses_transactions_and_groups(name: str, lacks: str) -> None:
    plan = load_plan(REAL / f"{name}.yaml")
    message = f"the reference has no {lacks}; the workload {name!r} needs another system, such as --system kafka:3.9.1"

    assert SimBackend().refuse(plan) == message
    assert ProcessBackend().refuse(plan) == message


def test_old_release_refuses_transactions() -> None:
    plan = on_system(load_plan(REAL / "transactions.yaml"), parsed_system("kafka:1.1.1"))

    assert (
        ProcessBackend().refuse(plan)
        == "kafka 1.1.1 performs the workload 'produce-consume', 'compacted' only, not 'transactions'"
    )


COORDINATORS = load_plan(REAL / "coordinators.yaml")


@pytest.mark.parametrize("backend", [SimBackend(), ProcessBackend()], ids=["sim", "process"])
def test_reference_refuses_faults_at_internal_topics(backend: SimBackend | ProcessBackend) -> None:
    workload = load_plan(REAL / "failover.yaml").workload

    assert backend.refuse(replace(COORDINATORS, workload=workload)) == "the reference has no internal topic __consumer_offsets"


def test_internal_topic_that_no_client_needs_is_refused() -> None:
    """Kafka makes it at the first request for it; until then nobody leads it, and the fault would hit nobody."""
    of_groups = replace(COORDINATORS, workload=load_plan(REAL / "groups.yaml").workload)
    message = "window keeper-of-transactions-hangs (pause-long): kafka 4.1.0 keeps no topic __transaction_state"

    refused = ProcessBackend().refuse(on_system(of_groups, parsed_system("kafka:4.1.0"))) or ""
    assert refused == f"{message} for the workload 'groups', only __consumer_offsets"


def test_old_release_refuses_the_workloads_of_administrators() -> None:
    plan = on_system(load_plan(REAL / "failover.yaml"), parsed_system("kafka:2.0.1"))
    storm = replace(plan, workload=replace(plan.workload, name="admin-storm"))

    message = "kafka 2.0.1 performs the workload 'produce-consume', 'compacted' only, not 'admin-storm'"
    assert ProcessBackend().refuse(storm) == message


def test_command_ends_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--plan", str(REAL / "groups.yaml"), "--store", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_results_need_a_topic_of_their_own() -> None:
    plan = load_plan(REAL / "read-process-write.yaml")
    alone = replace(plan, cluster=replace(plan.cluster, topics=plan.cluster.topics[:1]))

    with pytest.raises(PlanError, match="needs two topics or more: the last one takes the results of the others"):
        checked(alone)


def test_reference_refuses_share_groups() -> None:
    plan = load_plan(REAL / "share-groups.yaml")
    message = "the reference has no share groups; the workload 'share-groups' needs another system, such as --system kafka:4.2.0"

    assert ProcessBackend().refuse(plan) == message


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (UNSET, "the workload 'share-groups' needs the Java client: --client java:4.2.0"),
        ("java:4.1.0", "client java:4.1.0 has no share consumer that is stable (KIP-932): java:4.2.0 and later have"),
    ],
)
def test_client_without_share_consumer_is_refused(client: str | UnsetType, message: str) -> None:
    plan = load_plan(REAL / "share-groups.yaml")

    assert refusal(replace(plan, workload=replace(plan.workload, client=client))) == message


def test_release_without_stable_share_groups_is_refused() -> None:
    plan = on_system(load_plan(REAL / "share-groups.yaml"), parsed_system("kafka:4.1.0"))

    message = "kafka 4.1.0 has no share groups that are ready for production (KIP-932): 4.2 and later have"
    assert ProcessBackend().refuse(plan) == message


def test_zombies_need_two_clients_of_one_id() -> None:
    plan = load_plan(REAL / "zombies.yaml")

    with pytest.raises(PlanError, match="needs at least 2 producers, which share an id, not 1"):
        checked(replace(plan, workload=replace(plan.workload, producers=1)))


def test_seeds_of_read_process_write_have_two_topics() -> None:
    plans = [derive(seed, workload="read-process-write", faults=("crash",)) for seed in range(40)]

    assert {len(plan.cluster.topics) for plan in plans} == {2, 3}


def test_membership_is_of_groups_alone() -> None:
    plan = load_plan(REAL / "groups-static.yaml")

    with pytest.raises(PlanError, match="membership is of the workloads groups and read-process-write, not of transactions"):
        checked(replace(plan, workload=replace(plan.workload, name="transactions")))


def test_compacted_topics_are_promised_as_such() -> None:
    """A promise of all records would accuse the cleaner, and one of the last of each key would excuse a loss."""
    compacted, groups = (load_plan(REAL / f"{name}.yaml") for name in ("compacted", "groups"))

    with pytest.raises(PlanError, match="workload compacted keeps the last record of each key"):
        checked(replace(compacted, promise=groups.promise))
    with pytest.raises(PlanError, match="workload groups promises no more than the last record of each key"):
        checked(replace(groups, promise=compacted.promise))


def test_seeds_of_the_compacted_workload_promise_last_records() -> None:
    plans = [derive(seed, workload="compacted", faults=("crash",)) for seed in range(10)]

    assert {topic.keeps for plan in plans for topic in plan.promise.topics} == {"last-of-key"}
    assert {topic.keeps for topic in derive(1).promise.topics} == {UNSET}


def test_auto_commit_is_of_groups_alone() -> None:
    plan = load_plan(REAL / "groups-auto-commit.yaml")

    with pytest.raises(PlanError, match="auto_commit is of the workload groups, not of transactions"):
        checked(replace(plan, workload=replace(plan.workload, name="transactions")))
    with pytest.raises(PlanError, match="auto_commit: interval_ms must be from 1 to 86400000, not 0"):
        checked(replace(plan, workload=replace(plan.workload, auto_commit=AutoCommit(interval_ms=0))))


def test_java_client_refuses_to_commit_at_delivery() -> None:
    """It has no such setting: what it commits, an earlier poll gave."""
    plan = load_plan(REAL / "groups-auto-commit.yaml")
    workload = replace(plan.workload, client="java:4.1.0", auto_commit=AutoCommit(after="delivery"))

    message = "client java:4.1.0 commits automatically what earlier polls gave (after: next-poll), not at once (after: delivery)"
    assert refusal(replace(plan, workload=workload)) == message


def test_old_release_refuses_that_its_coordinator_assigns() -> None:
    plan = on_system(load_plan(REAL / "process-coordinator-assigns.yaml"), parsed_system("kafka:3.9.1"))

    message = "kafka 3.9.1 has no groups whose coordinator assigns (KIP-848): 4.0 and later have"
    assert ProcessBackend().refuse(plan) == message
