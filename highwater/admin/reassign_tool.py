"""The commands of `highwater admin reassign` (KIP-236, after kafka-reassign-partitions.sh).

Each command is a generator: it yields ZooKeeper requests, is sent their replies, and returns the lines to print. So the same
commands run against a real server and against the model. Invalid requests raise UsageError before anything is written. A command
writes one multi, which checks the version of every znode that it read its assignment from.

Proposal B (C-19) has neither the extra znode nor a cancellation: every move is a request, and a move is cancelled by executing
the file that --execute printed (R-247). ZooKeeper does not show which proposal a cluster implements.
"""

from collections.abc import Generator

import msgspec
from msgspec import Struct

from highwater.errors import UsageError
from reference.client.commands import placed
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import (
    REASSIGN,
    REASSIGN_CANCEL,
    REASSIGN_EXTRA,
    REQUEST,
    REQUESTS,
    Reassignment,
    Reassignments,
)
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Check,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    GetChildren,
    GetData,
    NodeExists,
)
from reference.coordination.reassignment_requests import Request, decode_entry, decode_request, request_payload
from reference.types import BrokerId, TopicPartition, index_of, topic_of

PAYLOAD_BYTES_MAX = 0xFFFFF  # ZooKeeper refuses a znode of 1 MB (jute.maxbuffer)


class Ask(Struct, frozen=True):
    """ZooKeeper operations that a command asks its caller to perform; `atomic`: as one multi."""

    ops: tuple[AnyOp, ...]
    atomic: bool = False


Command = Generator[Ask, tuple[AnyAnswer, ...], tuple[str, ...]]
Assignments = dict[TopicPartition, tuple[BrokerId, ...]]


class _Row(Struct, forbid_unknown_fields=True, omit_defaults=True):
    topic: str
    partition: int
    replicas: list[int]
    log_dirs: list[str] = []  # written by newer tools; ignored
    original_replicas: list[int] = []  # in files that were copied from the znode; ignored


class _File(Struct):
    version: int
    partitions: list[_Row]


def entries_of(text: bytes, source: str) -> Reassignments:
    """Parse the JSON file with the reassignments. UsageError with the first mistake."""
    try:
        rows = msgspec.json.decode(text, type=_File).partitions
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{source}: {error}") from None
    entries: Reassignments = {}
    for row in rows:
        tp = TopicPartition(f"{row.topic}-{row.partition}")
        if tp in entries:
            raise UsageError(f"{source}: {tp} is listed twice")
        if not row.replicas or len(set(row.replicas)) < len(row.replicas):
            raise UsageError(f"{source}: the replicas of {tp} must be one or more different brokers, not {row.replicas}")
        if row.partition < 0 or min(row.replicas) < 0:
            raise UsageError(f"{source}: partition and replicas must not be negative: {row.topic}-{row.partition} {row.replicas}")
        entries[tp] = Reassignment(tuple(BrokerId(b) for b in row.replicas))
    if not entries:
        raise UsageError(f"{source}: no partition is listed")
    return entries


def generate(topics: tuple[str, ...], brokers: tuple[BrokerId, ...]) -> Command:
    """Propose replicas for the partitions of these topics on these brokers; an empty tuple means all topics or brokers."""
    names = topics or (yield from _children(paths.TOPICS))
    live = tuple(sorted(BrokerId(int(name)) for name in (yield from _children(paths.BROKER_IDS))))
    chosen = brokers or live
    missing = [b for b in chosen if b not in live]
    if missing or not chosen:
        raise UsageError(f"brokers {_row(tuple(missing))} are not registered" if missing else "no broker is registered")
    current = yield from _before_moves((yield from _assignments(names))[0])
    wide = next((tp for tp, replicas in current.items() if len(replicas) > len(chosen)), None)
    if wide is not None:
        raise UsageError(f"{wide} has {len(current[wide])} replicas, more than the {len(chosen)} chosen brokers")
    proposed = {tp: _spread(index_of(tp), len(replicas), chosen) for tp, replicas in current.items()}
    return (
        "Current partition replica assignment",
        _json(current),
        "",
        "Proposed partition reassignment configuration",
        _json(proposed),
    )


def _spread(index: int, count: int, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """R-132: the replicas of partition `index`, placed as those of a new topic are."""
    return placed(brokers, partitions=index + 1, replication_factor=count)[index]


def execute(entries: Reassignments) -> Command:
    """Create /admin/reassign_partitions (R-148), with the present replicas as `original_replicas` (R-232)."""
    yield from _not_cancelled()
    current, checks = yield from _ready_to_move(entries)
    (pending,) = yield Ask((GetData(REASSIGN),))
    if isinstance(pending, Data):
        raise UsageError("There is an existing assignment running; --execute-extra adds to it, --cancel rolls it back.")
    payload = admin_paths.reassignments_payload({tp: Reassignment(e.replicas, current[tp]) for tp, e in entries.items()})
    yield from _create((*checks, Create(REASSIGN, _fitting(payload))))
    return (*_lines_saved(current), "Successfully started reassignment of partitions.")


def execute_extra(entries: Reassignments) -> Command:
    """R-231: create /admin/reassign_partitions_extra, also for partitions that are being moved (R-243)."""
    yield from _not_cancelled()
    current, checks = yield from _ready_to_move(entries)
    (waiting,) = yield Ask((GetData(REASSIGN_EXTRA),))
    if isinstance(waiting, Data):
        raise UsageError(
            f"{REASSIGN_EXTRA} exists: the controller has not yet read the previous extra reassignment; try again later"
        )
    before = yield from _before_moves(current)
    yield from _create((*checks, Create(REASSIGN_EXTRA, _fitting(admin_paths.reassignments_payload(entries)))))
    return (*_lines_saved(before), "Successfully submitted extra reassignment of partitions.")


def request(entries: Reassignments) -> Command:
    """R-245: create /admin/reassignment_requests/request_NNN, also for partitions that are being moved (R-247)."""
    current, checks = yield from _ready_to_move(entries)
    before = yield from _before_moves(current)
    payload = request_payload(Request({tp: entry.replicas for tp, entry in entries.items()}))
    path = yield from _create((*checks, Create(REQUEST, _fitting(payload), sequential=True)), above=(REQUESTS,))
    return (*_lines_saved(before), f"Successfully submitted {path}.")


def verify_requests(entries: Reassignments) -> Command:
    """The status of each move in the reassignment file, for a cluster with proposal B of KIP-236.

    R-249: exactly the moves in flight have a znode.
    """
    names = yield from _children(REQUESTS)
    requests = (yield Ask(tuple(GetData(f"{REQUESTS}/{name}") for name in names))) if names else ()
    waiting = {tp for answer in requests if isinstance(answer, Data) for tp in decode_request(answer.data).replicas}
    in_flight = yield Ask(tuple(GetData(admin_paths.reassignment_path(tp)) for tp in entries))
    pending = {tp for tp, answer in zip(entries, in_flight, strict=True) if isinstance(answer, Data)}
    assigned, _ = yield from _assignments(tuple(sorted({topic_of(tp) for tp in entries})), missing_is_none=True)
    return _status_lines(entries, assigned, {REQUESTS: waiting}, pending)


def _not_cancelled() -> Generator[Ask, tuple[AnyAnswer, ...], None]:
    (cancel,) = yield Ask((GetData(REASSIGN_CANCEL),))
    if isinstance(cancel, Data):
        raise UsageError(f"{REASSIGN_CANCEL} exists: no new reassignment can be submitted before --remove-cancel")


def _ready_to_move(entries: Reassignments) -> Generator[Ask, tuple[AnyAnswer, ...], tuple[Assignments, tuple[AnyOp, ...]]]:
    """The present replicas of these partitions, and the checks that they have not changed when the multi is written."""
    live = {BrokerId(int(name)) for name in (yield from _children(paths.BROKER_IDS))}
    unknown = sorted({b for entry in entries.values() for b in entry.replicas} - live)
    if unknown:
        raise UsageError(f"brokers {_row(tuple(unknown))} are not registered")
    assigned, checks = yield from _assignments(tuple(sorted({topic_of(tp) for tp in entries})))
    unknown_partition = next((tp for tp in entries if tp not in assigned), None)
    if unknown_partition is not None:
        raise UsageError(f"{unknown_partition} does not exist")
    return {tp: assigned[tp] for tp in entries}, checks


def _before_moves(assigned: Assignments) -> Generator[Ask, tuple[AnyAnswer, ...], Assignments]:
    """R-247, C-20: the replicas to return to. While a partition moves, AR is OAR + RAR and its entry holds OAR.

    Call this after AR was read: if the move ends meanwhile, the topic znode has another version.
    """
    pending, *in_flight = yield Ask((GetData(REASSIGN), *(GetData(admin_paths.reassignment_path(tp)) for tp in assigned)))
    entries = admin_paths.decode_reassignments(pending.data)[0] if isinstance(pending, Data) else {}
    for tp, answer in zip(assigned, in_flight, strict=True):
        entry = decode_entry(answer.data) if isinstance(answer, Data) else None
        if entry is not None:
            entries[tp] = entry
    return {tp: (entries[tp].original if tp in entries else ()) or replicas for tp, replicas in assigned.items()}


def verify(entries: Reassignments) -> Command:
    """The status of each move in the reassignment file, for --verify and --verify-extra."""
    pending = yield from _pending(REASSIGN)
    waiting = yield from _pending(REASSIGN_EXTRA)
    assigned, _ = yield from _assignments(tuple(sorted({topic_of(tp) for tp in entries})), missing_is_none=True)
    return _status_lines(entries, assigned, {REASSIGN_EXTRA: set(waiting)}, set(pending))


def _status_lines(
    entries: Reassignments, assigned: Assignments, waiting: dict[str, set[TopicPartition]], pending: set[TopicPartition]
) -> tuple[str, ...]:
    """A line for each partition: waiting, in progress, done or failed."""
    lines = ["Status of partition reassignment:"]
    for tp, entry in sorted(entries.items()):
        place = next((path for path, tps in waiting.items() if tp in tps), None)
        if place is not None:
            lines.append(f"Reassignment of partition {tp} is waiting in {place}")
        elif tp in pending:
            lines.append(f"Reassignment of partition {tp} is still in progress")
        elif assigned.get(tp) == entry.replicas:
            lines.append(f"Reassignment of partition {tp} completed successfully")
        else:
            lines.append(f"Reassignment of partition {tp} failed")
    return tuple(lines)


def cancel() -> Command:
    """R-233, R-241: create /admin/reassign_cancel, which rolls back all pending reassignments; R-239: and lets none begin."""
    pending = yield from _pending(REASSIGN)
    waiting = yield from _pending(REASSIGN_EXTRA)
    if not pending and not waiting:
        raise UsageError("no reassignment is in progress")
    (answer,) = yield Ask((Create(REASSIGN_CANCEL, b""),))
    if not isinstance(answer, Created):
        raise UsageError(f"{REASSIGN_CANCEL} exists already; --remove-cancel removes it")
    return (
        f"Rolling back the current pending reassignments {scala_map(pending)}",
        "Successfully submitted cancellation of reassignments.",
        *(f"Reassignment of partition {tp} waits in {REASSIGN_EXTRA} until --remove-cancel" for tp in sorted(waiting)),
    )


def remove_cancel() -> Command:
    """R-239, R-241: delete /admin/reassign_cancel.

    R-244: refused while moves are still pending, because without the znode they would go on to their new replicas.
    """
    pending = yield from _pending(REASSIGN)
    (cancelled,) = yield Ask((GetData(REASSIGN_CANCEL),))
    if pending and isinstance(cancelled, Data):
        raise UsageError(
            f"reassignments are still being rolled back ({len(pending)}, first {min(pending)}); without {REASSIGN_CANCEL} they "
            "would go on to their new replicas; try again later"
        )
    (answer,) = yield Ask((Delete(REASSIGN_CANCEL),))
    if not isinstance(answer, Deleted):
        raise UsageError(f"{REASSIGN_CANCEL} does not exist")
    return (f"Successfully remove the znode {REASSIGN_CANCEL}.",)


def scala_map(entries: Reassignments) -> str:
    """Format replicas as Kafka's tool prints them (R-241): Map(t-0 -> Map(replicas -> Buffer(4, 5), …))."""
    rows = [
        f"{tp} -> Map(replicas -> Buffer({_row(entry.replicas)}), original_replicas -> Buffer({_row(entry.original)}))"
        for tp, entry in sorted(entries.items())
    ]
    return f"Map({', '.join(rows)})"


def _children(path: str) -> Generator[Ask, tuple[AnyAnswer, ...], tuple[str, ...]]:
    (answer,) = yield Ask((GetChildren(path),))
    return answer.names if isinstance(answer, Children) else ()


def _pending(path: str) -> Generator[Ask, tuple[AnyAnswer, ...], Reassignments]:
    (answer,) = yield Ask((GetData(path),))
    return admin_paths.decode_reassignments(answer.data)[0] if isinstance(answer, Data) else {}


def _assignments(
    topics: tuple[str, ...], *, missing_is_none: bool = False
) -> Generator[Ask, tuple[AnyAnswer, ...], tuple[Assignments, tuple[AnyOp, ...]]]:
    """The assigned replicas of all partitions of these topics, and for each topic a check of its znode's version."""
    assignments: Assignments = {}
    checks: list[AnyOp] = []
    answers = (yield Ask(tuple(GetData(paths.topic_path(topic)) for topic in topics))) if topics else ()
    for topic, answer in zip(topics, answers, strict=True):
        if isinstance(answer, Data):
            assignments.update(paths.decode_topic(topic, answer.data))
            checks.append(Check(paths.topic_path(topic), answer.version))
        elif not missing_is_none:
            raise UsageError(f"topic {topic} does not exist")
    return assignments, tuple(checks)


def _create(ops: tuple[AnyOp, ...], *, above: tuple[str, ...] = ()) -> Generator[Ask, tuple[AnyAnswer, ...], str]:
    """Perform these operations, of which the last creates a znode, as one multi; the path of that znode.

    `above`: parents to create first. Raises UsageError if ZooKeeper refuses the multi: it has written nothing then.
    """
    yield Ask(tuple(Create(path, b"") for path in ("/admin", *above)))  # may exist already
    answers = yield Ask(ops, atomic=True)
    if isinstance(answers[-1], NodeExists):
        raise UsageError("another administrator was faster and the znode exists; nothing was written, try again")
    if not isinstance(answers[-1], Created):
        raise UsageError("the assignment changed after it was read from ZooKeeper; nothing was written, try again")
    return answers[-1].path


def _fitting(payload: bytes) -> bytes:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise UsageError(f"the reassignment has {len(payload)} bytes, a znode at most {PAYLOAD_BYTES_MAX}; reassign in batches")
    return payload


def _lines_saved(current: Assignments) -> tuple[str, ...]:
    use = "Save this to use as the --execute FILE during rollback"
    return ("Current partition replica assignment", "", _json(current), "", use)


def _json(assignments: Assignments) -> str:
    return admin_paths.reassignments_payload({tp: Reassignment(replicas) for tp, replicas in assignments.items()}).decode()


def _row(brokers: tuple[BrokerId, ...]) -> str:
    return ", ".join(map(str, brokers))
