"""Stories of what brokers and controllers do among themselves: states, logs, fences, lives, deletions."""

from functools import partial

from checkers.verdict import Validity
from history.event import EventKind
from history.history import History
from history.op import OpType
from proof.manifests import promise
from tests.checkers.story import Expected, Story, Told, begin, committed, invalid


def controlled(node: str = "b1", epoch: int = 1) -> Story:
    """As `begin`, with a controller from the first row on that counts, and an assignment."""
    story = begin()
    elects(story, node, epoch)
    story.event(EventKind.ASSIGNED, replicas=("b1", "b2", "b3"))
    return story


def elects(story: Story, node: str, epoch: int) -> None:
    """Long enough before whatever follows: within milliseconds of an election nobody knows who holds the office."""
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node=node, controller_epoch=epoch)
    story.time_ns += 100_000_000


def writes(story: Story, writer: str | None, leader: str | None, epoch: int, isr: str) -> int:
    """A state of the partition, by this writer."""
    members = tuple(isr.split())
    return story.event(EventKind.STATE_WRITTEN, node=writer, leader=leader, leader_epoch=epoch, isr=members, zk_version=0)


# --- state-writes -----------------------------------------------------------------------------------------------------------


def by_leader_and_controller() -> History:
    """The leader shrinks its ISR, the controller elects, its successor widens it."""
    story = controlled("b3")
    writes(story, "b1", "b1", 1, "b1 b2")
    writes(story, "b3", "b2", 2, "b2")
    elects(story, "b2", 2)
    writes(story, "b2", "b2", 2, "b2 b1")
    return story.history()


def outside_the_replicas() -> History:
    """b4 holds no replica of the partition and is taken into its ISR."""
    story = controlled()
    writes(story, "b1", "b1", 1, "b1 b2 b3 b4")
    return story.history()


def assignment_not_told() -> History:
    """Nobody told who the replicas are."""
    story = begin()
    writes(story, "b1", "b1", 1, "b1 b2 b3 b4")
    return story.history()


def leads_from_outside() -> History:
    """The ISR is written without its leader."""
    story = controlled()
    writes(story, "b1", "b1", 1, "b2 b3")
    return story.history()


def led_by_nobody() -> History:
    story = controlled("b3")
    writes(story, "b3", None, 2, "b1")
    return story.history()


def epoch_fell() -> History:
    story = controlled("b3")
    writes(story, "b3", "b1", 3, "b1 b2")
    writes(story, "b3", "b1", 2, "b1 b2")
    return story.history()


def two_of_one_epoch() -> History:
    """An election that leaves the epoch as it is."""
    story = controlled("b3")
    writes(story, "b3", "b2", 1, "b2 b3")
    return story.history()


def by_a_stranger() -> History:
    """A follower writes another ISR."""
    story = controlled("b3")
    writes(story, "b2", "b1", 1, "b1 b2")
    return story.history()


def elected_by_the_leader() -> History:
    """A leader may write its ISR, and not who leads."""
    story = controlled("b3")
    writes(story, "b1", "b2", 2, "b1 b2")
    return story.history()


def writer_not_told() -> History:
    story = controlled("b3")
    writes(story, None, "b2", 2, "b1 b2")
    return story.history()


def by_the_controller_before() -> History:
    """b3 was paused, b2 was elected in its place, and b3 goes on."""
    story = controlled("b3")
    elects(story, "b2", 2)
    writes(story, "b3", "b2", 2, "b1 b2")
    return story.history()


def heard_late(writer: str) -> History:
    """b3 was elected and replaced by b2 before its answer came: b2 is controller, and b3 was."""
    story = controlled("b1")
    elects(story, "b2", 3)
    elects(story, "b3", 2)
    writes(story, writer, "b2", 2, "b1 b2")
    return story.history()


def within_the_milliseconds() -> History:
    """Whose write was the first, the clocks do not tell."""
    story = controlled("b3")
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=2)
    writes(story, "b3", "b2", 2, "b1 b2")
    return story.history()


# --- log-matching -----------------------------------------------------------------------------------------------------------


def cut_what_nobody_committed() -> History:
    """b1 cuts off y, which it alone had, and z takes its place."""
    story = begin()
    committed(story)
    story.asks(1, "y")
    story.append("b1", 1, "y")
    story.unsure(1, "y")
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=1, hw=1, isr="b2 b3")
    committed(story, "z", 1, epoch=2, nodes="b2 b3")
    story.follows("b1", 2, "b2")
    story.truncate("b1", 1)
    story.event_append("b1", 1, "z", 2)
    return story.history()


def sent_again_and_cut() -> History:
    """What b1 cuts off has the same value as what was committed in its place, and is another record."""
    story = begin()
    story.asks(1, "y")
    story.append("b1", 0, "y")
    story.unsure(1, "y")
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=0, isr="b2 b3")
    committed(story, "y", 0, epoch=2, nodes="b2 b3")
    story.follows("b1", 2, "b2")
    story.truncate("b1", 0)
    story.event_append("b1", 0, "y", 2)
    return story.history()


def two_records_of_one_epoch() -> History:
    """b2, out of the ISR, has other bytes where b1 has x: neither is committed."""
    story = begin()
    story.state("b1", 1, "b1 b3")
    story.change_isr("b1", 1, ("b1", "b3"), ended=True)
    story.append("b1", 0, "x")
    story.event_append("b2", 0, "y", 1)
    return story.history()


def epoch_not_told() -> History:
    """b2 found its log at startup: which record it has at 0, and cuts off, no row says."""
    story = begin()
    story.state("b1", 1, "b1 b3")
    story.change_isr("b1", 1, ("b1", "b3"), ended=True)
    committed(story, nodes="b1 b3")
    story.recovered("b2", 1)
    story.truncate("b2", 0)
    return story.history()


def cut_and_fetched_again() -> History:
    """A follower outside the ISR cuts to its high watermark what is committed; it has it again at once, and nothing was lost."""
    story = begin()
    committed(story)
    story.state("b1", 2, "b1 b3")
    story.leads("b1", 2, leo=1, hw=1, isr="b1 b3")
    story.truncate("b2", 0)
    story.event_append("b2", 0, "x", 1)
    return story.history()


def covers_what_is_not_committed() -> History:
    """b1 takes the high watermark of its new leader before it has cut off y, which it alone had (KAFKA-14704)."""
    story = begin()
    story.asks(1, "y")
    story.append("b1", 0, "y")
    story.unsure(1, "y")
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=0, isr="b2 b3")
    committed(story, "z", 0, epoch=2, nodes="b2 b3")
    story.follows("b1", 2, "b2")
    story.hw("b1", 1, epoch=2, role="follower")
    return story.history()


# --- fencing ----------------------------------------------------------------------------------------------------------------


def fence(story: Story, node: str, *, up: bool = True) -> int:
    """A broker fences itself, or takes requests again."""
    return story.event(EventKind.FENCED if up else EventKind.UNFENCED, whole_node=True, node=node, life=1)


def answers(story: Story, process: int, node: str | None) -> None:
    """A consumer asks this broker and is answered."""
    story.op(process, OpType.INVOKE, "poll", ({"offset": 0},))
    story.op(process, OpType.OK, "poll", ({"leader_epoch": 1, "hw": 1, "node": node},))


def fenced_and_back() -> History:
    story = begin()
    committed(story)
    fence(story, "b1")
    fence(story, "b1", up=False)
    committed(story, "y", 1)
    answers(story, 2, "b1")
    return story.history()


def appends_behind_its_fence() -> History:
    story = begin()
    fence(story, "b1")
    story.asks(1, "x")
    story.append("b1", 0, "x")
    story.unsure(1, "x")
    return story.history()


def commits_behind_its_fence() -> History:
    """The fetch of a follower is served, and what it shows is counted."""
    story = begin()
    story.hw("b1", 0)
    story.asks(1, "x")
    story.append("b1 b2 b3", 0, "x")
    fence(story, "b1")
    story.hw("b1", 1)
    story.unsure(1, "x")
    return story.history()


def finishes_a_change_behind_its_fence() -> History:
    """The controller took the change before it fell silent; the leader reads so behind its fence (R-186)."""
    story = begin()
    story.hw("b1", 0)
    story.asks(1, "x")
    story.append("b1 b2 b3", 0, "x")
    story.change_isr("b1", 1, ("b1", "b2", "b3"))
    fence(story, "b1")
    story.change_isr("b1", 1, ("b1", "b2", "b3"), ended=True)
    story.hw("b1", 1)
    story.unsure(1, "x")
    return story.history()


def begins_a_change_behind_its_fence() -> History:
    story = begin()
    story.hw("b1", 0)
    story.asks(1, "x")
    story.append("b1 b2 b3", 0, "x")
    fence(story, "b1")
    story.change_isr("b1", 1, ("b1", "b2", "b3"))
    story.change_isr("b1", 1, ("b1", "b2", "b3"), ended=True)
    story.hw("b1", 1)
    story.unsure(1, "x")
    return story.history()


def flushes_behind_its_fence(late: str = "") -> History:
    """What it took before its fence reaches its own disk behind it; `late` fetched the record behind the fence only (R-186)."""
    story = begin(promise(flush="before_ack"))
    story.hw("b1", 0)
    story.asks(1, "x")
    story.append("b1 b2" if late else "b1 b2 b3", 0, "x")
    fence(story, "b1")
    if late:
        story.event_append(late, 0, "x", 1)
    story.hw("b1", 1)
    story.unsure(1, "x")
    return story.history()


def answers_behind_its_fence() -> History:
    story = begin()
    committed(story)
    fence(story, "b1")
    answers(story, 2, "b1")
    return story.history()


def asked_before_the_fence() -> History:
    """The answer was on its way when the fence went up; who gave another one, nobody says."""
    story = begin()
    committed(story)
    story.op(2, OpType.INVOKE, "poll", ({"offset": 0},))
    fence(story, "b1")
    story.op(2, OpType.OK, "poll", ({"leader_epoch": 1, "hw": 1, "node": "b1"},))
    answers(story, 3, None)
    return story.history()


# --- incarnations -----------------------------------------------------------------------------------------------------------


def one_life_after_the_other() -> History:
    story = begin()
    story.node_started("b3", 1)
    story.state("b1", 1, "b1 b2 b3", stamps=(11, 12, 13))
    story.session_ended("b3", 13)
    story.node_started("b3", 2)
    story.registered("b3", 23)
    story.event(EventKind.BECAME_FOLLOWER, node="b3", life=2, leader_epoch=1, leader="b1")
    story.state("b1", 1, "b1 b2 b3", stamps=(11, 12, 23))
    return story.history()


def a_ghost_speaks() -> History:
    """The first life of b3 appends after its second began."""
    story = begin()
    story.node_started("b3", 1)
    story.node_started("b3", 2)
    story.asks(1, "x")
    story.append("b3", 0, "x")
    story.unsure(1, "x")
    return story.history()


def counted_by_what_is_over() -> History:
    """The ISR counts b3 by its new registration, and then by its old one again."""
    story = begin()
    story.state("b1", 1, "b1 b2 b3", stamps=(11, 12, 13))
    story.session_ended("b3", 13)
    story.registered("b3", 23)
    story.state("b1", 1, "b1 b2 b3", stamps=(11, 12, 23))
    story.state("b1", 1, "b1 b2 b3", stamps=(11, 12, 13))
    return story.history()


def unstamped() -> History:
    """A protocol that does not tell registrations apart says nothing of them."""
    story = begin()
    story.state("b1", 1, "b1 b2 b3", stamps=(-1, -1, -1))
    story.state("b1", 1, "b1 b2 b3")
    return story.history()


# --- deletion ---------------------------------------------------------------------------------------------------------------


def deleted_with_its_topic() -> History:
    story = begin()
    story.topic_id = "5"
    story.state("b1", 1, "b1 b2 b3")
    story.event(EventKind.TOPIC_DELETED)
    for node in ("b1", "b2", "b3"):
        story.event(EventKind.REPLICA_DELETED, node=node, life=1)
    return story.history()


def deleted_while_it_counts() -> History:
    """b3 holds nothing yet, so that nothing is lost: but it is counted on, and its log is gone."""
    story = begin()
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    return story.history()


def back_from_the_dead() -> History:
    """A command of before the deletion makes the replica anew, and it is filled."""
    story = begin()
    story.topic_id = "5"
    story.state("b1", 1, "b1 b2 b3")
    story.event(EventKind.TOPIC_DELETED)
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    story.event_append("b3", 0, "x", 1)
    return story.history()


def moved_away_and_back() -> History:
    """A reassignment deletes the replica, another brings it back; the topic goes while it still fetches."""
    story = begin()
    story.topic_id = "5"
    story.state("b1", 1, "b1 b2")
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    story.state("b1", 2, "b1 b2")
    story.follows("b3", 2, "b1")
    story.event(EventKind.TOPIC_DELETED)
    story.event_append("b3", 0, "x", 2)
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    return story.history()


def begun_anew() -> History:
    """The next controller begins a deletion anew: for a moment there is a replica again."""
    story = begin()
    story.topic_id = "5"
    story.state("b1", 1, "b1 b2 b3")
    story.event(EventKind.TOPIC_DELETED)
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    story.follows("b3", 1, "b1")
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    return story.history()


def heard_of_the_deletion_late() -> History:
    """A replica of a topic that is being deleted goes on until it is told."""
    story = begin()
    story.topic_id = "5"
    story.state("b1", 1, "b1 b2 b3")
    story.event(EventKind.TOPIC_DELETED)
    story.follows("b3", 1, "b1")
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)
    return story.history()


STATE_STORIES: dict[str, Told] = {
    "ok/state-writes-by-leader-and-controller": Told(by_leader_and_controller, Expected()),
    "ok/state-writes-led-by-nobody": Told(led_by_nobody, Expected()),
    "bad/state-writes-outside-the-replicas": Told(outside_the_replicas, invalid(("isr-outside-replicas", (8,)))),
    "undecidable/state-writes-assignment-not-told": Told(assignment_not_told, Expected()),
    "bad/state-writes-leads-from-outside": Told(leads_from_outside, invalid(("leader-outside-isr", (8,)))),
    "bad/state-writes-epoch-fell": Told(epoch_fell, invalid(("epoch-regressed", (8, 9)))),
    "bad/state-writes-two-of-one-epoch": Told(two_of_one_epoch, invalid(("two-elected", (4, 8)))),
    "bad/state-writes-by-a-stranger": Told(by_a_stranger, invalid(("unentitled-write", (4, 8)))),
    "bad/state-writes-elected-by-the-leader": Told(elected_by_the_leader, invalid(("unentitled-write", (4, 8)))),
    "undecidable/state-writes-writer-not-told": Told(writer_not_told, Expected()),
    "bad/state-writes-by-the-controller-before": Told(by_the_controller_before, invalid(("deposed-controller", (4, 9)))),
    "ok/state-writes-heard-late-of-its-election": Told(partial(heard_late, "b2"), Expected()),
    "bad/state-writes-heard-late-and-writes": Told(partial(heard_late, "b3"), invalid(("deposed-controller", (4, 10)))),
    "undecidable/state-writes-within-the-milliseconds": Told(within_the_milliseconds, Expected()),
    "ok/log-matching-cut-what-nobody-committed": Told(cut_what_nobody_committed, Expected()),
    "ok/log-matching-sent-again-and-cut": Told(sent_again_and_cut, Expected()),
    "bad/log-matching-two-records-of-one-epoch": Told(two_records_of_one_epoch, invalid(("log-mismatch", (8, 9)))),
    "bad/log-matching-cut-and-fetched-again": Told(cut_and_fetched_again, invalid(("truncated-committed", (10, 14)))),
    "bad/log-matching-covers-what-is-not-committed": Told(
        covers_what_is_not_committed, invalid(("inconsistent-offsets", (14, 17)), ("uncommitted-below-hw", (14, 17)))
    ),
    "undecidable/log-matching-epoch-not-told": Told(epoch_not_told, Expected()),
    "ok/fencing-fenced-and-back": Told(fenced_and_back, Expected()),
    "ok/fencing-finishes-a-change": Told(finishes_a_change_behind_its_fence, Expected()),
    "bad/fencing-begins-a-change": Told(begins_a_change_behind_its_fence, invalid(("fenced-commit", (11, 14)))),
    "bad/fencing-appends": Told(appends_behind_its_fence, invalid(("fenced-append", (6, 8)))),
    "bad/fencing-commits": Told(commits_behind_its_fence, invalid(("fenced-commit", (11, 12)))),
    "ok/fencing-flushes": Told(flushes_behind_its_fence, Expected()),
    "bad/fencing-flushes-what-came-late": Told(partial(flushes_behind_its_fence, "b3"), invalid(("fenced-commit", (10, 12)))),
    "bad/fencing-answers": Told(answers_behind_its_fence, invalid(("fenced-answer", (12, 13, 14)))),
    "undecidable/fencing-asked-before": Told(asked_before_the_fence, Expected()),
    "ok/incarnations-one-after-the-other": Told(one_life_after_the_other, Expected()),
    "bad/incarnations-a-ghost-speaks": Told(a_ghost_speaks, invalid(("incarnation-order", (7, 9)))),
    "bad/incarnations-counted-by-what-is-over": Told(counted_by_what_is_over, invalid(("incarnation-order", (9, 10)))),
    "undecidable/incarnations-unstamped": Told(unstamped, Expected()),
    "ok/deletion-with-its-topic": Told(deleted_with_its_topic, Expected()),
    "ok/deletion-begun-anew": Told(begun_anew, Expected()),
    "ok/deletion-after-moving-back": Told(moved_away_and_back, Expected()),
    "bad/deletion-while-it-counts": Told(deleted_while_it_counts, invalid(("wrongly-deleted", (4, 6)))),
    "bad/deletion-back-from-the-dead": Told(back_from_the_dead, invalid(("resurrected", (7, 8, 9)))),
    "undecidable/deletion-heard-late": Told(heard_of_the_deletion_late, Expected(validity=Validity.VALID)),
}
