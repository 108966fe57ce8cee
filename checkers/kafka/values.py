"""Anomalies of one key: what its log holds, what of it was read, and what was not (`docs/properties.md` names all twenty).

Values that several operations sent prove little: which of them is read nobody knows. They are left out, and named as unchecked.
"""

from collections.abc import Iterator

from checkers.kafka.found import Found
from checkers.kafka.logs import Log, Logs
from checkers.kafka.transactions import Op
from history.foreign.step import shown
from history.op import OpType


def of_log(log: Log) -> Iterator[Found]:
    """An offset of several values, and a value at several offsets."""
    for offset in log.order:
        said = log.offsets[offset]
        if len(said) > 1:
            words = f"offset {offset} of {log.key} holds {', '.join(map(shown, said))}"
            yield Found("inconsistent-offsets", log.key, tuple(op.line for op in said.values()), words)
    for value, places in log.places.items():
        if len(places) > 1 and len(log.writers.get(value, ())) < 2:
            offsets = [log.order[index] for index in places]
            words = f"{shown(value)} stands in {log.key} at offsets {', '.join(map(str, offsets))}"
            yield Found("duplicate", log.key, tuple(log.offsets[offset][value].line for offset in offsets), words)


def of_readers(log: Log) -> Iterator[Found]:
    """What nobody wrote, and what certainly was not written."""
    for value, readers in log.readers.items():
        writers = log.writers.get(value, ())
        if not writers:
            words = f"{shown(value)} of {log.key} was read, which nobody ever sent"
            yield Found("phantom-read", log.key, tuple(op.line for op in readers[:1]), words)
        elif all(op.type is OpType.FAIL for op in writers):
            reader = next((op for op in readers if op.type is OpType.OK), None)
            if reader is not None:
                words = f"{shown(value)} of {log.key} was read, though sending it had certainly failed"
                yield Found("G1a", log.key, (writers[0].line, reader.line), words)


def lost(log: Log, logs: Logs) -> Iterator[Found]:
    """Values that nobody read, though somebody read behind them.

    An offset may hold several values and a value stand at several offsets, so the bound is the highest of the first places of
    what was read, and a value is before it only with its last place.
    """
    read = {value for value, readers in log.readers.items() if any(op.type is OpType.OK for op in readers)}
    firsts = {value: log.places[value][0] for value in read if value in log.places}
    if not firsts:
        return
    furthest = max(firsts, key=lambda value: firsts[value])
    bound = firsts[furthest]
    reader = next(op for op in log.readers[furthest] if op.type is OpType.OK)
    for value, places in log.places.items():
        writer = log.writer(value)
        if places[-1] <= bound and value not in read and writer is not None and logs.committed(writer):
            offset = log.order[places[-1]]
            words = f"{shown(value)} at offset {offset} of {log.key} was read by nobody, {shown(furthest)} behind it was"
            yield Found("lost-write", log.key, (writer.line, reader.line), words)


def unseen(log: Log, polling: list[Op]) -> tuple[list[Found], int]:
    """Values that were acknowledged and that nobody polled, and the number of those that may be no more than late.

    A value is late, and not lost, as far as anybody knows, where no operation polled with success after it was acknowledged.
    """
    last = max((op.start for op in polling), default=-1)
    found: list[Found] = []
    late = 0
    for value, writers in log.writers.items():
        acked = next((op for op in writers if op.type is OpType.OK), None)
        if acked is None or any(op.type is OpType.OK for op in log.readers.get(value, ())):
            continue
        assert acked.end is not None
        if acked.end > last:
            late += 1
            continue
        words = f"{shown(value)} of {log.key} was acknowledged, and nobody had polled it in the end"
        found.append(Found("unseen", log.key, (acked.line,), words))
    return found, late
