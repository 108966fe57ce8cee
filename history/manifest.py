"""What stands beside a history: where it came from, what was promised, how the run ended."""

from typing import Literal

from msgspec import Struct

from history.promise import Promise

Outcome = Literal["completed", "interrupted", "incomplete", "harness-fault"]
SCHEMA_VERSION = 1


class Assignment(Struct, frozen=True, kw_only=True):
    """The replicas of one partition, preferred first."""

    topic: str
    partition: int
    replicas: tuple[str, ...]


class FaultCount(Struct, frozen=True, kw_only=True):
    """How often a kind of fault was begun, and how often it really bit."""

    kind: str
    begun: int
    acted: int


class MessageCount(Struct, frozen=True, kw_only=True):
    """How often messages of one kind reached a process; of answers, those with this error."""

    kind: str
    error: str | None = None
    count: int


class RunManifest(Struct, frozen=True, kw_only=True):
    """One run. Everything a checker may know beside the rows: it never sees the plan itself."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    seed: int | None  # the seed the plan was derived from, None for a plan by hand
    draws: int
    plan_digest: str
    protocol: str
    backend: str
    commit: str
    dirty: bool
    versions: dict[str, str]
    outcome: Outcome
    promise: Promise
    brokers: tuple[str, ...]
    assignments: tuple[Assignment, ...]
    required_marks: tuple[str, ...] = ()  # event kinds or "fault:<kind>" that must occur, else the run is vacuous
    min_acked: int = 1  # fewer acknowledged produces make the run vacuous
    healed_at_ns: int | None = None
    final_reads_at_ns: int | None = None
    end_ns: int = 0
    faults: tuple[FaultCount, ...] = ()
    messages: tuple[MessageCount, ...] = ()  # empty where the backend does not see them
    digest: str = ""  # of the rows, history.digest; empty where nobody has worked it out
    operation_rows: int | None = None  # of a stored run, in its tables; None elsewhere
    event_rows: int | None = None
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0
    events_handled: int = 0
