"""Elections beyond those of the corpus (docs/promise.md DUR-6, DUR-7)."""

from checkers.engine.verdict import Verdict
from checkers.judge import judge
from history.event import EventKind
from proof.manifests import promise
from tests.checkers.story import commit_record, healthy_partition, lose_power


def kinds(verdict: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in verdict.anomalies]


def test_replica_may_be_elected_before_dir_swap_is_noticed() -> None:
    """The session of the emptied incarnation lasts, so the swap cannot be noticed yet."""
    builder = healthy_partition()
    commit_record(builder)
    builder.wound("b2", 0, 12, "swapped")
    builder.session_ended("b1", 11)
    builder.state("b2", 2, "b2 b3")
    assert kinds(judge(builder.history())) == []

    builder.leads("b2", 2, leo=0, isr="b2 b3")
    assert "empty-leader" in kinds(judge(builder.history()))


def test_state_naming_the_emptied_broker_as_leader_may_stay() -> None:
    """A controller elects in the milliseconds in which ZooKeeper's news of the end of that session are under way to it."""
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b2", why="swapped")
    builder.session_ended("b1", 11)
    builder.state("b2", 2, "b2 b3", stamps=(12, 13))
    assert kinds(judge(builder.history())) == []

    builder.registered("b2", 22)
    builder.leads("b2", 2, leo=0, isr="b2 b3")
    assert "empty-leader" in kinds(judge(builder.history()))


def test_emptied_replica_that_rejoined_the_isr_may_lead() -> None:
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b2", why="swapped")
    builder.state("b1", 2, "b1 b3")
    builder.registered("b2", 22)
    builder.append("b2", 0, "x")
    builder.state("b1", 2, "b1 b3 b2")
    builder.state("b2", 3, "b2 b3")
    builder.leads("b2", 3, leo=1, hw=1, isr="b2 b3")

    assert kinds(judge(builder.history())) == []


def rejoined_without_having_left(stamp_of_b2: int) -> set[str]:
    """b2's disk is swapped; the ISR in ZooKeeper names b2 throughout; then b2 leads."""
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b2", why="swapped")
    builder.registered("b2", 22)
    builder.append("b2", 0, "x")
    builder.state("b1", 1, "b1 b2 b3", stamps=(11, stamp_of_b2, 13))
    builder.state("b2", 3, "b2 b3", stamps=(22, 13))
    builder.leads("b2", 3, leo=1, hw=1, isr="b2 b3")
    return set(kinds(judge(builder.history())))


def test_emptied_replica_with_a_new_registration_may_lead() -> None:
    """The replica never left the ISR: only its new stamp shows that it rejoined."""
    assert "empty-leader" not in rejoined_without_having_left(22)
    assert "empty-leader" in rejoined_without_having_left(12)


def test_power_loss_alone_makes_no_empty_leader() -> None:
    """The recovery election takes the longest log of those that lost something."""
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b1 b2 b3")
    builder.registered("b1", 21)
    builder.state("b1", 2, "b1")
    builder.leads("b1", 2, leo=0, isr="b1")

    assert kinds(judge(builder.history())) == []


def test_one_order_allows_one_unclean_election_only() -> None:
    builder = healthy_partition(promise(by_operator=True))
    commit_record(builder)
    builder.state("b1", 1, "b1 b2")
    builder.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b3")
    builder.state("b3", 2, "b3")
    builder.state("b1", 3, "b1")
    builder.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b1")
    assert kinds(judge(builder.history())) == []

    builder.state("b1", 3, "b1 b3")
    builder.state("b2", 4, "b2")
    assert kinds(judge(builder.history())) == ["unclean-election"]


def test_isr_write_by_the_leader_is_not_an_election() -> None:
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2")
    builder.state("b1", 1, "b1 b2 b3")

    verdict = judge(builder.history())

    assert (kinds(verdict), verdict.counts["leader_changes"]) == ([], 0)


def test_recovery_elections_are_counted_by_registration() -> None:
    """docs/promise.md VAC-3: a campaign must know whether it reached them."""
    builder = healthy_partition(promise(m=2))
    builder.state("b1", 1, "b1 b2", stamps=(11, 12))
    builder.state("b1", 1, "b1", stamps=(11,))  # shorter than two: b2 stays eligible
    builder.state("b2", 2, "b2", stamps=(12,))  # as it stood
    builder.state(None, 3, "b2", stamps=(12,))
    builder.state("b1", 4, "b1", stamps=(21,))  # registered anew, chosen for its log
    counts = judge(builder.history()).counts

    assert (counts["elections_from_elr"], counts["recovery_elections"]) == (1, 1)
