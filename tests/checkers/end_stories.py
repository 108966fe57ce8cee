"""Stories of how runs end: whole again or not, and what was found when the laboratory looked at everything once more."""

import msgspec

from checkers.verdict import Validity
from history.event import EventKind
from history.history import History
from history.manifest import Assignment
from tests.checkers.story import BOUND_NS, Expected, Story, Told, begin, committed, power_out


def _healed(story: Story, *, whole: bool, read: str = "x y") -> History:
    """Controller b1, a record before and after healing, then the bound passes and everything is read."""
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b1", controller_epoch=1)
    for node in ("b2", "b3"):
        story.follows(node, 1, "b1")
    committed(story, "x", 0)
    healed = story.time_ns
    story.event(EventKind.HEALED, whole_node=True)
    if not whole:
        story.state("b1", 1, "b1 b2")
        story.change_isr("b1", 1, ("b1", "b2"), ended=True)
    story.time_ns += BOUND_NS
    committed(story, "y", 1, nodes="b1 b2 b3" if whole else "b1 b2")
    final = story.time_ns
    story.event(EventKind.FINAL_READS, whole_node=True)
    story.polls(9, 0, read if whole else "x", hw=2)
    return story.history(healed_at_ns=healed, final_reads_at_ns=final)


def whole_again() -> History:
    return _healed(begin(), whole=True)


def one_stays_out() -> History:
    """b3 never joins again, and the last reader does not get what was acknowledged."""
    return _healed(begin(), whole=False)


def passed_over() -> History:
    """The last reader is given what lies behind x, and not x."""
    return _healed(begin(), whole=True, read="- y")


def nobody_registers() -> History:
    """The session of b3 ends and it does not come back; no broker is controller."""
    story = begin()
    committed(story)
    story.session_ended("b3", 13)
    healed = story.time_ns
    story.time_ns += BOUND_NS
    story.session_ended("b2", 12)
    history = story.history(healed_at_ns=healed)
    # Judged by what the cluster as a whole lacks: what each partition lacks is another story.
    return History(msgspec.structs.replace(history.manifest, run_id="cluster"), operations=(), events=history.events)


# --- convergence ------------------------------------------------------------------------------------------------------------


def _at_rest(story: Story) -> dict[str, object]:
    """b1 is controller and leads orders-0, all follow, the bound passes and everything is read. What the manifest says of it."""
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b1", controller_epoch=1)
    for node in ("b2", "b3"):
        story.follows(node, 1, "b1")
    committed(story, "x", 0)
    healed = story.time_ns
    story.event(EventKind.HEALED, whole_node=True)
    story.time_ns += BOUND_NS
    committed(story, "y", 1)
    final = story.time_ns
    story.event(EventKind.FINAL_READS, whole_node=True)
    story.polls(9, 0, "x y", hw=2)
    return {"healed_at_ns": healed, "final_reads_at_ns": final}


def all_agree() -> History:
    story = begin()
    facts = _at_rest(story)
    story.zookeeper("b1", 1, "b1 b2 b3")
    for node in ("b1", "b2", "b3"):
        story.tells(node, "b1", 1, "b1 b2 b3")
        story.has_log(node, 2, "xy")
    return story.history(**facts)


def nobody_leads() -> History:
    """Every directory was swapped: the partition stays offline, and whatever lies on a disk is for the operator to judge
    (SILENT-2).
    """
    story = begin()
    committed(story)
    power_out(story, "b1 b2 b3", why="swapped")
    for node, incarnation in (("b1", 21), ("b2", 22), ("b3", 23)):
        story.registered(node, incarnation)
    story.state(None, 2, "b1 b2 b3")
    story.event(EventKind.CONTROLLER_ELECTED, whole_node=True, node="b1", controller_epoch=1)
    healed = story.time_ns
    story.time_ns += BOUND_NS
    story.event(EventKind.FINAL_READS, whole_node=True)
    story.zookeeper(None, 2, "b1 b2 b3")
    for node in ("b1", "b2", "b3"):
        story.tells(node, None, 2, "b1 b2 b3")
    story.has_log("b1", 0, "")
    return story.history(healed_at_ns=healed)


def still_changing() -> History:
    """The ISR was written between two looks, and b3 hears of it late: each look by itself would accuse it."""
    story = begin()
    facts = _at_rest(story)
    for isr, told in (("b1 b2", "b1 b2 b3"), ("b1 b2 b3", "b1 b2")):
        story.zookeeper("b1", 1, "b1 b2 b3", isr=isr)
        for node in ("b1", "b2", "b3"):
            story.tells(node, "b1", 1, "b1 b2 b3", isr=told if node == "b3" else isr)
    for node in ("b1", "b2", "b3"):
        story.has_log(node, 2, "xy")
    return story.history(**facts)


def seen_twice() -> History:
    """Two looks, between which another partition changed: of this one they say the same."""
    story = begin()
    facts = _at_rest(story)
    for _ in range(2):
        story.zookeeper("b1", 1, "b1 b2 b3")
        for node in ("b1", "b2", "b3"):
            story.tells(node, "b1", 1, "b1 b2 b3")
    for node in ("b1", "b2", "b3"):
        story.has_log(node, 2, "xy")
    return story.history(**facts)


def told_of_the_past() -> History:
    """b2 tells clients of an epoch that is over, b3 of nothing at all."""
    story = begin()
    facts = _at_rest(story)
    story.zookeeper("b1", 1, "b1 b2 b3")
    story.tells("b1", "b1", 1, "b1 b2 b3")
    story.tells("b2", "b3", 0, "b1 b3")
    for node in ("b1", "b2", "b3"):
        story.has_log(node, 2, "xy")
    return story.history(**facts)


def old_isr_told() -> History:
    """The controller, b2, took b3 back into the ISR and never told b1."""
    story = begin()
    story.event(EventKind.STATE_WRITTEN, node="b2", leader="b1", leader_epoch=1, isr=("b1", "b2", "b3"), zk_version=1)
    facts = _at_rest(story)
    story.zookeeper("b1", 1, "b1 b2 b3")
    for node in ("b1", "b2", "b3"):
        story.tells(node, "b1", 1, "b1 b2 b3", isr="b1 b2" if node == "b1" else None)
        story.has_log(node, 2, "xy")
    return story.history(**facts)


def stray_and_missing() -> History:
    """orders-0 was moved off b3, whose log stayed; b2 has none, and b1 two."""
    story = begin()
    facts = _at_rest(story)
    story.zookeeper("b1", 1, "b1 b2")
    for node in ("b1", "b2", "b3"):
        story.tells(node, "b1", 1, "b1 b2")
    story.has_log("b1", 2, "xy")
    story.has_log("b1", 1, "x", dir=1)
    story.has_log("b3", 2, "xy")
    moved = (Assignment(topic="orders", partition=0, replicas=("b1", "b2")),)
    return story.history(assignments=moved, **facts)


def another_under_its_name() -> History:
    """The topic was deleted and made again: b2 kept the log of the first one and tells clients of it (B-61)."""
    story = begin()
    facts = _at_rest(story)
    story.zookeeper("b1", 1, "b1 b2 b3", id="20")
    for node, known in (("b1", "20"), ("b2", "10"), ("b3", "20")):
        story.tells(node, "b1", 1, "b1 b2 b3", id=known)
        story.has_log(node, 2, "xy" if node != "b2" else "ab", id=known)
    return story.history(**facts)


def gone_and_still_there() -> History:
    """ZooKeeper no longer holds the topic; b1 tells clients of it, and its log lies on b2."""
    story = begin()
    facts = _at_rest(story)
    story.tells("b1", "b1", 1, "b1 b2 b3")
    story.has_log("b2", 2, "xy")
    return story.history(**facts)


END_STORIES: dict[str, Told] = {
    "ok/availability-whole-again": Told(whole_again, Expected(live=True)),
    "bad/availability-one-stays-out": Told(
        one_stays_out,
        Expected(
            live=False,
            not_live=(
                "b3 not in the ISR of orders-0 B after healing",
                "b3 not in the ISR of orders-0 at the end",
                "final readers of orders-0 ended at offset 0, though offset 1 was acknowledged",
                "the log of b3 differs from that of leader b1 of orders-0 at the end",
            ),
        ),
    ),
    "bad/availability-passed-over": Told(
        passed_over,
        Expected(
            validity=Validity.INVALID,
            anomalies=(("lost-write", (13, 24)),),
            live=False,
            not_live=("final readers of orders-0 never got x at offset 0",),
        ),
    ),
    "ok/availability-cluster-whole-again": Told(whole_again, Expected(live=True)),
    "bad/availability-cluster-nobody-registers": Told(nobody_registers, Expected(live=False)),
    "ok/convergence-all-agree": Told(all_agree, Expected(live=True, counts=(("end_states", 1),))),
    "ok/convergence-nobody-leads": Told(nobody_leads, Expected(live=True, counts=(("end_states", 1), ("offline_rightly", 1)))),
    "ok/convergence-seen-twice": Told(seen_twice, Expected(live=True, counts=(("end_states", 1),))),
    "undecidable/convergence-still-changing": Told(
        still_changing,
        Expected(
            validity=Validity.UNKNOWN,
            live=True,
            unchecked=("convergence: orders-0 was still changing when it was observed at the end",),
        ),
    ),
    "bad/convergence-told-of-the-past": Told(
        told_of_the_past,
        Expected(
            live=False,
            not_live=(
                "b2 tells clients that b3 leads orders-0 in epoch 0, ZooKeeper names b1 in epoch 1 at the end",
                "b2 tells clients that orders-0 is on b1, b3, ZooKeeper names b1, b2, b3 at the end",
                "b3 does not list orders-0 for clients at the end",
            ),
        ),
    ),
    "bad/convergence-old-isr-told": Told(
        old_isr_told,
        Expected(
            live=False,
            not_live=("b1 tells clients that the ISR of orders-0 is b1, b2, ZooKeeper holds b1, b2, b3 at the end",),
        ),
    ),
    "bad/convergence-stray-and-missing": Told(
        stray_and_missing,
        Expected(
            live=False,
            not_live=(
                "a stray log of orders-0 is on b3, directory 0 at the end",
                "b1 has 2 logs of orders-0, in directories 0, 1 at the end",
                "b2 has no log of orders-0 at the end",
            ),
        ),
    ),
    "bad/convergence-another-under-its-name": Told(
        another_under_its_name,
        Expected(
            live=False,
            not_live=(
                "b2 gives clients topic id 10 for orders-0, ZooKeeper holds 20 at the end",
                "the log of orders-0 on b2 ends at 2 with digest ab, that of leader b1 at 2 with xy at the end",
                "the log of orders-0 on b2, directory 0 has topic id 10, ZooKeeper holds 20 at the end",
            ),
        ),
    ),
    "bad/convergence-gone-and-still-there": Told(
        gone_and_still_there,
        Expected(
            live=False,
            not_live=(
                "a log of orders-0, which is not in ZooKeeper, is on b2, directory 0 at the end",
                "b1 still lists orders-0, which is not in ZooKeeper, at the end",
            ),
        ),
    ),
}
