"""A checker: a claim, its assumptions, and a function from the rows of one group to its findings.

A checker sees rows and `Facts`, never the plan or the system under test. `checkers.single` calls it for each group. The contract
of a group:

* rows are sorted by index (operations by index and slot);
* a row without a value in the group columns (a session that ended, a node that started) belongs to every group;
* it holds only the kinds of events and the operations that the checker declares.

Two phases: checkers of phase "ledger" run first; their cuts are an input to all others (docs/promise.md CUT-1).
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Literal

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.anomalies import Kind
from checkers.engine.columns import Columns, Screened
from checkers.engine.identity import Life, lives
from checkers.engine.verdict import Anomaly, Cut, Findings, joined, more_of_kind
from history.event import EventKind
from history.manifest import RECORDED, SOURCES, Assignment, FaultCount, Outcome, RunManifest, Source
from history.promise import Promise, TopicPromise


class Facts(Struct, frozen=True, kw_only=True):
    """The part of a run's manifest that a checker may use. Times are in ns; None if the run ended before that time."""

    promise: Promise
    brokers: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    outcome: Outcome
    healed_at_ns: int | None
    final_reads_at_ns: int | None
    end_ns: int
    required_marks: tuple[str, ...]
    faults: tuple[FaultCount, ...]
    min_acked: int
    simulated: bool  # the times are simulated: no machine was late
    log_dirs: int | None = None  # of each broker; None: not known
    client_timeout_ms: int | None = None  # None: not known
    client_retries: tuple[int, ...] = ()  # by number of the client
    client_places: tuple[str, ...] = ()  # by number of the client
    recorded: bool = False  # by another program: nobody knows which faults there were
    observes: tuple[Source, ...] = SOURCES  # which rows the system under test gives completely


def facts_of(manifest: RunManifest) -> Facts:
    """Return the part of a run's manifest that checkers may use."""
    return Facts(
        promise=manifest.promise,
        brokers=manifest.brokers,
        assignments=manifest.assignments,
        outcome=manifest.outcome,
        healed_at_ns=manifest.healed_at_ns,
        final_reads_at_ns=manifest.final_reads_at_ns,
        end_ns=manifest.end_ns,
        required_marks=manifest.required_marks,
        faults=manifest.faults,
        min_acked=manifest.min_acked,
        simulated=manifest.backend == "sim",
        log_dirs=manifest.log_dirs,
        client_timeout_ms=manifest.client_timeout_ms,
        client_retries=manifest.client_retries,
        client_places=manifest.client_places,
        recorded=manifest.backend == RECORDED,
        observes=SOURCES if manifest.system is None else manifest.system.observes,
    )


MS = 1_000_000  # ns
PROMPT_MS = 1000  # LIVE-8: twice what the slowest request took in 150 seeds of every fault


def deadline_ns(facts: Facts) -> int | None:
    """Return the time by which the cluster must be whole again: the bound B after healing, in ns.

    None if the run did not complete or ended before that time.
    """
    if facts.healed_at_ns is None or facts.outcome != "completed":
        return None
    deadline = facts.healed_at_ns + facts.promise.bound_ms * MS
    return deadline if facts.end_ns >= deadline else None


# From the columns and the events that belong to every partition.
Screen = Callable[[Columns, pl.DataFrame, Facts], Screened]
Check = Callable[[pl.DataFrame, pl.DataFrame, Facts, tuple[Cut, ...]], Findings]
PARTITION = ("topic", "partition")
WHOLE_RUN: tuple[str, ...] = ()
ANOMALIES_MAX = 3  # of one kind, of one checker, of one group


class Split(Struct, frozen=True, kw_only=True):
    """How a checker of the whole run judges a large history: a state of each range of the index, merged in order.

    A state is bytes, because it crosses processes, and small: it grows with processes, topics and kinds, not with rows.
    `checkers.engine.ranges` makes splits.
    """

    columns: tuple[str, ...]  # of the operations that `partial` reads; empty: all columns
    partial: Callable[[pl.DataFrame, pl.DataFrame, Facts], bytes]  # the narrowed rows of one range, sorted
    merge: Callable[[Sequence[bytes], Facts, tuple[Cut, ...]], Findings]


class Checker(Struct, frozen=True, kw_only=True):
    """A checker: its claim, the rows it reads, and its function. A group without the row kinds in `needs` is unchecked."""

    name: str
    claim: str
    assumes: str
    blind: str  # what it cannot see
    reports: tuple[Kind, ...]
    group_by: tuple[str, ...]
    operations: tuple[str, ...] = ()  # the `f`s it reads
    events: tuple[EventKind, ...] = ()  # the kinds it reads
    needs: tuple[EventKind, ...] = ()
    phase: Literal["ledger", "others"] = "others"
    across_topics: bool = False  # judges all topics of one name together instead of one by one
    of_the_living: bool = False  # skips deleted topics
    complexity: str = "n log n in the rows of the group: sorted once, then one pass"
    check: Check
    split: Split | None = None  # of a checker of the whole run; a group of rows of one partition is judged as it is
    screen: Screen | None = None  # proves that `check` finds nothing in the operations of a partition
    tied: tuple[EventKind, ...] = ()  # events that `check` judges together with operations: their partitions need the walk
    tied_if_named: tuple[EventKind, ...] = ()  # the same, only where the event names the partition; the screen knows the others

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of the anomalies it may report."""
        return tuple(kind.name for kind in self.reports if kind.is_anomaly)


class Group:
    """The rows that one checker call judges, usually one partition; rows of topics that shared a name are kept apart."""

    def __init__(self, operations: pl.DataFrame, events: pl.DataFrame) -> None:
        self.operations = operations
        self.events = events

    @cached_property
    def lives(self) -> list[Life]:
        """The topics (by topic id) that the rows are about, oldest first."""
        return lives(self.operations, self.events)


def groups(operations: pl.DataFrame, events: pl.DataFrame, group_by: tuple[str, ...]) -> list[Group]:
    """Divide a history into groups, sorted by name. A row without a value in the group columns goes into every group."""
    if not group_by:
        return [Group(operations.sort("index", "slot"), events.sort("index"))]
    by_operations, all_operations = divided(operations, group_by, ("index", "slot"))
    by_events, all_events = divided(events, group_by, ("index",))
    keys = sorted(by_operations.keys() | by_events.keys(), key=str)
    return [Group(by_operations.get(key, all_operations), by_events.get(key, all_events)) for key in keys]


def divided(
    frame: pl.DataFrame, group_by: tuple[str, ...], order: tuple[str, ...]
) -> tuple[dict[tuple[object, ...], pl.DataFrame], pl.DataFrame]:
    """Divide a frame into groups by these columns, each with the rows that belong to every group; return those alone, too."""
    everywhere = pl.all_horizontal([pl.col(column).is_null() for column in group_by])
    shared = frame.filter(everywhere)
    parts = frame.filter(~everywhere).partition_by(group_by, as_dict=True)
    groups = {key: pl.concat([parts[key], shared]).sort(order) for key in sorted(parts, key=str)}
    return groups, shared


def _where(frame: pl.DataFrame, wanted: pl.Expr) -> pl.DataFrame:
    # A query costs its overhead on an empty frame, too, and many groups have no events.
    return frame.filter(wanted) if frame.height else frame


def narrow(checker: Checker, operations: pl.DataFrame, events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows of a group whose event kinds and operations the checker declares."""
    kinds = [str(kind) for kind in checker.events]
    return (
        _where(operations, pl.col("f").is_in(checker.operations)) if checker.operations else operations.clear(),
        _where(events, pl.col("kind").is_in(kinds)) if kinds else events.clear(),
    )


def apply(checker: Checker, group: Group, facts: Facts, cuts: Iterable[Cut] = ()) -> Findings:
    """Run one checker on one group; on a partition whose name several topics had, once for each topic."""
    if checker.group_by != PARTITION or checker.across_topics:
        return _apply(checker, group.operations, group.events, facts, tuple(cuts))
    found = []
    for life in group.lives:
        if life.deleted and (checker.of_the_living or lacking(checker, kinds_in(life.events))):
            continue
        mine = tuple(cut for cut in cuts if cut.topic_id == life.topic_id)
        findings = _apply(checker, life.operations, life.events, facts, mine)
        found.append(replace(findings, cuts=tuple(replace(cut, topic_id=life.topic_id) for cut in findings.cuts)))
    return found[0] if len(found) == 1 else joined(found)


def _apply(checker: Checker, operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Run the check, or report the group as unchecked if rows that the checker needs are missing."""
    lacks = lacking(checker, kinds_in(events))
    if lacks:
        return unchecked(checker, lacks, group_name(checker.group_by, operations, events))
    return condensed(checker.check(*narrow(checker, operations, events), facts, cuts))


def kinds_in(events: pl.DataFrame) -> set[str]:
    """The kinds of these events."""
    return set(events["kind"].unique().to_list())


def lacking(checker: Checker, kinds: set[str]) -> list[str]:
    """The kinds of events that the checker needs and that a group with events of these kinds lacks."""
    return [str(kind) for kind in checker.needs if kind not in kinds]


def unchecked(checker: Checker, lacks: Sequence[str], where: str) -> Findings:
    """Report the group of this name as unchecked, because it lacks these kinds of events."""
    return Findings(unchecked=(f"{checker.name}: no {', '.join(lacks)} rows{f' of {where}' if where else ''}",))


def condensed(findings: Findings, *, more: int = 0) -> Findings:
    """Keep the first `ANOMALIES_MAX` anomalies of each kind; the last one says how many were left out.

    One mistake often leaves many traces. A checker of one kind that left some out by itself gives their number as `more`.
    """
    kept: list[Anomaly] = []
    by_kind: dict[str, list[Anomaly]] = {}
    for found in sorted(findings.anomalies, key=lambda found: found.witness):
        by_kind.setdefault(found.kind, []).append(found)
    for kind in sorted(by_kind):
        first, others = by_kind[kind][:ANOMALIES_MAX], len(by_kind[kind]) - ANOMALIES_MAX + more
        if others > 0:
            first[-1] = replace(first[-1], words=f"{first[-1].words}{more_of_kind(others)}")
        kept.extend(first)
    return replace(findings, anomalies=tuple(kept))


def partition_of(operations: pl.DataFrame, events: pl.DataFrame) -> tuple[str, int]:
    """Return the topic and partition of a group's rows; ("", -1) if all its rows concern nodes."""
    for frame in (operations, events):
        about = frame.head(1)
        if about.height and about["partition"][0] is None:
            about = frame.filter(pl.col("partition").is_not_null()).head(1)
        if about.height:
            return str(about["topic"][0]), int(about["partition"][0])
    return "", -1


def group_name(group_by: tuple[str, ...], operations: pl.DataFrame, events: pl.DataFrame) -> str:
    """Name a group for messages: "orders-0" for a partition, "" for the whole run."""
    if group_by != PARTITION:
        return ""
    topic, partition = partition_of(operations, events)
    return f"{topic}-{partition}"


def promised(facts: Facts, topic: str) -> TopicPromise | None:
    """Return what a run promises for a topic; None if its promise omits it, which `checkers.validity.assumptions` reports."""
    return next((record for record in facts.promise.topics if record.topic == topic), None)


def cuts_of(cuts: Iterable[Cut], topic: str, partition: int) -> tuple[Cut, ...]:
    """Return the cuts (splits by excused losses) of one partition, sorted by leader epoch."""
    return tuple(sorted((c for c in cuts if c.topic == topic and c.partition == partition), key=lambda c: c.leader_epoch))
