"""What is judged when the history lacks the evidence (docs/promise.md VAC-1)."""

from checkers.engine.verdict import Validity
from checkers.judge import judge
from tests.checkers.corpus import history


def test_missing_record_without_isr_history_is_unjudged() -> None:
    """VAC-1: nobody can tell whether the protocol or the harness lost the record, so nobody is accused."""
    verdict = judge(history("ok/acked-loss-without-isr-history"))

    assert (verdict.validity, verdict.anomalies) == (Validity.UNKNOWN, ())
    assert any(complaint.startswith("acked-loss: 1 promised records") for complaint in verdict.unchecked)
