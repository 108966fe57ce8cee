"""The high watermark as brokers and consumers see it, beyond what the corpus shows (docs/promise.md VIS-1 to VIS-3, CUT-1)."""

import pytest

from checkers.engine.verdict import Verdict
from checkers.judge import judge
from history.event import EventKind
from history.op import OpType
from tests.checkers.corpus import history as stored
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition, lose_power


def kinds(verdict: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in verdict.anomalies]


def story_with_known_end() -> HistoryBuilder:
    """A story in which three records are committed and consumer 2 was told the end offset 3."""
    builder = healthy_partition()
    for offset, value in enumerate("xyz"):
        commit_record(builder, value, offset)
    builder.latest(2, 3)
    return builder


def test_high_watermark_above_the_log_end_is_found() -> None:
    builder = healthy_partition()
    builder.append("b1 b2 b3", 0, "x")
    builder.hw("b2", 2, leo=1, role="follower")

    assert kinds(judge(builder.history())) == ["hw-above-leo"]


@pytest.mark.parametrize(
    ("between", "life", "kinds_expected"), [("", 1, ["hw-regressed"]), ("cut", 1, []), ("resigned", 1, []), ("", 2, [])]
)
def test_follower_of_a_new_leader_keeps_its_high_watermark(between: str, life: int, kinds_expected: list[str]) -> None:
    """U-04: the new leader knows less to be committed. A log that got shorter and a new process may have a lower HW.

    So may a replica that is made again after its directory failed (seed 70925 of `--faults all`).
    """
    builder = story_with_known_end()
    builder.hw("b3", 3, role="follower")
    builder.state("b2", 2, "b2 b3")
    builder.leads("b2", 2, leo=3, hw=1, isr="b2 b3")
    if between == "resigned":
        builder.event(EventKind.RESIGNED, node="b3", life=1, leader_epoch=1)
    builder.follows("b3", 2, "b2")
    if between == "cut":
        builder.append("b3", 3, "u")
        builder.truncate("b3", 3)
    builder.hw("b3", 1, epoch=2, leo=3, role="follower", life=life)

    assert [anomaly.kind for anomaly in judge(builder.history()).anomalies if anomaly.checker == "monotonic-hw"] == kinds_expected


def test_fetch_answer_below_the_requested_offset_is_found() -> None:
    builder = story_with_known_end()
    builder.op(2, OpType.INVOKE, "poll", ({"offset": 1},))
    builder.op(2, OpType.OK, "poll", ({"offset": 0, "value": "x", "leader_epoch": 1, "hw": 3},))

    assert kinds(judge(builder.history())) == ["position-regressed"]


def test_stale_answer_of_a_deposed_leader_is_allowed() -> None:
    """V3: the consumer has seen epoch 2; a broker that still acts in epoch 1 answers with its older state."""
    builder = story_with_known_end()
    builder.state("b2", 2, "b2 b3")
    builder.leads("b2", 2, leo=3, hw=3, isr="b2 b3")
    builder.latest(2, 3, epoch=2)
    builder.latest(2, 1, epoch=1)

    assert kinds(judge(builder.history())) == []


def test_end_offset_may_fall_to_an_excused_loss_only() -> None:
    """CUT-1: offset 1 was destroyed everywhere; the end may fall to 1, not to 0."""
    builder = story_with_known_end()
    lose_power(builder, "b1 b2 b3", 1)
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")
    builder.latest(2, 1, epoch=2)
    assert kinds(judge(builder.history())) == []

    builder.latest(2, 0, epoch=2)
    assert kinds(judge(builder.history())) == ["latest-regressed"]


def test_consumer_beyond_an_excused_loss_may_be_out_of_range() -> None:
    """The consumer's position before the loss does not exist any more."""
    history = stored("ok/acked-loss-excused-then-rewritten")
    assert kinds(judge(history)) == []

    builder = story_with_known_end()
    lose_power(builder, "b1 b2 b3", 1)
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")
    builder.op(2, OpType.INVOKE, "poll", ({"offset": 3},))
    builder.op(2, OpType.FAIL, "poll", ({"error": "OFFSET_OUT_OF_RANGE"},))

    assert kinds(judge(builder.history())) == []


def test_hw_in_fetch_answers_may_not_fall_within_one_epoch() -> None:
    builder = story_with_known_end()
    builder.poll(2, 0, "x y z", hw=3)
    builder.poll(2, 1, "", hw=2)

    assert kinds(judge(builder.history())) == ["hw-regressed"]
