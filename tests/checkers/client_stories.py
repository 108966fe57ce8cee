"""Stories of what clients are given: the order within one call, the positions of consumer groups, progress between faults."""

from history.event import EventKind
from history.history import History
from history.op import OpType
from tests.checkers.story import BOUND_NS, Expected, Story, Told, begin, committed, invalid


def three(story: Story) -> Story:
    """x, y and z are committed."""
    for offset, value in enumerate("xyz"):
        committed(story, value, offset)
    return story


def given(story: Story, process: int, position: int, *records: tuple[int, str]) -> int:
    """A poll that is answered with these records."""
    story.op(process, OpType.INVOKE, "poll", ({"offset": position},))
    rows = tuple({"offset": offset, "value": value, "leader_epoch": 1, "hw": 3} for offset, value in records)
    return story.op(process, OpType.OK, "poll", rows)


# --- polls ------------------------------------------------------------------------------------------------------------------


def one_after_the_other() -> History:
    story = three(begin())
    given(story, 2, 0, (0, "x"), (1, "y"))
    given(story, 2, 2, (2, "z"))
    return story.history()


def twice_in_one_poll() -> History:
    story = three(begin())
    given(story, 2, 0, (0, "x"), (0, "x"))
    return story.history()


def left_out_inside() -> History:
    """What process 2 is not given, process 3 is."""
    story = begin()
    story.asks(1, "x")
    story.unsure(1, "x")
    story.asks(1, "y")
    story.unsure(1, "y")
    story.asks(1, "z")
    story.unsure(1, "z")
    story.append("b1 b2 b3", 0, "x")
    story.append("b1 b2 b3", 1, "y")
    story.append("b1 b2 b3", 2, "z")
    given(story, 2, 0, (0, "x"), (2, "z"))
    given(story, 3, 0, (0, "x"), (1, "y"), (2, "z"))
    return story.history()


def left_out_before() -> History:
    """The position asked for was 1."""
    story = begin()
    for offset, value in enumerate("xyz"):
        story.asks(1, value)
        story.unsure(1, value)
        story.append("b1 b2 b3", offset, value)
    given(story, 2, 1, (2, "z"))
    given(story, 3, 0, (0, "x"), (1, "y"), (2, "z"))
    return story.history()


def nobody_has_it() -> History:
    """Nothing was promised at 1, and nobody was given anything there."""
    story = begin()
    for offset, value in enumerate("xyz"):
        story.asks(1, value)
        story.unsure(1, value)
        story.append("b1 b2 b3", offset, value)
    given(story, 2, 0, (0, "x"), (2, "z"))
    return story.history()


def appended_backwards() -> History:
    """Two values of one produce stand in the log in the other order."""
    story = begin()
    story.op(1, OpType.INVOKE, "produce", ({"value": "x", "acks": -1}, {"value": "y", "acks": -1}))
    story.append("b1 b2 b3", 0, "y")
    story.append("b1 b2 b3", 1, "x")
    story.hw("b1", 2)
    rows = ({"value": "x", "offset": 1, "leader_epoch": 1}, {"value": "y", "offset": 0, "leader_epoch": 1})
    story.op(1, OpType.OK, "produce", rows)
    return story.history()


# --- committed offsets ------------------------------------------------------------------------------------------------------


def commits(story: Story, process: int, position: int, type: OpType = OpType.OK, group: str = "g") -> int:
    story.op(process, OpType.INVOKE, "commit", ({"value": group, "offset": position},))
    return story.op(process, type, "commit", ({},))


def finds(story: Story, process: int, position: int | None, group: str = "g") -> int:
    story.op(process, OpType.INVOKE, "committed", ({"value": group},))
    return story.op(process, OpType.OK, "committed", ({"offset": position},))


def found_again() -> History:
    """Another member of the group goes on where the first one stopped; another group has committed nothing."""
    story = three(begin())
    given(story, 2, 0, (0, "x"), (1, "y"))
    commits(story, 2, 2)
    finds(story, 3, 2)
    finds(story, 4, None, group="other")
    commits(story, 3, 1)
    finds(story, 2, 1)
    return story.history()


def an_older_position() -> History:
    story = begin()
    commits(story, 2, 1)
    commits(story, 2, 2)
    finds(story, 3, 1)
    return story.history()


def no_position() -> History:
    story = begin()
    commits(story, 2, 1)
    finds(story, 3, None)
    return story.history()


def nobody_committed_it() -> History:
    story = begin()
    commits(story, 2, 1)
    finds(story, 3, 7)
    return story.history()


def ahead_of_what_was_given() -> History:
    """The client commits on its own, before it polls (enable.auto.commit)."""
    story = three(begin())
    given(story, 2, 0, (0, "x"))
    commits(story, 2, 2)
    return story.history()


def perhaps_committed() -> History:
    """A commit that nobody heard of may have happened, before or after the other one; what 3 was given, nobody knows."""
    story = begin()
    commits(story, 2, 1, OpType.INFO)
    commits(story, 3, 2)
    finds(story, 4, 1)
    finds(story, 4, 2)
    return story.history()


# --- progress ---------------------------------------------------------------------------------------------------------------


def between_two_faults(*, acked: bool, tried: bool = True) -> History:
    """A fault is over for B; then a producer tries, and another fault begins."""
    story = begin()
    committed(story)
    story.event(EventKind.FAULT_BEGUN, whole_node=True, fault="f1", detail="crash")
    story.event(EventKind.FAULT_ENDED, whole_node=True, fault="f1", detail="crash")
    if tried:
        story.time_ns += BOUND_NS
    story.asks(1, "y")
    if acked:
        story.append("b1 b2 b3", 1, "y")
        story.hw("b1", 2)
        story.acked(1, "y", 1)
    else:
        story.refused(1, "y")
    story.event(EventKind.FAULT_BEGUN, whole_node=True, fault="f2", detail="crash")
    story.event(EventKind.FAULT_ENDED, whole_node=True, fault="f2", detail="crash")
    # The run ends before B after healing: what the end owes is not judged.
    return story.history(healed_at_ns=story.time_ns)


def progress() -> History:
    return between_two_faults(acked=True)


def no_progress() -> History:
    return between_two_faults(acked=False)


def too_short_a_calm() -> History:
    return between_two_faults(acked=False, tried=False)


CLIENT_STORIES: dict[str, Told] = {
    "ok/polls-one-after-the-other": Told(one_after_the_other, Expected()),
    "bad/polls-twice-in-one": Told(twice_in_one_poll, invalid(("int-nonmonotonic-poll", (25,)))),
    "bad/polls-left-out-inside": Told(left_out_inside, invalid(("int-poll-skip", (22, 24)))),
    "bad/polls-left-out-before": Told(left_out_before, invalid(("poll-skip", (22, 24)))),
    "undecidable/polls-nobody-has-it": Told(nobody_has_it, Expected()),
    "bad/polls-appended-backwards": Told(appended_backwards, invalid(("int-nonmonotonic-send", (14,)))),
    "ok/committed-offsets-found-again": Told(found_again, Expected(counts=(("commits", 2),))),
    "bad/committed-offsets-older": Told(an_older_position, invalid(("commit-lost", (9, 11)))),
    "bad/committed-offsets-none": Told(no_position, invalid(("commit-lost", (7, 9)))),
    "bad/committed-offsets-nobody-did": Told(nobody_committed_it, invalid(("phantom-commit", (9,)))),
    "bad/committed-offsets-ahead": Told(ahead_of_what_was_given, invalid(("commit-ahead", (26,)))),
    "undecidable/committed-offsets-perhaps": Told(perhaps_committed, Expected()),
    "ok/progress-between-faults": Told(progress, Expected(counts=(("acked_under_faults", 2),))),
    "bad/progress-none": Told(
        no_progress,
        Expected(
            live=False,
            not_live=("no acks=all produce to orders-0 was acknowledged between rows 14 and 15, though no fault was in force",),
        ),
    ),
    "undecidable/progress-too-short": Told(too_short_a_calm, Expected()),
}
