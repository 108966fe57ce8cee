"""Is this history fit to be judged? What the other checkers take for granted is looked at here.

Where it fails, the run is UNKNOWN.
One operation at a time for each process, completions that fit their invocations, indices and times that grow, columns that
their kinds must fill, partitions that the promise knows.

    >>> from checkers.sketches import sketch
    >>> sketch("assumptions", "invoke poll", "invoke poll")
    ['assumptions: process 1 asks at row 1 while an operation of its is open']
"""

import polars as pl

from checkers.checker import WHOLE_RUN, Checker, Facts
from checkers.rows import IMPOSSIBLE_EVENT, IMPOSSIBLE_OPERATION, LACKING
from checkers.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "assumptions"


def _one_at_a_time(operations: pl.DataFrame) -> list[str]:
    """The first break of Jepsen's rule for each process: invocation, completion, invocation, ..."""
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
            why.append(f"process {process} asks at row {index} while an operation of its is open")
        elif before != "invoke":
            why.append(f"row {index} completes nothing that process {process} asked")
        else:
            why.append(f"row {index} completes a {before_f} as a {f}")
    return why


def _grows(frame: pl.DataFrame, what: str) -> list[str]:
    why: list[str] = []
    steps = frame.select(
        index=(pl.col("index").diff() < 0).any(),
        time=(pl.col("time_ns").diff() < 0).any(),
    ).row(0)
    # One row, or none, has no step.
    if steps[0]:
        why.append(f"{what}: rows are not in the order of their index")
    if steps[1]:
        why.append(f"{what}: time runs backwards")
    return why


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """The whole run."""
    why = _one_at_a_time(operations) + _grows(operations, "operations") + _grows(events, "events")
    if events["index"].n_unique() != events.height:
        why.append("events: two rows share an index")
    unfilled = events.filter(LACKING)
    for kind in sorted(unfilled["kind"].unique().to_list()):
        count = unfilled.filter(pl.col("kind") == kind).height
        why.append(f"{count} {kind} rows lack a column that the kind must fill")
    for frame, impossible, what in ((operations, IMPOSSIBLE_OPERATION, "operations"), (events, IMPOSSIBLE_EVENT, "events")):
        strange = frame.filter(impossible)
        if strange.height:
            why.append(f"{strange.height} rows of {what} with an offset that cannot be, the first at row {strange['index'][0]}")
    known = {topic.topic for topic in facts.promise.topics}
    topics = set(operations["topic"].drop_nulls().unique().to_list()) | set(events["topic"].drop_nulls().unique().to_list())
    why.extend(f"the promise does not know topic {topic}" for topic in sorted(topics - known))
    return Findings(unchecked=tuple(f"{NAME}: {reason}" for reason in why))


CHECKER = Checker(
    name=NAME,
    claim="The history is fit to be judged.",
    assumes="Nothing.",
    blind="Rows that were never written.",
    kinds=(),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest", "earliest", "commit", "committed"),
    events=tuple(K),
    check=check,
)
