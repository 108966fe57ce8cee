"""The high watermark (V3 §G): a leader computes the smallest log end of the ISR, a follower takes the HW of its leader.

While an ISR change is in flight, either ISR may be the one in ZooKeeper, so the leader counts both (the maximal ISR, KIP-497).
"""

from msgspec.structs import replace

from reference.machine import Turn
from reference.messages import IsrMember
from reference.replica import delayed
from reference.replica.partition import Leader, Partition, note_of, progress_of, stable_leo
from reference.types import Offset


def counted_for_hw(turn: Turn, leader: Leader) -> tuple[IsrMember, ...]:
    """The replicas that must hold a record before it is committed: the ISR, also with a change to it in flight."""
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
    """How many replicas count for min.insync.replicas: those in the ISR whether a change in flight succeeds or fails."""
    if leader.change is None or turn.config.variant.isr_change != "maximal":
        return len(leader.isr)
    others = [{m.broker for m in isr} for isr in (leader.change.wanted, *leader.change.earlier)]
    return sum(1 for m in leader.isr if all(m.broker in isr for isr in others))


def advance(turn: Turn, partition: Partition, leader: Leader) -> None:
    """V3 §G: leader.hw = min of leo of every replica in ISR; then answer requests that wait for the HW or for a local flush.

    A committed record is in every replica of the ISR, so each of them may lead without losing it (R-141, R-143). A leader that
    was deposed without knowing it no longer gets the fetches that would raise its HW (R-072). The HW is exclusive, one past the
    last committed record (C-04). It does not rise while fewer than min.insync.replicas are in sync (KAFKA-15583): at least that
    many hold each committed record.
    """
    in_sync = in_sync_for_min_isr(turn, leader)
    short = in_sync < partition.min_isr and not turn.config.variant.hw_under_min_isr
    low = None if short else _smallest_leo(turn, partition, leader)
    if low is not None and (low > partition.hw or (low < partition.hw and not turn.config.variant.hw_monotone)):
        partition.hw = low
        _note(turn, partition, "leader")
        delayed.complete_fetches(turn, partition)
    delayed.complete_produces(turn, partition, in_sync)


def _smallest_leo(turn: Turn, partition: Partition, leader: Leader) -> Offset | None:
    """The smallest LEO of the replicas counted for the HW; None while one of them has not fetched in this epoch."""
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
    """V3 §G at the follower: r.hw = response.hw; in `safe` never above the own log end (U-03), and never lower than before."""
    variant = turn.config.variant
    leader_hw = min(hw, partition.log.leo) if variant.hw_clamp else hw
    if leader_hw > partition.hw or (leader_hw < partition.hw and not variant.hw_monotone):
        partition.hw = leader_hw
        _note(turn, partition, "follower")


def _note(turn: Turn, partition: Partition, role: str) -> None:
    turn.note(replace(note_of(partition, "hw"), leader_epoch=partition.leader_epoch, detail=role))
