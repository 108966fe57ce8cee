"""Proposal B of KIP-236: its payload and the rules by which its controller decides. Pure (C-18, R-245, R-251 to R-256).

The agent works by proposal A, and no machine uses this module (C-19): it holds what can be said of proposal B without one.

"Consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]": 3 was neither assigned first nor wanted
last, and is not kept until 4 is in sync. So as many replicas stay as were assigned originally, those first that serve: the
leader, the rest of the ISR, then the others.
"""

import msgspec
from msgspec import Struct

from reference.types import BrokerId, TopicPartition, index_of, topic_of, topic_partition


class Request(Struct, frozen=True):
    """What one znode asks for. `legacy`: it came through /admin/reassign_partitions (R-250)."""

    replicas: dict[TopicPartition, tuple[BrokerId, ...]]
    legacy: bool = False


class Wanted(Struct, frozen=True, array_like=True):
    """A partition that is being reassigned, to what, and by which way it was asked for."""

    replicas: tuple[BrokerId, ...]
    legacy: bool


class _RequestJson(Struct, omit_defaults=True):
    version: int
    assignments: dict[str, dict[str, list[int]]]
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
        if index.isdecimal() and replicas
    }
    return Request(dict(sorted(found.items())), json.legacy)


def in_flight(sources: tuple[Request, ...]) -> dict[TopicPartition, Wanted]:
    """R-252: what a new controller goes on with: /admin/reassignments, then each request, then /admin/reassign_partitions.

    A later source changes what an earlier one began, but only for a partition that was asked for by the same way (R-251).
    """
    wanted: dict[TopicPartition, Wanted] = {}
    for source in sources:
        for tp, replicas in source.replicas.items():
            if may_change(wanted.get(tp), legacy=source.legacy):
                wanted[tp] = Wanted(replicas, source.legacy)
    return dict(sorted(wanted.items()))


def may_change(existing: Wanted | None, *, legacy: bool) -> bool:
    """R-251: one partition is not reassigned by both ways: a request with the other flag is ignored."""
    return existing is None or existing.legacy == legacy


def is_allowed(*, original: tuple[BrokerId, ...], min_isr: int) -> bool:
    """R-253: top = len(original_assignment) must reach min.insync.replicas, else the reassignment is ignored."""
    return len(original) >= min_isr


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
