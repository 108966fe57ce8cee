"""How the behaviour of a run differs from the recorded one (`highwater.behaviour.difference`)."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from highwater.behaviour.difference import (
    LINES_MAX,
    Behaviour,
    Difference,
    difference_of,
    differences,
    groups,
    summary,
)
from highwater.behaviour.rows import MESSAGES, Row
from highwater.behaviour.snapshot import recorded

WRITTEN = Row("state-written", "b1 t-0 leader=b1", ("b1", "t-0"), 1)
STOPPED = Row("StopReplica answered", "b3 to b1: t-0", ("b3", "t-0"), 2)
ASSIGNED = Row("assigned", "t-0 replicas={b1,b2}", ("t-0",), 3)
ELSEWHERE = Row("became-leader", "b4 u-0", ("b4", "u-0"), 4)
COUNT = Row(MESSAGES, "fetch: 7", (), 5)
RUN = (WRITTEN, STOPPED, ASSIGNED, ELSEWHERE, COUNT)


def _difference(before: Sequence[Row], now: Sequence[Row]) -> Difference | None:
    return difference_of(recorded("p", before), Behaviour("p", tuple(now)))


def test_same_rows_at_the_same_times_do_not_differ() -> None:
    assert _difference(RUN, RUN) is None


@pytest.mark.parametrize(
    ("now", "words", "row"),
    [
        ((WRITTEN, ASSIGNED, STOPPED, ELSEWHERE, COUNT), "order: assigned comes before StopReplica answered", ASSIGNED),
        ((WRITTEN, ASSIGNED, ELSEWHERE, COUNT), "missing: StopReplica answered", ASSIGNED),
        ((WRITTEN, STOPPED, STOPPED, ASSIGNED, ELSEWHERE, COUNT), "new: StopReplica answered", STOPPED),
        (
            (replace(WRITTEN, words="b1 t-0 leader=b2"), *RUN[1:]),
            "other words: state-written",
            replace(WRITTEN, words="b1 t-0 leader=b2"),
        ),
        ((*RUN[:4], replace(COUNT, words="fetch: 8")), "counts alone: messages", replace(COUNT, words="fetch: 8")),
    ],
)
def test_first_difference_is_told_with_rule_and_row(now: tuple[Row, ...], words: str, row: Row) -> None:
    """A reviewer must see which rule of the protocol acts otherwise, not that two digests differ."""
    difference = _difference(RUN, now)

    assert difference is not None
    assert (words, row) == (difference.words, difference.row)


def test_last_row_that_is_missing_is_told() -> None:
    difference = _difference(RUN, RUN[:4])

    assert difference is not None
    assert difference.words == "missing: messages"


def test_rows_at_other_times_are_a_change_of_timing() -> None:
    difference = _difference(RUN, [replace(row, time_ns=row.time_ns + 9) for row in RUN])

    assert difference is not None
    assert difference.sort == "timing"


def test_rows_of_different_brokers_may_change_places_in_time() -> None:
    """b4 acts on u-0 before b3 answers about t-0: neither can know of the other."""
    difference = _difference(RUN, (WRITTEN, ELSEWHERE, STOPPED, ASSIGNED, COUNT))

    assert difference is not None
    assert difference.sort == "timing"


def test_change_after_a_change_of_timing_is_found() -> None:
    difference = _difference(RUN, (WRITTEN, ELSEWHERE, ASSIGNED, STOPPED, COUNT))

    assert difference is not None
    assert difference.sort == "order"


def test_words_whose_marks_are_equal_by_chance_differ() -> None:
    """Three letters of a digest are equal in one of 262144 pairs; the whole digest is not."""
    before = recorded("p", RUN)

    difference = difference_of(replace(before, content="0" * 16), Behaviour("p", RUN))

    assert difference is not None
    assert difference.sort == "other"


@pytest.mark.parametrize(
    ("before", "now", "all_plans", "expected"),
    [
        ({}, {"plans/a": Behaviour("p", RUN)}, True, {"plans/a": "the plan has no recorded behaviour"}),
        ({"plans/a": recorded("p", RUN)}, {"plans/a": Behaviour("q", RUN)}, True, {"plans/a": "the plan itself is another one"}),
        ({"plans/a": recorded("p", RUN)}, {}, True, {"plans/a": "the plan is gone"}),
        ({"plans/a": recorded("p", RUN)}, {}, False, {}),
    ],
)
def test_plan_that_is_new_or_other_or_gone_differs(
    before: dict[str, object], now: dict[str, Behaviour], all_plans: bool, expected: dict[str, str]
) -> None:
    """A plan without a recorded behaviour is not compared, so it must not pass in silence."""
    difference_by_plan = differences(before, now, all_plans=all_plans)  # type: ignore[arg-type]  # of a parametrised test

    assert {name: difference.words for name, difference in difference_by_plan.items()} == expected


def test_differences_are_grouped_with_timing_last() -> None:
    timing, order = Difference("timing", "timing alone"), Difference("order", "order: a comes before b")
    found = {"plans/a": timing, "plans/b": timing, "plans/c": order}

    assert [(group.words, group.plans) for group in groups(found)] == [
        ("order: a comes before b", ("plans/c",)),
        ("timing alone", ("plans/a", "plans/b")),
    ]


def test_summary_has_at_most_forty_lines() -> None:
    """A reviewer reads it in the diff."""
    difference_by_plan = {f"plans/{number}": Difference("new", f"new: rule {number:03}", WRITTEN) for number in range(100)}

    lines = summary(difference_by_plan, 162)

    assert len(lines) <= LINES_MAX
    assert lines[0] == "100 of 162 plans behave otherwise; first:"
    assert lines[1] == "new: rule 000, in 1 of 162 plans"
    assert lines[-1] == "and 81 other ways in 81 plans"
