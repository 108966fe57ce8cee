"""A checker: a claim, its assumptions, and a function from the rows of one group to its findings.

A checker sees rows and `Facts`, never the plan or the system under test. `apply` calls it for one group of rows (`groups`), which
holds only the kinds of events and the operations that the checker declares. Two phases: checkers of phase "ledger" run first;
their cuts are an input to all others (docs/promise.md CUT-1).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.anomalies import Kind
from checkers.engine.columns import Columns, Screened
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, Group, group_name
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings, joined, more_of_kind
from history.event import EventKind

# From the columns and the events that belong to every partition.
Screen = Callable[[Columns, Events, Facts], Screened]
Check = Callable[[Operations, Events, Facts, tuple[Cut, ...]], Findings]
ANOMALIES_MAX = 3  # of one kind, of one checker, of one group


class Split(Struct, frozen=True, kw_only=True):
    """How a checker of the whole run judges a large history: a state of each range of the index, merged in order.

    A state is bytes, because it crosses processes, and small: it grows with processes, topics and kinds, not with rows.
    `checkers.engine.splits` makes splits.
    """

    columns: tuple[str, ...]  # of the operations that `partial` reads; empty: all columns
    partial: Callable[[Operations, Events, Facts], bytes]  # the narrowed rows of one range, sorted
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


def narrow(checker: Checker, operations: Operations, events: Events) -> tuple[Operations, Events]:
    """Return the rows of a group whose event kinds and operations the checker declares."""
    return operations.of(*checker.operations), events.of(*checker.events)


def apply(checker: Checker, group: Group, facts: Facts, cuts: Iterable[Cut] = ()) -> Findings:
    """Run one checker on one group; on a partition whose name several topics had, once for each topic."""
    if checker.group_by != PARTITION or checker.across_topics:
        return _findings_of_group(checker, group.operations, group.events, facts, tuple(cuts))
    findings_found = []
    for life in group.lives:
        if life.deleted and (checker.of_the_living or lacking(checker, life.events.words)):
            continue
        cuts_of_life = tuple(cut for cut in cuts if cut.topic_id == life.topic_id)
        findings = _findings_of_group(checker, life.operations, life.events, facts, cuts_of_life)
        findings_found.append(replace(findings, cuts=tuple(replace(cut, topic_id=life.topic_id) for cut in findings.cuts)))
    return findings_found[0] if len(findings_found) == 1 else joined(findings_found)


def _findings_of_group(checker: Checker, operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Run the check, or report the group as unchecked if rows that the checker needs are missing."""
    lacks = lacking(checker, events.words)
    if lacks:
        return unchecked(checker, lacks, group_name(checker.group_by, operations, events))
    return condensed(checker.check(*narrow(checker, operations, events), facts, cuts))


def lacking(checker: Checker, kinds: Collection[str]) -> list[str]:
    """The kinds of events that the checker needs and that a group with events of these kinds lacks."""
    return [str(kind) for kind in checker.needs if kind not in kinds]


def unchecked(checker: Checker, lacks: Sequence[str], where: str) -> Findings:
    """Report the group of this name as unchecked, because it lacks these kinds of events."""
    return Findings(unchecked=(f"{checker.name}: no {', '.join(lacks)} rows{f' of {where}' if where else ''}",))


def condensed(findings: Findings, *, more: int = 0) -> Findings:
    """Keep the first `ANOMALIES_MAX` anomalies of each kind; the last one says how many were left out.

    One mistake often leaves many traces. A checker of one kind that left some out by itself gives their number as `more`.
    """
    anomalies: list[Anomaly] = []
    by_kind: dict[str, list[Anomaly]] = {}
    for anomaly in sorted(findings.anomalies, key=lambda anomaly: anomaly.witness):
        by_kind.setdefault(anomaly.kind, []).append(anomaly)
    for kind in sorted(by_kind):
        first = by_kind[kind][:ANOMALIES_MAX]
        others = len(by_kind[kind]) - ANOMALIES_MAX + more
        if others > 0:
            first[-1] = replace(first[-1], words=f"{first[-1].words}{more_of_kind(others)}")
        anomalies.extend(first)
    return replace(findings, anomalies=tuple(anomalies))


def cuts_of(cuts: Iterable[Cut], topic: str, partition: int) -> tuple[Cut, ...]:
    """Return the cuts (splits by excused losses) of one partition, sorted by leader epoch."""
    return tuple(sorted((c for c in cuts if c.topic == topic and c.partition == partition), key=lambda c: c.leader_epoch))
