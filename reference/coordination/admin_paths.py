"""Paths and payloads by which an administrator asks for partitions to be moved (R-006, R-148, KIP-236).

A payload is read entry by entry: one that makes no sense is left out and counted, so that it never blocks the others
(KAFKA-2234). Of several entries for one partition the last one holds.
"""

import msgspec
from msgspec import Struct

from reference.types import BrokerId, TopicPartition, index_of, topic_of, topic_partition

REASSIGN = "/admin/reassign_partitions"  # C-06 takes the article's path with the JSON of KIP-236
REASSIGN_EXTRA = "/admin/reassign_partitions_extra"
REASSIGN_CANCEL = "/admin/reassign_cancel"
PARTITIONS_REASSIGNED = "/admin/partitions_reassigned"  # R-006: V3's own path
REQUESTS = "/admin/reassignment_requests"
REQUEST = f"{REQUESTS}/request_"  # and a number that ZooKeeper gives
REASSIGNMENTS = "/admin/reassignments"


class Reassignment(Struct, frozen=True, array_like=True):
    """The replicas that a partition shall have, and those that it had: none where nobody has written them down yet (R-230).

    The others are of proposal B, and of what is in flight alone (R-246).
    """

    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...] = ()
    top: int = 0  # how many it had
    held: tuple[BrokerId, ...] = ()  # all who were ever assigned meanwhile
    drop: tuple[BrokerId, ...] = ()  # who goes at once
    legacy: bool = False


Reassignments = dict[TopicPartition, Reassignment]


class _EntryJson(Struct, omit_defaults=True):
    topic: str
    partition: int
    replicas: list[int]
    original_replicas: list[int] = []


class _ReassignJson(Struct):
    version: int
    partitions: list[msgspec.Raw]


_encode = msgspec.json.Encoder().encode
_outer = msgspec.json.Decoder(_ReassignJson).decode
_entry = msgspec.json.Decoder(_EntryJson).decode


def reassignments_payload(entries: Reassignments) -> bytes:
    """R-148; with `original_replicas` where they are known (R-230)."""
    rows = [
        _EntryJson(topic_of(tp), index_of(tp), list(entry.replicas), list(entry.original))
        for tp, entry in sorted(entries.items())
    ]
    return _encode({"version": 1, "partitions": rows})


def decode_reassignments(data: bytes) -> tuple[Reassignments, int]:
    """R-148, R-231: the entries by partition, and how many were left out because they make no sense."""
    try:
        rows = _outer(data).partitions
    except msgspec.DecodeError:
        return {}, 1
    entries: Reassignments = {}
    for row in rows:
        try:
            json = _entry(row)
        except msgspec.DecodeError:
            continue
        if (
            json.topic
            and json.partition >= 0
            and json.replicas
            and _distinct(json.replicas)
            and _distinct(json.original_replicas)
        ):
            tp = topic_partition(json.topic, json.partition)
            entries[tp] = Reassignment(_ids(json.replicas), _ids(json.original_replicas))
    return dict(sorted(entries.items())), len(rows) - len(entries)


def _distinct(brokers: list[int]) -> bool:
    return len(set(brokers)) == len(brokers) and all(broker >= 0 for broker in brokers)


def _ids(brokers: list[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def reassignment_path(tp: TopicPartition) -> str:
    """/admin/reassignments/[topic]/[partition] (R-246)."""
    return f"{REASSIGNMENTS}/{topic_of(tp)}/{index_of(tp)}"


def partition_reassigned_path(tp: TopicPartition) -> str:
    """/admin/partitions_reassigned/[topic]/[partition_id] (R-006)."""
    return f"{PARTITIONS_REASSIGNED}/{topic_of(tp)}/{index_of(tp)}"
