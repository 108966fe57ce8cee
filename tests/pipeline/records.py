"""Records for tests of datasets: small, made without judging."""

from functools import partial

from checkers.engine.verdict import Anomaly, Findings, Verdict, merge
from checkers.sketches import history_of
from history.history import History
from pipeline.dataset import Entry
from pipeline.record import Known, Record, record_of

HISTORY = history_of(
    "state-written leader=b1 isr=b1,b2",
    "fault-begun fault=f1 detail=pause node=b2",
    "fault-acted fault=f1",
    "ok produce value=a offset=0",
    "truncate node=b2 offset=0 detail=hw",
    "fault-ended fault=f1",
    "ok poll offset=0 value=a",
    "healed",
)
_LOST = Anomaly(kind="truncated-committed", checker="log-matching", key="t-0", witness=(4, 5), words="b2 truncated a")


def facts_of_run(seed: int, protocol: str = "v3") -> Known:
    """What the harness would know of a run."""
    return Known(
        plan=f"seed-{seed}", run_id=f"sim-{protocol}-0", seed=seed, protocol=protocol, repeat=f"highwater run --seed {seed}"
    )


def verdict(*, invalid: bool = True) -> Verdict:
    """A verdict with one anomaly, or VALID."""
    return merge([Findings(anomalies=(_LOST,) if invalid else (), live_judged=True)])


def record(seed: int, protocol: str = "v3", history: History = HISTORY) -> Record:
    """The record of a small run; even seeds are VALID."""
    return record_of(facts_of_run(seed, protocol), history, verdict(invalid=seed % 2 == 1))


SIX = [record(seed) for seed in range(6)]


def six_entries(first: int, last: int) -> list[Entry]:
    """Those of `SIX` from `first` up to `last`, to be taken in."""
    return [Entry(SIX[seed].run, partial(list.__getitem__, SIX, seed)) for seed in range(first, last)]
