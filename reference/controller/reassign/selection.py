"""Who leads a partition that is moved, and who is left in its ISR. Pure (V3 §F, KIP-236).

`state.replicas` is AR as the controller has it in memory: RAR, or OAR where the reassignment is rolled back.
"""

from reference.config import BrokerConfig, Variant, min_isr_of
from reference.controller.context import Move
from reference.controller.leader_selection import Choice, Elect, Keep, Live, as_stamped
from reference.messages import IsrMember, PartitionState
from reference.types import BrokerId, topic_of


def members_wanted(config: BrokerConfig, state: PartitionState, move: Move | None) -> int:
    """How many of AR must be in the ISR before the others may leave it.

    Forward all of them (C-11: RAR is in the ISR). A rollback must be fast (R-244): as many as hold what is committed however
    one of them fails, min.insync.replicas. With `cancel_requires_isr` off, the letter of KIP-236, none need be (U-21).
    R-254: on the way to other replicas, those who go at once do so whoever is in the ISR, unless they are counted on themselves.
    """
    if move is not None and move.back:
        enough = min(max(min_isr_of(config, topic_of(state.tp)), 1), len(state.replicas))
        return enough if config.variant.cancel_requires_isr else 0
    if move is not None and move.dropping:
        counted = [m for m in (*state.isr, *state.elr) if m.broker in move.dropped]
        return min(max(min_isr_of(config, topic_of(state.tp)), 1), len(state.replicas)) if counted else 1
    return len(state.replicas)


def newcomers(move: Move | None, state: PartitionState) -> tuple[BrokerId, ...]:
    """R-308: who is to hold a replica that it never had, and has not shown that it does.

    Said again by the next controller: else a broker with a directory that cannot be read would refuse to make the replica in
    another one, and the move would never end (KAFKA-10314).
    """
    counted = {member.broker for member in (*state.isr, *state.elr)}
    return () if move is None else tuple(b for b in move.new if b not in counted)


def held_by(variant: Variant, state: PartitionState, replicas: tuple[BrokerId, ...], live: Live) -> tuple[IsrMember, ...]:
    """The members of the ISR that are among these, and in service under the registration with which they joined."""
    return tuple(m for m in state.isr if m.broker in replicas and as_stamped(variant, m, live))


def lead(variant: Variant, state: PartitionState, live: Live, enough: int) -> Choice:
    """KIP-236 step 2 (R-235), and the same step forward: the leader is one of AR; where it is already, a new epoch."""
    held = {m.broker: m for m in held_by(variant, state, state.replicas, live)}
    if len(held) < enough:
        return Keep()
    if state.leader in held:
        return Elect(held[state.leader], state.isr)
    leader = next((held[b] for b in state.replicas if b in held), None)
    if leader is not None:
        return Elect(leader, state.isr)
    # B-60: "elect a new leader from OAR" has no condition on the ISR there
    alive = next((IsrMember(b, live[b]) for b in state.replicas if b in live), None)
    return Keep() if alive is None or enough > 0 else Elect(alive, (alive,))


def shrink(variant: Variant, state: PartitionState, live: Live, enough: int) -> Choice:
    """R-236, V3 §F step 3.2.2: the ISR becomes that part of it which stays assigned."""
    held = held_by(variant, state, state.replicas, live)
    if not held or len(held) < enough or held == state.isr:
        return Keep()
    leaders = {m.broker: m for m in held}
    # V3 §F says nothing of a leader that is not in RAR; nobody else may lead an ISR that it is not in.
    first = next(b for b in (state.leader, *state.replicas) if b in leaders)
    return Elect(leaders[first], held)
