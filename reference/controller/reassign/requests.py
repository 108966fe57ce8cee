"""Rules for changing reassignments in flight, proposal B of KIP-236 (C-18, R-251 to R-256). Pure functions.

"Consider an initial assignment of [1,2], reassigned to [2,3] and then changed to [2,4]": 3 was neither assigned first nor wanted
last, and is not kept until 4 is in sync. So as many replicas stay as were assigned originally: first the leader, then the rest of
the ISR, then the others.
"""

from msgspec.structs import replace

from reference.coordination.admin_paths import Reassignment
from reference.messages import PartitionState
from reference.replica.partition import brokers_of
from reference.types import BrokerId


def may_change(existing: Reassignment | None, *, legacy: bool) -> bool:
    """R-251: a partition in reassignment takes no request through the other path (legacy or new): ignore such a request."""
    return existing is None or existing.legacy == legacy


def is_allowed(*, original: tuple[BrokerId, ...], min_isr: int) -> bool:
    """R-253: a reassignment whose original assignment has fewer than min.insync.replicas replicas is ignored."""
    return len(original) >= min_isr


def begun(replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], *, legacy: bool) -> Reassignment:
    """R-246, R-253: the entry of a new reassignment. No replica is dropped: `top` is the number of assigned replicas."""
    return Reassignment(replicas, assigned, top=len(assigned), held=assigned, legacy=legacy)


def changed(
    entry: Reassignment, replicas: tuple[BrokerId, ...], assigned: tuple[BrokerId, ...], state: PartitionState | None
) -> Reassignment:
    """R-247, R-254: the entry of a reassignment that gets another target. The dropped replicas are computed once and stored.

    A member of the ELR (KIP-966) serves more than a replica that is merely assigned. A replica that is wanted stays even beyond
    `top`: it would have to be created again, and cancelling would be slow (R-244).
    """
    if replicas == entry.replicas:
        return entry
    drop: tuple[BrokerId, ...] = ()
    if state is not None:
        counted = brokers_of((*state.isr, *state.elr))
        drop = droppable(assigned, leader=state.leader, isr=counted, top=entry.top)
    holders = tuple(dict.fromkeys((*entry.held, *assigned)))
    return replace(entry, replicas=replicas, held=holders, drop=tuple(b for b in drop if b not in replicas))


def droppable(
    assigned: tuple[BrokerId, ...], *, leader: BrokerId | None, isr: tuple[BrokerId, ...], top: int
) -> tuple[BrokerId, ...]:
    """R-254: drop = assigned -- the first `top` of List(leader) ++ isr ++ osr, without duplicates.

    C-18: the text writes existing[0:top-1]; read without its end it would drop 2 in the example, which is in sync and wanted.
    R-255: dropped replicas are stopped, deleted and taken out of AR as any others. R-256: a replica that is being added and
    serves less than others never stays in their place, and so never leads.
    """
    out_of_sync = tuple(b for b in assigned if b not in isr)
    existing = dict.fromkeys((*(() if leader is None else (leader,)), *isr, *out_of_sync))
    staying = tuple(existing)[:top]
    return tuple(b for b in assigned if b not in staying)
