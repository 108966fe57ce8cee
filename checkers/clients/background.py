"""Checker of asynchronous producers: what was handed over is acknowledged or stands in the log of the producer (R-130).

A `send` ends at once and promises nothing: the records go out behind it, and the program that sent them hears of no loss. So the
log is all that an operator has. At the end of a run each record that was handed over must have been acknowledged by a produce, or
have an entry in the log; and no record has both, or an operator would send one again that is there. Acknowledged records are
judged by `acked-loss` like all others. A record with acks=0 counts as acknowledged when it was sent: its producer asked for no
more. A record whose produce or whose entry never ended is still on its way; an entry of unknown outcome may be in the log.

    >>> from checkers.sketches import sketch
    >>> sketch("background", "ok send value=a", "fail produce value=a error=NOT_ENOUGH_REPLICAS")
    ['unlogged-loss']
    >>> sketch("background", "ok send value=a", "ok produce value=a offset=0", "ok log value=a")
    ['false-log']
    >>> sketch("background", "ok send value=a", "invoke produce process=2 value=a")
    []
"""

from checkers.engine import screens
from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "background"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge what asynchronous producers handed over for one partition. A run that ended early may have left records waiting."""
    if "send" not in operations.words:
        return Findings()
    topic, partition = partition_of(operations, events)
    sent: dict[str, int] = {}  # by record, the row that says so
    acknowledged: dict[str, int] = {}
    logged: dict[str, int] = {}
    under_way: set[str] = set()
    for call in operations.calls:
        if call.type == "ok":
            told = {"send": sent, "produce": acknowledged, "log": logged}[call.f]
            told.update((row.value, call.ended) for row in call.asked if row.value is not None)
        elif not call.type or (call.type, call.f) == ("info", "log"):
            under_way.update(row.value for row in call.asked if row.value is not None)
    silent = sent.keys() - acknowledged.keys() - logged.keys() - under_way if facts.outcome == "completed" else set()
    found: list[tuple[str, tuple[int, ...], str]] = [
        ("unlogged-loss", (sent[value],), f"{value} was handed over, and is neither acknowledged nor in the log of its producer")
        for value in sorted(silent, key=sent.__getitem__)
    ]
    found += [
        ("false-log", (acknowledged[value], logged[value]), f"{value} was acknowledged, and its producer logged it as given up")
        for value in sorted(acknowledged.keys() & logged.keys(), key=logged.__getitem__)
    ]
    key = f"{topic}-{partition}"
    anomalies = (Anomaly(kind=kind, checker=NAME, key=key, witness=tuple(sorted(at)), words=words) for kind, at, words in found)
    return Findings(anomalies=tuple(anomalies), counts={"handed-over": len(sent), "given-up": len(logged)})


CHECKER = Checker(
    name=NAME,
    claim="What an asynchronous producer was handed is acknowledged or in its log at the end of the run, and not both.",
    assumes="Operations `send` and `log` tell what was handed over and what was logged; no two records share a value.",
    blind="Records of unknown outcome, which are logged although they may be in the partition; runs that ended early.",
    reports=(
        Kind("unlogged-loss", Harm.WRONG_ANSWER, 30, breaks=("LOG",), unshown=HISTORIES),
        Kind("false-log", Harm.WRONG_ANSWER, 40, breaks=("LOG",), unshown=HISTORIES),
    ),
    group_by=PARTITION,
    operations=("send", "produce", "log"),
    check=check,
    screen=screens.nothing,
)
