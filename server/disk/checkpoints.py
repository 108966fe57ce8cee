"""The small files of a log directory, in Kafka's own text formats, as far as they have a place for what is in them.

`replication-offset-checkpoint` (high watermarks), `leader-epoch-checkpoint` (where each leader epoch begins in a log) and
`partition.metadata` (the topic's id) are read by Kafka's tools; in the last a line `born` is ours. `meta.properties` is a
properties file as Kafka's, with entries of ours. Whatever is no such file is a ValueError: a high watermark is never guessed.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence

from msgspec import Struct

from reference.types import (
    NO_INCARNATION,
    NO_TOPIC_ID,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    index_of,
    topic_of,
    topic_partition,
)

_VERSION = "0"
_ID_BYTES = 16  # of a UUID, of which the lower half is the czxid


class Metadata(Struct, frozen=True):
    """Which log this is."""

    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID


class DirMark(Struct, frozen=True):
    """Which directory this is, and among how many."""

    born: Incarnation = NO_INCARNATION
    dirs: int = 0


# --- tables: a version, the number of rows, the rows ----------------------------------------------------------------------


def offsets_text(entries: Iterable[tuple[TopicPartition, int]]) -> str:
    """replication-offset-checkpoint: topic, partition, offset."""
    return _table(f"{topic_of(tp)} {index_of(tp)} {offset}" for tp, offset in entries)


def offsets_of(text: str) -> tuple[tuple[TopicPartition, int], ...]:
    """What a replication-offset-checkpoint says."""
    return tuple((topic_partition(topic, int(index)), int(offset)) for topic, index, offset in _rows(text, 3))


def epochs_text(epochs: Iterable[tuple[LeaderEpoch, Offset]]) -> str:
    """leader-epoch-checkpoint: epoch, first offset."""
    return _table(f"{epoch} {start}" for epoch, start in epochs)


def epochs_of(text: str) -> tuple[tuple[int, int], ...]:
    """What a leader-epoch-checkpoint says."""
    return tuple((int(epoch), int(start)) for epoch, start in _rows(text, 2))


def _table(rows: Iterable[str]) -> str:
    lines = list(rows)
    return "\n".join((_VERSION, str(len(lines)), *lines, ""))


def _rows(text: str, columns: int) -> Sequence[list[str]]:
    version, count, *lines = text.splitlines()
    rows = [line.split(" ") for line in lines]
    if version != _VERSION or int(count) != len(rows) or any(len(row) != columns for row in rows):
        raise ValueError(f"no checkpoint of version {_VERSION} with {columns} columns")
    return rows


# --- lists of names and values --------------------------------------------------------------------------------------------


def metadata_text(metadata: Metadata) -> str:
    """partition.metadata; an id that is not known is Kafka's zero UUID."""
    number = max(metadata.topic_id, 0)
    uuid = urlsafe_b64encode(number.to_bytes(_ID_BYTES, "big")).decode().rstrip("=")
    return f"version: {_VERSION}\ntopic_id: {uuid}\nborn: {metadata.born}\n"


def metadata_of(text: str) -> Metadata:
    """What a partition.metadata says."""
    found = _pairs(text, ": ")
    uuid = urlsafe_b64decode(f"{found['topic_id']}==")
    if len(uuid) != _ID_BYTES:
        raise ValueError(f"no UUID: {found['topic_id']}")
    number = int.from_bytes(uuid, "big")
    return Metadata(Incarnation(int(found["born"])), TopicId(number) if number else NO_TOPIC_ID)


def mark_text(mark: DirMark) -> str:
    """meta.properties."""
    return f"version={_VERSION}\nborn={mark.born}\ndirs={mark.dirs}\n"


def mark_of(text: str) -> DirMark:
    """What a meta.properties says."""
    found = _pairs(text, "=")
    return DirMark(Incarnation(int(found["born"])), int(found["dirs"]))


def _pairs(text: str, between: str) -> dict[str, str]:
    found = dict(line.split(between, 1) for line in text.splitlines())
    missing = {"version", "born"} - found.keys()
    if missing or found["version"] != _VERSION:
        raise ValueError(f"no list of values of version {_VERSION}")
    return found
