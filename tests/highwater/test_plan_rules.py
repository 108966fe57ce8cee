"""A plan that cannot be performed, cannot heal or cannot be judged is refused with a sentence."""

from typing import Any

import pytest
from msgspec.structs import replace

from highwater.plans.derive import derive
from highwater.plans.plan import Plan, PlanError, checked, complaints, plan_digest, shape_of
from nemesis.faults import Crash, CrashAt, Packets
from nemesis.schedule import Window
from reference.config import SAFE

GOOD = derive(1, seconds=20)


def _sentences(plan: Plan) -> list[str]:
    return [complaint.sentence for complaint in complaints(plan)]


def _cluster(**parts: Any) -> Plan:
    return replace(GOOD, cluster=replace(GOOD.cluster, **parts))


def _topic(**parts: Any) -> Plan:
    return _cluster(topics=(replace(GOOD.cluster.topics[0], **parts), *GOOD.cluster.topics[1:]))


def _workload(**parts: Any) -> Plan:
    return replace(GOOD, workload=replace(GOOD.workload, **parts))


def test_a_good_plan_has_no_complaints() -> None:
    assert complaints(GOOD) == ()
    assert checked(GOOD) is GOOD


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(GOOD, protocol="raft"), "unknown protocol 'raft'; there are safe, v3"),
        (_workload(name="consume"), "unknown workload 'consume'; there are produce-consume"),
        (_workload(producers=0), "producers must be at least 1"),
        (_workload(consumers=-1), "consumers must not be below 0"),
        (_workload(acks=(2,)), "acks holds"),
        (_workload(acks=()), "acks holds"),
        (_cluster(topics=()), "there is no topic"),
        (_cluster(topics=GOOD.cluster.topics[:1] * 2), "is there twice"),
        (_cluster(log_dirs=0), "log_dirs must be at least 1"),
        (_topic(replication_factor=GOOD.cluster.brokers + 1), f"cannot be had from {GOOD.cluster.brokers} brokers"),
        (_topic(replication_factor=0), "replication factor 0"),
        (_topic(min_insync_replicas=4), "min_insync_replicas 4"),
        (_topic(partitions=0), "at least one partition"),
        (replace(GOOD, promise=replace(GOOD.promise, topics=())), "nothing is promised of topic"),
        (_cluster(session_timeout_ms=GOOD.cluster.session_timeout_ms + 1), "session_timeout_ms is below the cluster's"),
        (replace(GOOD, quiet_ms=GOOD.promise.bound_ms - 1), "a plan that cannot heal: quiet_ms"),
        (replace(GOOD, network=replace(GOOD.network, delay_us_min=10, delay_us_max=9)), "a delay from 10 to 9 us"),
        (replace(GOOD, required_marks=("fault:none",)), "mark 'fault:none' can never occur"),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=20_001, fault=Crash()),)),
            "window f1 (k): a plan that cannot heal",
        ),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=1, fault=Packets(kinds=("fetsch",))),)),
            "unknown message 'fetsch'; there are epoch-end, epoch-end-reply, fetch, fetch-reply",
        ),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=1, fault=CrashAt(effect="send:fetsch")),)),
            "unknown effect 'send:fetsch'; there are append, ",
        ),
    ],
)
def test_what_is_wrong_is_said(plan: Plan, words: str) -> None:
    said = _sentences(plan)

    assert any(words in sentence for sentence in said), said
    with pytest.raises(PlanError):
        checked(plan)


def test_a_variant_of_ones_own_needs_no_known_name() -> None:
    assert complaints(replace(GOOD, protocol="mine", variant=SAFE)) == ()


def test_equal_plans_have_equal_digests_and_any_change_shows() -> None:
    assert plan_digest(GOOD) == plan_digest(derive(1, seconds=20))
    assert plan_digest(GOOD) != plan_digest(replace(GOOD, draws=GOOD.draws + 1))
    assert len(plan_digest(GOOD)) == 32


def test_the_nemesis_learns_the_shape_of_the_cluster() -> None:
    shape = shape_of(GOOD)

    assert (shape.brokers, shape.end_ms) == (GOOD.cluster.brokers, GOOD.faults_ms)
    assert [topic.name for topic in shape.topics] == [topic.name for topic in GOOD.cluster.topics]
