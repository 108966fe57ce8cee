"""The columns of the two tables of a history, each with its type and its meaning.

`history.op.Operation` and `history.event.ClusterEvent` are the same tables as rows; a test compares the two. All integers are 64
bits wide, so that frames join without casts. A column that the Struct omits at its default is null in Parquet and absent in
JSONL. Only `slot` has a default that is not null.
"""

from typing import Literal

from msgspec import Struct

from history.manifest import READ_VERSIONS

TableName = Literal["operations", "events"]
ColumnType = Literal["int", "text", "texts", "ints"]


class Column(Struct, frozen=True, kw_only=True):
    """One column of a history's table. `required` columns are never null; `words` is its meaning in the generated document."""

    name: str
    type: ColumnType
    required: bool
    words: str
    since: int  # the first schema version that has the column


def _required_column(name: str, type: ColumnType, words: str) -> Column:
    return Column(name=name, type=type, required=True, words=words, since=1)


def _optional(name: str, type: ColumnType, words: str, *, since: int = 1) -> Column:
    return Column(name=name, type=type, required=False, words=words, since=since)


OPERATIONS = (
    _required_column("index", "int", "position in the order of recording; rows of one invocation or of one completion share it"),
    _required_column("slot", "int", "position of the record within the operation, from 0"),
    _required_column("process", "int", "the client process; it has one operation open at a time"),
    _required_column("type", "text", "`invoke`, `ok` (certainly done), `fail` (certainly not done), `info` (perhaps done)"),
    _required_column(
        "f",
        "text",
        "`produce`, `send` (an asynchronous producer hands records over: `ok` promises nothing), `log` (it writes into its log "
        "that it gives records up), `poll`, `latest` (the end offset a consumer may read to), `earliest`, `commit` and "
        "`committed` (a consumer group, named by `value`, commits the position `offset` or asks for it), `txn` (a transaction; "
        "`value` has its micro-operations as JSON: checkers/clients/transactions.py), `process` and `read-committed` (records "
        "and their results in transactions; `value` is JSON: checkers/clients/exactly_once.py), `init-transactions`, `txn-send`, "
        "`txn-commit` and `txn-abort` (steps of a producer; `value` is JSON: checkers/clients/zombies.py), `group-poll`, "
        "`group-leave`, `group-abandon` and `group-positions` (of a member of a group; `value` is JSON: "
        "checkers/clients/group_delivery.py and auto_commit.py), `share-poll`, "
        "`share-acknowledge`, `share-leave` and `share-abandon` (of a member of a share group; `value` is JSON: "
        "checkers/clients/share_groups.py); of an administrator "
        "`create-topic`, `delete-topic`, `add-partition`, `remove-partition`, `elect-preferred`, `elect-unclean`, `reassign`, "
        "`reassign-extra`, `reassign-request`, `cancel-reassignments`, `allow-reassignments`, `depose-controller`, `edit-znode` "
        "(a znode is created, overwritten or deleted by hand), `alter-config` (settings of a topic) and `admin-pending` (which "
        "requests are pending under /admin, or moves under way)",
    ),
    _optional("topic", "text", "name of the topic"),
    _optional("topic_id", "text", "id of the topic; a topic that is created again under its name has another id"),
    _optional("partition", "int", "partition of the topic"),
    _optional("value", "text", "value of the record; of an administrator the argument of the request"),
    _optional(
        "offset",
        "int",
        "invoke of a poll: position asked for; ok: offset of the record; ok of latest: the end offset; of commits: the position",
    ),
    _optional("acks", "int", "produce: 0, 1 or -1 (all)"),
    _optional("delivery", "text", "produce: `once` if the producer is idempotent"),
    _optional("attempts", "int", "completion of a produce: number of times it was sent"),
    _optional("leader_epoch", "int", "leader epoch stated by the answering leader"),
    _optional("hw", "int", "high watermark field of a fetch response: a hint"),
    _optional(
        "error",
        "text",
        "why it failed, or its outcome is unknown; of a wrong invocation: the error it deserves; of a log: why it gives up",
    ),
    _optional("node", "text", "the broker that was asked or that answered"),
    _required_column("time_ns", "int", "nanoseconds since the start of the run"),
)

EVENTS = (
    _required_column("index", "int", "position in the order of recording, counted together with the operations"),
    _required_column("kind", "text", "what happened, see below"),
    _required_column("time_ns", "int", "nanoseconds since the start of the run"),
    _optional("node", "text", "broker that the event is about"),
    _optional("life", "int", "number of this process among the processes of the node, from 1"),
    _optional("broker", "text", "broker that the controller `node` has information about", since=2),
    _optional("incarnation", "int", "czxid of the registration in ZooKeeper, of `broker` if that is given, else of `node`"),
    _optional("topic", "text", "name of the topic"),
    _optional("topic_id", "text", "id of the topic"),
    _optional("partition", "int", "partition of the topic"),
    _optional("leader", "text", "leader of the partition"),
    _optional("leader_epoch", "int", "leader epoch; of an append: the epoch of the record"),
    _optional("controller_epoch", "int", "controller epoch"),
    _optional("zk_version", "int", "version of the partition's state znode"),
    _optional("isr", "texts", "in-sync replicas"),
    _optional("stamps", "ints", "incarnations under which the members of `isr` joined it, in the same order"),
    _optional("elr", "texts", "eligible leader replicas: the last ISR that had min.insync.replicas members"),
    _optional("replicas", "texts", "assigned replicas, preferred replica first"),
    _optional("hw", "int", "high watermark"),
    _optional("leo", "int", "log end offset"),
    _optional("offset", "int", "offset the event is about; of a wound: the first one destroyed"),
    _optional("count", "int", "how often a fault took effect", since=2),
    _optional("gauge", "int", "value of a metric", since=2),
    _optional("value", "text", "value of an appended record"),
    _optional("digest", "text", "digest of the records of a log", since=2),
    _optional("dir", "int", "log directory of the node, from 0"),
    _optional("fault", "text", "id of the window of the schedule"),
    _optional("detail", "text", "further text, see the kind"),
)

TABLES: tuple[tuple[TableName, tuple[Column, ...]], ...] = (("operations", OPERATIONS), ("events", EVENTS))


def columns_of(table: TableName) -> tuple[Column, ...]:
    """The columns of a history's table ("operations" or "events"), in order."""
    return OPERATIONS if table == "operations" else EVENTS


def unread_version(stated: object) -> str:
    """Say in an error message that a history has a schema version that this program does not read."""
    return f"schema version {stated}; this highwater reads {' and '.join(map(str, READ_VERSIONS))}"
