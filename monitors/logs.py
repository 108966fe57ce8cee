"""Facts that the rules need of the logs of a process: their directories and ends, and what of them is durable."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Keep
from monitors.patterns import Memory, did, heard, noted
from reference.effects import CreateReplica, Flush, Note
from reference.events import Flushed
from reference.sealed import count


def _log_end(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, log end offset): None after a truncation, which may cut a sealed batch at its begin, before its offset."""
    match note.kind:
        case "append":
            last = note.batches[-1]
            return [(note.tp, last.base_offset + count(last.values))]
        case "recovered":
            return [(note.tp, note.leo)]
        case _:
            return [(note.tp, None)]


def _log_end_at_most(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, its log end): after a truncation the offset that it names, which may be above a sealed batch that is gone."""
    return [(note.tp, note.offset)] if note.kind == "truncate" else _log_end(note, memory)


def _log_ends_in_dir(flush: Flush, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(id of a flush, the log ends in its directory when it began)."""
    yield flush.id, {tp: end for tp, end in memory.facts["reach"].items() if memory.of("dir", tp, flush.dir) == flush.dir}


def _made_durable(event: Flushed, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, the offset before which its log is durable) after a flush."""
    for tp, end in memory.of("flushing", event.id, {}).items():
        yield tp, max(end, memory.of("durable", tp, 0))


def _durable_without_flush(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The same at the start, when nothing is known to be durable, and after a truncation."""
    match note.kind:
        case "recovered":
            yield note.tp, 0
        case "truncate":
            yield note.tp, min(note.offset, memory.of("durable", note.tp, 0))
        case _:
            yield note.tp, None


LOG_FACTS: tuple[Keep, ...] = (
    Keep(
        fact="leo",
        of=(
            *noted("append", "recovered", "truncate", "replica-deleted", keys=_log_end),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, 0)]),
        ),
    ),
    Keep(
        fact="reach",
        of=(
            *noted("append", "recovered", "truncate", "replica-deleted", keys=_log_end_at_most),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, 0)]),
        ),
    ),
    Keep(fact="flushing", of=did(Flush, keys=_log_ends_in_dir)),
    Keep(
        fact="durable",
        of=(
            *heard(Flushed, keys=_made_durable),
            *noted("recovered", "truncate", "replica-deleted", keys=_durable_without_flush),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, 0)]),
        ),
    ),
    Keep(
        fact="dir",
        of=(
            *noted("recovered", "replica-deleted", keys=lambda note, _: [(note.tp, note.dir)]),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, created.dir)]),
        ),
    ),
)
