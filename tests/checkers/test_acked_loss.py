"""The rules of the ledger, one by one (docs/promise.md §1, §2, §5), and mutants of it that these rules must catch."""

from collections.abc import Callable

import msgspec
import pytest

from checkers.durability import ledger as ledger_module
from checkers.durability.ledger import Ledger
from checkers.engine.rows import EventRow
from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge
from checkers.timeline.isr_history import IsrHistory
from checkers.timeline.wounds import Sessions
from history.event import EventKind
from history.promise import TopicPromise
from proof.manifests import promise
from tests.checkers import corpus
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition, lose_power


def kinds(verdict: Verdict) -> list[str]:
    return sorted({anomaly.kind for anomaly in verdict.anomalies})


def lead_empty(builder: HistoryBuilder, node: str = "b2", epoch: int = 2) -> HistoryBuilder:
    """The controller elects a replica whose log is empty."""
    builder.state(node, epoch, node)
    builder.leads(node, epoch, leo=0, isr=node)
    return builder


def test_offsets_of_an_excused_loss_may_hold_new_records() -> None:
    """CUT-1: before and after the cut are two generations that no checker compares."""
    verdict = judge(corpus.history("ok/acked-loss-excused-then-rewritten"))

    assert verdict.validity == Validity.VALID
    assert [(loss.offset, loss.value) for loss in verdict.excused] == [(0, "x")]
    assert [(cut.offset, cut.leader_epoch) for cut in verdict.cuts] == [(0, 2)]


def test_acks_all_acknowledgement_promises_a_record() -> None:
    """An acknowledgement under acks=all promises, even where no HW was noted."""
    builder = healthy_partition()
    builder.append("b1 b2 b3", 0, "x")
    builder.produce(1, "x", 0)
    builder.truncate("b2", 0)

    assert "lost-write" in kinds(judge(lead_empty(builder).history()))


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_acks_1_promise_no_record(acks: int) -> None:
    builder = healthy_partition()
    builder.invoke_produce(1, "x", acks=acks)
    builder.append("b1", 0, "x")
    builder.produce_ok(1, "x", 0, acks=acks)

    assert judge(lead_empty(builder).history()).validity == Validity.VALID


def test_record_returned_to_a_consumer_is_promised() -> None:
    """Returned to a consumer: whoever read it may have acted on it."""
    builder = healthy_partition()
    builder.invoke_produce(1, "x", acks=1)
    builder.append("b1", 0, "x")
    builder.produce_ok(1, "x", 0, acks=1)
    builder.poll(2, 0, "x")

    assert kinds(judge(lead_empty(builder).history())) == ["lost-write"]


def test_produce_of_unknown_outcome_promises_no_record() -> None:
    builder = healthy_partition()
    builder.invoke_produce(1, "x")
    builder.append("b1", 0, "x")
    builder.produce_info(1, "x")

    assert judge(lead_empty(builder).history()).validity == Validity.VALID


def test_leader_of_an_ended_epoch_may_lack_later_records() -> None:
    """b2 was elected for epoch 2, which ended before it heard of it; x was committed in epoch 3."""
    builder = healthy_partition()
    builder.state("b2", 2, "b2 b3")
    builder.state("b3", 3, "b1 b3")
    builder.leads("b3", 3, leo=0, isr="b1 b3")
    commit_record(builder, "x", 0, epoch=3, nodes="b3 b1")
    builder.leads("b2", 2, leo=0, isr="b2 b3")

    assert "lost-write" not in kinds(judge(builder.history()))


def test_record_committed_by_deposed_leader_must_survive() -> None:
    """The deposed leader commits x in epoch 1 after b2 began epoch 2 without it."""
    builder = healthy_partition()
    builder.append("b1", 0, "x")
    lead_empty(builder)
    builder.hw("b1", 1)

    assert "lost-write" in kinds(judge(builder.history()))


def test_loss_is_not_excused_while_a_counted_copy_remains() -> None:
    """DUR-3: b3 still has x, so the election of b2 lost it, not the harness."""
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b1 b2")

    assert "lost-write" in kinds(judge(lead_empty(builder).history()))


def test_destroyed_copy_counts_until_its_loss_is_noticed() -> None:
    """b1 is gone for good, but its session lasts: until it ends the copy of x counts."""
    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1 b2")
    commit_record(builder, nodes="b1 b2")
    builder.wound("b1", 0, 11)
    builder.wound("b2", 0, 12)
    builder.session_ended("b2", 12)
    builder.state("b1", 2, "b1")
    lead_empty(builder, "b2", 3)
    builder.session_ended("b1", 11)

    assert "lost-write" in kinds(judge(builder.history()))


@pytest.mark.parametrize(("reported", "excused"), [(0, ["x"]), (1, []), (None, [])])
def test_data_loss_is_noticed_when_broker_reports_failed_dir(reported: int | None, excused: list[str]) -> None:
    """docs/promise.md §1: with several directories the session goes on; another directory's failure says nothing of this one."""
    builder = healthy_partition()
    commit_record(builder)
    builder.wound("b1", 0, 11)
    if reported is not None:
        builder.dir_failed("b1", reported)
    lose_power(builder, "b2 b3")
    lead_empty(builder)
    builder.session_ended("b1", 11)

    assert [loss.value for loss in judge(builder.history()).excused] == excused


def test_dir_failure_report_ends_with_its_broker_process() -> None:
    """docs/promise.md §1: the next process reads its directories anew."""
    builder = healthy_partition()
    commit_record(builder)
    builder.dir_failed("b1")
    builder.node_started("b1", 2)
    builder.wound("b1", 0, 11)
    lose_power(builder, "b2 b3")

    assert "lost-write" in kinds(judge(lead_empty(builder).history()))


def test_loss_is_excused_by_the_last_noticed_destruction() -> None:
    """The same with both sessions ended before the election."""
    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1 b2")
    commit_record(builder, nodes="b1 b2")
    lose_power(builder, "b2 b1")
    lead_empty(builder)

    verdict = judge(builder.history())

    assert kinds(verdict) == []
    assert [loss.offset for loss in verdict.excused] == [0]


def test_replica_leaving_in_pending_isr_change_does_not_count() -> None:
    """b2 holds x but is on its way out: destroying x on b1, the last that counts, excuses its loss."""
    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1 b2")
    commit_record(builder, nodes="b1 b2")
    builder.change_isr("b1", 1, ("b1",))
    lose_power(builder, "b1")
    builder.recovered("b1", 0)
    lead_empty(builder, "b1")

    assert judge(builder.history()).validity == Validity.VALID


def test_below_min_insync_replicas_the_last_full_isr_counts_too() -> None:
    """The ELR: b2 left the ISR when it fell below m = 2, and still has x. Two wounds at a time, so that DUR-4 does not decide
    it.
    """
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2")
    commit_record(builder, nodes="b1 b2")
    builder.state("b1", 1, "b1")
    lose_power(builder, "b1 b3")

    assert "lost-write" in kinds(judge(lead_empty(builder, "b1").history()))


def test_loss_on_fewer_than_min_insync_replicas_is_no_excuse() -> None:
    """DUR-4: with m = 2 a record with one copy should not have been promised."""
    builder = healthy_partition()
    builder.state("b1", 1, "b1")
    commit_record(builder, nodes="b1")
    lose_power(builder, "b1")
    lead_empty(builder, "b1")
    assert "lost-write" in kinds(judge(builder.history()))

    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1")
    commit_record(builder, nodes="b1")
    lose_power(builder, "b1")
    lead_empty(builder, "b1")
    assert "lost-write" not in kinds(judge(builder.history()))


def test_data_losses_add_up_until_the_replica_rejoins_isr() -> None:
    """DUR-4: b2 was wounded, rejoined and is whole when b1 is wounded: one at a time."""
    builder = healthy_partition()
    lose_power(builder, "b2")
    builder.registered("b2", 22)
    builder.state("b1", 2, "b1 b3")
    builder.state("b1", 2, "b1")
    builder.state("b1", 2, "b1 b2")
    builder.state("b1", 2, "b1")
    commit_record(builder, nodes="b1", epoch=2)
    lose_power(builder, "b1")
    lead_empty(builder, "b1", 3)

    assert "lost-write" in kinds(judge(builder.history()))


def test_record_that_came_back_must_not_be_lost_again() -> None:
    """x seemed destroyed, then a leader had it after all and truncated it."""
    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1")
    commit_record(builder, nodes="b1 b2")
    lose_power(builder, "b1")
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")
    builder.truncate("b2", 0)
    builder.state("b2", 3, "b2")
    builder.leads("b2", 3, leo=0, isr="b2")

    assert "lost-write" in kinds(judge(builder.history()))


def test_flush_before_ack_excuses_only_a_swapped_directory() -> None:
    """DUR-5."""
    outcomes = []
    for complaint in ("power-loss", "dropped", "swapped"):
        builder = healthy_partition(promise(flush="before_ack"))
        commit_record(builder)
        lose_power(builder, "b1 b2 b3", why=complaint)
        outcomes.append("lost-write" in kinds(judge(lead_empty(builder, "b3").history())))

    assert outcomes == [True, True, False]


def test_ordered_unclean_election_excuses_its_loss_if_promised() -> None:
    """DUR-7."""
    assert judge(corpus.history("ok/acked-loss-ordered-by-operator")).validity == Validity.VALID

    history = corpus.history("ok/acked-loss-ordered-by-operator")
    history.manifest = msgspec.structs.replace(history.manifest, promise=promise(m=1))

    assert {"lost-write", "unclean-election"} <= set(kinds(judge(history)))


def test_last_leader_must_hold_every_promised_record_at_end() -> None:
    """There is no later election, so only the end of the log shows it."""
    builder = healthy_partition()
    at = commit_record(builder)
    gone = builder.truncate("b1", 0)

    lost_writes = [anomaly for anomaly in judge(builder.history()).anomalies if anomaly.kind == "lost-write"]

    assert [anomaly.witness for anomaly in lost_writes] == [(at, gone)]


def test_loss_before_the_next_election_is_not_judged() -> None:
    builder = healthy_partition()
    commit_record(builder)
    builder.wound("b1", 0, 11)

    assert judge(builder.history()).validity == Validity.VALID


def test_log_record_without_an_append_event_is_no_anomaly() -> None:
    """A crash fell between the append and its note; the recovered log is longer than its rows."""
    builder = healthy_partition()
    builder.append("b1 b2", 0, "x")
    builder.recovered("b3", 1)
    builder.hw("b1", 1)
    builder.produce(1, "x", 0)
    builder.state("b3", 2, "b3")
    builder.leads("b3", 2, leo=1, isr="b3")

    assert judge(builder.history()).validity == Validity.VALID


def test_record_restored_by_power_loss_may_replace_the_lost() -> None:
    """b1 had truncated z and written x; the power loss undid both, and as the next leader it commits z again."""
    builder = healthy_partition()
    builder.invoke_produce(1, "z")
    builder.produce_info(1, "z")
    builder.append("b1", 0, "z", epoch=0)
    builder.truncate("b1", 0)
    commit_record(builder)
    lose_power(builder, "b1 b2 b3")
    builder.recovered("b1", 1)
    builder.state("b1", 2, "b1")
    builder.leads("b1", 2, leo=1, isr="b1")
    builder.follows("b2", 2, "b1")
    builder.append("b2", 0, "z", epoch=0)
    builder.state("b1", 2, "b1 b2")
    builder.hw("b1", 1, epoch=2)
    builder.hw("b2", 1, epoch=2, role="follower")
    builder.poll(2, 0, "z", epoch=2, hw=1)

    verdict = judge(builder.history())

    assert (kinds(verdict), [loss.value for loss in verdict.excused]) == ([], ["x"])


def test_many_lost_records_are_one_anomaly() -> None:
    builder = healthy_partition()
    for offset in range(50):
        commit_record(builder, f"v{offset}", offset)
    builder.truncate("b2", 10)
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=10, isr="b2")

    lost_writes = [anomaly for anomaly in judge(builder.history()).anomalies if anomaly.kind == "lost-write"]

    assert len(lost_writes) == 1
    assert "and 39 more up to offset 49" in lost_writes[0].words


# --- mutants ----------------------------------------------------------------------------------------------------------------


def any_wound_on_the_node(ledger: Ledger, offset: int, value: str, counted: tuple[str, ...]) -> bool:
    """Mutant: a wound excuses every record that it destroyed, even if another replica holds it."""
    return True


def forgets_the_unnoticed(ledger: Ledger, offset: int, value: str, counted: tuple[str, ...]) -> bool:
    """Mutant: a destroyed copy stops counting at once."""
    return not any(ledger.replicas.log(node).holds(offset, value) for node in counted)


def excuses_truncation(ledger: Ledger, row: EventRow) -> None:
    """Mutant: the wound of a replica excuses its truncations."""
    if row.kind == "truncate" and row.node in ledger.wounded.since:
        for offset, value in enumerate(ledger.replicas.log(row.node).values):
            if value is not None and offset >= row.offset:
                ledger.destroyed[(offset, value)] = ledger.wounded.since[row.node].at
    _see(ledger, row)


_see = Ledger.see


def one_wound_is_enough(ledger: Ledger, row: EventRow) -> None:
    """Mutant: how many replicas are wounded at a time does not matter."""
    _see(ledger, row)
    for ghosts in ledger.ghosts.values():
        for ghost in ghosts:
            ghost.together = 99


@pytest.mark.parametrize(
    ("name", "mutant", "caught_by"),
    [
        ("see", one_wound_is_enough, test_loss_on_fewer_than_min_insync_replicas_is_no_excuse),
        ("is_last_copy", any_wound_on_the_node, test_loss_is_not_excused_while_a_counted_copy_remains),
        ("see", excuses_truncation, lambda: _story_is_judged_as_told("bad/acked-loss-wound-elsewhere")),
        ("_lead", lambda ledger, row: None, lambda: _story_is_judged_as_told("bad/acked-loss-truncated-to-hw")),
    ],
    ids=["one wound is enough", "any wound on the node", "excuses a truncation", "looks at no leader"],
)
def test_planted_mistake_in_the_loss_checker_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., object], caught_by: Callable[[], None]
) -> None:
    """A ledger that excuses too much would call a broken protocol VALID."""
    caught_by()
    monkeypatch.setattr(Ledger, name, mutant)

    with pytest.raises(AssertionError):
        caught_by()


def _story_is_judged_as_told(name: str) -> None:
    anomalies = judge(corpus.history(name)).anomalies
    assert tuple((anomaly.kind, anomaly.witness) for anomaly in anomalies) == corpus.RUNS[name].anomalies


def test_loss_checker_that_ignores_the_elr_excuses_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-966: below min.insync.replicas the last full ISR still counts, so losing its copy is not excused."""
    test_below_min_insync_replicas_the_last_full_isr_counts_too()
    monkeypatch.setattr(IsrHistory, "counted_on", lambda standing: standing.isr)

    with pytest.raises(AssertionError):
        test_below_min_insync_replicas_the_last_full_isr_counts_too()


def test_loss_checker_without_unnoticed_copies_is_too_lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without "unnoticed counts as held" b2's wound would excuse x while b1's copy is still trusted."""
    test_destroyed_copy_counts_until_its_loss_is_noticed()
    monkeypatch.setattr(Ledger, "is_last_copy", forgets_the_unnoticed)

    with pytest.raises(AssertionError):
        test_destroyed_copy_counts_until_its_loss_is_noticed()


def test_excuse_of_loss_under_flush_before_ack_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "counts_as_wound", lambda promised, detail: isinstance(promised, TopicPromise))

    with pytest.raises(AssertionError):
        test_flush_before_ack_excuses_only_a_swapped_directory()


def test_loss_checker_that_notices_losses_at_once_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sessions, "lasts", lambda sessions, node, incarnation: False)

    with pytest.raises(AssertionError):
        test_destroyed_copy_counts_until_its_loss_is_noticed()


def test_truncation_is_a_loss_despite_a_later_power_loss() -> None:
    """DUR-3: a truncation before the power loss is a loss, whatever wounds come before or after."""
    builder = healthy_partition()
    commit_record(builder)
    builder.truncate("b1", 0)
    builder.wound("b1", 0, 11)

    assert "lost-write" in kinds(judge(builder.history()))


def test_data_loss_not_noticed_by_the_end_excuses_nothing() -> None:
    """docs/promise.md §1: until it is noticed the destroyed copy counts as held, so the leader's truncation is its own."""
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2")
    commit_record(builder, nodes="b1 b2")
    builder.wound("b2", 0, 12)
    builder.wound("b3", 0, 13)
    builder.truncate("b1", 0)

    verdict = judge(builder.history())

    assert "lost-write" in kinds(verdict)
    assert verdict.excused == ()


def test_unclean_election_order_excuses_no_later_crash_loss() -> None:
    """DUR-7: b2 had x when it was elected by order; what it lost afterwards, in a crash, the order does not excuse."""
    builder = healthy_partition(promise(by_operator=True))
    commit_record(builder)
    builder.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b2")
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")
    builder.truncate("b2", 0)
    builder.leads("b2", 2, leo=0, isr="b2")

    assert "lost-write" in kinds(judge(builder.history()))


def test_unclean_election_order_survives_repeated_command() -> None:
    """DUR-7: b3 hears again that it leads epoch 1 before the controller carries the order out."""
    builder = healthy_partition(promise(by_operator=True))
    builder.state("b3", 2, "b3")
    builder.leads("b3", 2, leo=0, isr="b3")
    builder.state("b1", 3, "b1 b2")
    builder.leads("b1", 3, leo=0, isr="b1 b2")
    commit_record(builder, epoch=3, nodes="b1 b2")
    builder.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b3")
    builder.leads("b3", 2, leo=0, isr="b3")
    builder.state("b3", 4, "b3")
    builder.leads("b3", 4, leo=0, isr="b3")

    verdict = judge(builder.history())

    assert "lost-write" not in kinds(verdict)
    assert [loss.value for loss in verdict.excused] == ["x"]


def test_lost_record_that_a_consumer_reads_is_promised_again() -> None:
    """DUR-1: x was excused; b3, which did not count, brings it back, commits it, and loses it by truncation."""
    builder = healthy_partition(promise(m=1))
    builder.state("b1", 1, "b1")
    commit_record(builder, nodes="b1 b3")
    lose_power(builder, "b1")
    lead_empty(builder, "b2")
    builder.state("b3", 3, "b3")
    builder.leads("b3", 3, leo=1, hw=0, isr="b3")
    builder.hw("b3", 1, epoch=3)
    builder.truncate("b3", 0)
    lead_empty(builder, "b2", 4)

    verdict = judge(builder.history())

    assert [loss.value for loss in verdict.excused] == ["x"]
    assert "lost-write" in kinds(verdict)


def test_records_below_the_hw_of_a_new_leader_are_promised() -> None:
    """docs/promise.md §1: below the HW of a leader, whether it rose to it or began with it."""
    builder = healthy_partition()
    builder.append("b1 b2", 0, "x")
    builder.state("b1", 2, "b1 b2")
    builder.leads("b1", 2, leo=1, hw=1, isr="b1 b2")
    builder.truncate("b2", 0)

    assert "lost-write" in kinds(judge(lead_empty(builder, "b2", 3).history()))


def test_second_value_promised_at_an_offset_is_judged_too() -> None:
    """ORD-1 is broken already; the value that the next leader does not have is lost all the same."""
    builder = healthy_partition()
    commit_record(builder)
    builder.truncate("b1", 0)
    builder.append("b1", 0, "y")
    builder.poll(2, 0, "y")
    builder.state("b2", 2, "b2")
    builder.leads("b2", 2, leo=1, hw=1, isr="b2")

    lost_writes = [anomaly.words for anomaly in judge(builder.history()).anomalies if anomaly.kind == "lost-write"]

    assert any("record y" in words for words in lost_writes)
