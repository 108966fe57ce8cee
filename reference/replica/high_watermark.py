"""The high watermark (V3 §G): a leader's is the smallest log end of the ISR, a follower's is what its leader tells it.

While an ISR change is in flight either ISR may be the one in ZooKeeper, so the leader counts both (the maximal ISR, KIP-497).
"""

from reference.effects import Note
from reference.machine import Turn
from reference.messages import IsrMember
from reference.replica import delayed
from reference.replica.partition import Leader, Partition, progress_of, stable_leo
from reference.types import Offset


def counted_for_hw(turn: Turn, leader: Leader) -> tuple[IsrMember, ...]:
    """The members that must hold a record before it is committed."""
    if leader.change is None:
        return leader.isr
    match turn.config.variant.isr_change:
        case "maximal":
            return leader.isr + leader.change.wanted + tuple(m for isr in leader.change.earlier for m in isr)
        case "current":
            return leader.isr
        case "eager":
            return leader.change.wanted


def in_sync_for_min_isr(turn: Turn, leader: Leader) -> int:
    """How many count for min.insync.replicas: those in the ISR whichever way a change in flight ends."""
    if leader.change is None or turn.config.variant.isr_change != "maximal":
        return len(leader.isr)
    others = [{m.broker for m in isr} for isr in (leader.change.wanted, *leader.change.earlier)]
    return sum(1 for m in leader.isr if all(m.broker in isr for isr in others))


def advance(turn: Turn, partition: Partition, leader: Leader) -> None:
    """V3 §G: leader.hw = min of leo of every replica in ISR; then answer who waited for it, or for this replica's own flush.

    A record that is committed is in all of them, so that each may lead without it being lost (R-141, R-143). Who leads without
    knowing that another does has lost those it would need (R-072). The HW is exclusive, one past the last of them (C-04).

    While fewer than min.insync.replicas are in sync the HW stands still (KAFKA-15583): what is committed is held by that many.
    """
    in_sync = in_sync_for_min_isr(turn, leader)
    short = in_sync < partition.min_isr and not turn.config.variant.hw_under_min_isr
    low = None if short else _smallest_leo(turn, partition, leader)
    if low is not None and (low > partition.hw or (low < partition.hw and not turn.config.variant.hw_monotone)):
        partition.hw = low
        note_hw(turn, partition, "leader")
        delayed.complete_fetches(turn, partition)
    delayed.complete_produces(turn, partition, in_sync)


def _smallest_leo(turn: Turn, partition: Partition, leader: Leader) -> Offset | None:
    """Of all that are counted; None while one of them has not fetched in this epoch."""
    low = stable_leo(partition)
    for member in counted_for_hw(turn, leader):
        if member.broker == turn.config.broker:
            continue
        follower = progress_of(leader, member.broker)
        if follower is None or follower.leo is None:
            return None
        low = min(low, follower.leo)
    return low


def follow(turn: Turn, partition: Partition, hw: Offset) -> None:
    """V3 §G at the follower: r.hw = response.hw; never above the own log end (U-03) nor back, in `safe`."""
    variant = turn.config.variant
    told = min(hw, partition.log.leo) if variant.hw_clamp else hw
    if told > partition.hw or (told < partition.hw and not variant.hw_monotone):
        partition.hw = told
        note_hw(turn, partition, "follower")


def note_hw(turn: Turn, partition: Partition, detail: str) -> None:
    """Say where the HW is now."""
    turn.note(
        Note(
            kind="hw",
            tp=partition.tp,
            topic_id=partition.log.topic_id,
            hw=partition.hw,
            leo=partition.log.leo,
            leader_epoch=partition.leader_epoch,
            detail=detail,
        )
    )
