"""A system with another protocol than Kafka's is performed and judged by the same stage."""

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec
from highwater.plans.systems import SystemSpec
from highwater.runs.provenance import Build
from highwater.runs.run import Judged, Keep, carry_out
from history.promise import Promise, TopicPromise
from nemesis.faults import Crash
from nemesis.schedule import Window
from nemesis.targets import Named
from reference.config import TopicSpec
from tests.systems.toy import Toy

BOUND_MS = 10_000 + 2 * 500 + 2 * 500 + 4 * 500
PLAN = Plan(
    name="toy",
    draws=1,
    system=SystemSpec(name="toy", version="eager"),
    cluster=ClusterShape(
        brokers=1,
        topics=(TopicSpec(name="t", partitions=1, replication_factor=1, min_insync_replicas=1, flush="none"),),
        session_timeout_ms=500,
        replica_lag_time_max_ms=500,
        request_timeout_ms=500,
    ),
    workload=WorkloadSpec(producers=2, consumers=1, produce_per_s=40, request_timeout_ms=500),
    promise=Promise(
        topics=(TopicPromise(topic="t", min_insync_replicas=1),),
        session_timeout_ms=500,
        replica_lag_time_max_ms=500,
        request_timeout_ms=500,
    ),
    faults_ms=3000,
    quiet_ms=BOUND_MS,
    schedule=(Window(id="dies", kind="crash", at_ms=1500, until_ms=2000, fault=Crash(), target=Named(brokers=(1,))),),
)


def run_of_toy(version: str) -> Judged:
    plan = replace(PLAN, system=SystemSpec(name="toy", version=version))
    build = Build(commit="", dirty=False, versions={})
    return carry_out(plan, ProcessBackend(Toy), build=build, repeat="", keep=Keep())


@pytest.mark.slow
@pytest.mark.systems
def test_toy_that_acknowledges_before_it_writes_loses_records() -> None:
    judged_run = run_of_toy("eager")

    assert judged_run.verdict.validity is Validity.INVALID
    assert "lost-write" in {anomaly.kind for anomaly in judged_run.verdict.anomalies}


@pytest.mark.slow
@pytest.mark.systems
def test_toy_that_writes_before_it_acknowledges_is_valid() -> None:
    judged = run_of_toy("careful")

    assert (judged.verdict.validity, judged.verdict.live, judged.summary.failure) == (Validity.VALID, True, None)
