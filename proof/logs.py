"""Compares the checkers of replicated logs with their definitions on random histories of one partition.

Many partitions are judged together, as in one run, so that the separation of partitions is compared, too. A history of sessions
is a run of its own. Every second run uses the screens (`checkers.engine.screens`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET
from msgspec.structs import replace

from checkers.judge import judge
from checkers.observing import IN_PLACE_OF_NOTES
from checkers.registry import ALL
from history.event import ClusterEvent
from history.history import History
from history.op import Operation
from history.promise import Promise, TopicPromise
from history.seed import Rng
from proof.answers import drawn_answers
from proof.compaction import drawn_compaction
from proof.deleted_records import drawn_deleted_records
from proof.end_histories import drawn_cluster, drawn_end
from proof.final_reads import drawn_final_reads
from proof.group_histories import drawn_auto_commits, drawn_deliveries, drawn_sharing
from proof.handed_over import drawn_handed_over
from proof.lies import drawn_feuds, drawn_lies
from proof.liveness_histories import drawn_availability, drawn_progress, drawn_replacement
from proof.log_definitions import DEFINITIONS
from proof.log_histories import drawn_calls, drawn_commits, drawn_events, drawn_joins
from proof.log_rows import Case
from proof.manifests import manifest, promise
from proof.run_histories import (
    drawn_controllers,
    drawn_deletion,
    drawn_electorate,
    drawn_flushes,
    drawn_incarnations,
    drawn_producers,
    drawn_topics,
)
from proof.session_histories import drawn_processed, drawn_takeovers
from proof.session_rows import UNJUDGED
from proof.verdict_words import ROOM, Words, words
from proof.wound_histories import drawn_wounds

_TOGETHER = 500  # partitions in one history
_NEVER = 1 << 62
_MS = 1_000_000

DRAWERS: dict[str, Callable[[Rng], Case]] = {
    "operations": drawn_calls,
    "events": drawn_events,
    "joins": drawn_joins,
    "controllers": drawn_controllers,
    "topics": drawn_topics,
    "wounds": drawn_wounds,
    "lies": drawn_lies,
    "feuds": drawn_feuds,
    "incarnations": drawn_incarnations,
    "deletion": drawn_deletion,
    "electorates": drawn_electorate,
    "answers": drawn_answers,
    "flushes": drawn_flushes,
    "producers": drawn_producers,
    "progress": drawn_progress,
    "replacements": drawn_replacement,
    "commits": drawn_commits,
    "final-reads": drawn_final_reads,
    "deleted-records": drawn_deleted_records,
    "availability": drawn_availability,
    "ends": drawn_end,
    "clusters": drawn_cluster,
    "handed-over": drawn_handed_over,
    "processed": drawn_processed,
    "takeovers": drawn_takeovers,
    "sharing": drawn_sharing,
    "deliveries": drawn_deliveries,
    "auto-commits": drawn_auto_commits,
    "compacted": drawn_compaction,
}
ALONE = (
    "controllers",
    "incarnations",
    "electorates",
    "clusters",
    "processed",
    "takeovers",
    "sharing",
    "deliveries",
    "auto-commits",
    "compacted",
    "deleted-records",
)  # about the whole run: one history each


@dataclass(slots=True)
class Tally:
    """Counts of the histories on which a checker was compared with its definition, of anomalies by kind, and disagreements."""

    name: str
    total: int = 0
    good: int = 0
    undecided: int = 0  # of a whole run: nothing is wrong, and something could not be judged
    bad: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prove(what: str, count: int, part: int = 0) -> list[Tally]:
    """Compare the findings of each log checker in each partition with its definition.

    Each `part` uses other random histories, so that parts can run in parallel.
    """
    tallies = {name: Tally(name) for name in DEFINITIONS[what]}
    rng = Rng(part).fork(what)
    together = 1 if what in ALONE else _TOGETHER
    for round, done in enumerate(range(0, count, together)):
        cases = [DRAWERS[what](rng) for _ in range(min(together, count - done))]
        cases = [_in_the_run_of(cases[0], case) for case in cases]
        reported = _reported_words(cases, tuple(tallies), screened=round % 2 == 1)
        for number, case in enumerate(cases):
            for name, tally in tallies.items():
                unknown = reported.get((number, ""), set())
                _compare(tally, case, DEFINITIONS[what][name](case), reported.get((number, name), set()) | unknown)
    return list(tallies.values())


def _in_the_run_of(first: Case, case: Case) -> Case:
    """The case with what the manifest says once for all partitions of a run."""
    return case._replace(
        by_operator=first.by_operator, final_reads_at_ns=first.final_reads_at_ns, makes_final_reads=first.makes_final_reads
    )


def _compare(tally: Tally, case: Case, expected: set[str], reported: set[str]) -> None:
    """Count the case; note it if the judge and the definition disagree."""
    tally.total += 1
    tally.good += not expected
    tally.undecided += case.whole and expected == {UNJUDGED}
    tally.bad.update({word.partition(" ")[0] for word in expected})
    if reported != expected:
        tally.wrong.append(f"{tally.name} finds {reported}, the definition {expected}: {case}")


def _reported_words(cases: Sequence[Case], names: Sequence[str], *, screened: bool) -> Words:
    """What the checkers report of these cases, judged together as partitions of one run."""
    run_manifest = replace(
        manifest(_promise_of(cases), partitions=len(cases)), healed_at_ns=cases[0].healed_at_ns,
        final_reads_at_ns=cases[0].final_reads_at_ns, end_ns=cases[0].end_ns,
        makes_final_reads=cases[0].makes_final_reads, client_timeout_ms=cases[0].client_timeout_ms,
        backend="sim" if cases[0].simulated else "by-hand",
    )  # fmt: skip
    history = History(
        run_manifest,
        operations=[row for number, case in enumerate(cases) for row in _operations_of(case, number)],
        events=[row for number, case in enumerate(cases) for row in _events_of(case, number)],
    )
    # This one tells the judges of sessions which losses are excused.
    needed = (*names, "acked-loss") if cases[0].whole and cases[0].events else names
    checkers = tuple(checker for checker in (*ALL, *IN_PLACE_OF_NOTES) if checker.name in needed)
    return words(judge(history, checkers, screened_min=0 if screened else _NEVER))


def _topic(case: Case) -> str:
    return "t" if case.whole else f"t{case.m}{case.flush}"


def _promise_of(cases: Sequence[Case]) -> Promise:
    topics = {
        _topic(case): TopicPromise(
            topic=_topic(case),
            min_insync_replicas=case.m,
            flush=case.flush,
            keeps="last-of-key" if case.compacted else UNSET,
        )
        for case in cases
    }
    return replace(promise(by_operator=cases[0].by_operator), topics=tuple(topics[name] for name in sorted(topics)))


def _shift(case: Case, number: int) -> int:
    return 0 if case.healed_at_ns is not None else number * ROOM * 10 * _MS


def _operations_of(case: Case, number: int) -> list[Operation]:
    """The operations of a case as those of partition `number`."""
    if case.whole:
        return list(case.operations)
    base, topic = number * ROOM, _topic(case)
    at = _shift(case, number)
    return [
        replace(
            row, index=base + row.index, time_ns=at + row.time_ns, topic=topic, partition=number,
            process=ROOM * number + row.process,
        )
        for row in case.operations
    ]  # fmt: skip


def _events_of(case: Case, number: int) -> list[ClusterEvent]:
    """The events of a case as those of partition `number`."""
    if case.whole:
        return list(case.events)
    base, topic = number * ROOM, _topic(case)
    return [
        replace(row, index=base + row.index, time_ns=_shift(case, number) + row.time_ns, topic=topic, partition=number)
        for row in case.events
    ]
