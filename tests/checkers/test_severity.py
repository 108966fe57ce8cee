"""The order in which anomalies are told."""

from checkers.registry import ALL, OF_BLACK_BOXES
from checkers.severity import SEVERITY, severity


def test_every_anomaly_kind_has_one_place_in_the_order() -> None:
    """A kind without a place would be told last, however bad it is."""
    kinds = {kind for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.kinds}

    assert sorted(kinds - set(SEVERITY)) == sorted(set(SEVERITY) - kinds) == []
    assert len(set(SEVERITY)) == len(SEVERITY)


def test_lost_record_is_worse_than_a_doubled_one() -> None:
    found = sorted(["unheard-of", "duplicate", "strong-isr", "lost-write"], key=severity)

    assert found == ["lost-write", "duplicate", "strong-isr", "unheard-of"]
