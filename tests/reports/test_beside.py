"""A run beside its neighbour: where they part, what corresponds, what is shown; the page in a browser is in test_beside_page."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Findings, merge
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation
from reports.beside import BesidePage, Given, PlanChange, beside_of
from reports.divergence import divergence_of
from reports.render import Link, beside_html, run_html
from tests.reports.scenes import random_run
from tests.reports.test_why import a_loss


def edited(history: History, change: Callable[[ClusterEvent], ClusterEvent | None]) -> History:
    """A history with other events; None removes one."""
    events = [changed for event in history.events if (changed := change(event)) is not None]
    return History(history.manifest, operations=history.operations, events=events)


def without_the_cut() -> History:
    """The loss without the truncation that caused it."""
    return edited(a_loss()[0], lambda event: None if event.kind is EventKind.TRUNCATE else event)


def neighbour_page(history_beside: History | None = None) -> BesidePage:
    history, verdict = a_loss()
    given = Given(history=history, verdict=verdict, repeat="highwater replay a", link="report.html")
    beside = Given(
        history=history_beside or without_the_cut(), verdict=merge([Findings(live_judged=True)]), repeat="highwater replay b"
    )
    change = PlanChange(what="fault f2", left="power-loss <b>", right="")
    return beside_of(given, beside, plans=[change], repeat="highwater report a --beside b")


def test_equal_runs_do_not_part() -> None:
    history, _ = a_loss()
    divergence = divergence_of(history, history)
    assert divergence.marks == ()
    assert divergence.same == len(history.operations) + sum(not event.kind.startswith("fault") for event in history.events)


def test_numbers_that_only_name_things_are_not_compared() -> None:
    history, _ = a_loss()
    renamed = edited(history, lambda event: replace(event, incarnation=77, controller_epoch=9) if event.incarnation else event)
    assert divergence_of(history, renamed).marks == ()


def test_rows_of_faults_are_not_where_runs_part() -> None:
    history, _ = a_loss()
    other = edited(history, lambda event: None if event.kind is EventKind.FAULT_BEGUN else event)
    assert divergence_of(history, other).marks == ()


def test_column_that_one_protocol_lacks_is_not_compared() -> None:
    history, _ = a_loss()
    with_elr = edited(history, lambda event: replace(event, elr=("b3",)) if event.kind is EventKind.STATE_WRITTEN else event)
    assert divergence_of(history, with_elr).columns == ("elr",)
    assert divergence_of(history, with_elr).marks == ()


def test_missing_truncation_is_where_runs_part() -> None:
    history, _ = a_loss()
    divergence = divergence_of(history, without_the_cut())
    (cut,) = history.of_kind(EventKind.TRUNCATE)
    rows: list[Operation | ClusterEvent] = [*history.operations, *history.events]
    before = [row for row in rows if row.time_ns < cut.time_ns]
    faults = [row for row in before if isinstance(row, ClusterEvent) and row.kind.startswith("fault")]
    assert divergence.same == len(before) - len(faults)
    assert {mark.left.kind for mark in divergence.marks if isinstance(mark.left, ClusterEvent)} == {EventKind.TRUNCATE}
    assert divergence.until_ns == max(row.time_ns for row in before)


def test_late_row_differs_and_says_the_same() -> None:
    """A message that comes a millisecond later changes nothing yet."""
    history, _ = a_loss()

    def delayed_row(event: ClusterEvent) -> ClusterEvent:
        return replace(event, time_ns=event.time_ns + 1) if event.kind is EventKind.BECAME_FOLLOWER else event

    divergence = divergence_of(history, edited(history, delayed_row))
    assert [mark.what for mark in divergence.marks] == ["differs"]


def test_append_says_something_else_and_decides_nothing() -> None:
    history, _ = a_loss()

    def other(event: ClusterEvent) -> ClusterEvent:
        return replace(event, value="w") if event.kind is EventKind.APPEND and event.value == "v2" else event

    assert [mark.what for mark in divergence_of(history, edited(history, other)).marks] == ["differs", "says"]


def test_order_of_rows_of_two_processes_says_nothing() -> None:
    """What one broker does may be recorded before or after what another does."""
    history, _ = a_loss()
    first, second = history.events[1:3]
    assert first.node != second.node
    swapped = {first.index: replace(second, index=first.index), second.index: replace(first, index=second.index)}
    divergence = divergence_of(history, edited(history, lambda event: swapped.get(event.index, event)))
    assert [mark.what for mark in divergence.marks] == ["differs"]


def test_page_shows_rows_of_both_on_one_line() -> None:
    page = neighbour_page()
    cut = [line for line in page.lines if line.place == "left"]
    assert len(cut) == 1
    assert cut[0].mark == 1
    assert {line.place for line in page.lines} == {"both", "left"}
    assert [line.left for line in page.lines] == sorted(line.left for line in page.lines if line.left is not None)


def test_rows_of_a_pair_say_the_same() -> None:
    """A line of both runs is drawn once, with the words of the first."""
    page = neighbour_page()
    left = {spot.line.index: spot.line for spot in page.left.diagram.spots}
    right = {spot.line.index: spot.line for spot in page.right.diagram.spots}
    for line in page.lines:
        if line.left is not None and line.right is not None:
            assert left[line.left].words == right[line.right].words


def test_large_runs_are_shown_around_where_they_part() -> None:
    history = random_run(seed=3, partitions=3, seconds=60, calls_per_s=20)
    halt = next(event for event in history.events if event.kind is EventKind.NODE_STOPPED)
    without_halt = edited(history, lambda event: None if event.index == halt.index else event)
    valid = merge([Findings()])
    page = beside_of(
        Given(history=history, verdict=valid, repeat=""),
        Given(history=without_halt, verdict=valid, repeat=""),
        plans=(),
        repeat="",
    )
    assert page.marks[-1].left is not None
    assert page.marks[-1].left.index == halt.index
    assert 0 < len(page.lines) < 250
    assert page.left.diagram.left_out > 1000


def test_runs_of_other_draws_are_doubted() -> None:
    history, verdict = a_loss()
    other_draws = History(
        replace(history.manifest, draws=8, backend="process"), operations=history.operations, events=history.events
    )
    page = beside_of(
        Given(history=history, verdict=verdict, repeat=""),
        Given(history=other_draws, verdict=verdict, repeat=""),
        plans=(),
        repeat="",
    )
    assert len(page.doubts) == 2


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</title><b>"])
def test_values_on_a_page_of_two_runs_are_escaped(text: str) -> None:
    history, verdict = a_loss()

    def odd(event: ClusterEvent) -> ClusterEvent:
        return replace(event, value=text) if event.kind is EventKind.APPEND else event

    def invocation_of(row: Operation) -> Operation:
        return replace(row, value=text) if row.value else row

    hostile = edited(history, odd)
    hostile = History(hostile.manifest, operations=[invocation_of(row) for row in hostile.operations], events=hostile.events)
    html = beside_html(
        Given(history=hostile, verdict=verdict, repeat=text, link=text),
        Given(history=history, verdict=verdict, repeat=""),
        plans=[PlanChange(what=text, left=text, right=text)],
        repeat=text,
    )
    assert text not in html


def test_run_page_links_to_its_neighbours() -> None:
    history, verdict = a_loss()
    html = run_html(history, verdict, plan="", repeat="", links=[Link("without f3", "beside-x.html")])
    assert 'Beside <a href="beside-x.html">without f3</a>' in html


def test_page_of_a_known_bad_run_names_the_command_for_safe() -> None:
    history, verdict = a_loss()
    assert "highwater report . --beside safe" in run_html(history, verdict, plan="", repeat="")
    beside = run_html(history, verdict, plan="", repeat="", links=[Link("safe", "beside-x.html")])
    assert "highwater report . --beside safe" not in beside
