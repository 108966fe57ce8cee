"""The order in which anomalies are told."""

from checkers.engine.anomalies import Harm
from checkers.registry import ALL, OF_BLACK_BOXES
from checkers.severity import SEVERITY, harm, severity


def test_every_anomaly_kind_has_one_declaration_and_rank() -> None:
    """Two kinds in one place would be told in the order of chance."""
    kinds = {kind for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.reports if kind.is_anomaly}

    assert len({kind.name for kind in kinds}) == len(kinds) == len({(kind.harm, kind.rank) for kind in kinds})


def test_order_is_the_one_that_checkers_declare() -> None:
    """The order is a file, so that it can be read without the checkers of logs."""
    kinds = {kind for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.reports if kind.is_anomaly}
    declared = {of: sorted((kind for kind in kinds if kind.harm is of), key=lambda kind: kind.rank) for of in Harm}
    kinds_by_harm = {of: [name for name in SEVERITY if harm(name) is of] for of in Harm}

    assert {of: [kind.name for kind in kinds] for of, kinds in declared.items()} == kinds_by_harm


def test_lost_record_is_worse_than_a_doubled_one() -> None:
    found = sorted(["unheard-of", "duplicate", "strong-isr", "lost-write"], key=severity)

    assert found == ["lost-write", "duplicate", "strong-isr", "unheard-of"]
