"""The passes of the shrinker: what they propose can be performed, and is smaller."""

from itertools import islice

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.plans.derive import MIXED, derive
from highwater.plans.plan import Plan, complaints
from highwater.shrink.passes import PASSES, first_proposals, mended, proposals, scripted, with_length
from highwater.shrink.trial import step_of
from nemesis.targets import LeaderOf, Named
from tests.highwater.shrink.plans import plan_with, replies, window
from workloads.parameters import Step


def _all_proposals(plan: Plan) -> list[Plan]:
    facts = replies(plan)
    return [
        proposal
        for this_pass in PASSES
        for reduction in this_pass.reductions(plan, facts)
        for proposal in islice(proposals(reduction, plan, facts), 20)
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_proposal_of_every_pass_can_be_performed(seed: int) -> None:
    """A plan that nobody can perform would be counted as one that does not fail."""
    plan = derive(seed, protocol="v3", workload=MIXED)

    refused = [complaints(proposal) for proposal in _all_proposals(plan) if complaints(proposal)]

    assert refused == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_proposal_has_more_of_anything(seed: int) -> None:
    """Otherwise a shrink might not end."""
    plan = derive(seed, protocol="v3", workload=MIXED)

    def size(one: Plan) -> tuple[int, ...]:
        counts = len(one.schedule), len(one.script), len(one.cluster.topics), one.cluster.brokers, one.workload.producers
        return (*counts, one.faults_ms, one.quiet_ms, one.workload.consumers)

    larger = [
        proposal
        for proposal in _all_proposals(plan)
        if any(now > before for now, before in zip(size(proposal), size(plan), strict=True))
    ]

    assert larger == []


def test_first_proposal_ends_at_the_proof_of_the_failure() -> None:
    plan = plan_with(8)

    first, bare = first_proposals(plan, replies(plan, proof_ms=930))

    assert (first.faults_ms, first.audit_ms, first.quiet_ms) == (1000, 0, plan.promise.bound_ms)
    assert [this_window.id for this_window in first.schedule] == ["f1", "f2", "f3", "f4"]
    assert (bare.seed, bare.derivation, bare.schedule) == (None, UNSET, plan.schedule)


def test_plan_loses_windows_that_its_cluster_no_longer_allows() -> None:
    plan = replace(plan_with(2), schedule=(window(1), replace(window(2), target=LeaderOf(topic="gone", partition=0))))

    assert mended(plan) == replace(plan, schedule=(window(1),))


def test_plan_that_cannot_be_mended_is_not_proposed() -> None:
    plan = plan_with(1)

    assert mended(replace(plan, quiet_ms=1)) is None


def test_fault_by_role_becomes_a_fault_by_name() -> None:
    """Named brokers let topics go, and a reader sees what is hit."""
    plan = replace(plan_with(1), schedule=(replace(window(1), target=LeaderOf(topic="orders", partition=0)),))
    facts = replace(replies(plan), hits={"f1": (2,)})
    (by_name,) = (this_pass for this_pass in PASSES if this_pass.name.startswith("brokers by name"))

    (proposal,) = proposals(by_name.reductions(plan, facts)[0], plan, facts)

    assert proposal.schedule[0].target == Named(brokers=(2,))


def test_window_is_not_shortened_below_the_grain() -> None:
    plan = plan_with(1)

    assert with_length(plan, "f1", 1) == plan


def test_drawn_requests_become_a_script_of_the_same_requests() -> None:
    """Steps of a script can be left out one by one; requests that a workload draws cannot."""
    plan = derive(2, protocol="v3", workload="everything")
    moved = Step(at_ms=500, do="reassign", topic=plan.cluster.topics[0].name, replicas=((1, 2),))
    facts = replace(replies(plan), requests=(moved,))

    (proposal,) = proposals(scripted, plan, facts)

    assert (proposal.workload.name, proposal.workload.scratch, proposal.script) == ("produce-consume", None, (moved,))
    assert proposal.cluster.later == (*plan.cluster.later, plan.workload.scratch)
    assert list(proposals(scripted, proposal, facts)) == []


@pytest.mark.parametrize(
    ("do", "value", "step"),
    [
        ("create-topic", "my-topic on 1,2 2,3", Step(at_ms=7, do="create-topic", topic="my-topic", replicas=((1, 2), (2, 3)))),
        ("delete-topic", "my-topic", Step(at_ms=7, do="delete-topic", topic="my-topic")),
        ("reassign", "my-topic-3 on 2,1", Step(at_ms=7, do="reassign", topic="my-topic", partition=3, replicas=((2, 1),))),
        ("elect-preferred", "orders-0", Step(at_ms=7, do="elect-preferred", topic="orders")),
        ("cancel-reassignments", "", Step(at_ms=7, do="cancel-reassignments")),
    ],
)
def test_row_of_a_request_becomes_its_step(do: str, value: str, step: Step) -> None:
    assert step_of(do, value, 7) == step
