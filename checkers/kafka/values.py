"""Anomalies of single values of sends and polls: in the log of a key, among the values read, and among those never read.

For a value that several operations sent it is unknown whose was read. Such values are left out and reported as unchecked.
"""

from collections.abc import Iterator

from checkers.kafka.found import Found
from checkers.kafka.logs import Log, Logs
from checkers.kafka.transactions import Op
from history.foreign.step import named, short
from history.op import OpType


def of_log(log: Log) -> Iterator[Found]:
    """Find offsets of a log that hold several values, and values that are at several offsets."""
    for offset in log.order:
        values_told = log.offsets[offset]
        if len(values_told) > 1:
            words = f"offset {offset} of {named(log.key)} holds {', '.join(map(short, values_told))}"
            yield Found("inconsistent-offsets", log.key, tuple(op.line for op in values_told.values()), words)
    for value, places in log.indices_of.items():
        if len(places) > 1 and len(log.writers.get(value, ())) < 2:
            offsets = [log.order[index] for index in places]
            words = f"{short(value)} of {named(log.key)} is at offsets {', '.join(map(str, offsets))}"
            yield Found("duplicate", log.key, tuple(log.offsets[offset][value].line for offset in offsets), words)


def of_readers(log: Log) -> Iterator[Found]:
    """Find values that were read but never sent, and values that were read although their send certainly failed."""
    for value, readers in log.readers.items():
        writers = log.writers.get(value, ())
        if not writers:
            words = f"{short(value)} of {named(log.key)} was read but never sent"
            yield Found("phantom-read", log.key, tuple(op.line for op in readers[:1]), words)
        elif all(op.type is OpType.FAIL for op in writers):
            reader = next((op for op in readers if op.type is OpType.OK), None)
            if reader is not None:
                words = f"{short(value)} of {named(log.key)} was read, though its send had certainly failed"
                yield Found("G1a", log.key, (writers[0].line, reader.line), words)


def lost(log: Log, logs: Logs) -> Iterator[Found]:
    """Find values of committed sends that were never read although a record at a higher offset was.

    An offset may hold several values and a value may be at several offsets. The bound is therefore the highest of the first
    places of all read values, and a value counts as before it only if its last place is.
    """
    read = {value for value, readers in log.readers.items() if any(op.type is OpType.OK for op in readers)}
    firsts = {value: log.indices_of[value][0] for value in read if value in log.indices_of}
    if not firsts:
        return
    furthest = max(firsts, key=lambda value: firsts[value])
    bound = firsts[furthest]
    reader = next(op for op in log.readers[furthest] if op.type is OpType.OK)
    for value, places in log.indices_of.items():
        writer = log.writer(value)
        if places[-1] <= bound and value not in read and writer is not None and logs.committed(writer):
            offset = log.order[places[-1]]
            words = f"{short(value)} at offset {offset} of {named(log.key)} was never read, but {short(furthest)} behind it was"
            yield Found("lost-write", log.key, (writer.line, reader.line), words)


def unseen(log: Log, polling: list[Op]) -> tuple[list[Found], int]:
    """Find acknowledged values that were never polled, and count those that may only be late.

    A value may be late if no operation polled successfully after its acknowledgement.
    """
    last = max((op.start for op in polling), default=-1)
    findings: list[Found] = []
    late_count = 0
    for value, writers in log.writers.items():
        acked = next((op for op in writers if op.type is OpType.OK), None)
        if acked is None or any(op.type is OpType.OK for op in log.readers.get(value, ())):
            continue
        assert acked.end is not None
        if acked.end > last:
            late_count += 1
            continue
        words = f"{short(value)} of {named(log.key)} was acknowledged but never polled"
        findings.append(Found("unseen", log.key, (acked.line,), words))
    return findings, late_count
