"""A run that proves nothing is UNKNOWN, not VALID (docs/promise.md §7).

Reasons: too few acknowledgements under acks=all, no fault that acted, no election, a required mark that did not occur, a run that
did not end as planned, or a loss excused under profile `within`, whose ledger must be empty (VAC-2).

    >>> from checkers.sketches import sketch
    >>> sketch("vacuity", "ok poll")
    ['vacuity: no fault acted', 'vacuity: no leader was elected']
"""

import polars as pl

from checkers.checker import WHOLE_RUN, Checker, Facts
from checkers.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "vacuity"


def _acted(facts: Facts, events: pl.DataFrame) -> dict[str, int]:
    """How often each kind of fault took effect: the manifest's count, or the number of rows if that is higher."""
    acted = {fault.kind: fault.acted for fault in facts.faults}
    rows = events.filter(pl.col("kind") == str(K.FAULT_ACTED))
    columns = (rows[name].to_list() for name in ("detail", "count"))
    counted: dict[str, int] = {}
    for kind, times in zip(*columns, strict=True):
        counted[kind] = counted.get(kind, 0) + (1 if times is None else times)
    for kind, times in counted.items():
        acted[kind] = max(times, acted.get(kind, 0))
    return acted


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge whether the run proves anything; counts client `operations`, `acked` and `read` records, and `faults`."""
    # A completion need not repeat the acks of its invocation: take the last acks that the process asked for.
    asked = pl.col("acks").forward_fill().over("process")
    ok = operations.with_columns(acks=asked).filter(pl.col("type") == "ok")
    acked = ok.filter((pl.col("f") == "produce") & (pl.col("acks") == -1)).height
    read = ok.filter((pl.col("f") == "poll") & pl.col("value").is_not_null()).height
    asked_for = operations.filter(pl.col("type") == "invoke")["index"].n_unique()
    acted = _acted(facts, events)
    kinds = set(events["kind"].unique().to_list())
    why: list[str] = []
    if facts.outcome != "completed":
        why.append(f"the outcome of the run is {facts.outcome}")
    if acked < facts.min_acked:
        why.append(f"{acked} records acknowledged under acks=all, fewer than {facts.min_acked}")
    if not any(acted.values()):
        why.append("no fault acted")
    if not {K.BECAME_LEADER, K.STATE_WRITTEN} & kinds:
        why.append("no leader was elected")
    for mark in facts.required_marks:
        happened = acted.get(mark.removeprefix("fault:"), 0) > 0 if mark.startswith("fault:") else mark in kinds
        if not happened:
            why.append(f"the required mark {mark} did not occur")
    if cuts and facts.promise.profile == "within":
        why.append("a loss was excused under profile within, whose ledger must be empty")
    counts = {"operations": asked_for, "acked": acked, "read": read, "faults": sum(acted.values())}
    return Findings(unchecked=tuple(f"{NAME}: {reason}" for reason in why), counts=counts)


CHECKER = Checker(
    name=NAME,
    claim="The run is not vacuous: it had acknowledgements, faults, elections, and the marks that its plan requires.",
    assumes="The manifest counts the faults that acted.",
    blind="Whether the faults hit the moments that matter; campaigns measure that.",
    kinds=(),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest", "earliest"),
    events=tuple(K),
    check=check,
)
