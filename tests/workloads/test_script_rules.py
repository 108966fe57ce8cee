"""Complaints about scripts that cannot be performed (workloads.script_rules)."""

import pytest

from workloads.parameters import Step
from workloads.script_rules import MAX_STEPS, Ground, complaints

GROUND = Ground(brokers=3, topics={"orders": 2}, later={"late": (1, 2)}, end_ms=10_000)
MAKES = Step(at_ms=10, do="create-topic", topic="late", replicas=((1, 2),))
MOVES = Step(at_ms=20, do="reassign", topic="orders", replicas=((3, 1),))


def test_valid_script_has_no_complaints() -> None:
    cancels = Step(at_ms=20, do="cancel-reassignments")
    adds = Step(at_ms=20, do="add-partition", topic="orders", partition=2, replicas=((1, 3),))
    goes = Step(at_ms=20, do="remove-partition", topic="orders", partition=2)
    deletes = Step(at_ms=9_999, do="delete-topic", topic="late")

    assert list(complaints((MAKES, MOVES, cancels, adds, goes, deletes), GROUND)) == []


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step(at_ms=10_000, do="cancel-reassignments"), "to 9999, not 10000"),
        (Step(at_ms=5, do="allow-reassignments"), "(the step above) to 9999, not 5"),
        (Step(at_ms=20, do="cancel-reassignments", topic="orders"), "topic and partition must be left out"),
        (Step(at_ms=20, do="elect-preferred", topic="ghost"), "unknown topic 'ghost'; known topics: orders, late"),
        (Step(at_ms=20, do="delete-topic", topic="orders"), "orders exists from the start"),
        (Step(at_ms=20, do="remove-partition", topic="orders", partition=1), "partition 1 of orders exists from the start"),
        (Step(at_ms=20, do="elect-unclean", topic="orders", partition=-1), "partition must be at least 0, not -1"),
        (Step(at_ms=20, do="reassign", topic="orders"), "the replicas of 1 partitions, not of 0"),
        (Step(at_ms=20, do="delete-topic", topic="late", replicas=((1,),)), "the replicas of 0 partitions, not of 1"),
        (Step(at_ms=20, do="create-topic", topic="late", replicas=((1, 2, 3),)), "late must have 2 replicas"),
        (Step(at_ms=20, do="reassign-extra", topic="orders", replicas=((1, 1),)), "must be different brokers from 1 to 3"),
        (Step(at_ms=20, do="reassign-request", topic="orders", replicas=((4,),)), "must be different brokers from 1 to 3"),
    ],
)
def test_invalid_script_error_names_the_step(step: Step, words: str) -> None:
    said = list(complaints((MAKES, step), GROUND))

    assert [index for index, _ in said] == [1]
    assert words in said[0][1]
    assert said[0][1].startswith(f"step 2 ({step.do}): ")


def test_script_with_too_many_steps_is_refused() -> None:
    assert "at most 1000 steps" in next(complaints((MOVES,) * (MAX_STEPS + 1), GROUND))[1]
