"""Plans are derived from the seed alone, and their parts are drawn independently."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from msgspec.structs import replace

from highwater.campaigns.campaign import Request
from highwater.plans.derive import LATER, Wishes, derive, standard_bench_plan
from highwater.plans.plan import PlanError, complaints, plan_digest, shape_of
from highwater.rig.scene import broker_config
from nemesis import kinds
from nemesis.faults import wounds
from nemesis.generate import FOR_LONG
from nemesis.profiles import default_kinds
from reference.types import BrokerId
from tests.nemesis.strategies import seeds

SEEDS = range(300)


@given(seeds)
def test_any_seed_derives_a_valid_plan(seed: int) -> None:
    plan = derive(seed)

    assert complaints(plan) == ()
    assert plan == derive(seed)
    assert plan.promise.bound_ms <= 40_000
    assert plan.quiet_ms > plan.promise.bound_ms
    assert 20_000 <= plan.faults_ms <= 50_000


@pytest.mark.slow
def test_plan_does_not_depend_on_pythonhashseed() -> None:
    code = (
        "from highwater.plans.derive import derive\nfrom highwater.plans.plan import plan_digest\n"
        "print([plan_digest(derive(s)) for s in range(20)])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }

    assert said == {f"{[plan_digest(derive(seed)) for seed in range(20)]}\n"}


def test_different_seeds_derive_different_plans() -> None:
    assert len({plan_digest(replace(derive(seed), seed=None, name="")) for seed in SEEDS}) == len(SEEDS)


def test_produce_is_retried_as_often_as_in_kafka() -> None:
    """R-130: message.send.max.retries is 3; one plan of three does without retries."""
    drawn = {derive(seed).workload.retries for seed in range(30)}

    assert drawn == {0, 3}


@pytest.mark.usefixtures("catalogue")
def test_faults_option_changes_only_the_fault_schedule() -> None:
    for seed in range(50):
        drawn, plan = derive(seed), derive(seed, faults=("pause",))

        assert plan == replace(drawn, schedule=plan.schedule, required_marks=plan.required_marks)
        assert {window.kind for window in plan.schedule} <= set(kinds.select(["pause"]))
        assert plan.schedule


def test_plan_option_changes_only_the_value_that_it_names() -> None:
    drawn, wished = derive(5), derive(5, seconds=7, wishes=Wishes(produce_per_s=1))

    assert wished.faults_ms == 7000
    assert wished.workload == replace(drawn.workload, produce_per_s=1)
    assert (wished.cluster, wished.network, wished.draws) == (drawn.cluster, drawn.network, drawn.draws)


def test_protocol_option_changes_nothing_else_in_the_plan() -> None:
    """So one seed has the same workload and schedule under every protocol."""
    assert derive(9, protocol="v3") == replace(derive(9), protocol="v3")


@pytest.mark.usefixtures("catalogue")
def test_default_faults_destroy_no_data_of_any_topic() -> None:
    """Power loss is among them if every topic flushes before it acknowledges."""
    power = 0
    for seed in SEEDS:
        plan = derive(seed)
        for window in plan.schedule:
            assert not any(wounds(window.fault, topic.flush) for topic in plan.cluster.topics)
            power += kinds.kind(window.kind).family == "power"

    assert power > 50


@pytest.mark.usefixtures("catalogue")
def test_plans_of_300_seeds_cover_all_shapes_and_fault_kinds() -> None:
    plans = [derive(seed) for seed in SEEDS]

    assert {plan.cluster.brokers for plan in plans} == {3, 4, 5}
    assert {topic.replication_factor for plan in plans for topic in plan.cluster.topics} == {2, 3}
    assert {topic.min_insync_replicas for plan in plans for topic in plan.cluster.topics} == {1, 2, 3}
    assert {topic.flush for plan in plans for topic in plan.cluster.topics} == {"none", "before_ack"}
    assert {acks for plan in plans for acks in plan.workload.acks} == {-1, 0, 1}
    assert {len(plan.cluster.topics) for plan in plans} == {1, 2, 3}
    assert {plan.cluster.log_dirs for plan in plans} == {1, 2, 3}
    drawn = {window.kind for plan in plans for window in plan.schedule}
    unnamed = [entry for entry in kinds.KINDS if not entry.named_only]
    assert drawn == {entry.name for entry in unnamed if entry.destroys == "nothing" or entry.family == "power"}


@pytest.mark.parametrize("name", ["power", "disk-swap", "dir-drop", "dir-removed"])
def test_fault_kinds_that_destroy_data_are_scheduled_if_named(name: str) -> None:
    for seed in range(30):
        assert derive(seed, faults=(name,)).schedule, seed


@pytest.mark.parametrize(("name", "servers", "places"), [("zookeeper-lag", 3, 1), ("place", 1, 2), ("place-cut", 1, 2)])
def test_faults_between_servers_or_places_get_what_they_need(name: str, servers: int, places: int) -> None:
    """Without that, most seeds would have no fault at all."""
    plans = [derive(seed, faults=(name,)) for seed in range(30)]

    assert all(plan.schedule for plan in plans)
    assert {plan.cluster.zookeeper for plan in plans} == {servers, 3}
    assert {plan.workload.places for plan in plans} == set(range(places, 4))


@pytest.mark.usefixtures("catalogue")
def test_profile_beyond_schedules_faults_that_destroy_data() -> None:
    plans = [derive(seed, profile="beyond") for seed in range(60)]

    assert {plan.promise.profile for plan in plans} == {"beyond"}
    kinds = {window.kind for plan in plans for window in plan.schedule}
    assert {"dir-drop", "dir-removed", "disk-swap", "power-loss-everyone"} <= kinds


@pytest.mark.parametrize("seconds", [1, 2, 5])
def test_short_plan_is_valid(seconds: int) -> None:
    for seed in range(50):
        assert complaints(derive(seed, seconds=seconds)) == ()


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PlanError, match=r"unknown protocol 'paxos'; known: safe, v3"):
        derive(1, protocol="paxos")
    with pytest.raises(PlanError, match=r"unknown fault 'gremlins'"):
        derive(1, faults=("pause", "gremlins"))
    with pytest.raises(PlanError, match=r"unknown workload 'mine'; known: produce-consume"):
        derive(1, workload="mine")
    with pytest.raises(PlanError, match="seconds must be at least 1, not 0"):
        derive(1, seconds=0)
    with pytest.raises(PlanError, match="brokers must be at least 1, not 0"):
        derive(1, wishes=Wishes(brokers=0))


@pytest.mark.usefixtures("catalogue")
def test_bench_plan_has_every_default_kind() -> None:
    plan = standard_bench_plan()
    shape = shape_of(plan)

    assert plan == standard_bench_plan()
    assert {window.kind for window in plan.schedule} == set(default_kinds("within", shape)) - {*FOR_LONG, *LATER}
    assert (shape.brokers, sum(topic.partitions for topic in shape.topics), shape.end_ms) == (5, 12, 60_000)
    assert (plan.workload.producers + plan.workload.consumers, plan.workload.produce_per_s) == (8, 50)


def test_some_plans_mix_legacy_and_new_brokers() -> None:
    """R-205, R-206: some or all brokers use the protocol before KIP-343; in most plans none does."""
    plans = [derive(seed, seconds=20) for seed in range(200)]
    shares = [(len(plan.cluster.legacy_brokers), plan.cluster.brokers) for plan in plans]

    assert 15 < sum(count > 0 for count, _ in shares) < 60
    assert {0 < count < brokers for count, brokers in shares if count} == {True, False}
    assert all(1 <= broker <= plan.cluster.brokers for plan in plans for broker in plan.cluster.legacy_brokers)


def test_settings_of_a_document_also_widen_the_promise() -> None:
    """R-138, R-139: the promise of a slower cluster is slower, or it would be judged as not live."""
    plan = Request(protocol="article", workload="produce-consume", settings="document").plan(1)

    assert (plan.cluster.replica_lag_time_max_ms, plan.cluster.lag_max_records, plan.cluster.request_timeout_ms) == (
        10_000,
        4000,
        30_000,
    )
    assert (plan.promise.replica_lag_time_max_ms, plan.promise.request_timeout_ms) == (10_000, 30_000)
    assert broker_config(plan, BrokerId(1)).lag_max_records == 4000
    assert broker_config(Request(protocol="v3", settings="document").plan(1), BrokerId(1)).reassign_interval_ms == 30_000


def test_settings_of_a_document_need_a_protocol_with_one() -> None:
    with pytest.raises(PlanError, match="--settings document is for the protocols v3 and article, not safe"):
        Request(settings="document").plan(1)
