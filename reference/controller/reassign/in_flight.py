"""Proposal B of KIP-236: the controller reads requests and writes an entry for each reassignment in flight (C-19).

    /admin/reassignment_requests/request_NNN   a request; deleted when it is taken up or refused
    /admin/reassignments/[topic]/[partition]   an entry in flight: created, changed by another request, deleted at the end
    /admin/reassign_partitions                 the legacy way: its entries become a request with a flag, and stay until the end

Both proposals move a partition in the same way (`reassign.move`).
One multi writes the entry and deletes the request, before the move begins. So each controller goes on with the entries in flight,
then with the requests in their order, then with the legacy entries, which become the last request (R-252).
"""

from reference.config import min_isr_of
from reference.controller.context import Agent, Controller
from reference.controller.reassign import requests as reassign_requests
from reference.controller.reassign.read import Draft, Seen
from reference.coordination import admin_paths, reassignment_requests
from reference.coordination.admin_paths import REASSIGN, REASSIGNMENTS, REQUESTS, Reassignment
from reference.coordination.api import AnyOp, Create, Delete, SetData
from reference.coordination.reassignment_requests import Request
from reference.effects import Note
from reference.machine import Turn
from reference.types import BrokerId, TopicPartition, topic_of


def take_requests(turn: Turn, controller: Controller, facts: Seen, draft: Draft) -> None:
    """R-246, R-247, R-252: apply the requests in their order to the entries in flight."""
    for request in controller.agent.requests.values():
        for tp, replicas in request.replicas.items():
            entry, assigned = draft.entries.get(tp), facts.assigned.get(tp, ())
            reason = _refusal(turn, entry, tp, replicas, assigned, legacy=request.legacy)
            if reason:
                turn.note(Note(kind="reassignment-refused", tp=tp, detail=reason))
                if request.legacy:
                    done(draft, tp, replicas)
            elif entry is None:
                draft.entries[tp] = reassign_requests.begun(replicas, assigned, legacy=request.legacy)
            else:
                draft.entries[tp] = reassign_requests.changed(entry, replicas, assigned, facts.states.get(tp))


def _refusal(
    turn: Turn,
    entry: Reassignment | None,
    tp: TopicPartition,
    replicas: tuple[BrokerId, ...],
    assigned: tuple[BrokerId, ...],
    *,
    legacy: bool,
) -> str:
    """Why a reassignment request is ignored (R-251, R-253, KAFKA-2234); empty if it is carried out."""
    min_isr = min_isr_of(turn.config, topic_of(tp))
    if not assigned:
        return "no such partition"
    if not reassign_requests.may_change(entry, legacy=legacy):
        return "asked for by the other way"
    if not reassign_requests.is_allowed(original=assigned if entry is None else entry.original, min_isr=min_isr):
        return "fewer original replicas than min.insync.replicas"
    if len(replicas) < min_isr:
        return "fewer replicas than min.insync.replicas"  # no record could be committed any more
    return ""


def done(draft: Draft, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> None:
    """R-248: remove a finished entry from /admin/reassign_partitions, unless it names other replicas now."""
    legacy = draft.legacy.get(tp)
    if legacy is not None and legacy.replicas == replicas:
        del draft.legacy[tp]


def writes(agent: Agent, draft: Draft) -> tuple[AnyOp, ...]:
    """The ZooKeeper operations that store the changed reassignments; all requests read were taken up or refused.

    R-249: an entry is created once, written again only where a request changes it, and deleted at the end. So its czxid names the
    reassignment, and its mzxid differs from it after a change.
    """
    ended = [tp for tp in sorted(agent.versions) if tp not in draft.entries]
    wanted = {f"{REASSIGNMENTS}/{topic_of(tp)}" for tp in draft.entries}
    empty = [path for path in agent.parents if path.startswith(f"{REASSIGNMENTS}/") and path not in wanted]
    parents = [REASSIGNMENTS, *sorted(wanted)] if wanted else []
    ops: list[AnyOp] = [Delete(admin_paths.reassignment_path(tp), agent.versions[tp]) for tp in ended]
    ops += [Delete(path) for path in agent.strays]
    ops += [Delete(path) for path in empty]
    ops += [Create(path, b"") for path in parents if path not in agent.parents]
    for tp, entry in sorted(draft.entries.items()):
        path, data = admin_paths.reassignment_path(tp), reassignment_requests.entry_payload(entry)
        if tp not in agent.versions:
            ops.append(Create(path, data))
        elif entry != agent.entries.get(tp):
            ops.append(SetData(path, data, agent.versions[tp]))
    ops += [Delete(path) for path in agent.requests]
    return (*ops, *_legacy_writes(agent, draft))


def _legacy_writes(agent: Agent, draft: Draft) -> tuple[AnyOp, ...]:
    """R-250: turn the new entries of /admin/reassign_partitions into one reassignment request, marked as legacy.

    R-248: the znode is deleted with its last entry.
    """
    ops: list[AnyOp] = []
    if agent.version >= 0 and (agent.bad or draft.legacy != agent.legacy or not draft.legacy):
        payload = admin_paths.reassignments_payload(draft.legacy)
        ops.append(SetData(REASSIGN, payload, agent.version) if draft.legacy else Delete(REASSIGN, agent.version))
    waiting = {tp: entry.replicas for tp, entry in draft.legacy.items() if not _is_in_flight(draft, tp, entry.replicas)}
    if waiting:
        ops += [] if REQUESTS in agent.parents else [Create(REQUESTS, b"")]
        ops.append(
            Create(admin_paths.REQUEST, reassignment_requests.request_payload(Request(waiting, legacy=True)), sequential=True)
        )
    return tuple(ops)


def _is_in_flight(draft: Draft, tp: TopicPartition, replicas: tuple[BrokerId, ...]) -> bool:
    entry = draft.entries.get(tp)
    return entry is not None and entry.legacy and entry.replicas == replicas
