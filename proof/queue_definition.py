"""Definitions of Jepsen's twenty anomalies of queues, computed over all operations of sends and polls, without state.

The log of a key maps each offset to the values shown by all polls, and by the sends of operations that must have happened.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations

from history.op import OpType
from proof.queue_histories import KEYS, Op, Polled

Ops = Sequence[Op]
Edges = set[tuple[Op, Op]]
_MOVES = ("assign", "subscribe", "crash")


def anomalies(ops: Ops) -> set[str]:
    """Return the anomaly kinds that the definition finds; allowed ones as "noted …", undecidable ones as "unchecked"."""
    kinds = set(_order_of_processes(ops)) | set(_cycles(ops))
    for key in KEYS:
        kinds |= set(_anomalies_of_writes(ops, key)) | set(_anomalies_of_reads(ops, key))
    if not any(op.type is OpType.OK and any(op.polls) for op in ops):
        kinds.add("unchecked")
    return kinds


def read(op: Op, key: int) -> list[Polled]:
    """Return the records of a key (partition) that the operation's polls returned, in order."""
    return [record for poll in op.polls for record in poll if record[0] == key]


def sent(op: Op, key: int) -> list[Polled]:
    """Return the records that the operation sent to a key (partition)."""
    return [record for record in op.sends if record[0] == key]


def readers(ops: Ops, key: int, value: int) -> list[Op]:
    """Return the successful operations that polled the value."""
    return [op for op in ops if op.type is OpType.OK and any(one[2] == value for one in read(op, key))]


def must_have_happened(ops: Ops, op: Op) -> bool:
    """Whether the operation succeeded, or its outcome is unknown and a successful operation read one of its values."""
    return op.type is OpType.OK or (op.type is OpType.INFO and any(readers(ops, key, value) for key, _, value in op.sends))


def log(ops: Ops, key: int) -> dict[int, set[int]]:
    """Return the log of a key (partition) as observed: offset -> the values seen there."""
    records = [record for op in ops for record in read(op, key)]
    records.extend(record for op in ops if must_have_happened(ops, op) for record in sent(op, key))
    offsets = {offset for _, offset, _ in records if offset is not None}
    return {at: {value for _, offset, value in records if offset == at} for at in sorted(offsets)}


def places(ops: Ops, key: int, value: int) -> list[int]:
    """Return the indices of a log at which the value was observed."""
    return [rank for rank, values in enumerate(log(ops, key).values()) if value in values]


def rank(ops: Ops, record: Polled) -> int | None:
    """The index of a record in its log: at its own offset if the log has it there, else at the only place of its value."""
    key, offset, value = record
    offsets = log(ops, key)
    if offset is not None and value in offsets.get(offset, ()):
        return list(offsets).index(offset)
    at = places(ops, key, value)
    return at[0] if len(at) == 1 else None


def delta(ops: Ops, first: Polled, then: Polled) -> int:
    """Return the distance in the log's indices from one record to another; 1 if unknown."""
    first_rank, second_rank = rank(ops, first), rank(ops, then)
    return 1 if first_rank is None or second_rank is None else second_rank - first_rank


def _anomalies_of_writes(ops: Ops, key: int) -> Iterator[str]:
    """The anomalies of a log: offsets, duplicates, lost and unseen records."""
    offsets = log(ops, key)
    if any(len(values) > 1 for values in offsets.values()):
        yield "inconsistent-offsets"
    if any(len(places(ops, key, value)) > 1 for values in offsets.values() for value in values):
        yield "duplicate"
    values_read = {value for op in ops if op.type is OpType.OK for _, _, value in read(op, key)}
    bound = max((min(places(ops, key, value), default=-1) for value in values_read), default=-1)
    for op in ops:
        for _, _, value in sent(op, key):
            at = places(ops, key, value)
            if must_have_happened(ops, op) and at and max(at) <= bound and value not in values_read:
                yield "lost-write"
            if op.type is OpType.OK and value not in values_read:
                later = [later_poll for later_poll in ops if later_poll.polls and later_poll.at > (op.ended or 0)]
                yield "unseen" if any(later_poll.type is OpType.OK for later_poll in later) else "unchecked"


def _anomalies_of_reads(ops: Ops, key: int) -> Iterator[str]:
    """The anomalies of reads of a log: nobody's, a failed or an open send's records."""
    for op in ops:
        for _, _, value in read(op, key):
            writers = [writer for writer in ops if any(record[2] == value for record in sent(writer, key))]
            if not writers:
                yield "phantom-read"
            if any(writer.type is OpType.FAIL for writer in writers) and op.type is OpType.OK:
                yield "G1a"
            if op in writers:
                yield "precommitted-read"


def _order_of_processes(ops: Ops) -> Iterator[str]:
    """The anomalies in the order of one operation, or of one process."""
    for op in ops:
        for key in KEYS:
            exempt = op.f not in _MOVES and key in op.keys
            for what, records in (("poll", [] if exempt else read(op, key)), ("send", sent(op, key))):
                for first, then in pairwise(records):
                    far = delta(ops, first, then)
                    if far > 1:
                        yield "int-poll-skip" if what == "poll" else "noted int-send-skip"
                    if far < 1:
                        yield f"int-nonmonotonic-{what}"
            if read(op, key) and (before := _last_read(ops, op, key)) is not None:
                far = delta(ops, before, read(op, key)[0])
                if far != 1:
                    allowed = "noted " if _is_subscribed(ops, op) else ""
                    yield allowed + ("poll-skip" if far > 1 else "nonmonotonic-poll")
            last = _last_sent(ops, op, key) if op.type is not OpType.FAIL and sent(op, key) else None
            if last is not None and delta(ops, last, sent(op, key)[0]) < 1:
                yield "nonmonotonic-send"


def _earlier_of_process(ops: Ops, op: Op) -> list[Op]:
    """The earlier operations of the process, in order."""
    return sorted(
        (earlier for earlier in ops if earlier.process == op.process and earlier.at < op.at), key=lambda earlier: earlier.at
    )


def _last_read(ops: Ops, op: Op, key: int) -> Polled | None:
    """The last record that the process certainly read before, unless its position was reset since."""
    certain = [earlier for earlier in _since_reset(ops, op, key) if earlier.type is OpType.OK and read(earlier, key)]
    return read(certain[-1], key)[-1] if certain else None


def _last_sent(ops: Ops, op: Op, key: int) -> Polled | None:
    """The last record that the process sent before without certain failure; a reset ends this, too, as in Jepsen's code."""
    perhaps = [earlier for earlier in _since_reset(ops, op, key) if earlier.type is not OpType.FAIL and sent(earlier, key)]
    return sent(perhaps[-1], key)[-1] if perhaps else None


def _since_reset(ops: Ops, op: Op, key: int) -> list[Op]:
    """The operations of the process since its position in this key was last reset (by a move, or a crash)."""
    before = _earlier_of_process(ops, op)
    moves = [
        at
        for at, earlier in enumerate(before)
        if earlier.f == "crash"
        or (earlier.f in _MOVES and earlier.type is not OpType.FAIL and (key not in earlier.keys or earlier.rewinds))
    ]
    return before[max(moves, default=-1) + 1 :]


def _is_subscribed(ops: Ops, op: Op) -> bool:
    """Whether the last of the process's assignments and subscriptions that may have succeeded is a subscription."""
    moves = [
        earlier
        for earlier in _earlier_of_process(ops, op)
        if earlier.f in ("assign", "subscribe") and earlier.type is not OpType.FAIL
    ]
    return bool(moves) and moves[-1].f == "subscribe"


def _cycles(ops: Ops) -> Iterator[str]:
    """Cycles of wr edges, alone or with real time. Cycles with ww edges are allowed and not compared.

    A kind is reported for an edge that is on no stronger cycle.
    """
    nodes = [op for op in ops if must_have_happened(ops, op)]
    wr = {(first, second) for first, second in permutations(nodes, 2) if _sent_what_was_read(first, second)}
    time = {
        (first, second) for first, second in permutations(nodes, 2) if first.type is OpType.OK and (first.ended or 0) < second.at
    }
    for first, second in wr:
        if first in _reachable(wr, second):
            yield "G1c"
        elif first in _reachable(wr | time, second):
            yield "G1c-realtime"


def _sent_what_was_read(writer: Op, reader: Op) -> bool:
    return any(value == other for key in KEYS for _, _, value in sent(writer, key) for _, _, other in read(reader, key))


def _reachable(edges: Edges, start: Op) -> set[Op]:
    """The operations that a path of these edges leads to."""
    reached, frontier = {start}, {start}
    while frontier:
        frontier = {target for source, target in edges if source in frontier} - reached
        reached |= frontier
    return reached
