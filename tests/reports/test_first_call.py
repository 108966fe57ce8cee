"""The first call that answers otherwise, on the page of a run and on the page of two runs."""

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from reports.first_call import FirstCall, Otherwise
from reports.render import render_beside, render_run
from reports.run_page import page_of
from tests.reports.scenes import small_loss
from tests.reports.test_beside import neighbour_page

_FOUND = FirstCall(
    there="main",
    function="replica/isr._write",
    inside=("node.Node.handle", "replica/isr.on_result"),
    who="b1",
    time_ns=1_514_900_000,
    row=7,
    calls="replica/isr._back_off, which it does not there",
    otherwise=(Otherwise(what="its result", here="None", there="<3>"),),
)


def test_pages_show_the_first_call_below_the_cause() -> None:
    history, verdict = small_loss()
    run = page_of(history, verdict, plan="", repeat="")
    for page in (render_run(replace(run, first_call=_FOUND)), render_beside(replace(neighbour_page(), first_call=_FOUND))):
        assert "than at main is <code>replica/isr._write</code> of b1, at 1.514 s, before row 7." in page
        assert page.index("Here it calls replica/isr._back_off, which it does not there.") < page.index(
            '<td data-there="main">&lt;3&gt;</td>'
        )
    assert 'id="otherwise"' not in render_run(run)


def test_sentence_ends_with_both_answers() -> None:
    """In a terminal there is no table below it."""
    assert _FOUND.sentence.endswith("at 1.514 s, before row 7: its result is None here, <3> at main.")


def test_long_answers_are_cut_where_they_differ() -> None:
    """Two maps of sixty members were cut to the same words."""
    here, there = (f"{{members: {' '.join(map(str, range(60)))}, leader: b{leader}}}" for leader in (1, 2))
    sentence = replace_fields(_FOUND, otherwise=(Otherwise(what="its result", here=here, there=there),)).sentence

    assert sentence.endswith(": its result is … 57 58 59, leader: b1} here, … 57 58 59, leader: b2} at main.")


def test_sentence_of_a_call_with_equal_values_tells_its_calls() -> None:
    assert replace_fields(_FOUND, otherwise=()).sentence.endswith(
        "before row 7: here it calls replica/isr._back_off, which it does not there."
    )


def test_page_says_why_there_is_no_first_call() -> None:
    history, verdict = small_loss()
    found = FirstCall(there="main", missing="both trees give the same answers to the end of the run")
    page = render_run(replace(page_of(history, verdict, plan="", repeat=""), first_call=found))
    assert found.sentence in page
    assert 'id="otherwise"' not in page
