"""The small histories of corpus/histories, told as stories, with what each must be judged to be.

`python -m tests.checkers.stories` writes the files; a test compares them. A story begins with b1 leading orders-0 in epoch 1,
everybody in the ISR, m = 2 and empty logs (rows 1 to 5), unless it says otherwise.
"""

from pathlib import Path

from checkers.verdict import Validity
from history import jsonl
from history.event import EventKind
from history.history import History
from history.op import OpType
from proof.manifests import promise
from tests.checkers.client_stories import CLIENT_STORIES
from tests.checkers.end_stories import END_STORIES
from tests.checkers.state_stories import STATE_STORIES
from tests.checkers.story import Expected, Story, Told, begin, committed, invalid, power_out

ROOT = Path(__file__).parents[2] / "corpus" / "histories"


# --- acked-loss -------------------------------------------------------------------------------------------------------------


def excused_then_rewritten() -> History:
    """Everybody loses power before anything was flushed; the offset is written again in the next epoch."""
    story = begin()
    committed(story)
    power_out(story, "b1 b2 b3")
    for node, incarnation in (("b1", 21), ("b2", 22), ("b3", 23)):
        story.recovered(node, 0)
        story.registered(node, incarnation)
    story.state("b2", 2, "b2")
    story.leads("b2", 2, leo=0, isr="b2")
    story.state("b2", 2, "b2 b1 b3")
    committed(story, "y", 0, epoch=2, nodes="b2 b1 b3")
    story.polls(2, 0, "y", epoch=2, hw=1)
    return story.history()


def survived_on_one() -> History:
    """Two of three lose power; the third has it and leads."""
    story = begin()
    committed(story)
    power_out(story, "b1 b2")
    story.state("b3", 2, "b3")
    story.leads("b3", 2, leo=1, hw=1, isr="b3")
    story.polls(2, 0, "x", epoch=2, hw=1)
    return story.history()


def truncated_to_hw() -> History:
    """Scenario 1 of KIP-101: a follower restarts, cuts its log to its own HW, and leads before it fetched again."""
    story = begin()
    committed(story)
    story.state("b1", 2, "b1 b2")
    story.recovered("b2", 1)
    story.truncate("b2", 0)
    story.state("b2", 3, "b2")
    story.leads("b2", 3, leo=0, isr="b2")
    return story.history()


def wound_elsewhere() -> History:
    """b2 lost power and with it a record that nobody was promised; what it lacks as leader it had truncated itself."""
    story = begin()
    committed(story)
    story.append("b1 b2", 1, "z")
    story.wound("b2", 1, 12)
    story.recovered("b2", 1)
    story.truncate("b2", 0)
    story.session_ended("b2", 12)
    story.registered("b2", 22)
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=0, isr="b2 b3")
    return story.history()


def unflushed_before_ack() -> History:
    """Power loss excuses nothing under flush=before_ack: who acknowledged must have flushed."""
    story = begin(promise(flush="before_ack"))
    committed(story)
    power_out(story, "b1 b2 b3")
    story.state("b2", 2, "b2")
    story.leads("b2", 2, leo=0, isr="b2")
    return story.history()


def read_past() -> History:
    """A consumer is given offsets 0 and 2."""
    story = begin()
    for offset, value in enumerate("xyz"):
        committed(story, value, offset)
    story.polls(2, 0, "x - z", hw=3)
    return story.history()


def without_isr_history() -> History:
    """Seen from outside only: what is missing cannot be judged."""
    story = Story()
    story.leads("b1", 1, leo=0)
    for offset, value in enumerate("xyz"):
        story.produces(1, value, offset)
    story.polls(2, 0, "x - z")
    return story.history()


def ordered_by_operator() -> History:
    """The operator orders the election of a replica that lacks a record."""
    story = begin(promise(m=1, by_operator=True))
    story.state("b1", 1, "b1")
    committed(story, nodes="b1")
    story.session_ended("b1", 11)
    story.state(None, 2, "b1")
    story.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b2")
    story.state("b2", 3, "b2")
    story.leads("b2", 3, leo=0, isr="b2")
    return story.history()


# --- offset-agreement, order, duplicates ------------------------------------------------------------------------------------


def acks_one_given_again() -> History:
    """An offset acknowledged under acks=1 only is lost with its leader and given again: nothing was promised."""
    story = begin()
    story.asks(1, "x", acks=1)
    story.append("b1", 0, "x")
    story.acked(1, "x", 0, acks=1)
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=0, isr="b2 b3")
    story.follows("b1", 2, "b2")
    story.truncate("b1", 0)
    committed(story, "y", 0, epoch=2, nodes="b2 b3")
    story.polls(2, 0, "y", epoch=2, hw=1)
    return story.history()


def two_values_read() -> History:
    """Two consumers are given different values at one offset."""
    story = begin()
    committed(story)
    story.asks(1, "y")
    story.unsure(1, "y")
    story.polls(2, 0, "x", hw=1)
    story.polls(3, 0, "y", hw=1)
    return story.history()


def concurrent_acknowledgements() -> History:
    """Two calls at the same time may be acknowledged in any order."""
    story = begin()
    story.asks(1, "x")
    story.asks(2, "y")
    story.append("b1 b2 b3", 0, "x")
    story.append("b1 b2 b3", 1, "y")
    story.hw("b1", 2)
    story.acked(2, "y", 1)
    story.acked(1, "x", 0)
    return story.history()


def acknowledged_backwards() -> History:
    """The second call is given an offset below that of the first, which had ended."""
    story = begin()
    story.produces(1, "x", 5)
    story.produces(2, "y", 4)
    return story.history()


def nobody_wrote_it() -> History:
    """A consumer is given a value that no producer ever sent."""
    story = begin()
    story.append("b1 b2 b3", 0, "ghost")
    story.hw("b1", 1)
    story.polls(2, 0, "ghost", hw=1)
    return story.history()


def failed_yet_read() -> History:
    """The producer was told that it certainly failed."""
    story = begin()
    story.asks(1, "x")
    story.append("b1 b2 b3", 0, "x")
    story.refused(1, "x")
    story.hw("b1", 1)
    story.polls(2, 0, "x", hw=1)
    return story.history()


def each_value_once() -> History:
    """Reading one offset twice is no duplicate."""
    story = begin()
    committed(story)
    story.polls(2, 0, "x", hw=1)
    story.polls(2, 0, "x", hw=1)
    return story.history()


def resent() -> History:
    """The same value was sent again after a timeout and stands in the log twice."""
    story = begin()
    story.asks(1, "x")
    story.unsure(1, "x")
    story.append("b1 b2 b3", 0, "x")
    committed(story, "x", 1)
    story.polls(2, 0, "x x", hw=2)
    return story.history()


# --- monotonic-hw -----------------------------------------------------------------------------------------------------------


def lower_after_failover() -> History:
    """The new leader begins with a lower HW, which is allowed; the consumer hears of a lower hint and no lower end."""
    story = begin()
    story.produces(1, "w", 0)
    story.append("b1 b2 b3", 0, "w")
    story.hw("b1", 1)
    committed(story, "x", 1)
    story.polls(2, 0, "w x", hw=2)
    story.latest(2, 2)
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=2, hw=1, isr="b2 b3")
    story.hw("b2", 1, epoch=2, leo=2)
    story.polls(2, 2, "", epoch=2, hw=1)
    story.hw("b2", 2, epoch=2)
    story.latest(2, 2, epoch=2)
    return story.history()


def fell_in_its_epoch() -> History:
    """A leader takes back its HW."""
    story = begin()
    committed(story, "x", 0)
    committed(story, "y", 1)
    story.hw("b1", 1, leo=2)
    return story.history()


def end_went_back() -> History:
    """A consumer is told a lower end offset by a later leader."""
    story = begin()
    committed(story, "x", 0)
    committed(story, "y", 1)
    story.latest(2, 2)
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=2, hw=1, isr="b2 b3")
    story.latest(2, 1, epoch=2)
    return story.history()


def out_of_range() -> History:
    """A consumer that knows the end is told that it does not exist."""
    story = begin()
    committed(story)
    story.latest(2, 1)
    story.op(2, OpType.INVOKE, "poll", ({"offset": 1},))
    story.op(2, OpType.FAIL, "poll", ({"error": "OFFSET_OUT_OF_RANGE"},))
    return story.history()


def read_above() -> History:
    """A consumer is given a record that is not committed."""
    story = begin()
    story.asks(1, "x")
    story.append("b1", 0, "x")
    story.polls(2, 0, "x", hw=0)
    return story.history()


# --- single-leader, single-controller ---------------------------------------------------------------------------------------


def deposed_and_unaware() -> History:
    """b1 believes on in epoch 1 while b2 commits in epoch 2."""
    story = begin()
    committed(story)
    story.state("b2", 2, "b2 b3")
    story.leads("b2", 2, leo=1, hw=1, isr="b2 b3")
    story.append("b1", 1, "y")
    committed(story, "z", 1, epoch=2, nodes="b2 b3")
    story.hw("b1", 1, leo=2)
    return story.history()


def both_commit() -> History:
    """Two brokers advance the HW in one epoch."""
    story = begin()
    committed(story, "x", 0)
    story.leads("b2", 1, leo=1, hw=1)
    story.append("b1 b2 b3", 1, "y")
    story.hw("b1", 2)
    story.hw("b2", 2)
    return story.history()


def controllers_in_turn() -> History:
    story = begin()
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b1", controller_epoch=1)
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=2)
    committed(story)
    return story.history()


def controllers_of_one_epoch() -> History:
    story = begin()
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b1", controller_epoch=1)
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b2", controller_epoch=1)
    return story.history()


# --- isr-agreement, election ------------------------------------------------------------------------------------------------


def wounded_left_out() -> History:
    """b3 lost its copy and stands in the ISR until the controller hears; it returns and joins with everything."""
    story = begin()
    committed(story)
    story.wound("b3", 0, 13)
    committed(story, "y", 1, nodes="b1 b2")
    story.session_ended("b3", 13)
    story.state("b1", 2, "b1 b2")
    story.leads("b1", 2, leo=2, hw=2, isr="b1 b2")
    story.recovered("b3", 0)
    story.registered("b3", 23)
    story.append("b3", 0, "x")
    story.append("b3", 1, "y")
    story.state("b1", 2, "b1 b2 b3")
    committed(story, "z", 2, epoch=2)
    return story.history()


def joined_too_early() -> History:
    """b3 enters the ISR without the record that the leader has committed without it."""
    story = begin()
    story.state("b1", 1, "b1 b2")
    story.change_isr("b1", 1, ("b1", "b2"), ended=True)
    committed(story, nodes="b1 b2")
    story.state("b1", 1, "b1 b2 b3")
    story.change_isr("b1", 1, ("b1", "b2", "b3"), ended=True)
    return story.history()


def dropped_by_a_move() -> History:
    """b3 is moved away: out of the ISR in ZooKeeper, then deleted, before the leader has heard of it."""
    story = begin()
    committed(story)
    story.state("b1", 2, "b1 b2")
    story.event(EventKind.REPLICA_DELETED, node="b3")
    story.leads("b1", 2, leo=1, hw=1, isr="b1 b2")
    return story.history()


def deleted_in_the_isr() -> History:
    """b3 is deleted while ZooKeeper still has it in the ISR: it may be elected with nothing."""
    story = begin()
    committed(story)
    story.event(EventKind.REPLICA_DELETED, node="b3")
    story.state("b1", 2, "b1 b2")
    return story.history()


def from_the_elr() -> History:
    """With the ISR below m the last full ISR may lead: b2 still has what was promised."""
    story = begin(promise(m=2))
    committed(story)
    story.session_ended("b3", 13)
    story.state("b1", 2, "b1 b2")
    story.session_ended("b2", 12)
    story.state("b1", 3, "b1")
    story.session_ended("b1", 11)
    story.state(None, 4, "b1")
    story.registered("b2", 22)
    story.state("b2", 5, "b2")
    story.leads("b2", 5, leo=1, hw=1, isr="b2")
    return story.history()


def from_outside() -> History:
    """b3 had left the ISR, which still had m members, and is made leader."""
    story = begin()
    committed(story)
    story.state("b1", 1, "b1 b2")
    story.state("b3", 2, "b3")
    story.leads("b3", 2, leo=1, hw=1, isr="b3")
    return story.history()


def emptied_leads() -> History:
    """Everybody's directory is swapped, and an empty replica is elected: excused losses, and an election that nothing excuses."""
    story = begin()
    committed(story)
    power_out(story, "b1 b2 b3", why="swapped")
    story.registered("b1", 21)
    story.state("b1", 2, "b1")
    story.leads("b1", 2, leo=0, isr="b1")
    return story.history()


# --- the run as a whole -----------------------------------------------------------------------------------------------------


def nothing_asserted() -> History:
    story = begin()
    committed(story)
    return story.history()


def assertion_failed() -> History:
    story = begin()
    story.event(EventKind.ASSERTION, whole_node=True, node="b2", life=1, detail="hw <= leo")
    return story.history()


def one_at_a_time() -> History:
    story = begin()
    committed(story, "x", 0)
    committed(story, "y", 1)
    return story.history()


def two_at_a_time() -> History:
    story = begin()
    story.asks(1, "x")
    story.asks(1, "y")
    return story.history()


def something_happened() -> History:
    story = begin()
    committed(story)
    return story.history(min_acked=1, required_marks=("became-leader", "fault:crash"))


def nothing_happened() -> History:
    story = begin()
    return story.history(min_acked=1, required_marks=("wound", "fault:pause"), faults=(), outcome="incomplete")


def made_again() -> Story:
    """x is committed in topic 5; that is deleted, and y is committed at the same offset in topic 9 of the same name."""
    story = begin()
    story.topic_id = "5"
    committed(story)
    story.event(EventKind.TOPIC_DELETED)
    for node in ("b1", "b2"):
        story.event(EventKind.REPLICA_DELETED, node=node, life=1)
    story.topic_id = "9"
    story.state("b1", 1, "b1 b2 b3")
    story.leads("b1", 1, leo=0)
    committed(story, "y")
    return story


def topic_made_again() -> History:
    story = made_again()
    story.polls(2, 0, "y")
    return story.history()


def old_record_in_a_new_topic() -> History:
    """b3 was away and kept its log."""
    story = made_again()
    story.polls(2, 0, "x")
    return story.history()


STORIES: dict[str, Told] = {
    "ok/acked-loss-excused-then-rewritten": Told(
        excused_then_rewritten, Expected(excused=((0, "x", 14),), counts=(("excused", 1),))
    ),
    "ok/acked-loss-survived-on-one": Told(survived_on_one, Expected()),
    "ok/acked-loss-ordered-by-operator": Told(ordered_by_operator, Expected(excused=((0, "x", 13),))),
    "ok/acked-loss-without-isr-history": Told(
        without_isr_history,
        Expected(
            validity=Validity.UNKNOWN,
            unchecked=(
                "acked-loss: 1 promised records of orders-0 are missing, and no ISR changes were recorded to judge them",
                "availability-cluster: no registered, state-written rows",
                "availability: no state-written rows of orders-0",
                "election: no state-written rows of orders-0",
                "isr-agreement: no state-written rows of orders-0",
                "state-writes: no state-written rows of orders-0",
            ),
        ),
    ),
    "bad/acked-loss-truncated-to-hw": Told(
        truncated_to_hw,
        invalid(("lost-write", (10, 16)), ("strong-isr", (10, 14)), ("truncated-committed", (10, 14)), ("weak-isr", (10, 14))),
    ),
    "bad/acked-loss-wound-elsewhere": Told(
        wound_elsewhere,
        invalid(("lost-write", (10, 20)), ("strong-isr", (10, 19)), ("truncated-committed", (10, 16)), ("weak-isr", (10, 19))),
    ),
    "bad/acked-loss-unflushed-before-ack": Told(unflushed_before_ack, invalid(("lost-write", (10, 19)))),
    "bad/acked-loss-read-past": Told(read_past, invalid(("lost-write", (16, 25)))),
    "ok/offset-agreement-acks-one-given-again": Told(acks_one_given_again, Expected()),
    "bad/offset-agreement-two-values-read": Told(
        two_values_read, invalid(("inconsistent-offsets", (10, 17)), ("lost-write", (10, 17)))
    ),
    "ok/order-concurrent-acknowledgements": Told(concurrent_acknowledgements, Expected()),
    "bad/order-acknowledged-backwards": Told(acknowledged_backwards, invalid(("offset-order", (7, 8, 9)))),
    "bad/order-nobody-wrote-it": Told(nobody_wrote_it, invalid(("phantom-read", (11,)))),
    "bad/order-failed-yet-read": Told(failed_yet_read, invalid(("failed-write-read", (10, 13)))),
    "ok/duplicates-each-value-once": Told(each_value_once, Expected(counts=(("duplicates", 0),))),
    "bad/duplicates-resent": Told(resent, Expected(counts=(("duplicates", 1),))),
    "ok/monotonic-hw-lower-after-failover": Told(lower_after_failover, Expected()),
    "bad/monotonic-hw-fell-in-its-epoch": Told(fell_in_its_epoch, invalid(("hw-regressed", (16, 18)))),
    "bad/monotonic-hw-end-went-back": Told(end_went_back, invalid(("latest-regressed", (19, 23)))),
    "bad/monotonic-hw-out-of-range": Told(out_of_range, invalid(("out-of-range", (13, 15)))),
    "bad/monotonic-hw-read-above": Told(read_above, invalid(("read-above-hw", (9,)))),
    "ok/single-leader-deposed-and-unaware": Told(deposed_and_unaware, Expected()),
    "bad/single-leader-both-commit": Told(both_commit, invalid(("two-leaders", (10, 17)))),
    "ok/single-controller-in-turn": Told(controllers_in_turn, Expected()),
    "bad/single-controller-of-one-epoch": Told(controllers_of_one_epoch, invalid(("two-controllers", (6, 7)))),
    "ok/isr-agreement-wounded-left-out": Told(wounded_left_out, Expected()),
    "ok/isr-agreement-dropped-by-a-move": Told(dropped_by_a_move, Expected()),
    "bad/isr-agreement-deleted-in-the-isr": Told(
        deleted_in_the_isr, invalid(("strong-isr", (10, 12)), ("weak-isr", (10, 12)), ("wrongly-deleted", (4, 12)))
    ),
    "bad/isr-agreement-joined-too-early": Told(joined_too_early, invalid(("strong-isr", (11, 13)), ("weak-isr", (11, 14)))),
    "ok/election-from-the-elr": Told(from_the_elr, Expected(counts=(("leader_changes", 1),))),
    "bad/election-from-outside": Told(from_outside, invalid(("unclean-election", (12, 13)))),
    "bad/election-emptied-leads": Told(emptied_leads, invalid(("empty-leader", (12, 19)), excused=((0, "x", 14),))),
    "ok/topic-identity-made-again": Told(topic_made_again, Expected()),
    "bad/topic-identity-old-record": Told(
        old_record_in_a_new_topic,
        invalid(("inconsistent-offsets", (21, 24)), ("lost-write", (21, 24)), ("other-topic", (7, 24)), ("phantom-read", (24,))),
    ),
    "ok/assertions-none": Told(nothing_asserted, Expected()),
    "bad/assertions-failed": Told(assertion_failed, invalid(("assertion", (6,)))),
    "ok/assumptions-one-at-a-time": Told(one_at_a_time, Expected()),
    "bad/assumptions-two-at-a-time": Told(
        two_at_a_time,
        Expected(
            validity=Validity.UNKNOWN, unchecked=("assumptions: process 1 invokes at row 7 while its last operation is open",)
        ),
    ),
    "ok/vacuity-something-happened": Told(something_happened, Expected(counts=(("acked", 1), ("faults", 1)))),
    "bad/vacuity-nothing-happened": Told(
        nothing_happened,
        Expected(
            validity=Validity.UNKNOWN,
            unchecked=(
                "vacuity: 0 records acknowledged under acks=all, fewer than 1",
                "vacuity: no fault acted",
                "vacuity: the outcome of the run is incomplete",
                "vacuity: the required mark fault:pause did not occur",
                "vacuity: the required mark wound did not occur",
            ),
        ),
    ),
    **CLIENT_STORIES,
    **END_STORIES,
    **STATE_STORIES,
}


def main() -> None:
    """Write every file."""
    for name, told in STORIES.items():
        path = ROOT / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jsonl.encode(told.tell()))


if __name__ == "__main__":
    main()
