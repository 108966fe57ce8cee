"""Rows of broken rules become findings."""

from checkers.causes.cause import cause_of
from checkers.control import clauses
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of, sketch


def test_each_rule_has_a_finding_of_its_name() -> None:
    names = [kind.name for kind in clauses.RULES]

    assert [sketch("clauses", f"rule-broken node=b1 partition=0 detail={name}:words") for name in names] == [[n] for n in names]


def test_rule_that_is_not_known_leaves_the_verdict_unknown() -> None:
    verdict = judge(history_of("rule-broken node=b1 detail=of-tomorrow:words"), (clauses.CHECKER,))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked == ("row 0 says that b1 broke a rule that is not known: of-tomorrow:words",)


def test_cause_says_who_broke_which_clause_and_how() -> None:
    history = history_of("rule-broken node=b1 partition=0 'detail=narrowed-early: t-0 lost b2 (R-236)'")

    cause = cause_of(history, judge(history, (clauses.CHECKER,)))

    assert cause is not None
    assert cause.sentence.startswith("b1 broke R-236: t-0 lost b2 at ")
