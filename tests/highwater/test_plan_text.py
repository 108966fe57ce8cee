"""Plans as text: reading gives the same plan; errors name file and line."""

from pathlib import Path

import pytest
from hypothesis import example, given
from msgspec.structs import replace

from highwater.plans.derive import derive
from highwater.plans.plan import Plan, PlanError
from highwater.plans.text import load_plan, plan_from_yaml, plan_to_yaml
from nemesis.text import Document
from tests.nemesis.strategies import anything, seeds

BY_HAND = """\
name: two-crashes
story: |
  The leader dies twice.
protocol: v3
draws: 7
cluster:
  topics:
    - {name: orders, partitions: 1, replication_factor: 3, min_insync_replicas: 2, flush: none}
promise:
  topics:
    - {topic: orders}
  session_timeout_ms: 6000
  replica_lag_time_max_ms: 4000
  request_timeout_ms: 2000
faults_ms: 20000
quiet_ms: 38000
schedule:
  - {id: f1, kind: crash-leader, at_ms: 1000, until_ms: 5000, fault: {fault: crash}, target: {target: leader-of, topic: orders, partition: 0}}
  - {id: f2, kind: crash-leader, at_ms: 6000, until_ms: 7000, fault: {fault: crash}, target: {target: leader-of, topic: orders, partition: 0}}
"""  # noqa: E501 - one window a line is the format


@example(replace(derive(1), story="a\x85b", required_marks=("\u2028",)))
@given(anything(Plan))
def test_any_plan_is_unchanged_after_writing_and_reading(plan: Plan) -> None:
    """Invalid plans too: the shrinker writes them, and reading must not change them."""
    document = Document(plan_to_yaml(plan), "plan")

    assert document.convert(Plan, document.value) == plan


@pytest.mark.slow
@given(seeds)
def test_derived_plan_is_valid_after_writing_and_reading(seed: int) -> None:
    plan = derive(seed)

    assert plan_from_yaml(plan_to_yaml(plan)) == plan


def test_hand_written_plan_may_omit_defaults() -> None:
    plan = plan_from_yaml(BY_HAND)

    assert plan.story == "The leader dies twice.\n"
    assert plan.cluster.brokers == 3
    assert [window.id for window in plan.schedule] == ["f1", "f2"]


def test_plan_text_has_protocol_and_one_line_per_fault() -> None:
    text = plan_to_yaml(plan_from_yaml(BY_HAND))

    assert "protocol: v3\n" in text
    assert "brokers:" not in text
    assert sum(line.startswith("  - {id: ") for line in text.splitlines()) == 2
    assert "protocol: safe\n" in plan_to_yaml(derive(1))


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("protocol: v3", "protocol: raft", 4, "unknown protocol 'raft'; known: safe"),
        ("protocol: v3", "protocoll: v3", 4, "unknown key 'protocoll'; did you mean 'protocol'?"),
        ("flush: none", "flush: never", 8, "unknown value 'never'"),
        (
            "replication_factor: 3",
            "replication_factor: 4",
            8,
            "replication_factor must be from 1 to 3 (the number of brokers), not 4",
        ),
        ("partitions: 1", "partition: 1", 8, "unknown key 'partition' in cluster.topics[0]; did you mean 'partitions'?"),
        ("{topic: orders}", "{topic: orders, acks: all}", 11, "unknown key 'acks' in promise.topics[0]"),
        ("  session_timeout_ms: 6000\n", "", 9, "promise: missing key `session_timeout_ms`"),
        ("quiet_ms: 38000", "quiet_ms: 3800", 16, "quiet_ms must be at least the promise's bound"),
        ("faults_ms: 20000", "faults_ms: 20s", 15, "faults_ms: expected `int`, got `str`"),
        ("until_ms: 7000", "until_ms: 70000", 19, "window f2 (crash-leader): "),
        ("until_ms: 5000", "until_ms: 500", 18, "until_ms must be greater than at_ms"),
        (
            "fault: {fault: crash}, target: {target: leader-of, topic: orders",
            "fault: {fault: smash}, target: {t: o",
            18,
            "unknown fault",
        ),
        ("topic: orders, partition: 0", "topic: order, partition: 0", 18, "'order'"),
        ("draws: 7", "draws: 7\nworkload: {name: consume}", 6, "unknown workload 'consume'; known: produce-consume"),
        ("draws: 7", "draws: 7\nrequired_marks: [became-king]", 6, "unknown mark 'became-king'"),
        ("draws: 7", "draws: [7", 6, "malformed YAML"),
        ("draws: 7", "draws: 7\ndraws: 8", 6, "the key draws occurs twice"),
        (BY_HAND, "- 1", 1, "a plan must be a mapping, not list"),
        (BY_HAND, "", 1, "the text is empty"),
    ],
)
def test_invalid_plan_error_names_file_and_line(old: str, new: str, line: int, words: str) -> None:
    assert old in BY_HAND
    with pytest.raises(PlanError) as raised:
        plan_from_yaml(BY_HAND.replace(old, new, 1), "plans/two.yaml")

    message = str(raised.value)
    assert message.startswith(f"plans/two.yaml:{line}: ")
    assert words in message
    assert "\n" not in message


def test_unreadable_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(BY_HAND, encoding="utf-8")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")

    assert load_plan(tmp_path / "good.yaml").name == "two-crashes"
    with pytest.raises(PlanError, match=r"cannot read .*no\.yaml: No such file"):
        load_plan(tmp_path / "no.yaml")
    with pytest.raises(PlanError, match=r"cannot read .*binary\.yaml: it is not UTF-8"):
        load_plan(tmp_path / "binary.yaml")
