"""The order in which anomalies are told, worst first, as the checkers declare it (`checkers.engine.anomalies`).

A reader should see first that a record is lost, and only later that another one is there twice.
"""

from checkers.engine.anomalies import Harm, Kind
from checkers.registry import ALL, OF_BLACK_BOXES

_DECLARED: dict[str, Kind] = {
    kind.name: kind for checker in (*ALL, *OF_BLACK_BOXES) for kind in checker.reports if kind.is_anomaly
}
SEVERITY: tuple[str, ...] = tuple(sorted(_DECLARED, key=lambda name: (_DECLARED[name].harm, _DECLARED[name].rank)))
_RANKS = {kind: rank for rank, kind in enumerate(SEVERITY)}


def severity(kind: str) -> tuple[int, str]:
    """The key that sorts kinds of anomalies, worst first; kinds of models of foreign histories come last, by name."""
    return _RANKS.get(kind, len(_RANKS)), kind


def harm(kind: str) -> Harm | None:
    """What an anomaly of this kind does; None for kinds of models of foreign histories."""
    return _DECLARED[kind].harm if kind in _DECLARED else None
