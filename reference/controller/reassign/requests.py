"""Proposal B of KIP-236: the rules by which its controller decides. Pure (C-18, R-249, R-251 to R-256).

"Consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]": 3 was neither assigned first nor wanted
last, and is not kept until 4 is in sync. So as many replicas stay as were assigned originally, those first that serve: the
leader, the rest of the ISR, then the others.
"""

from typing import Literal

from msgspec.structs import replace

from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import AnyAnswer, Data
from reference.messages import PartitionState
from reference.replica.partition import brokers_of
from reference.types import BrokerId


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
