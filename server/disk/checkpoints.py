"""The small files of a log directory, in Kafka's text formats.

Kafka's tools can read `replication-offset-checkpoint` (high watermarks), `leader-epoch-checkpoint` (the first offset of each
leader epoch in a log) and `partition.metadata` (the topic's id, and our own lines `born` and `created`). `meta.properties` is a
properties file as in Kafka, with our own entries. A file that does not parse is a ValueError: a high watermark is never guessed.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence

from msgspec import Struct

from reference.types import (
    NO_CREATION,
    NO_INCARNATION,
    NO_TOPIC_ID,
    Creation,
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
_ID_BYTES = 16  # of a UUID; its lower 8 bytes are the czxid


class Metadata(Struct, frozen=True):
    """The content of a replica's partition.metadata: its birth, its topic id and when it was created."""

    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID
    created: Creation = NO_CREATION


class DirMark(Struct, frozen=True):
    """The content of a log directory's meta.properties: its incarnation and how many log directories the broker has."""

    born: Incarnation = NO_INCARNATION
    dirs: int = 0


# --- tables: a version, the number of rows, the rows ----------------------------------------------------------------------


def offsets_text(entries: Iterable[tuple[TopicPartition, int]]) -> str:
    """The text of a replication-offset-checkpoint; each row is topic, partition, offset."""
    return _table(f"{topic_of(tp)} {index_of(tp)} {offset}" for tp, offset in entries)


def offsets_of(text: str) -> tuple[tuple[TopicPartition, int], ...]:
    """The rows of a replication-offset-checkpoint. ValueError if it does not parse."""
    return tuple((topic_partition(topic, int(index)), int(offset)) for topic, index, offset in _rows_of_checkpoint(text, 3))


def epochs_text(epochs: Iterable[tuple[LeaderEpoch, Offset]]) -> str:
    """The text of a leader-epoch-checkpoint; each row is leader epoch, first offset."""
    return _table(f"{epoch} {start}" for epoch, start in epochs)


def _table(rows: Iterable[str]) -> str:
    lines = list(rows)
    return "\n".join((_VERSION, str(len(lines)), *lines, ""))


def _rows_of_checkpoint(text: str, columns: int) -> Sequence[list[str]]:
    """The rows of a Kafka checkpoint, split at spaces. Raises ValueError for another version or count."""
    version, count, *lines = text.splitlines()
    rows = [line.split(" ") for line in lines]
    if version != _VERSION or int(count) != len(rows) or any(len(row) != columns for row in rows):
        raise ValueError(f"a checkpoint must have version {_VERSION}, its number of rows, and {columns} columns per row")
    return rows


# --- lists of names and values --------------------------------------------------------------------------------------------


def metadata_text(metadata: Metadata) -> str:
    """The text of a partition.metadata; an unknown topic id is written as Kafka's zero UUID."""
    number = max(metadata.topic_id, 0)
    uuid = urlsafe_b64encode(number.to_bytes(_ID_BYTES, "big")).decode().rstrip("=")
    created = f"{metadata.created.incarnation} {metadata.created.number}"
    return f"version: {_VERSION}\ntopic_id: {uuid}\nborn: {metadata.born}\ncreated: {created}\n"


def metadata_of(text: str) -> Metadata:
    """The content of a partition.metadata, which may lack `created`. ValueError or KeyError if it does not parse."""
    entries = _entries_of_pairs(text, ": ")
    uuid = urlsafe_b64decode(f"{entries['topic_id']}==")
    if len(uuid) != _ID_BYTES:
        raise ValueError(f"topic_id must be a UUID of {_ID_BYTES} bytes in base64, not {entries['topic_id']}")
    number = int.from_bytes(uuid, "big")
    topic_id = TopicId(number) if number else NO_TOPIC_ID
    return Metadata(
        Incarnation(int(entries["born"])), topic_id, _creation_of(entries["created"]) if "created" in entries else NO_CREATION
    )


def _creation_of(text: str) -> Creation:
    incarnation, number = text.split(" ")
    return Creation(Incarnation(int(incarnation)), int(number))


def mark_text(mark: DirMark) -> str:
    """The text of a meta.properties."""
    return f"version={_VERSION}\nborn={mark.born}\ndirs={mark.dirs}\n"


def mark_of(text: str) -> DirMark:
    """The content of a meta.properties. ValueError or KeyError if it does not parse."""
    entries = _entries_of_pairs(text, "=")
    return DirMark(Incarnation(int(entries["born"])), int(entries["dirs"]))


def _entries_of_pairs(text: str, between: str) -> dict[str, str]:
    """The entries of a file of `key{between}value` lines. Raises ValueError without the version or the birth."""
    entries = dict(line.split(between, 1) for line in text.splitlines())
    missing = {"version", "born"} - entries.keys()
    if missing or entries["version"] != _VERSION:
        raise ValueError(f"the file must have version {_VERSION} and an entry `born`")
    return entries
