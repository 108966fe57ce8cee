"""Operations: what clients asked and what they were told.

There is one row for each record, as in `history/schema.py`. An invocation of a produce with three values is three rows with one
`index` and slots 0, 1, 2; its completion is three rows with another index. A poll that returned nothing is one row without a
value. Indices come from one counter shared with the cluster events, so index order is the order of recording.
"""

from enum import StrEnum

from msgspec import Struct

# The `f` of an administrator's requests, which may have effects; "admin-pending" only lists them.
ADMIN_REQUESTS = (
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
)


class OpType(StrEnum):
    """Jepsen's four types: invoked, certainly done, certainly not done, perhaps done."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Operation(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One row of the table of operations: a client's invocation or its completion. Absent columns are None."""

    index: int
    slot: int = 0  # position of the record within the operation
    process: int
    type: OpType
    # "produce" | "send" and "log" (of an asynchronous producer, within its program) | "poll" | "latest" (the end offset to which
    # a consumer may read) | "earliest" | "commit" | "committed" (the position of the consumer group named by `value`) | "txn" |
    # "process" | "read-committed" | "init-transactions" | "txn-send" | "txn-commit" | "txn-abort" | "group-poll" | "group-leave"
    # | "group-abandon" | "group-positions" | "share-poll" | "share-acknowledge" | "share-leave" | "share-abandon" (values are
    # JSON) | those of administrators
    f: str
    topic: str | None = None
    topic_id: str | None = None
    partition: int | None = None
    value: str | None = None
    offset: int | None = None  # invoke of a poll: position asked for; ok: offset of this record (latest: end offset)
    acks: int | None = None  # produce: 0, 1, -1 (all)
    delivery: str | None = None  # produce: "once" where the producer is idempotent
    attempts: int | None = None  # completion of a produce: number of times it was sent
    leader_epoch: int | None = None  # as the answering leader stated it
    hw: int | None = None  # the high watermark field of a fetch response: a hint
    error: str | None = None
    node: str | None = None  # the broker that was asked or that answered
    time_ns: int
