"""Check what all other checkers assume about a recorded history; if an assumption fails, the verdict is UNKNOWN.

Each process has one open operation at a time, completions fit their invocations, indices and times do not fall, each row fills
the columns that its kind requires, and the promise lists every topic.

    >>> from checkers.sketches import sketch
    >>> sketch("assumptions", "invoke poll", "invoke poll")
    ['assumptions: process 1 invokes at row 1 while its last operation is open']
"""

from collections.abc import Sequence

import polars as pl
from msgspec import Struct

from checkers.engine.anomalies import HISTORIES, unknown
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import IMPOSSIBLE_EVENT, IMPOSSIBLE_OPERATION, LACKING
from checkers.engine.splits import ranged
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "assumptions"
_COLUMNS = ("index", "process", "type", "f", "topic", "offset", "time_ns")


class _Step(Struct, frozen=True):
    """An invocation or a completion of a client."""

    index: int
    f: str
    asks: bool


class _Process(Struct, frozen=True, kw_only=True):
    """The calls of one process in a range: both ends, and the first of its other steps that is wrong, in words."""

    first: _Step
    last: _Step
    wrong: str | None


class _Times(Struct, frozen=True, kw_only=True):
    """The rows of one table in a range: whether their order is wrong, the times at both ends, and impossible offsets."""

    unsorted: bool
    back: bool
    first: int | None
    last: int | None
    strange: int
    strange_at: int | None


class _Range(Struct, frozen=True, kw_only=True):
    """The state of a range of the index."""

    processes: dict[int, _Process]
    operations: _Times
    events: _Times
    shared: bool  # two events have one index
    unfilled: dict[str, int]  # kind -> rows that lack a column
    topics: set[str]


def _complaint_of_step(process: int, step: _Step, before: _Step | None) -> str | None:
    """Why a step of a client cannot follow the one before it; None if it can."""
    is_open = before is not None and before.asks
    if step.asks:
        return f"process {process} invokes at row {step.index} while its last operation is open" if is_open else None
    if before is None or not is_open:
        return f"row {step.index} completes no invocation of process {process}"
    return None if step.f == before.f else f"row {step.index} completes a {before.f} as a {step.f}"


def _ranges_of_processes(operations: Operations) -> dict[int, _Process]:
    """Per process its first and last row, and how its calls break the order of invocation and completion."""
    steps = operations.frame.unique("index", keep="first", maintain_order=True).select(
        "index", "process", f=pl.col("f").cast(pl.String), asks=pl.col("type") == "invoke"
    )
    steps = steps.with_columns(before=pl.col("asks").shift().over("process"), before_f=pl.col("f").shift().over("process"))
    follows = pl.col("before").is_not_null()
    wrong = steps.filter(
        follows & ((pl.col("asks") == pl.col("before")) | (~pl.col("asks") & (pl.col("f") != pl.col("before_f"))))
    ).unique("process", keep="first", maintain_order=True)
    words = {
        process: _complaint_of_step(process, _Step(index, f, asks), _Step(-1, before_f, before))
        for index, process, f, asks, before, before_f in wrong.iter_rows()
    }
    firsts_and_lasts = (_steps_of(steps.unique("process", keep=keep, maintain_order=True)) for keep in ("first", "last"))
    firsts, lasts = firsts_and_lasts
    return {process: _Process(first=first, last=lasts[process], wrong=words.get(process)) for process, first in firsts.items()}


def _steps_of(steps: pl.DataFrame) -> dict[int, _Step]:
    columns = steps.select("process", "index", "f", "asks").iter_rows()
    return {process: _Step(index, f, asks) for process, index, f, asks in columns}


def _complaints_of_concurrency(ranges: Sequence[dict[int, _Process]]) -> list[str]:
    """For each client process, say where first an invocation does not alternate with its completion."""
    last: dict[int, _Step] = {}
    complaints: dict[int, str] = {}
    for processes in ranges:
        for process, steps in processes.items():
            wrong = _complaint_of_step(process, steps.first, last.get(process)) or steps.wrong
            if wrong is not None:
                complaints.setdefault(process, wrong)
            last[process] = steps.last
    return [complaints[process] for process in sorted(complaints)]


def _times_of_rows(frame: pl.DataFrame, impossible: pl.Expr) -> _Times:
    """Whether rows are sorted and times go forward, and the first impossible value."""
    impossible_rows = frame.filter(impossible)["index"]
    # With fewer than two rows the differences are null.
    steps = frame.select(index=(pl.col("index").diff() < 0).any(), time=(pl.col("time_ns").diff() < 0).any()).row(0)
    return _Times(
        unsorted=bool(steps[0]),
        back=bool(steps[1]),
        first=frame["time_ns"][0] if frame.height else None,
        last=frame["time_ns"][-1] if frame.height else None,
        strange=len(impossible_rows),
        strange_at=impossible_rows[0] if len(impossible_rows) else None,
    )


def _order_complaints(ranges: Sequence[_Times], what: str) -> list[str]:
    """Complaints about rows out of order and times that go back, also between ranges."""
    complaints = [f"{what}: rows are not sorted by index"] if any(range_.unsorted for range_ in ranges) else []
    back, newest = False, None
    for range_ in ranges:
        back |= range_.back or (newest is not None and range_.first is not None and range_.first < newest)
        newest = newest if range_.last is None else range_.last
    return [*complaints, f"{what}: time goes back"] if back else complaints


def _complaints_of_values(ranges: Sequence[_Times], what: str) -> list[str]:
    """How many rows have an impossible offset, and the first of them, as one complaint; none if no row has."""
    first = next((range_.strange_at for range_ in ranges if range_.strange), None)
    count = sum(range_.strange for range_ in ranges)
    return [f"{count} rows of {what} with an impossible offset, the first at row {first}"] if count else []


def _assumptions_of_range(operations: Operations, events: Events, facts: Facts) -> _Range:
    """What one range tells of the assumptions."""
    unfilled = events.frame.filter(LACKING)["kind"]
    return _Range(
        processes=_ranges_of_processes(operations),
        operations=_times_of_rows(operations.frame, IMPOSSIBLE_OPERATION),
        events=_times_of_rows(events.frame, IMPOSSIBLE_EVENT),
        shared=events.frame["index"].n_unique() != events.height,
        unfilled={kind: (unfilled == kind).sum() for kind in unfilled.unique().to_list()},
        topics=(operations.distinct("topic") | events.distinct("topic")) - {None},
    )


def _merge_ranges(ranges: Sequence[_Range], facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """The complaints of all ranges together."""
    operations, events = [range_.operations for range_ in ranges], [range_.events for range_ in ranges]
    complaints = (
        _complaints_of_concurrency([range_.processes for range_ in ranges])
        + _order_complaints(operations, "operations")
        + _order_complaints(events, "events")
    )
    if any(range_.shared for range_ in ranges):
        complaints.append("events: two rows share an index")
    for kind in sorted({kind for range_ in ranges for kind in range_.unfilled}):
        count = sum(range_.unfilled.get(kind, 0) for range_ in ranges)
        complaints.append(f"{count} {kind} rows lack a column that their kind requires")
    complaints.extend(_complaints_of_values(operations, "operations") + _complaints_of_values(events, "events"))
    topics_promised = {topic.topic for topic in facts.promise.topics}
    topics = {topic for range_ in ranges for topic in range_.topics}
    complaints.extend(f"the promise does not list topic {topic}" for topic in sorted(topics - topics_promised))
    return Findings(unchecked=tuple(f"{NAME}: {reason}" for reason in complaints))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Check the assumptions on the whole history; each violation becomes a reason for the verdict UNKNOWN."""
    return _merge_ranges([_assumptions_of_range(operations, events, facts)], facts, cuts)


CHECKER = Checker(
    name=NAME,
    claim="The history is well formed, so that the other checkers can judge it.",
    assumes="Nothing.",
    blind="Rows that were never written.",
    reports=(unknown(unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest", "earliest", "commit", "committed"),
    events=tuple(K),
    check=check,
    split=ranged(_Range, columns=_COLUMNS, partial=_assumptions_of_range, merge=_merge_ranges),
)
