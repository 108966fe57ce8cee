"""The script of a plan: requests of an administrator at given times, performed by the simulator and judged."""

from functools import cache

import pytest

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan, PlanError
from highwater.plans.text import plan_from_yaml, plan_to_yaml
from highwater.rig.backend import Provenance
from history.event import EventKind
from history.history import History

PLAN = """\
name: scripted
protocol: safe
draws: 7
cluster:
  brokers: 4
  topics:
  - {name: t, partitions: 1, replication_factor: 3, min_insync_replicas: 2, flush: none}
  later:
  - {name: u, partitions: 2, replication_factor: 2, min_insync_replicas: 1, flush: none}
  session_timeout_ms: 2000
  replica_lag_time_max_ms: 2000
  request_timeout_ms: 1000
workload: {producers: 2, consumers: 1, produce_per_s: 20, request_timeout_ms: 1000}
promise:
  topics:
  - {topic: t, min_insync_replicas: 2, flush: none}
  - {topic: u, min_insync_replicas: 1, flush: none}
  session_timeout_ms: 2000
  replica_lag_time_max_ms: 2000
  request_timeout_ms: 1000
faults_ms: 14000
quiet_ms: 22000
schedule:
  - {id: b3-killed, kind: crash-random, at_ms: 4500, until_ms: 5500, fault: {fault: crash}, target: {target: named, brokers: [3]}}
script:
  - {at_ms: 1000, do: create-topic, topic: u, replicas: [[1, 2], [2, 3]]}
  - {at_ms: 1000, do: add-partition, topic: t, partition: 1, replicas: [[4, 1, 2]]}
  - {at_ms: 3000, do: reassign, topic: t, replicas: [[4, 3, 2]]}
  - {at_ms: 3000, do: reassign-extra, topic: u, partition: 1, replicas: [[1, 4]]}
  - {at_ms: 6000, do: elect-preferred, topic: t}
  - {at_ms: 7000, do: remove-partition, topic: t, partition: 1}
  - {at_ms: 8000, do: reassign, topic: t, replicas: [[1, 2, 3]]}
  - {at_ms: 8000, do: cancel-reassignments}
  - {at_ms: 9000, do: allow-reassignments}
  - {at_ms: 12000, do: delete-topic, topic: u}
"""


def plan() -> Plan:
    return plan_from_yaml(PLAN)


@cache
def scripted_history() -> History:
    return SimBackend().perform(plan(), Provenance(run_id="scripted", plan_digest="")).history


def test_admin_script_is_unchanged_after_writing_and_reading() -> None:
    assert plan_from_yaml(plan_to_yaml(plan())) == plan()


@pytest.mark.slow
def test_all_admin_script_steps_are_done_in_a_valid_run() -> None:
    """R-148, R-149, R-231, R-233, V3 §H: the history has each request with its completion."""
    verdict = judge(scripted_history())
    steps = [step.do for step in plan().script]
    steps_asked, done = (
        [op.f for op in scripted_history().operations if op.type == of and op.f in steps] for of in ("invoke", "ok")
    )

    assert (verdict.validity, verdict.live) == (Validity.VALID, True)
    assert steps_asked == done == steps


def test_topics_created_by_a_script_are_written_to() -> None:
    written = {(op.topic, op.partition) for op in scripted_history().operations if op.f == "produce" and op.type == "ok"}
    moves: dict[tuple[str | None, int | None], tuple[str, ...] | None] = {}
    for event in scripted_history().events:
        if event.kind == EventKind.ASSIGNED:
            moves[event.topic, event.partition] = event.replicas

    assert written == {("t", 0), ("t", 1), ("u", 0), ("u", 1)}
    assert (moves["t", 0], moves["u", 1]) == (("b4", "b3", "b2"), ("b1", "b4"))


def test_partition_may_lose_records_after_its_removal_request() -> None:
    """V3 §H, docs/promise.md DUR-8: those of the topic's other partitions go on."""
    ended = [(e.topic, e.partition) for e in scripted_history().events if e.kind == EventKind.TOPIC_DELETED]

    assert ended == [("t", 1), ("u", 0), ("u", 1)]
    assert {e.partition for e in scripted_history().events if e.kind == EventKind.LOG_ON_DISK and e.topic == "t"} == {0}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at_ms: 12000", "at_ms: 14000", "plan:35: step 10 (delete-topic): "),
        ("do: elect-preferred", "do: elect-somebody", "plan:30: script[4].do: unknown value 'elect-somebody'"),
        ("do: elect-preferred, topic: t", "do: alter-config, topic: t", "step 5 (alter-config): settings must name what is set"),
        ("do: elect-preferred, topic: t", "do: elect-preferred, topic: t, settings: {a: 1}", "settings is for alter-config only"),
        (
            "do: elect-preferred, topic: t",
            "do: alter-config, topic: t, settings: {min.insync.replicas: none}",
            "min.insync.replicas must be a number from 1 on, not none",
        ),
        (
            "do: elect-preferred, topic: t",
            'do: alter-config, topic: t, settings: {cleanup.policy: "compact, delete"}',
            "settings are names and values without blanks, not 'cleanup.policy': 'compact, delete'",
        ),
        ("do: elect-preferred, topic: t", 'do: alter-config, topic: t, settings: {"": 1}', "without blanks, not '': 1"),
        ("topic: u, partition: 1, replicas: [[1, 4]]", "topic: x, replicas: [[1]]", "unknown topic 'x'"),
        ("  - {topic: u, min_insync_replicas: 1, flush: none}\n", "", "promise.topics must list topic u"),
    ],
)
def test_invalid_admin_script_is_refused_with_its_line(old: str, new: str, words: str) -> None:
    assert old in PLAN
    with pytest.raises(PlanError) as error:
        plan_from_yaml(PLAN.replace(old, new))

    assert words in str(error.value)
