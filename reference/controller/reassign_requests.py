"""Proposal B of KIP-236: its payloads and the rules by which its controller decides. Pure (C-18, R-245, R-249, R-251 to R-256).

"Consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]": 3 was neither assigned first nor wanted
last, and is not kept until 4 is in sync. So as many replicas stay as were assigned originally, those first that serve: the
leader, the rest of the ISR, then the others.
"""

from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import AnyAnswer, Data
from reference.messages import PartitionState
from reference.replica.partition import brokers_of
from reference.types import BrokerId, TopicPartition, index_of, topic_of, topic_partition


class Request(Struct, frozen=True):
    """What one znode asks for. `legacy`: it came through /admin/reassign_partitions (R-250)."""

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


def payload(request: Request) -> bytes:
    """R-245: /admin/reassignment_requests/request_NNN."""
    assignments: dict[str, dict[str, list[int]]] = {}
    for tp, replicas in sorted(request.replicas.items()):
        assignments.setdefault(topic_of(tp), {})[str(index_of(tp))] = list(replicas)
    return msgspec.json.encode(_RequestJson(_VERSION, assignments, request.legacy))


def decode(data: bytes) -> Request:
    """The request that a znode holds; an empty one where somebody wrote something else."""
    try:
        json = msgspec.json.decode(data, type=_RequestJson)
    except msgspec.DecodeError:
        return Request({})
    found = {
        topic_partition(topic, int(index)): tuple(BrokerId(b) for b in replicas)
        for topic, partitions in json.assignments.items()
        for index, replicas in partitions.items()
        if index.isdecimal() and replicas and len(set(replicas)) == len(replicas) and min(replicas) >= 0
    }
    return Request(dict(sorted(found.items())), json.legacy)


def entry_payload(entry: Reassignment) -> bytes:
    """R-246, R-253: /admin/reassignments/[topic]/[partition], with `top`.

    KIP-236 stores no more. But who is to make a replica that it never had (R-308), who may hold one (B-59), and who is to go at
    once must be known to the next controller as well.
    """
    held, original = list(entry.held), list(entry.original)
    return msgspec.json.encode(
        _EntryJson(_VERSION, list(entry.replicas), entry.top, original, held, list(entry.drop), entry.legacy)
    )


def decode_entry(data: bytes) -> Reassignment | None:
    """What is in flight; None where somebody wrote something else."""
    try:
        json = msgspec.json.decode(data, type=_EntryJson)
    except msgspec.DecodeError:
        return None
    return Reassignment(
        tuple(json.replicas),
        tuple(json.original_replicas),
        top=json.top,
        held=tuple(json.held),
        drop=tuple(json.drop),
        legacy=json.legacy,
    )


def fate(begun: Data, now: AnyAnswer) -> Literal["in flight", "changed", "over"]:
    """R-249: what has become of the reassignment whose entry was read as `begun`.

    The czxid names it; a later one of the same partition has another. A znode's mzxid leaves its czxid with its first change, and
    moves with each, as its version does; and the controller writes an entry again only where another request changes it.
    """
    if not isinstance(now, Data) or now.czxid != begun.czxid:
        return "over"
    return "in flight" if now.version == begun.version else "changed"


def may_change(existing: Reassignment | None, *, legacy: bool) -> bool:
    """R-251: one partition is not reassigned by both ways: a request with the other flag is ignored."""
    return existing is None or existing.legacy == legacy


def is_allowed(*, original: tuple[BrokerId, ...], min_isr: int) -> bool:
    """R-253: top = len(original_assignment) must reach min.insync.replicas, else the reassignment is ignored."""
    return len(original) >= min_isr


def begun(replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], *, legacy: bool) -> Reassignment:
    """R-246, R-253: a new reassignment. Nobody is dropped: `top` is the number of those who are assigned."""
    return Reassignment(replicas, assigned, top=len(assigned), held=assigned, legacy=legacy)


def changed(
    entry: Reassignment, replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], state: PartitionState | None
) -> Reassignment:
    """R-247, R-254: the reassignment in flight gets other replicas; computed once, so that the next controller drops the same.

    Who is out of the ISR but counted on until it is full again (KIP-966) serves more than who is merely assigned. Who is wanted
    stays, though there be more than `top`: it would have to be made again, and cancelling would be slow (R-244).
    """
    if replicas == entry.replicas:
        return entry
    drop: tuple[BrokerId, ...] = ()
    if state is not None:
        counted = brokers_of((*state.isr, *state.elr))
        drop = droppable(assigned, leader=state.leader, isr=counted, top=entry.top)
    held = tuple(dict.fromkeys((*entry.held, *assigned)))
    return replace(entry, replicas=replicas, held=held, drop=tuple(b for b in drop if b not in replicas))


def droppable(
    assigned: tuple[BrokerId, ...], *, leader: BrokerId | None, isr: tuple[BrokerId, ...], top: int
) -> tuple[BrokerId, ...]:
    """R-254: drop = assigned -- the first `top` of List(leader) ++ isr ++ osr, without duplicates.

    C-18: the text writes existing[0:top-1]; read without its end it would drop 2 in the example, which is in sync and wanted.
    R-255: those who are dropped are stopped, deleted and taken out of AR as any others. R-256: a replica on its way that serves
    less than others never stays in their place, and so never leads.
    """
    out_of_sync = tuple(b for b in assigned if b not in isr)
    existing = dict.fromkeys((*(() if leader is None else (leader,)), *isr, *out_of_sync))
    kept = tuple(existing)[:top]
    return tuple(b for b in assigned if b not in kept)
