"""The manifest of a run: where the run came from, what was promised to its clients, its outcome and its totals."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from history.promise import Promise

Outcome = Literal["completed", "interrupted", "incomplete", "harness-fault"]
Source = Literal["notes", "coordination", "disks"]  # of event rows: brokers' reports, ZooKeeper's commits, logs at the end
SOURCES: tuple[Source, ...] = ("notes", "coordination", "disks")
RECORDED = "recorded"  # the backend and run id of a history that another program recorded (history.foreign.recorded)
SCHEMA_VERSION = 2
READ_VERSIONS = (1, 2)  # history.versions upgrades the earlier ones


class Assignment(Struct, frozen=True, kw_only=True):
    """The replicas of one partition, preferred first."""

    topic: str
    partition: int
    replicas: tuple[str, ...]


class FaultCount(Struct, frozen=True, kw_only=True):
    """How often a kind of fault was begun, and how often it took effect."""

    kind: str
    begun: int
    acted: int


class MessageCount(Struct, frozen=True, kw_only=True):
    """How many messages of one kind were received by a process. For replies, those with this error."""

    kind: str
    error: str | None = None
    count: int


class SystemFacts(Struct, frozen=True, kw_only=True):
    """The system under test of a run, and the sources whose rows it gives completely.

    `files`: the SHA-256 of each file that was run, by name; empty where the harness chose none.
    """

    name: str
    version: str = ""
    files: dict[str, str] = {}
    observes: tuple[Source, ...] = ()


class StoredPart(Struct, frozen=True, kw_only=True):
    """A part of a history that is too large for one pair of tables: all rows of some partitions, or the rows without a partition.

    The part has its rows in operations/<name>.parquet and events/<name>.parquet.
    """

    name: str
    partitions: tuple[tuple[str | None, int | None], ...]  # sorted; empty for the rows without a partition
    operation_rows: int
    event_rows: int


class RunManifest(Struct, frozen=True, kw_only=True):
    """The facts about one run beside its rows: everything else that a checker may know. Checkers never see the plan."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    seed: int | None  # the seed that the plan was derived from; None for a plan written by hand
    derivation: int | None = None  # version of the derivation that gave this plan for the seed
    draws: int
    plan_digest: str
    protocol: str
    system: SystemFacts | None = None  # None: the reference, which gives all rows
    backend: str
    commit: str
    dirty: bool
    versions: dict[str, str]
    outcome: Outcome
    promise: Promise
    brokers: tuple[str, ...]
    decommissioned: tuple[str, ...] | UnsetType = UNSET  # those of the brokers that left the cluster for good
    assignments: tuple[Assignment, ...]
    client_places: tuple[str, ...] = ()  # "p1", … by number of the client, which a process number modulo their count gives
    required_marks: tuple[str, ...] = ()  # event kinds or "fault:<kind>" that must occur, else the run is vacuous
    min_acked: int = 1  # fewer acknowledged produces make the run vacuous
    log_dirs: int | None = None  # of each broker; None: not known
    client_timeout_ms: int | None = None  # of each request; None: not known
    client_retries: tuple[int, ...] = ()  # of a produce (message.send.max.retries), by number of the client
    healed_at_ns: int | None = None
    final_reads_at_ns: int | None = None
    makes_final_reads: bool = True  # False: a recorded history that says it has none
    end_ns: int = 0
    faults: tuple[FaultCount, ...] = ()
    messages: tuple[MessageCount, ...] = ()  # empty where the backend does not see messages
    digest: str = ""  # of the rows (history.digest); empty where it was not computed
    operation_rows: int | None = None  # rows in the stored table; None for a history that was not stored
    event_rows: int | None = None
    files: dict[str, str] = {}  # SHA-256 of each stored table file, by name; empty where the history was not stored
    parts: tuple[StoredPart, ...] = ()  # of a large history, which has no tables as a whole; the first: rows without a partition
    sim_seconds: float = 0.0
    wall_seconds: float = 0.0
    slowed: float | None = None  # after healing, work of the harness took so many times its CPU time; None: not measured
    earlier_runs: int | UnsetType = UNSET  # of the same cluster, which stood for several; runs beside each other are one
    beside: tuple[str, ...] | UnsetType = UNSET  # the plans that were performed on the cluster at the same time
    events_handled: int = 0
