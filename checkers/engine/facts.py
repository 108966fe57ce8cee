"""The facts of a run that checkers may know besides its rows: a part of the manifest, and which rows are complete."""

import polars as pl
from msgspec import Struct

from history.event import EventKind as K
from history.manifest import RECORDED, SOURCES, Assignment, FaultCount, Outcome, RunManifest, Source
from history.promise import Promise, TopicPromise

MS = 1_000_000  # ns
PROMPT_MS = 1000  # LIVE-8: twice what the slowest request took in 150 seeds of every fault


class Facts(Struct, frozen=True, kw_only=True):
    """The part of a run's manifest that a checker may use. Times are in ns; None if the run ended before that time."""

    promise: Promise
    brokers: tuple[str, ...]  # but those that left the cluster for good
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
    makes_final_reads: bool = True  # False: the history says that it has none, and all reads are judged in their place
    recorded: bool = False  # by another program: nobody knows which faults there were
    observes: tuple[Source, ...] = SOURCES  # which rows the system under test gives completely


def facts_of(manifest: RunManifest) -> Facts:
    """Return the part of a run's manifest that checkers may use."""
    return Facts(
        promise=manifest.promise,
        brokers=tuple(broker for broker in manifest.brokers if broker not in (manifest.decommissioned or ())),
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
        makes_final_reads=manifest.makes_final_reads,
        recorded=manifest.backend == RECORDED,
        observes=SOURCES if manifest.system is None else manifest.system.observes,
    )


def recovery_deadline_ns(facts: Facts) -> int | None:
    """Return the time by which the cluster must be whole again: the bound B after healing, in ns.

    None if the run did not complete or ended before that time.
    """
    if facts.healed_at_ns is None or facts.outcome != "completed":
        return None
    deadline = facts.healed_at_ns + facts.promise.bound_ms * MS
    return deadline if facts.end_ns >= deadline else None


def is_final(facts: Facts, invoked_ns: int) -> bool:
    """Whether a call that was made at this time is one of the final readers, which begin after the quiet time."""
    return facts.final_reads_at_ns is not None and invoked_ns >= facts.final_reads_at_ns


def promised(facts: Facts, topic: str) -> TopicPromise | None:
    """Return what a run promises for a topic; None if its promise omits it, which `checkers.validity.assumptions` reports."""
    return next((record for record in facts.promise.topics if record.topic == topic), None)


def is_compacted(facts: Facts, topic: str) -> bool:
    """Whether a topic keeps the last record of each key only: others may be gone (docs/promise.md DUR-9)."""
    record = promised(facts, topic)
    return record is not None and record.keeps == "last-of-key"


_COORDINATION = (
    K.REGISTERED,
    K.SESSION_ENDED,
    K.STATE_WRITTEN,
    K.ASSIGNED,
    K.TOPIC_DELETED,
    K.UNCLEAN_ELECTION_ORDERED,
    K.CONFIGURED,
    K.ZK_STATE,
)
# What the harness records itself, whatever the system.
_HARNESS = (
    K.NODE_STARTED,
    K.NODE_STOPPED,
    K.WOUND,
    K.FAULT_BEGUN,
    K.FAULT_ENDED,
    K.FAULT_ACTED,
    K.FAULT_PROBED,
    K.HEALED,
    K.FINAL_READS,
    K.METADATA_VIEW,
    K.METADATA_TOLD,
)


def source_of(kind: K) -> Source | None:
    """The source that rows of this kind come from; None for the harness itself."""
    if kind in _HARNESS:
        return None
    if kind in (K.LOG_ON_DISK, K.RECORD_ON_DISK):
        return "disks"
    return "coordination" if kind in _COORDINATION else "notes"


def observed(facts: Facts) -> tuple[K, ...]:
    """The kinds of rows that are complete in a run: the harness's own, and those of the sources that its system gives."""
    return tuple(kind for kind in K if source_of(kind) is None or source_of(kind) in facts.observes)


def complete(events: pl.DataFrame, facts: Facts) -> pl.DataFrame:
    """The events of the sources that the run's system gives completely."""
    if facts.observes == SOURCES:
        return events
    return events.filter(pl.col("kind").is_in([str(kind) for kind in observed(facts)]))
