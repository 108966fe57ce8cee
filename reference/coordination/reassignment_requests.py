"""The JSON of KIP-236's proposal B: requests to move partitions, and reassignments in flight (R-245, R-246)."""

import msgspec
from msgspec import Struct

from reference.coordination import paths
from reference.coordination.admin_paths import Reassignment
from reference.types import BrokerId, TopicPartition, index_of, topic_of, topic_partition


class Request(Struct, frozen=True):
    """The reassignment request in one znode. `legacy`: it came through /admin/reassign_partitions (R-250)."""

    replicas: dict[TopicPartition, tuple[BrokerId, ...]]
    legacy: bool = False


class _RequestJson(Struct, omit_defaults=True):
    version: int
    assignments: dict[str, dict[str, list[int]]]
    legacy: bool = False


class _EntryJson(Struct, omit_defaults=True):
    version: int
    replicas: list[BrokerId]
    top: int
    original_replicas: list[BrokerId]
    held: list[BrokerId]
    drop: list[BrokerId] = []
    legacy: bool = False


_VERSION = 1


def request_payload(request: Request) -> bytes:
    """R-245: the JSON of /admin/reassignment_requests/request_NNN."""
    assignments: dict[str, dict[str, list[int]]] = {}
    for tp, replicas in sorted(request.replicas.items()):
        assignments.setdefault(topic_of(tp), {})[str(index_of(tp))] = list(replicas)
    return msgspec.json.encode(_RequestJson(_VERSION, assignments, request.legacy))


def decode_request(data: bytes) -> Request:
    """The request in a znode, without invalid entries; an empty one if the data is not a request."""
    try:
        json = msgspec.json.decode(data, type=_RequestJson)
    except msgspec.DecodeError:
        return Request({})
    targets = {
        topic_partition(topic, int(index)): tuple(BrokerId(b) for b in replicas)
        for topic, partitions in json.assignments.items()
        for index, replicas in partitions.items()
        if paths.is_topic(topic) and paths.index_named(index) is not None and replicas and _distinct(replicas)
    }
    return Request(dict(sorted(targets.items())), json.legacy)


def _distinct(brokers: list[BrokerId] | list[int]) -> bool:
    return len(set(brokers)) == len(brokers) and all(broker >= 0 for broker in brokers)


def entry_payload(entry: Reassignment) -> bytes:
    """R-246, R-253: the JSON of /admin/reassignments/[topic]/[partition]; `top`: how many of its replicas to keep.

    KIP-236 stores no more. But the next controller must also know which brokers get a new replica (R-308), which ones may hold
    one (B-59), and which replicas are to be removed at once.
    """
    holders, original = list(entry.held), list(entry.original)
    return msgspec.json.encode(
        _EntryJson(_VERSION, list(entry.replicas), entry.top, original, holders, list(entry.drop), entry.legacy)
    )


def decode_entry(data: bytes) -> Reassignment | None:
    """A reassignment in flight; None if the data is invalid."""
    try:
        json = msgspec.json.decode(data, type=_EntryJson)
    except msgspec.DecodeError:
        return None
    if not json.replicas or not all(map(_distinct, (json.replicas, json.original_replicas, json.held, json.drop))):
        return None
    return Reassignment(
        tuple(json.replicas),
        tuple(json.original_replicas),
        top=json.top,
        held=tuple(json.held),
        drop=tuple(json.drop),
        legacy=json.legacy,
    )
