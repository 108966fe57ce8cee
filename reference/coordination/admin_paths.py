"""Paths and payloads of an administrator's requests to move partitions (R-006, R-148, KIP-236).

A payload is decoded entry by entry: an invalid entry is skipped and counted, so that it never blocks the others (KAFKA-2234). Of
several entries for one partition the last one counts.
"""

import msgspec
from msgspec import Struct

from reference.coordination import paths
from reference.types import BrokerId, TopicPartition, index_of, topic_of, topic_partition

REASSIGN = "/admin/reassign_partitions"  # C-06 takes the article's path with the JSON of KIP-236
REASSIGN_EXTRA = "/admin/reassign_partitions_extra"
REASSIGN_CANCEL = "/admin/reassign_cancel"
PARTITIONS_REASSIGNED = "/admin/partitions_reassigned"  # R-006: V3's own path
REQUESTS = "/admin/reassignment_requests"
REQUEST = f"{REQUESTS}/request_"  # and a number that ZooKeeper appends
REASSIGNMENTS = "/admin/reassignments"


class Reassignment(Struct, frozen=True, array_like=True):
    """The target replicas of a partition, and its original ones, empty until they are written to the znode (R-230).

    The other fields are of proposal B, in the znodes of reassignments in flight (R-246).
    """

    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...] = ()
    top: int = 0  # how many replicas it had
    held: tuple[BrokerId, ...] = ()  # every broker assigned at any time during the move
    drop: tuple[BrokerId, ...] = ()  # replicas to be removed at once
    legacy: bool = False  # requested through /admin/reassign_partitions


Reassignments = dict[TopicPartition, Reassignment]


class _EntryJson(Struct, omit_defaults=True):
    topic: str
    partition: int
    replicas: list[BrokerId]
    original_replicas: list[BrokerId] = []


class _ReassignJson(Struct):
    version: int
    partitions: list[msgspec.Raw]


_encode = msgspec.json.Encoder().encode
_outer = msgspec.json.Decoder(_ReassignJson).decode
_entry = msgspec.json.Decoder(_EntryJson).decode


def reassignments_payload(entries: Reassignments) -> bytes:
    """R-148: the JSON of /admin/reassign_partitions, with `original_replicas` if they are known (R-230)."""
    rows = [
        _EntryJson(topic_of(tp), index_of(tp), list(entry.replicas), list(entry.original))
        for tp, entry in sorted(entries.items())
    ]
    return _encode({"version": 1, "partitions": rows})


def decode_reassignments(data: bytes) -> tuple[Reassignments, int]:
    """R-148, R-231: the entries of a reassignment znode by partition, and how many invalid ones were skipped."""
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
            paths.is_topic(json.topic)
            and json.partition >= 0
            and json.replicas
            and _distinct(json.replicas)
            and _distinct(json.original_replicas)
        ):
            tp = topic_partition(json.topic, json.partition)
            entries[tp] = Reassignment(tuple(json.replicas), tuple(json.original_replicas))
    return dict(sorted(entries.items())), len(rows) - len(entries)


def _distinct(brokers: list[BrokerId]) -> bool:
    return len(set(brokers)) == len(brokers) and all(broker >= 0 for broker in brokers)


def reassignment_path(tp: TopicPartition) -> str:
    """The path of a reassignment in flight: /admin/reassignments/[topic]/[partition] (R-246)."""
    return f"{REASSIGNMENTS}/{topic_of(tp)}/{index_of(tp)}"


def partition_reassigned_path(tp: TopicPartition) -> str:
    """The path of V3's request to move a partition: /admin/partitions_reassigned/[topic]/[partition_id] (R-006)."""
    return f"{PARTITIONS_REASSIGNED}/{topic_of(tp)}/{index_of(tp)}"
