"""Each planted mistake of a log checker or of the judge of queues is found by its comparison, and by no other."""

from collections.abc import Callable, Iterator
from itertools import chain

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from checkers.clients import (
    answers,
    auto_commit,
    client_log,
    committed_offsets,
    compaction,
    exactly_once,
    final_reads,
    group_delivery,
    share_groups,
    zombies,
)
from checkers.control import election, incarnations
from checkers.durability import flushes, ledger
from checkers.durability.ledger import Ledger
from checkers.durability.offset_agreement import _Offsets
from checkers.elle.graph import REALTIME, edges
from checkers.engine import calms
from checkers.engine.checker import Checker
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.kafka import cycles as queue_cycles
from checkers.kafka.logs import Log as QueueLog
from checkers.kafka.logs import Logs
from checkers.kafka.transactions import Op
from checkers.liveness import availability, convergence, progress
from checkers.registry import ALL
from checkers.timeline.isr_history import IsrHistory
from checkers.timeline.replay import Log
from checkers.timeline.wounds import Sessions
from history.event import EventKind as K
from history.op import OpType
from proof import logs, queues

Patch = pytest.MonkeyPatch


def acks_1_promises_a_record(patch: Patch) -> None:
    """Acknowledgements of acks=1 taken for promises."""
    original = _Offsets.see_call

    def wrong(self: _Offsets, call: Call) -> None:
        original(self, call._replace(asked=tuple(row._replace(acks=-1) for row in call.asked)))

    patch.setattr(_Offsets, "see_call", wrong)


def log_that_ends_early_agrees(patch: Patch) -> None:
    """A log that ends is taken to agree."""
    patch.setattr(Log, "may_hold", lambda self, offset, value: offset >= len(self.values) or self.values[offset] == value)


def leaders_remember_one_batch(patch: Patch) -> None:
    """Any older sequence taken for one that the leader has forgotten."""
    patch.setattr(answers, "_REMEMBERED", 1)


def first_offset_waits_as_the_end_does(patch: Patch) -> None:
    """For the HW to reach the start of the epoch (KIP-207)."""
    patch.setattr(answers, "OFFSET_ERRORS", ("OFFSET_OUT_OF_RANGE",))


def wound_excuses_despite_other_copies(patch: Patch) -> None:
    """Whoever else holds the record."""
    patch.setattr(Ledger, "is_last_copy", lambda self, offset, value, counted: True)


def one_wound_excuses_despite_min_insync_replicas(patch: Patch) -> None:
    """DUR-4 forgotten."""
    original = Ledger.see

    def wrong(self: Ledger, row: EventRow) -> None:
        original(self, row)
        for ghost in chain.from_iterable(self.ghosts.values()):
            ghost.together = 99

    patch.setattr(Ledger, "see", wrong)


def elr_is_not_counted_on(patch: Patch) -> None:
    patch.setattr(IsrHistory, "counted_on", lambda self: self.isr)


def power_loss_excuses_flushed_records(patch: Patch) -> None:
    """DUR-5 forgotten."""
    patch.setattr(ledger, "counts_as_wound", lambda promise, detail: True)


def every_wound_is_noticed_at_once(patch: Patch) -> None:
    patch.setattr(Sessions, "hides", lambda self, wound: False)


def operator_order_excuses_everything(patch: Patch) -> None:
    """DUR-7: also what the elected replica had."""
    patch.setattr(Ledger, "_order", lambda self, offset, record, epoch: self.elected_by_order.get(epoch, (None,))[0])


def log_of_a_wounded_leader_is_not_judged(patch: Patch) -> None:
    """A former mistake: the log of a leader that was wounded in office is not judged."""
    original = Ledger.findings

    def wrong(self: Ledger) -> object:
        self.logs_told = self.logs_told and self.in_office is None
        return original(self)

    patch.setattr(Ledger, "findings", wrong)


def emptied_replica_may_lead(patch: Patch) -> None:
    """DUR-6 forgotten."""
    patch.setattr(election._Elections, "_accuse_emptied", lambda self, row, leader: None)


def only_the_last_isr_may_lead(patch: Patch) -> None:
    """The ELR forgotten."""
    patch.setattr(IsrHistory, "eligible", lambda self: self.isr)


def ended_process_may_send(patch: Patch) -> None:
    patch.setattr(incarnations._Lives, "spoke", lambda self, node, life, at, kind, more: None)


def any_registration_is_counted(patch: Patch) -> None:
    patch.setattr(incarnations._Lives, "counted", lambda self, replica, stamp, at: None)


def deleted_topic_counts_as_existing(patch: Patch) -> None:
    """A topic that is deleted counts as living."""

    def wrong(checker: Checker) -> Checker:
        def check(operations: Operations, events: Events, *rest: object) -> object:
            return checker.check(operations, events.without(K.TOPIC_DELETED), *rest)  # type: ignore[arg-type]

        return replace(checker, check=check) if checker.name == "deletion" else checker

    patch.setattr(logs, "ALL", tuple(map(wrong, ALL)))


def one_fault_at_a_time(patch: Patch) -> None:
    """A calm begins when any fault ends, whatever others are in force."""
    was = calms.calms
    patch.setattr(progress, "calms", lambda events, facts: was(Events(events.frame.with_columns(fault=pl.lit("f"))), facts))


def emptied_partitions_must_be_led(patch: Patch) -> None:
    """SILENT-2 forgotten."""
    patch.setattr(availability._Partition, "is_emptied", lambda self: False)


def logs_of_one_length_are_equal(patch: Patch) -> None:
    """A former mistake of availability."""
    patch.setattr(availability, "_are_alike", lambda log, other: len(log) == len(other))


def final_readers_may_miss_records(patch: Patch) -> None:
    """Final readers owe nothing."""
    patch.setattr(availability, "_unseen_records", lambda done, final_ns, name, cuts: [])


def whose_session_ended_is_controller_still(patch: Patch) -> None:
    was = availability._cluster_lacks
    patch.setattr(availability, "_cluster_lacks", lambda facts, registered, controller, when: was(facts, registered, "b", when))


def unknown_commits_never_happened(patch: Patch) -> None:
    was = committed_offsets._commits_by_group
    patch.setattr(committed_offsets, "_commits_by_group", lambda done: was([call for call in done if call.type == "ok"]))


def leaders_tell_the_isr_that_they_wrote(patch: Patch) -> None:
    patch.setattr(convergence, "_writer", lambda events: None)


def stray_logs_are_ignored(patch: Patch) -> None:
    original = convergence._wrong_logs
    patch.setattr(
        convergence,
        "_wrong_logs",
        lambda name, state, found: original(name, state, [log for log in found if log.node in (state.replicas or ())]),
    )


def truncated_records_stay_flushed(patch: Patch) -> None:
    patch.setattr(flushes, "_SHORTENS", ())


def failed_final_reads_say_nothing(patch: Patch) -> None:
    """A former mistake: what was not read counts as read."""
    patch.setattr(client_log, "unread", lambda *given, **named: ([], final_reads.Unread()))


def every_read_is_final(patch: Patch) -> None:
    """A record that was read once needs no final read."""
    patch.setattr(final_reads, "_needs_a_final_read", lambda record, facts, began: False)


def denied_partition_is_not_known(patch: Patch) -> None:
    """Every answer denies the partition, and nothing is lost."""
    patch.setattr(final_reads, "DENIALS", frozenset())


def empty_poll_says_nothing(patch: Patch) -> None:
    patch.setattr(final_reads, "_empty_final_poll", lambda answered: None)


def transaction_seen_in_part_promises_nothing(patch: Patch) -> None:
    """Its outcome stays unknown, whatever readers were given of it."""
    was = exactly_once._committed
    patch.setattr(exactly_once, "_committed", lambda run, _: was(run, {}))


def members_forget_what_they_committed(patch: Patch) -> None:
    patch.setattr(exactly_once, "_members_behind", lambda run: ())


def later_transactions_explain_a_result(patch: Patch) -> None:
    patch.setattr(exactly_once, "_asked_before", lambda row, processes: tuple(processes))


def commit_under_way_is_a_zombies(patch: Patch) -> None:
    """Whenever it was asked for."""
    patch.setattr(zombies._Transaction, "is_of_zombie", property(lambda self: self.producer.fenced < zombies._NEVER))


def rejection_is_not_final(patch: Patch) -> None:
    patch.setattr(share_groups, "_FINAL", ("accept",))


def destroyed_bytes_excuse_no_group(patch: Patch) -> None:
    patch.setattr(group_delivery, "excuse_of_sessions", lambda events, facts, cuts: None)


def crashed_member_is_done_with_its_records(patch: Patch) -> None:
    """As one that polls again."""
    handings = auto_commit._handings

    def wrong(group: auto_commit._Group, key: str) -> Iterator[tuple[int, str, auto_commit._Handing]]:
        return ((offset, value, handing._replace(done=handing.at)) for offset, value, handing in handings(group, key))

    patch.setattr(auto_commit, "_handings", wrong)


def one_key_alone_is_kept(patch: Patch) -> None:
    """Of a partition, one key alone."""
    last_by_key = compaction._last_by_key
    patch.setattr(compaction, "_last_by_key", lambda records: last_by_key(sorted(records)[:1]))


MISTAKES: list[tuple[Callable[[Patch], None], str, str]] = [
    (acks_1_promises_a_record, "operations", "offset-agreement"),
    (log_that_ends_early_agrees, "events", "isr-agreement"),
    (wound_excuses_despite_other_copies, "wounds", "acked-loss"),
    (one_wound_excuses_despite_min_insync_replicas, "wounds", "acked-loss"),
    (elr_is_not_counted_on, "wounds", "acked-loss"),
    (power_loss_excuses_flushed_records, "wounds", "acked-loss"),
    (every_wound_is_noticed_at_once, "wounds", "acked-loss"),
    (operator_order_excuses_everything, "wounds", "acked-loss"),
    (log_of_a_wounded_leader_is_not_judged, "wounds", "acked-loss"),
    (emptied_replica_may_lead, "wounds", "election"),
    (only_the_last_isr_may_lead, "wounds", "election"),
    (failed_final_reads_say_nothing, "final-reads", "client-log"),
    (every_read_is_final, "final-reads", "client-log"),
    (denied_partition_is_not_known, "final-reads", "client-log"),
    (empty_poll_says_nothing, "final-reads", "client-log"),
    (ended_process_may_send, "incarnations", "incarnations"),
    (any_registration_is_counted, "incarnations", "incarnations"),
    (deleted_topic_counts_as_existing, "deletion", "deletion"),
    (one_fault_at_a_time, "progress", "progress"),
    (emptied_partitions_must_be_led, "availability", "availability"),
    (logs_of_one_length_are_equal, "availability", "availability"),
    (final_readers_may_miss_records, "availability", "availability"),
    (whose_session_ended_is_controller_still, "clusters", "availability-cluster"),
    (leaders_remember_one_batch, "answers", "answers"),
    (first_offset_waits_as_the_end_does, "answers", "answers"),
    (unknown_commits_never_happened, "commits", "committed-offsets"),
    (truncated_records_stay_flushed, "flushes", "flushes"),
    (leaders_tell_the_isr_that_they_wrote, "ends", "convergence"),
    (stray_logs_are_ignored, "ends", "convergence"),
    (transaction_seen_in_part_promises_nothing, "processed", "exactly-once"),
    (members_forget_what_they_committed, "processed", "exactly-once"),
    (later_transactions_explain_a_result, "processed", "exactly-once"),
    (commit_under_way_is_a_zombies, "takeovers", "zombies"),
    (rejection_is_not_final, "sharing", "share-groups"),
    (destroyed_bytes_excuse_no_group, "deliveries", "group-delivery"),
    (crashed_member_is_done_with_its_records, "auto-commits", "auto-commit"),
    (one_key_alone_is_kept, "compacted", "compaction"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "property_name", "checker"), MISTAKES, ids=[mistake.__name__ for mistake, _, _ in MISTAKES])
def test_planted_mistake_in_a_log_checker_is_found(
    mistake: Callable[[Patch], None], property_name: str, checker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other checker disagrees. Rare mistakes need more histories."""
    mistake(monkeypatch)
    for count in (300, 2_000, 10_000):
        found = {tally.name for tally in logs.prove(property_name, count) if tally.wrong}
        if found:
            break

    assert found == {checker}


def crashed_operations_never_happened(patch: Patch) -> None:
    patch.setattr(Logs, "committed", lambda self, op: op.type is OpType.OK)


def acknowledged_offsets_are_ignored(patch: Patch) -> None:
    """The position of a value at two offsets is then unknown."""
    was = QueueLog.index_of
    patch.setattr(QueueLog, "index_of", lambda self, offset, value: was(self, None, value))


def real_time_order_is_ignored(patch: Patch) -> None:
    nothing = np.zeros(0, np.int64)
    patch.setattr(queue_cycles, "real_time", lambda times, count: (edges(nothing, nothing, REALTIME), count))


def every_consumer_counts_as_subscribed(patch: Patch) -> None:
    """Skips are always blamed on the cluster."""
    original = Logs.__init__

    def wrong(self: Logs, ops: list[Op]) -> None:
        original(self, [replace(op, subscribed=True) for op in ops])

    patch.setattr(Logs, "__init__", wrong)


QUEUES = [
    crashed_operations_never_happened,
    acknowledged_offsets_are_ignored,
    real_time_order_is_ignored,
    every_consumer_counts_as_subscribed,
]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", QUEUES, ids=[mistake.__name__ for mistake in QUEUES])
def test_planted_mistake_in_the_kafka_judge_is_found(mistake: Callable[[Patch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)

    assert any(queues.prove(count).wrong for count in (100, 1_000))
