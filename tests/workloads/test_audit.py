"""Audit: after the bound an auditor sends each kind of admin request, and producers use every acks (docs/promise.md LIVE-5)."""

import msgspec

from history.op import OpType
from tests.workloads.test_admin_storm import PARAMETERS, run
from workloads.admin_storm import ADDED_MAX
from workloads.audit import LOOKS_MAX
from workloads.client import Completion
from workloads.generate import generate
from workloads.parameters import TopicShape

SHAPE = TopicShape("orders", 2, ((1, 2), (2, 3), (3, 1), (1, 2), (2, 3), (3, 1)))
AUDITED = msgspec.structs.replace(PARAMETERS, audited=True, brokers=(1, 2, 3), topics=(SHAPE,))


def test_auditor_sends_each_kind_of_request_once_it_may() -> None:
    *_, auditor = generate("produce-consume", 5, AUDITED)

    assert [run(auditor, phase) for phase in ("faults", "quiet", "final")] == [[], [], []]
    requests_sent = [invocation.f for invocation in run(auditor, "audit")]
    elected = ["elect-preferred"] * 3  # two partitions of the start and the added one
    assert requests_sent == ["depose-controller", "elect-preferred"] * 2 + [
        "add-partition",
        "reassign",
        "admin-pending",
        *elected,
    ]


def test_auditor_adds_a_partition_that_nobody_else_adds() -> None:
    *_, producer, reader, auditor = generate("produce-consume", 5, AUDITED)
    (added,) = [invocation for invocation in run(auditor, "audit") if invocation.f == "add-partition"]

    assert (added.partition, added.assignment) == (2 + ADDED_MAX, ((3, 1),))
    assert {invocation.partition for invocation in run(producer, "audit", until_ms=2000)} == {added.partition}
    assert {invocation.partition for invocation in run(reader, "final", Completion(type=OpType.OK, offset=0))} == {5}


def test_auditor_waits_until_no_request_is_pending() -> None:
    *_, auditor = generate("produce-consume", 5, AUDITED)
    pending = Completion(type=OpType.OK, found=("/admin/reassign_partitions",))

    requests_sent = [invocation.f for invocation in run(auditor, "audit", pending)]

    assert requests_sent.count("admin-pending") == LOOKS_MAX
    assert requests_sent[-1] == "elect-preferred"


def test_auditor_moves_by_requests_under_proposal_b() -> None:
    *_, auditor = generate("produce-consume", 5, msgspec.structs.replace(AUDITED, by_requests=True))

    assert "reassign-request" in [invocation.f for invocation in run(auditor, "audit")]


def test_workload_without_audit_has_no_auditor() -> None:
    audited = generate("produce-consume", 5, AUDITED)

    assert len(generate("produce-consume", 5, PARAMETERS)) == len(audited) - 3


def test_producers_ask_for_every_acks_during_the_audit() -> None:
    producer, *_ = generate("produce-consume", 5, AUDITED)

    assert {invocation.acks for invocation in run(producer, "quiet", until_ms=10_000)} == {-1}
    producer, *_ = generate("produce-consume", 5, AUDITED)
    assert {invocation.acks for invocation in run(producer, "audit", until_ms=10_000)} == {-1, 0, 1}
