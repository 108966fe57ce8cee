"""The interface between workload and backend: the operations that clients ask for, and the results that come back.

A workload process is sequential: it has one open invocation at a time, like Jepsen's. The backend performs the invocation,
retries a produce up to `retries` times, and records the invocation and its completion.
"""

from typing import Literal, Protocol

from msgspec import Struct

from history.op import OpType

# The defect of a deliberately wrong produce, as the client that performs it names it
Misuse = Literal["", "gap", "behind", "epoch", "stranger"]
Phase = Literal["faults", "quiet", "audit", "final"]
ClientF = Literal["produce", "poll", "latest", "earliest"]
OwnF = Literal[
    "send", "log"
]  # of an asynchronous producer, within its own program (`workloads.asynchronous`): they always succeed
# One step of a transaction, of a producer whose transactional id others have, too
StepF = Literal["init-transactions", "txn-send", "txn-commit", "txn-abort"]
# Of a member of a consumer group, which dies without a word in "group-abandon"
GroupF = Literal["group-poll", "group-leave", "group-abandon", "group-positions"]
# Of a member of a share group
ShareF = Literal["share-poll", "share-acknowledge", "share-leave", "share-abandon"]
AcknowledgeType = Literal["accept", "release", "reject"]
# Of a transactional client, and of a member of a consumer group: both keep a session with the cluster between operations.
SessionF = Literal["txn", "commit", "committed", "process", "read-committed", GroupF, StepF, ShareF]
RequestF = Literal[
    "create-topic",
    "delete-topic",
    "add-partition",
    "remove-partition",
    "elect-preferred",
    "elect-unclean",
    "reassign",
    "reassign-extra",
    "reassign-request",
    "cancel-reassignments",
    "allow-reassignments",
    "depose-controller",
    "edit-znode",
    "alter-config",
]
AdminF = RequestF | Literal["admin-pending"]


class Edit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A znode edited by hand: deleted without `data`, else created; with `over` also overwritten where it exists."""

    path: str
    data: str | None = None
    over: bool = False


class Micro(Struct, frozen=True, kw_only=True):
    """One micro-operation of a transaction: the send of a value to a partition, or a poll, which has no value."""

    topic: str = ""
    partition: int = 0
    value: str | None = None


class Invocation(Struct, frozen=True, kw_only=True):
    """One operation of a client: a poll (`offset` is its position), a produce (`values`, `acks`, `retries` …), an admin command.

    `assignment` is of a topic to be made, or of one partition to be added or moved: replicas by partition, preferred first.
    """

    f: ClientF | OwnF | SessionF | AdminF
    topic: str = ""
    partition: int = 0
    values: tuple[str, ...] = ()
    acks: int = -1
    retries: int = 0
    idempotent: bool = False
    misuse: Misuse = ""
    deserves: str | None = None  # the error that must answer a produce that breaks a rule on purpose
    logged: str | None = None  # with f="log": the error with which the values were given up
    offset: int = 0
    max_records: int = 500
    assignment: tuple[tuple[int, ...], ...] = ()
    edit: Edit | None = None
    settings: tuple[tuple[str, str], ...] = ()  # of an alter-config: names and values
    micros: tuple[Micro, ...] = ()  # of a transaction
    aborts: bool = False  # the client aborts this transaction
    reads: tuple[tuple[str, int], ...] = ()  # the partitions that a transactional client or a member of a group reads
    writes: tuple[tuple[str, int], ...] = ()  # the partitions that the results of a `process` go to
    work_ms: int = 0  # between the results of a `process` and the positions
    group: str = ""
    commits: str = ""  # how the member commits without calls (`workloads.parameters.CommitsAfter`); "": it does not
    acknowledges: tuple[AcknowledgeType, ...] = ()  # of a share-acknowledge: for the records in turn, by partition and offset
    transactional_id: str = ""  # of a step; the sends of a txn-send are its micros


class PolledRecord(Struct, frozen=True, kw_only=True):
    """One record that a consumer's poll returned, as the workload sees it."""

    offset: int
    value: str
    leader_epoch: int


class Completion(Struct, frozen=True, kw_only=True):
    """The result of a client's operation; `type` (ok, fail, info) is decided by workloads.completion alone."""

    type: OpType  # ok | fail | info
    error: str | None = None
    offset: int | None = None  # produce: of the first value; latest, earliest: that offset
    leader_epoch: int | None = None
    hw: int | None = None
    node: str | None = None
    records: tuple[PolledRecord, ...] = ()
    positions: tuple[tuple[str, int, int], ...] = ()  # of a session: topic, partition and the position after the last record
    at_end: bool = False  # of a session's poll: every partition that the client has was read to its end
    found: tuple[str, ...] = ()  # admin-pending: the paths of the requests that are pending


class Sleep(Struct, frozen=True):
    """The client process has nothing to do for `ms`."""

    ms: int


class Done(Struct, frozen=True):
    """The client process has finished its part in this phase of the run."""


class Process(Protocol):
    """One sequential client process of a workload. Times are milliseconds since the start of the workload."""

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The client's next operation. After `Done` it is asked again in the next phase."""

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Report an operation's result to the client process; called once for each operation, before the next `next`."""
