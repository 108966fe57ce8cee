"""A whole history in one JSONL file: for people, for the corpus, and for runs that are still being recorded.

The file holds the manifest, then the rows of both tables in the order of `index`, then a line with their number
(docs/history-format.md). A file without that last line was cut off: `read` refuses it, `read_interrupted` keeps the whole lines.
Every error is a HistoryError of one line that names the file and the line.
"""

import re
from collections.abc import Iterator, Sequence
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec import Struct

from history import versions
from history.columns import unread_version
from history.digest import digest
from history.errors import NOT_JSON, HistoryError
from history.event import ClusterEvent
from history.history import History
from history.manifest import READ_VERSIONS, SCHEMA_VERSION, RunManifest
from history.op import Operation


class _End(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operations: int
    events: int


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One line of a JSONL history. Exactly one key is set."""

    manifest: RunManifest | None = None
    op: Operation | None = None
    event: ClusterEvent | None = None
    end: _End | None = None


_Content = RunManifest | Operation | ClusterEvent | _End

_BOUND = 1 << 63
_LONG = re.compile(rb"[0-9]{19}")  # a number of this many digits may need more than 64 bits
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


def _encoded_rows(operations: Sequence[Operation], events: Sequence[ClusterEvent]) -> Iterator[bytes]:
    both: Iterator[Operation | ClusterEvent] = merge(operations, events, key=attrgetter("index"))
    for row in both:
        # The outer object is concatenated by hand: wrapping each row in a _Line would take 1.5 times as long.
        yield (b'{"op":' if isinstance(row, Operation) else b'{"event":') + _ENCODER.encode(row) + b"}\n"


def encode(history: History) -> bytes:
    """Return a history as the bytes of a JSONL file. Takes about 100 ms for 60,000 rows."""
    lines = [_ENCODER.encode(_Line(manifest=history.manifest)) + b"\n"]
    lines.extend(_encoded_rows(history.operations, history.events))
    end = _End(operations=len(history.operations), events=len(history.events))
    lines.append(_ENCODER.encode(_Line(end=end)) + b"\n")
    return b"".join(lines)


def read(path: Path) -> History:
    """Read a complete JSONL history. Raises HistoryError where the file is truncated, foreign or absent."""
    history, complete = _read(path, torn_end=False)
    if not complete:
        raise HistoryError(f"{path}: cut off after {len(history.operations) + len(history.events)} rows: the end line is missing")
    return history


def read_interrupted(path: Path) -> History:
    """Read all whole lines of a JSONL history that may lack its end line. Without it the outcome becomes "incomplete"."""
    history, complete = _read(path, torn_end=True)
    if complete:
        return history
    manifest = msgspec.structs.replace(history.manifest, outcome="incomplete")
    return History(manifest, operations=history.operations, events=history.events)


def _read(path: Path, *, torn_end: bool) -> tuple[History, bool]:
    """Read and check a file; the flag tells whether it has its end line. With `torn_end` the last line may be cut."""
    manifest: RunManifest | None = None
    end: _End | None = None
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    last_index = -1
    outdated = False
    for number, content in _decoded_lines(path, torn_end=torn_end):
        where = f"{path}: line {number}"
        if end is not None:
            raise HistoryError(f"{where}: unexpected content after the end line")
        if (number == 1) is not isinstance(content, RunManifest):
            raise HistoryError(f"{where}: not a history of highwater: the manifest must be the first line and no other")
        match content:
            case RunManifest():
                manifest = content
                if manifest.schema_version not in READ_VERSIONS:
                    raise HistoryError(f"{path}: {unread_version(manifest.schema_version)}")
                outdated = manifest.schema_version != SCHEMA_VERSION
            case _End():
                end = content
            case Operation(index=index) if index >= last_index:
                operations.append(content)
                last_index = index
            case ClusterEvent(index=index) if index > last_index:
                events.append(_upgraded_event(where, content) if outdated else content)
                last_index = index
            case Operation(index=index) | ClusterEvent(index=index):
                raise HistoryError(f"{where}: index {index} after {last_index}: rows must be in the order of index")
            case _:
                assert_never(content)
    if manifest is None:
        raise HistoryError(f"{path}: not a history of highwater: the file is empty")
    if end is not None and (end.operations, end.events) != (len(operations), len(events)):
        raise HistoryError(
            f"{path}: the end line counts {end.operations} operations and {end.events} events, "
            f"the file holds {len(operations)} and {len(events)}"
        )
    if outdated:
        manifest = versions.upgraded_manifest(manifest, digest(operations, events))
    return History(manifest, operations=operations, events=events), end is not None


def _upgraded_event(where: str, event: ClusterEvent) -> ClusterEvent:
    unknown = versions.unknown_column(event)
    if unknown is not None:
        raise HistoryError(f"{where}: not a row of a history: schema version 1 has no column {unknown}")
    return versions.upgraded(event)


def _decoded_lines(path: Path, *, torn_end: bool) -> Iterator[tuple[int, _Content]]:
    """The numbered lines, decoded. A line without its end is left out if `torn_end`."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if torn_end and not line.endswith(b"\n"):
                    return
                yield number, _content_of_line(path, number, line)
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read: {error.strerror}") from error


def _content_of_line(path: Path, number: int, line: bytes) -> _Content:
    """The one thing that a line holds: manifest, operation, event or end line. Raises HistoryError."""
    what = "not a history of highwater" if number == 1 else "not a row of a history"
    try:
        decoded = _DECODER.decode(line)
    except NOT_JSON as error:
        raise HistoryError(f"{path}: line {number}: {what}: {error}") from error
    if _LONG.search(line) and any(isinstance(v, int) and not -_BOUND <= v < _BOUND for v in _numbers(decoded)):
        raise HistoryError(f"{path}: line {number}: {what}: a number has more than 64 bits")
    contents = [c for c in (decoded.manifest, decoded.op, decoded.event, decoded.end) if c is not None]
    if len(contents) != 1:
        raise HistoryError(f"{path}: line {number}: {what}: expected one of manifest, op, event, end")
    return contents[0]


def _numbers(line: _Line) -> Iterator[object]:
    for content in (line.op, line.event, line.manifest):
        if content is not None:
            yield from msgspec.structs.astuple(content)
