"""Elections beyond those of the corpus (docs/promise.md DUR-6, DUR-7)."""

from checkers.engine.verdict import Verdict
from checkers.judge import judge
from history.event import EventKind
from proof.manifests import promise
from tests.checkers.story import begin, commit_record, power_out


def kinds(verdict: Verdict) -> list[str]:
    return [anomaly.kind for anomaly in verdict.anomalies]


def test_replica_may_be_elected_before_dir_swap_is_noticed() -> None:
    """The session of the emptied incarnation lasts, so the swap cannot be noticed yet."""
    story = begin()
    commit_record(story)
    story.wound("b2", 0, 12, "swapped")
    story.session_ended("b1", 11)
    story.state("b2", 2, "b2 b3")
    assert kinds(judge(story.history())) == []

    story.leads("b2", 2, leo=0, isr="b2 b3")
    assert "empty-leader" in kinds(judge(story.history()))


def test_state_naming_the_emptied_broker_as_leader_may_stay() -> None:
    """A controller elects in the milliseconds in which ZooKeeper's news of the end of that session are under way to it."""
    story = begin()
    commit_record(story)
    power_out(story, "b2", why="swapped")
    story.session_ended("b1", 11)
    story.state("b2", 2, "b2 b3", stamps=(12, 13))
    assert kinds(judge(story.history())) == []

    story.registered("b2", 22)
    story.leads("b2", 2, leo=0, isr="b2 b3")
    assert "empty-leader" in kinds(judge(story.history()))


def test_emptied_replica_that_rejoined_the_isr_may_lead() -> None:
    story = begin()
    commit_record(story)
    power_out(story, "b2", why="swapped")
    story.state("b1", 2, "b1 b3")
    story.registered("b2", 22)
    story.append("b2", 0, "x")
    story.state("b1", 2, "b1 b3 b2")
    story.state("b2", 3, "b2 b3")
    story.leads("b2", 3, leo=1, hw=1, isr="b2 b3")

    assert kinds(judge(story.history())) == []


def rejoined_without_having_left(stamp_of_b2: int) -> set[str]:
    """b2's disk is swapped; the ISR in ZooKeeper names b2 throughout; then b2 leads."""
    story = begin()
    commit_record(story)
    power_out(story, "b2", why="swapped")
    story.registered("b2", 22)
    story.append("b2", 0, "x")
    story.state("b1", 1, "b1 b2 b3", stamps=(11, stamp_of_b2, 13))
    story.state("b2", 3, "b2 b3", stamps=(22, 13))
    story.leads("b2", 3, leo=1, hw=1, isr="b2 b3")
    return set(kinds(judge(story.history())))


def test_emptied_replica_with_a_new_registration_may_lead() -> None:
    """The replica never left the ISR: only its new stamp shows that it rejoined."""
    assert "empty-leader" not in rejoined_without_having_left(22)
    assert "empty-leader" in rejoined_without_having_left(12)


def test_power_loss_alone_makes_no_empty_leader() -> None:
    """The recovery election takes the longest log of those that lost something."""
    story = begin()
    commit_record(story)
    power_out(story, "b1 b2 b3")
    story.registered("b1", 21)
    story.state("b1", 2, "b1")
    story.leads("b1", 2, leo=0, isr="b1")

    assert kinds(judge(story.history())) == []


def test_one_order_allows_one_unclean_election_only() -> None:
    story = begin(promise(by_operator=True))
    commit_record(story)
    story.state("b1", 1, "b1 b2")
    story.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b3")
    story.state("b3", 2, "b3")
    story.state("b1", 3, "b1")
    story.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b1")
    assert kinds(judge(story.history())) == []

    story.state("b1", 3, "b1 b3")
    story.state("b2", 4, "b2")
    assert kinds(judge(story.history())) == ["unclean-election"]


def test_isr_write_by_the_leader_is_not_an_election() -> None:
    story = begin()
    story.state("b1", 1, "b1 b2")
    story.state("b1", 1, "b1 b2 b3")

    verdict = judge(story.history())

    assert (kinds(verdict), verdict.counts["leader_changes"]) == ([], 0)


def test_recovery_elections_are_counted_by_registration() -> None:
    """docs/promise.md VAC-3: a campaign must know whether it reached them."""
    story = begin(promise(m=2))
    story.state("b1", 1, "b1 b2", stamps=(11, 12))
    story.state("b1", 1, "b1", stamps=(11,))  # shorter than two: b2 stays eligible
    story.state("b2", 2, "b2", stamps=(12,))  # as it stood
    story.state(None, 3, "b2", stamps=(12,))
    story.state("b1", 4, "b1", stamps=(21,))  # registered anew, chosen for its log
    counts = judge(story.history()).counts

    assert (counts["elections_from_elr"], counts["recovery_elections"]) == (1, 1)
