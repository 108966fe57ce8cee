"""Where each leader epoch starts in a log (KIP-101), and how a leader and a follower find the point where they part.

Entries are sorted by epoch and by start offset. A leader adds its epoch at its log end when it begins to lead, before it has
written anything (KAFKA-7415); a follower adds one with the first batch of an epoch.
"""

from msgspec import Struct

from reference.types import NO_EPOCH, LeaderEpoch, Offset


class EpochStart(Struct, frozen=True, array_like=True):
    """The first offset of an epoch."""

    epoch: LeaderEpoch
    start: Offset


def assign(entries: list[EpochStart], epoch: LeaderEpoch, start: Offset, *, strict: bool = True) -> None:
    """Note that `epoch` starts at `start`, if it is not the latest already.

    Entries that contradict it go (KAFKA-10706, B-11): an epoch that was led here without a record may be later than that of the
    records which another leader then hands over. Where they stay (not `strict`) the later epoch seems to go on for ever.
    """
    if entries and entries[-1].epoch == epoch:
        return
    if not strict and entries and entries[-1].epoch > epoch:
        return
    while entries and (entries[-1].start >= start or entries[-1].epoch > epoch):
        entries.pop()
    entries.append(EpochStart(epoch, start))


def truncate(entries: list[EpochStart], end: Offset) -> None:
    """Forget epochs that start at or after the new log end."""
    while entries and entries[-1].start >= end:
        entries.pop()


def end_by_kip101(entries: list[EpochStart], epoch: LeaderEpoch, leo: Offset) -> Offset | None:
    """KIP-101: the start of the first larger epoch; the log end for the latest epoch; None where neither is known."""
    if entries and entries[-1].epoch == epoch:
        return leo
    for entry in entries:
        if entry.epoch > epoch:
            return entry.start
    return None


def end_by_kip279(entries: list[EpochStart], epoch: LeaderEpoch, leo: Offset) -> tuple[LeaderEpoch, Offset] | None:
    """KIP-279: the largest epoch not above the one asked for, and where it ends; None for an empty cache.

    Asked for an epoch below all of its own, the log answers that epoch and its own first start.
    """
    if not entries:
        return None
    found: EpochStart | None = None
    for entry in entries:
        if entry.epoch > epoch:
            return (epoch, entry.start) if found is None else (found.epoch, entry.start)
        found = entry
    assert found is not None
    return found.epoch, leo


def last_epoch(entries: list[EpochStart]) -> LeaderEpoch:
    """The latest epoch, NO_EPOCH for an empty cache."""
    return entries[-1].epoch if entries else NO_EPOCH
