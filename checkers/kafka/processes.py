"""Anomalies in the order in which one operation, or one client process, polled and sent the records of a log.

Two consecutive records are fine if the index grows by one, or if either index is unknown. Within an operation, keys that were
assigned or revoked meanwhile are exempt. Between operations of a process, an assignment or a subscription without a key ends the
comparison for that key. A failed or crashed poll is compared but does not move the process's position, because the process must
start again where it was. A subscribed process may skip and repeat records, because the cluster decides what it reads: that is
only noted.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from checkers.kafka.found import Found
from checkers.kafka.logs import Log, Logs
from checkers.kafka.transactions import Op, Record
from history.foreign.step import named, short
from history.op import OpType

_INTERLEAVED = "records of other transactions may be between those of one"
_REBALANCED = "the process is subscribed, and a rebalance may move it"

_ByKey = dict[Hashable, list[Record]]


def anomalies(logs: Logs) -> Iterator[Found]:
    """Find the order anomalies, and the findings that Kafka allows, of all operations, in their order."""
    polled: dict[Hashable, dict[Hashable, tuple[Op, Record]]] = {}  # process -> key -> its last record
    sent: dict[Hashable, dict[Hashable, tuple[Op, Record]]] = {}
    for op in logs.ops:
        polls, sends = _records_by_key(op.polls), _records_by_key(op.sends)
        yield from _own_records_polled(op)
        yield from _disorder_within_operations(logs, op, polls, sends)
        reading, sending = polled.setdefault(op.process, {}), sent.setdefault(op.process, {})
        if op.forgets:
            for stands in (reading, sending):
                for key in [key for key in stands if key not in op.keeps]:
                    del stands[key]
        for key, records in polls.items():
            if key in reading:
                allowed = _REBALANCED if op.subscribed else ""
                yield from _disorder_between_operations(logs.keys[key], "poll", reading[key], (op, records[0]), allowed)
            if op.type is OpType.OK:
                reading[key] = (op, records[-1])
        if op.type is OpType.FAIL:
            continue
        for key, records in sends.items():
            if key in sending:
                yield from _disorder_between_operations(logs.keys[key], "send", sending[key], (op, records[0]), "")
            sending[key] = (op, records[-1])


def _records_by_key(records: Sequence[Record]) -> _ByKey:
    """The records of each key, in their order."""
    records_by_key: _ByKey = {}
    for record in records:
        records_by_key.setdefault(record[0], []).append(record)
    return records_by_key


def _own_records_polled(op: Op) -> Iterator[Found]:
    """Find operations that polled a record they sent themselves, which cannot be committed yet; one anomaly for each."""
    if not op.sends or not op.polls:
        return
    own = {(key, value) for key, _, value in op.sends}
    for key, _, value in op.polls:
        if (key, value) in own:
            words = f"line {op.line} polled {short(value)} of {named(key)}, which it sent itself"
            yield Found("precommitted-read", key, (op.line,), words)
            return


def _disorder_within_operations(logs: Logs, op: Op, polls: _ByKey, sends: _ByKey) -> Iterator[Found]:
    """Records that one operation polled or sent out of the order of the log."""
    for key, records in polls.items():
        if key not in op.rebalanced and not logs.keys[key].has_in_a_row(records):
            for first, then in pairwise(records):
                yield from _wrong_pair(logs.keys[key], "int-", "poll", (op, first), (op, then))
    for key, records in sends.items():
        for first, then in pairwise(records):
            for finding in _wrong_pair(logs.keys[key], "int-", "send", (op, first), (op, then)):
                yield finding._replace(allowed=_INTERLEAVED) if finding.kind == "int-send-skip" else finding


def _disorder_between_operations(
    log: Log, what: str, before: tuple[Op, Record], now: tuple[Op, Record], allowed: str
) -> Iterator[Found]:
    """What is wrong between the last record of one operation and the first of the next on a log."""
    for finding in _wrong_pair(log, "", what, before, now):
        if finding.kind != "send-skip":  # other processes write to the same log
            yield finding._replace(allowed=allowed)


def _wrong_pair(log: Log, scope: str, what: str, before: tuple[Op, Record], now: tuple[Op, Record]) -> Iterator[Found]:
    """What is wrong with two records in a row: values skipped between them, or the wrong order."""
    (op, (key, offset, value)), (then, (_, later, follows)) = before, now
    first, second = log.index_of(offset, value), log.index_of(later, follows)
    if first is None or second is None or second == first + 1:
        return
    lines = (op.line,) if op is then else (op.line, then.line)
    process_did = f"process {then.process} {'polled' if what == 'poll' else 'sent'}"
    if second > first:
        skipped = ", ".join(map(short, log.between(first, second)[:3]))
        words = f"{process_did} {short(follows)} of {named(key)} right after {short(value)}, skipping {skipped}"
        yield Found(f"{scope}{what}-skip", key, lines, words)
    else:
        words = f"{process_did} {short(follows)} of {named(key)} after {short(value)}, but it is not behind it in the log"
        yield Found(f"{scope}nonmonotonic-{what}", key, lines, words)
