"""Proposal B of KIP-236: which replicas go at once when a reassignment is changed on its way. Pure (C-18, R-253 to R-256).

"Consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]": 3 was neither assigned first nor wanted
last, and is not kept until 4 is in sync. So as many replicas stay as were assigned originally, those first that serve: the
leader, the rest of the ISR, then the others.
"""

from reference.types import BrokerId


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
