"""Order and origin across cuts and attempts (docs/promise.md ORD-1, ORD-2, ORD-4, CUT-1)."""

from checkers.durability.offset_agreement import CHECKER
from checkers.engine.verdict import Verdict
from checkers.judge import judge
from checkers.sketches import history_of
from history.op import OpType
from proof.manifests import promise
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition, lose_power


def kinds(verdict: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in verdict.anomalies]


def cut_at_one() -> HistoryBuilder:
    """Offsets 1 and 2 of three were destroyed everywhere; b2 leads epoch 2 with offset 0 alone."""
    builder = healthy_partition(promise(m=2))
    for offset, value in enumerate("xyz"):
        commit_record(builder, value, offset)
    lose_power(builder, "b1 b2 b3", 1)
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")
    return builder


def test_offsets_of_an_excused_loss_may_be_acked_again() -> None:
    builder = cut_at_one()
    commit_record(builder, "v", 1, epoch=2, nodes="b2")
    builder.poll(3, 0, "x v", epoch=2, hw=2)

    verdict = judge(builder.history())

    assert kinds(verdict) == []
    assert [loss.value for loss in verdict.excused] == ["y", "z"]


def test_offsets_before_an_excused_loss_are_acked_once() -> None:
    builder = cut_at_one()
    builder.produce(1, "v", 0, epoch=2)

    assert kinds(judge(builder.history())) == ["inconsistent-offsets", "lost-write", "offset-order"]


def test_acked_offsets_must_grow_after_an_excused_loss_too() -> None:
    builder = cut_at_one()
    commit_record(builder, "v", 1, epoch=2, nodes="b2")
    builder.produce(1, "w", 1, epoch=2)

    assert kinds(judge(builder.history())) == ["inconsistent-offsets", "lost-write", "offset-order"]


def test_broker_seen_twice_is_named_with_epochs_and_rows() -> None:
    """A broker that truncated holds two records at one offset, one after the other: the words say when."""
    rows = (
        "append node=b1 offset=0 leader_epoch=0 value=x",
        "hw node=b1 hw=1 leo=1 leader_epoch=0",
        "truncate node=b1 offset=0",
        "append node=b1 offset=0 leader_epoch=2 value=y",
        "hw node=b1 hw=1 leo=1 leader_epoch=2",
    )

    anomalies = judge(history_of(*rows), (CHECKER,)).anomalies

    assert [anomaly.words for anomaly in anomalies] == ["offset 0 holds x for b1 (epoch 0, row 1) and y for b1 (epoch 2, row 4)"]


def test_value_that_failed_and_was_sent_again_may_be_read() -> None:
    builder = healthy_partition()
    builder.invoke_produce(1, "x")
    builder.produce_fail(1, "x")
    commit_record(builder, "x", 0)
    builder.poll(2, 0, "x", hw=1)

    assert kinds(judge(builder.history())) == []


def test_value_read_from_another_partition_is_a_phantom() -> None:
    builder = healthy_partition()
    builder.invoke_produce(1, "x")
    builder.produce_info(1, "x")
    builder.on_partition(1)
    builder.poll(2, 0, "x", hw=1)

    assert kinds(judge(builder.history())) == ["phantom-read"]


def test_record_of_unknown_outcome_may_be_read() -> None:
    builder = healthy_partition()
    builder.invoke_produce(1, "x")
    builder.append("b1 b2 b3", 0, "x")
    builder.produce_info(1, "x")
    builder.hw("b1", 1)
    builder.poll(2, 0, "x", hw=1)

    assert kinds(judge(builder.history())) == []


def test_records_of_one_produce_may_have_adjacent_offsets() -> None:
    """Three values in one produce: rows of one index, offsets one after the other."""
    builder = healthy_partition()
    builder.op(1, OpType.INVOKE, "produce", tuple({"value": value, "acks": -1} for value in "xyz"))
    for offset, value in enumerate("xyz"):
        builder.append("b1 b2 b3", offset, value)
    builder.hw("b1", 3)
    rows = tuple({"value": value, "acks": -1, "offset": offset, "leader_epoch": 1} for offset, value in enumerate("xyz"))
    builder.op(1, OpType.OK, "produce", rows)

    verdict = judge(builder.history())

    assert (kinds(verdict), verdict.counts["acked"]) == ([], 3)
