"""The order in which anomalies are told, worst first.

A reader should see first that a record is lost, and only later that another one is there twice. The checkers declare each kind
with its harm and rank (`checkers.engine.anomalies`); `severity.txt` has the order that follows, a line for each kind, so that a
history of another system is told without the checkers of logs, which need Polars (decision 57).
`python -m checkers.severity_document > checkers/severity.txt` writes it.
"""

from pathlib import Path

from checkers.engine.anomalies import Harm

_ORDER = [line.split() for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()]
SEVERITY: tuple[str, ...] = tuple(kind for _, kind in _ORDER)
_RANKS = {kind: rank for rank, kind in enumerate(SEVERITY)}
_HARMS = {kind: Harm[harm] for harm, kind in _ORDER}


def severity(kind: str) -> tuple[int, str]:
    """The key that sorts kinds of anomalies, worst first; kinds of models of foreign histories come last, by name."""
    return _RANKS.get(kind, len(_RANKS)), kind


def harm(kind: str) -> Harm | None:
    """What an anomaly of this kind does; None for kinds of models of foreign histories."""
    return _HARMS.get(kind)
