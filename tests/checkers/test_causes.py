"""Every bad history of the corpus has a sentence of cause."""

import pytest

from checkers.causes.cause import cause_of
from checkers.engine.verdict import Anomaly, Findings, merge
from checkers.judge import judge
from checkers.sketches import history_of
from tests.checkers.corpus import RUNS, history

FAILED = [name for name, run in sorted(RUNS.items()) if run.anomalies or run.not_live]


@pytest.mark.parametrize("name", FAILED)
def test_bad_history_has_a_sentence_that_names_its_rows(name: str) -> None:
    """Histories of all kinds, some without evidence of brokers: a sentence must come, and say nothing that no row tells."""
    this_history = history(name)
    cause = cause_of(this_history, judge(this_history))
    assert cause is not None
    assert cause.sentence.endswith(".")
    assert "None" not in cause.sentence
    assert all(this_history.row(index) is not None for index in cause.rows)
    assert cause.step is None or this_history.row(cause.step) is not None


def test_duplicate_that_only_its_readers_tell_has_a_sentence() -> None:
    """Without rows of brokers nobody knows who appended the record twice; the produce was never answered."""
    this_history = history_of(
        "invoke produce process=2 value=a delivery=once", "ok poll offset=0 value=a", "ok poll offset=1 value=a"
    )
    twice = Anomaly(kind="duplicate", checker="duplicates", key="t-0", witness=(2, 4), words="a is at offsets 0 and 1")
    cause = cause_of(this_history, merge([Findings(anomalies=(twice,))]))

    assert cause is not None
    assert cause.sentence.startswith("duplicate on t-0: a is at offsets 0 and 1; ")


def test_not_live_run_tells_the_moves_that_it_still_has() -> None:
    """A request under /admin is about no single partition, and its rows are about one."""
    this_history = history_of("reassignment-begun node=b1", "session-ended node=b2")
    verdict = merge([Findings(not_live=("the move of t-0 is still requested under /admin at the end",), live_judged=True)])
    cause = cause_of(this_history, verdict)

    assert cause is not None
    assert 0 in cause.rows
