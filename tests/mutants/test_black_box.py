"""Jepsen's rules for Kafka find known-bad protocols from the answers to clients alone, and find nothing in `safe`.

test_mutants judges the same runs with the notes of brokers too. This module lists which of Jepsen's anomalies each run shows.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.kafka.judge import judge
from highwater.backends.sim.backend import SimBackend
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.foreign import export, ours
from history.foreign.step import Step
from history.history import History

PLANS = Path(__file__).parents[2] / "corpus" / "plans"


def history_of(plan: str, protocol: str) -> History:
    made = replace(load_plan(PLANS / plan), protocol=protocol, variant=None)
    return SimBackend().perform(made, Provenance(run_id="mutant", plan_digest="")).history


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "plan", "found"),
    [
        ("truncate-to-hw", "kip101-scenario-1.yaml", {"inconsistent-offsets", "lost-write", "unseen"}),
        ("unclean-election", "jepsen-2013.yaml", {"inconsistent-offsets", "unseen"}),
        ("no-idempotence", "mutants/failover-retry.yaml", {"duplicate"}),
        ("isr-current", "mutants/isr-current.yaml", {"inconsistent-offsets", "lost-write", "unseen"}),
        ("offline-replica-recreated", "mutants/kafka-16234.yaml", {"inconsistent-offsets", "nonmonotonic-send"}),
    ],
)
def test_client_operations_alone_reveal_a_bad_protocol(protocol: str, plan: str, found: set[str]) -> None:
    verdict = judge(seen_by_clients(history_of(plan, protocol)))

    assert {anomaly.kind for anomaly in verdict.anomalies} == found
    assert judge(seen_by_clients(history_of(plan, "safe"))).validity is Validity.VALID


def seen_by_clients(history: History) -> Iterable[Step]:
    """The sends and polls of a run, as `highwater check --model kafka` reads them from its history."""
    return export.renewed(lambda: ours.queue_steps(history))
