"""Check what all other checkers assume about a recorded history; if an assumption fails, the verdict is UNKNOWN.

Each process has one open operation at a time, completions fit their invocations, indices and times do not fall, each row fills
the columns that its kind requires, and the promise lists every topic.

    >>> from checkers.sketches import sketch
    >>> sketch("assumptions", "invoke poll", "invoke poll")
    ['assumptions: process 1 invokes at row 1 while its last operation is open']
"""

import polars as pl

from checkers.checker import WHOLE_RUN, Checker, Facts
from checkers.rows import IMPOSSIBLE_EVENT, IMPOSSIBLE_OPERATION, LACKING
from checkers.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "assumptions"


def _one_at_a_time(operations: pl.DataFrame) -> list[str]:
    """For each client process, find the first row where an invocation does not alternate with its completion."""
    turns = operations.unique("index", keep="first", maintain_order=True).with_columns(
        before=pl.col("type").shift().over("process"),
        before_f=pl.col("f").shift().over("process"),
        asks=pl.col("type") == "invoke",
    )
    open_before = (pl.col("before") == "invoke").fill_null(False)
    wrong = turns.filter(
        (pl.col("asks") & open_before) | (~pl.col("asks") & (~open_before | (pl.col("f") != pl.col("before_f"))))
    )
    why: list[str] = []
    first = wrong.unique("process", keep="first", maintain_order=True).sort("process")
    columns = (first[name].to_list() for name in ("index", "process", "asks", "before", "f", "before_f"))
    for index, process, asks, before, f, before_f in zip(*columns, strict=True):
        if asks:
            why.append(f"process {process} invokes at row {index} while its last operation is open")
        elif before != "invoke":
            why.append(f"row {index} completes no invocation of process {process}")
        else:
            why.append(f"row {index} completes a {before_f} as a {f}")
    return why


def _grows(frame: pl.DataFrame, what: str) -> list[str]:
    why: list[str] = []
    steps = frame.select(
        index=(pl.col("index").diff() < 0).any(),
        time=(pl.col("time_ns").diff() < 0).any(),
    ).row(0)
    # With fewer than two rows the results are null.
    if steps[0]:
        why.append(f"{what}: rows are not sorted by index")
    if steps[1]:
        why.append(f"{what}: time goes back")
    return why


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Check the assumptions on the whole history; each violation becomes a reason for the verdict UNKNOWN."""
    why = _one_at_a_time(operations) + _grows(operations, "operations") + _grows(events, "events")
    if events["index"].n_unique() != events.height:
        why.append("events: two rows share an index")
    unfilled = events.filter(LACKING)
    for kind in sorted(unfilled["kind"].unique().to_list()):
        count = unfilled.filter(pl.col("kind") == kind).height
        why.append(f"{count} {kind} rows lack a column that their kind requires")
    for frame, impossible, what in ((operations, IMPOSSIBLE_OPERATION, "operations"), (events, IMPOSSIBLE_EVENT, "events")):
        strange = frame.filter(impossible)
        if strange.height:
            why.append(f"{strange.height} rows of {what} with an impossible offset, the first at row {strange['index'][0]}")
    known = {topic.topic for topic in facts.promise.topics}
    topics = set(operations["topic"].drop_nulls().unique().to_list()) | set(events["topic"].drop_nulls().unique().to_list())
    why.extend(f"the promise does not list topic {topic}" for topic in sorted(topics - known))
    return Findings(unchecked=tuple(f"{NAME}: {reason}" for reason in why))


CHECKER = Checker(
    name=NAME,
    claim="The history is well formed, so that the other checkers can judge it.",
    assumes="Nothing.",
    blind="Rows that were never written.",
    kinds=(),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest", "earliest", "commit", "committed"),
    events=tuple(K),
    check=check,
)
