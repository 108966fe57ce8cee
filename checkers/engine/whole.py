"""Judge a history as a whole: run checkers on all groups of its rows. A part of a history is judged like a whole one.

If there are many rows, partitions that a screen passes (`screens`) are not walked: their rows never become frames.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from typing import cast

import polars as pl
import pyarrow as pa

from checkers.engine import screens
from checkers.engine.checker import Checker, apply, lacking, unchecked
from checkers.engine.collector import without_collector
from checkers.engine.columns import NAMES, Columns, PartitionKey, Screened, columns_of
from checkers.engine.facts import Facts, complete, promised
from checkers.engine.groups import PARTITION, Group, divided, groups
from checkers.engine.lives import LOOKS
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history import schema
from history.event import EventKind
from history.history import History

SCREENED_MIN = 20_000  # rows of operations; below that walking is as fast as screening
SCREENED_IF_NOTED = 400_000  # the same where brokers note so much that most partitions are walked anyway

_Keep = Callable[[pl.DataFrame], pl.DataFrame]
_Key = PartitionKey


@cache
def _no_operations() -> Operations:
    # Not a constant: an import makes nothing.
    return Operations(schema.to_frame(schema.arrow_schema("operations").empty_table()))


class Rows:
    """The rows of a run in the forms that checkers need (frames, groups, arrays), each made on first use."""

    def __init__(
        self,
        *,
        count: int,
        operations: Callable[[], pl.DataFrame],
        kept: Callable[[_Keep], pl.DataFrame],
        events: pl.DataFrame,
        coded: Callable[[], pa.Table],
        screened_min: int | None,
    ) -> None:
        self._frame = operations
        self._kept = kept
        self.events = Events.sorted(events)
        self._coded = coded
        is_noted = 4 * events.height > count
        by_default = SCREENED_IF_NOTED if is_noted else SCREENED_MIN
        self._screened = count >= (by_default if screened_min is None else screened_min)
        self._groups: dict[tuple[str, ...], list[Group]] = {}
        self._some: dict[_Key, Group] = {}

    def groups(self, group_by: tuple[str, ...]) -> list[Group]:
        """Return all groups of rows of the run for these group columns."""
        if group_by not in self._groups:
            self._groups[group_by] = groups(self._operations, self.events, group_by)
        return self._groups[group_by]

    @cached_property
    def _operations(self) -> Operations:
        return Operations.sorted(self._frame())

    def some(self, keys: set[_Key]) -> list[Group]:
        """Return the groups of rows of these partitions."""
        missing = sorted(keys - self._some.keys(), key=str)
        if missing:
            names = pl.DataFrame(missing, schema={"topic": pl.String, "partition": pl.Int64}, orient="row")
            operations = Operations.sorted(self._kept(lambda rows: _rows_of(rows, names)))
            events = Events.sorted(_rows_of(self.events.frame, names))
            self._some.update(zip(missing, groups(operations, events, PARTITION), strict=True))
        return [self._some[key] for key in sorted(keys, key=str)]

    @cached_property
    def columns(self) -> Columns | None:
        """The arrays for the pre-checks; None if the run is small or not regular (`columns_of`)."""
        return columns_of(self._coded()) if self._screened else None

    @cached_property
    def of_events(self) -> dict[_Key, Group]:
        """The groups of partitions that events name, without their operations."""
        grouped, _ = divided(self.events, PARTITION)
        return {cast(_Key, key): Group(_no_operations(), events) for key, events in grouped.items()}

    @cached_property
    def shared(self) -> Events:
        """The events that belong to every partition."""
        return Events(self.events.frame.filter(pl.all_horizontal(pl.col(PARTITION).is_null())))

    @cached_property
    def kinds(self) -> dict[_Key, frozenset[str]]:
        """The kinds of the events of each partition; (None, None): of the events that belong to every partition."""
        return {(topic, number): frozenset(kinds) for topic, number, kinds, _ in self._spoken_of}

    @cached_property
    def topic_ids(self) -> dict[_Key, frozenset[str | None]]:
        """The topic ids under which the events of each partition acted."""
        return {(topic, number): frozenset(ids) for topic, number, _, ids in self._spoken_of}

    @cached_property
    def _spoken_of(self) -> list[tuple[str | None, int | None, list[str], list[str]]]:
        acted = pl.col("topic_id").filter(~pl.col("kind").is_in(LOOKS)).drop_nulls()
        return self.events.frame.group_by(PARTITION).agg(pl.col("kind").unique(), acted.unique()).rows()

    def kinds_of(self, key: _Key) -> set[str]:
        """The kinds of all events in the group of a partition."""
        return {*self.kinds.get(key, ()), *self.kinds.get((None, None), ())}


def _rows_of(frame: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of these partitions, and the rows that belong to every group."""
    about_all = frame.filter(pl.all_horizontal(pl.col(PARTITION).is_null()))
    return pl.concat([frame.join(keys, on=PARTITION, how="semi", nulls_equal=True, maintain_order="left"), about_all])


def judge_whole(history: History, facts: Facts, checkers: Sequence[Checker], *, screened_min: int | None) -> list[Findings]:
    """What these checkers find in a history. Rows of a source that is not complete are for pages alone."""

    def rows() -> Rows:
        return Rows(
            count=history.operation_rows,
            operations=lambda: history.operations_frame,
            kept=history.operations_kept,
            events=complete(history.events_frame, facts),
            coded=lambda: history.operations_of(NAMES),
            screened_min=screened_min,
        )

    return judged(rows, facts, checkers)


def judged(rows: Callable[[], Rows], facts: Facts, checkers: Sequence[Checker]) -> list[Findings]:
    """Run checkers on all groups of rows, which are made and freed here: the collector would walk all that is left of them."""
    with without_collector():
        return _findings_in_phases(rows(), facts, checkers)


def _findings_in_phases(run: Rows, facts: Facts, checkers: Sequence[Checker]) -> list[Findings]:
    """Run the checkers, those of the ledger first: the others get the cuts that it found."""
    all_findings: list[Findings] = []
    cuts: tuple[Cut, ...] = ()
    for phase in ("ledger", "others"):
        for checker in checkers:
            if checker.phase == phase:
                all_findings.extend(_findings_of_checker(run, checker, facts, cuts))
        cuts = tuple(sorted(cut for findings in all_findings for cut in findings.cuts))
    return all_findings


def _findings_of_checker(run: Rows, checker: Checker, facts: Facts, cuts: tuple[Cut, ...]) -> Iterator[Findings]:
    """The findings of one checker; partitions that its pre-check passes are not walked."""
    screen = checker.screen if checker.operations else screens.nothing
    if checker.group_by != PARTITION or screen is None or run.columns is None:
        yield from (apply(checker, group, facts, cuts) for group in run.groups(checker.group_by))
        return
    columns = run.columns
    screened = screen(run.columns, run.shared, facts)
    walked = _partitions_to_walk(run, checker, screened, facts) | {(cut.topic, cut.partition) for cut in cuts}
    yield from (apply(checker, group, facts, cuts) for group in run.some(walked))
    passed = [at for at, key in enumerate(columns.partitions) if key not in walked]
    yield Findings(counts={name: int(count[passed].sum()) for name, count in screened.counts.items()} if passed else {})
    for topic, number in (columns.partitions[at] for at in passed):
        kinds = run.kinds_of((topic, number))
        lacks = lacking(checker, kinds)
        if lacks:
            yield unchecked(checker, lacks, f"{topic}-{number}")
        elif _read(checker) & kinds:
            yield apply(checker, run.of_events[topic, number], facts, cuts)


def _read(checker: Checker) -> set[str]:
    return {str(kind) for kind in checker.events}


def _partitions_to_walk(run: Rows, checker: Checker, screened: Screened, facts: Facts) -> set[_Key]:
    """Return the partitions that a checker must read row by row, because its pre-check proves nothing about them."""
    columns = run.columns
    assert columns is not None
    promised_keys = {key for key in columns.partitions if promised(facts, key[0]) is not None}
    numbers = {key: number for number, key in enumerate(columns.partitions)}
    walked: set[_Key] = {
        key for key, at in numbers.items() if screened.suspect[at] or columns.odd[at] or key not in promised_keys
    }
    walked.update(*(columns.rare.get(f, ()) for f in checker.operations))
    # Partitions without produces and polls have few operations.
    walked |= (columns.others | run.kinds.keys()) - numbers.keys() - {(None, None)}
    tied, tied_if_named = {str(kind) for kind in checker.tied}, {str(kind) for kind in checker.tied_if_named}
    shared = run.kinds.get((None, None), frozenset())
    for key, at in numbers.items():
        kinds = run.kinds.get(key, frozenset())
        ids = run.topic_ids.get(key, frozenset()) | {columns.topic_ids[at]} - {None}
        # Without events of its own a partition has no name unless its operations give it.
        nameless = not kinds and _read(checker) & shared
        if tied & (kinds | shared) or tied_if_named & kinds or nameless or len(ids) > 1 or EventKind.TOPIC_DELETED in kinds:
            walked.add(key)
    return walked
