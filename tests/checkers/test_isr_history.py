"""The counted-on replicas at each moment (docs/promise.md §1)."""

from checkers.engine.tables import Events
from checkers.timeline.isr_history import ISR_ROWS, IsrHistory
from tests.checkers.story import HistoryBuilder, healthy_partition


def history_of(builder: HistoryBuilder, *, m: int = 2) -> IsrHistory:
    """The history of the ISR by the rows of a story; `m` is min.insync.replicas."""
    standing = IsrHistory(m)
    for row in Events(builder.history().events_frame).rows:
        if row.kind in ISR_ROWS:
            standing.see(row)
    return standing


def test_pending_isr_change_removes_its_members_at_once() -> None:
    builder = healthy_partition()
    builder.change_isr("b1", 1, ("b1", "b2"))

    assert history_of(builder).counted_on() == ("b1", "b2")


def test_pending_isr_change_adds_members_only_when_written() -> None:
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2")
    builder.change_isr("b1", 1, ("b1", "b2", "b3"))

    assert history_of(builder).counted_on() == ("b1", "b2")


def test_pending_isr_change_ends_with_the_controllers_answer() -> None:
    builder = healthy_partition()
    builder.change_isr("b1", 1, ("b1", "b2"))
    builder.change_isr("b1", 1, ("b1", "b2", "b3"), ended=True)

    assert history_of(builder).counted_on() == ("b1", "b2", "b3")


def test_unanswered_isr_change_ends_with_next_state_write() -> None:
    """The change is conditional on the version, so it fails after the controller's write."""
    builder = healthy_partition()
    builder.change_isr("b1", 1, ("b1",))
    builder.state("b2", 2, "b2 b3")

    assert history_of(builder, m=1).counted_on() == ("b2", "b3")


def test_isr_change_of_a_deposed_leader_removes_no_member() -> None:
    builder = healthy_partition()
    builder.state("b2", 2, "b2 b3")
    builder.change_isr("b1", 1, ("b1", "b2"))

    assert history_of(builder, m=1).counted_on() == ("b2", "b3")


def test_below_min_isr_the_last_full_isr_counts_too() -> None:
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2")
    builder.state("b1", 1, "b1")

    assert history_of(builder).counted_on() == ("b1", "b2")
    assert history_of(builder, m=1).counted_on() == ("b1",)


def test_whole_isr_counts_if_a_pending_change_leaves_too_few() -> None:
    builder = healthy_partition()
    builder.change_isr("b1", 1, ("b1",))

    assert history_of(builder).counted_on() == ("b1", "b2", "b3")


def test_replica_that_left_a_short_isr_is_in_the_elr_only() -> None:
    """KIP-966: the high watermark did not move meanwhile, so the replica holds every committed record."""
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2 b4")
    builder.state("b1", 1, "b1")
    builder.state("b1", 1, "b1 b3")
    builder.state("b1", 1, "b1")
    standing = history_of(builder, m=3)

    assert set(standing.eligible()) == {"b1", "b2", "b3", "b4"}
    assert set(standing.counted_on()) == {"b1", "b2", "b4"}


def test_only_isr_members_are_eligible_once_the_isr_is_full() -> None:
    builder = healthy_partition()
    builder.state("b1", 1, "b1")
    builder.state("b1", 1, "b1 b2")

    assert history_of(builder).eligible() == ("b1", "b2")
