"""Rows of the history from the log of a Kafka broker: when it truncated a log, led a partition, or lost a log directory.

The words differ between releases; `_PATTERNS` lists them with the first release that was seen to use each. A broker's log is no
complete record (a line may be lost with a kill), so these rows are evidence for pages and no checker judges by them.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from highwater.backends.real.evidence import wall_ahead_ns
from history.event import EventKind
from nemesis.targets import INTERNAL
from reference.effects import Note
from reference.types import Address, LeaderEpoch, Offset, TopicPartition
from server.lab.notes import NoteLine

QUOTED = "the broker's log: "  # begins the detail of a row that quotes a line
_STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] [A-Z]+ (.*)$")
_FORMAT = "%Y-%m-%d %H:%M:%S,%f"


class _Pattern(NamedTuple):
    """A kind of log line: the row that it becomes, the first release that was seen to print it, and its regular expression."""

    kind: EventKind
    since: str
    line: re.Pattern[str]


_PATTERNS = (
    _Pattern(EventKind.DIR_FAILED, "1.1.1", re.compile(r"Stopping serving replicas in dir \S*/data-(?P<dir>\d+)/logs")),
    _Pattern(EventKind.TRUNCATE, "0.10.2.2", re.compile(r"Truncating log (?P<tp>\S+) to offset (?P<offset>\d+)\. ")),
    _Pattern(
        EventKind.TRUNCATE,
        "1.1.1",
        re.compile(r"\[(?:Unified)?Log partition=(?P<tp>[^,]+), dir=[^\]]*\] Truncating to offset (?P<offset>\d+) "),
    ),
    _Pattern(
        EventKind.BECAME_LEADER,
        "1.1.1",
        re.compile(
            r"\[Partition (?P<tp>\S+) broker=\d+\] \S+ starts at [Ll]eader [Ee]poch (?P<epoch>\d+) from offset (?P<leo>\d+)\. "
        ),
    ),
    _Pattern(
        EventKind.BECAME_LEADER,
        "2.8.2",
        re.compile(
            r"Leader (?P<tp>\S+)(?: with topic id \S+)? starts at (?:leader epoch )?(?P<epoch>\d+) from offset (?P<leo>\d+)"
            r"(?: with partition epoch \d+,)?(?: with)? high watermark (?P<hw>\d+)"
        ),
    ),
)


def notes_of(node: Address, output: Path, began: Sequence[int]) -> list[NoteLine]:
    """The notes that a broker's output holds, in its order. `began` has the byte at which the output of each life begins."""
    try:
        printed = output.read_bytes()
    except OSError:
        return []
    ahead_ns = wall_ahead_ns()
    notes = []
    for at, wall_ns, note in _notes_in(printed):
        life = bisect_right(began, at)
        notes.append(NoteLine(node=node, life=life, time_ns=wall_ns - ahead_ns, wall_ns=wall_ns, note=note))
    return notes


def _notes_in(printed: bytes) -> Iterator[tuple[int, int, Note]]:
    """For each line that is understood: where it begins, its wall clock (ns), and its note."""
    at = 0
    for line in printed.split(b"\n"):
        stamp = _STAMP.match(line.decode(errors="replace"))
        if stamp is not None:
            note = note_of(stamp[2])
            if note is not None:
                wall = datetime.strptime(stamp[1], _FORMAT).replace(tzinfo=UTC)  # the zone of the broker's JVM
                yield at, round(wall.timestamp() * 1e3) * 1_000_000, note
        at += len(line) + 1


def note_of(message: str) -> Note | None:
    """The note in the message of one log line; None if it has none."""
    for pattern in _PATTERNS:
        match = pattern.line.search(message)
        fields = {} if match is None else match.groupdict()
        if match is not None and not fields.get("tp", "").startswith(INTERNAL):
            tp = fields.get("tp")
            return Note(
                kind=pattern.kind,
                tp=None if tp is None else TopicPartition(tp),
                dir=None if fields.get("dir") is None else int(fields["dir"]),
                offset=_offset(fields.get("offset")),
                leader_epoch=None if fields.get("epoch") is None else LeaderEpoch(int(fields["epoch"])),
                leo=_offset(fields.get("leo")),
                hw=_offset(fields.get("hw")),
                detail=None if pattern.kind is EventKind.BECAME_LEADER else f"{QUOTED}{_words_without_folders(match)}",
            )
    return None


def _words_without_folders(match: re.Match[str]) -> str:
    """The broker's words, without the folders of the run."""
    return re.sub(r"(dir=|in dir )[^\s\]]+", r"\1…", match[0]).strip()


def _offset(text: str | None) -> Offset | None:
    return None if text is None else Offset(int(text))
