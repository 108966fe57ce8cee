"""The measure of causes: which rows tell of a decision of an edited function, and what the table counts."""

from pathlib import Path

import pytest

from highwater.backends.sim.backend import SimBackend
from highwater.runs.provenance import Build
from highwater.runs.run import perform
from history import store
from mutation.causes import Judged, caught, summary, table
from mutation.decisions import HISTORY, Order, Watched, carry_out, decisions, names_given
from mutation.gate import plans

# Steps 1 to 5, each the child of the one before; steps 1, 4 and 5 recorded rows 0, 1 and 2.
CHAIN = Watched(parents=(0, 0, 1, 2, 3, 4), steps=(1, 4, 5), called=(3,))


def test_row_of_the_calling_step_tells_of_the_decision() -> None:
    found = decisions(Watched(parents=(0, 0, 0), steps=(1, 2, 2), called=(2,)))

    assert [found.relation(row) for row in (0, 1, 2)] == [None, "here", "here"]


def test_rowless_steps_lie_between_a_decision_and_its_rows() -> None:
    """A controller asks ZooKeeper and writes two steps later: the row of the write is what it decided."""
    steps_found = decisions(CHAIN)

    assert (steps_found.relation(0), steps_found.relation(1)) == ("answered", "asked")


def test_row_behind_another_row_tells_of_no_decision() -> None:
    assert decisions(CHAIN).relation(2) is None


def test_rows_outside_of_steps_tell_of_no_decision() -> None:
    """The harness records the end state itself; step 0 stands for that."""
    steps_found = decisions(Watched(parents=(0, 0), steps=(0, 1), called=(1,)))

    assert (steps_found.relation(0), steps_found.relation(1)) == (None, "here")


def test_edit_of_a_constant_watches_those_that_read_it() -> None:
    assert names_given("BEATS_PER_TIMEOUT = 4") == ("BEATS_PER_TIMEOUT",)
    assert names_given("registration_request: int = 0") == ("registration_request",)


@pytest.mark.slow
def test_watching_does_not_change_the_history(tmp_path: Path) -> None:
    plan = plans()["plans/steps/refused-and-asked-late"]
    watched = carry_out(Order(plan=plan, file="reference/replica/isr.py", scope="on_result", folder=str(tmp_path)))

    plain = perform(plan, SimBackend(), Build(commit="", dirty=False, versions={})).history
    assert store.load(tmp_path / HISTORY).manifest.digest == plain.manifest.digest
    assert watched.called
    rows = decisions(watched).here
    assert {str(row.kind) for row in plain.events if row.index in rows} <= {"isr-change-sent", "isr-change-ended", "hw"}


@pytest.mark.slow
def test_every_caught_edit_names_a_run_of_the_gate() -> None:
    known = set(plans())
    assert [one.row.id for one in caught() if one.run not in known] == []


def test_table_counts_hits_and_misses_by_checker() -> None:
    found = (
        Judged(id="M-1", at="replica.isr", run="r", checker="isr-agreement", first="asked", rows=(3,), chance=0.5),
        Judged(id="M-2", at="replica.isr", run="r", checker="isr-agreement", rows=(4,)),
        Judged(id="M-3", at="replica.isr", run="r", words="crash"),
    )

    assert list(table(found))[2:] == ["| isr-agreement | 2 | 0 | 1 | 0 | 1 | 0 |", "| **all** | 2 | 0 | 1 | 0 | 1 | 0 |"]
    assert summary(found).startswith("1 of 2 causes (50 %) begin with a row in which the edited function decided")
    assert summary(found).endswith("would in 25 %; 1 of 3 edits have no cause")
