"""Validation of plans: each mistake is refused with a sentence on the given and the allowed values."""

from typing import Any

import pytest
from msgspec.structs import replace

from highwater.plans.actions import Expire
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


def test_valid_plan_has_no_complaints() -> None:
    assert complaints(GOOD) == ()
    assert checked(GOOD) is GOOD


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            replace(GOOD, variant=replace(SAFE, reassignment="B", reassign_rollback=False)),
            "reassign_rollback=false needs reassignment=A, not B: proposal B of KIP-236 has no rollback to leave out",
        ),
        (
            replace(GOOD, variant=replace(SAFE, reassign_full="target_first", reassign_path="v3")),
            "reassign_full=target_first needs reassign_path=json, not v3: clients ask for a move at /admin/reassign_partitions",
        ),
        (
            replace(GOOD, variant=replace(SAFE, isr_version_reread=False)),
            "isr_version_reread=false needs isr_change_via=zookeeper, not controller: the leader writes no ISR itself otherwise",
        ),
        (_workload(stranger_first=True), "stranger_first is of the workloads misuse and everything, not of"),
        (_workload(name="transactions", only=(1,)), "only names produces outside of transactions"),
        (replace(GOOD, protocol="raft"), "unknown protocol 'raft'; known: safe, v3"),
        (_workload(name="consume"), "unknown workload 'consume'; known: produce-consume"),
        (_workload(producers=0), "producers must be at least 1, not 0"),
        (
            replace(GOOD, cluster=replace(GOOD.cluster, checkpoint_interval_ms=0)),
            "checkpoint_interval_ms must be at least 1, not 0",
        ),
        (_cluster(fetch_wait_max_ms=-1), "fetch_wait_max_ms must be at least 1, not -1"),
        (_cluster(fetch_max_bytes=0), "fetch_max_bytes must be at least 1, not 0"),
        (_cluster(producer_id_block_size=0), "producer_id_block_size must be at least 1, not 0"),
        (_cluster(zookeeper_write_ms=31), "zookeeper_write_ms must be at most 30, not 31"),
        (_cluster(zookeeper_write_ms=0), "zookeeper_write_ms must be at least 1, not 0"),
        (replace(GOOD, min_acked=-1), "min_acked must be at least 0, not -1"),
        (
            replace(GOOD, promise=replace(GOOD.promise, topics=(replace(GOOD.promise.topics[0], min_insync_replicas=0),))),
            "min_insync_replicas must be at least 1, not 0",
        ),
        (
            replace(GOOD, promise=replace(GOOD.promise, topics=(replace(GOOD.promise.topics[0], min_insync_replicas=9),))),
            f"has min_insync_replicas 9, the topic {GOOD.cluster.topics[0].min_insync_replicas}",
        ),
        (_topic(flush="none"), "has flush before_ack, the topic none"),
        (_workload(consumers=-1), "consumers must be at least 0, not -1"),
        (_workload(retries=-1), "retries must be at least 0, not -1"),
        (_workload(idempotent=99), "(the number of producers), not 99"),
        (_workload(acks=(2,)), "acks must be one or more of -1 (all), 0 and 1, not [2]"),
        (_workload(acks=()), "acks must be one or more of -1 (all), 0 and 1, not []"),
        (_workload(name="create-delete", scratch=None), "workload create-delete needs a scratch topic"),
        (_cluster(topics=()), "topics must not be empty"),
        (_cluster(topics=GOOD.cluster.topics[:1] * 2), "is listed twice"),
        (_cluster(log_dirs=0), "log_dirs must be at least 1, not 0"),
        (_topic(replication_factor=GOOD.cluster.brokers + 1), f"from 1 to {GOOD.cluster.brokers} (the number of brokers), not"),
        (_topic(replication_factor=0), "(the number of brokers), not 0"),
        (_topic(min_insync_replicas=4), "(the replication factor), not 4"),
        (_topic(partitions=0), "partitions must be at least 1, not 0"),
        (replace(GOOD, promise=replace(GOOD.promise, topics=())), "promise.topics must list topic"),
        (
            _cluster(session_timeout_ms=GOOD.cluster.session_timeout_ms + 1),
            "session_timeout_ms of the promise must be at least the cluster's",
        ),
        (replace(GOOD, quiet_ms=GOOD.promise.bound_ms - 1), "quiet_ms must be at least the promise's bound"),
        (
            replace(GOOD, network=replace(GOOD.network, delay_us_min=10, delay_us_max=9)),
            "delay_us_min must not exceed delay_us_max (10 > 9)",
        ),
        (replace(GOOD, required_marks=("fault:none",)), "unknown mark 'fault:none'; known: "),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=20_001, fault=Crash()),)),
            "window f1 (k): ",
        ),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=1, fault=Packets(kinds=("fetsch",))),)),
            "unknown message 'fetsch'; did you mean 'fetch'?",
        ),
        (
            replace(GOOD, schedule=(Window(id="f1", kind="k", at_ms=0, until_ms=1, fault=CrashAt(effect="send:fetsch")),)),
            "unknown effect 'send:fetsch'; known: append, ",
        ),
    ],
)
def test_invalid_plan_is_refused_with_the_allowed_values(plan: Plan, words: str) -> None:
    lines = _sentences(plan)

    assert any(words in sentence for sentence in lines), lines
    with pytest.raises(PlanError):
        checked(plan)


def test_plan_with_its_own_variant_may_have_any_protocol_name() -> None:
    assert complaints(replace(GOOD, protocol="mine", variant=SAFE)) == ()


def test_switch_that_old_brokers_need_is_accepted_with_one() -> None:
    """A broker before KIP-343 writes its ISR itself, so `isr_version_reread` acts there."""
    variant = replace(SAFE, isr_version_reread=False)
    mixed = replace(_cluster(legacy_brokers=(1,)), variant=variant)

    assert complaints(mixed) == ()
    assert complaints(replace(mixed, cluster=GOOD.cluster)) != ()


def test_explored_plan_may_move_by_the_path_of_v3() -> None:
    """The explorer writes the request there; no client of a run does."""
    variant = replace(SAFE, reassign_full="target_first", reassign_path="v3")
    explored = replace(GOOD, variant=variant, path=(Expire(node="b1"),))

    assert "reassign_full" not in " ".join(_sentences(explored))
    assert "reassign_full" in " ".join(_sentences(replace(explored, path=())))


def test_plan_digest_is_equal_only_for_equal_plans() -> None:
    assert plan_digest(GOOD) == plan_digest(derive(1, seconds=20))
    assert plan_digest(GOOD) != plan_digest(replace(GOOD, draws=GOOD.draws + 1))
    assert len(plan_digest(GOOD)) == 32


def test_plan_gives_the_nemesis_brokers_topics_and_end() -> None:
    shape = shape_of(GOOD)

    assert (shape.brokers, shape.end_ms) == (GOOD.cluster.brokers, GOOD.faults_ms)
    assert [topic.name for topic in shape.topics] == [topic.name for topic in GOOD.cluster.topics]
