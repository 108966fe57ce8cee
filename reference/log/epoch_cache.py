"""The start offset of each leader epoch in a log (KIP-101): leader and follower find the offset where their logs diverge.

Entries are sorted by epoch and by start offset. A leader adds its epoch at its log end when it begins to lead, before it writes
anything (KAFKA-7415). A follower adds an entry with the first batch of an epoch.
"""

from msgspec import Struct

from reference.types import LeaderEpoch, Offset


class EpochStart(Struct, frozen=True, array_like=True):
    """A leader epoch in a log and its first offset."""

    epoch: LeaderEpoch
    start: Offset


def assign(entries: list[EpochStart], epoch: LeaderEpoch, start: Offset, *, strict: bool = True) -> None:
    """Add a leader epoch and its start offset to a log's epoch cache, unless it is the latest there already.

    Entries that contradict it are removed (KAFKA-10706, B-11): this replica may have led a later epoch without writing a record,
    and now gets another leader's records of an earlier one. Without `strict` such entries stay, and the later epoch never ends.
    """
    if entries and (entries[-1].epoch == epoch or (entries[-1].epoch > epoch and not strict)):
        return
    while entries and (entries[-1].start >= start or entries[-1].epoch > epoch):
        entries.pop()
    entries.append(EpochStart(epoch, start))


def truncate(entries: list[EpochStart], end: Offset) -> None:
    """Remove from the epoch cache the leader epochs that start at or after the new log end."""
    while entries and entries[-1].start >= end:
        entries.pop()


def end_by_kip101(entries: list[EpochStart], epoch: LeaderEpoch, leo: Offset) -> Offset | None:
    """KIP-101: where a leader epoch ends: at the start of the next one; the log end for the latest; None if unknown."""
    if entries and entries[-1].epoch == epoch:
        return leo
    for entry in entries:
        if entry.epoch > epoch:
            return entry.start
    return None


def end_by_kip279(entries: list[EpochStart], epoch: LeaderEpoch, leo: Offset) -> tuple[LeaderEpoch, Offset] | None:
    """KIP-279: the largest cached leader epoch not above `epoch`, and its end offset; None for an empty cache.

    If `epoch` is below all cached epochs, the answer is `epoch` and the start of the first entry.
    """
    if not entries:
        return None
    latest: EpochStart | None = None
    for entry in entries:
        if entry.epoch > epoch:
            return (epoch, entry.start) if latest is None else (latest.epoch, entry.start)
        latest = entry
    assert latest is not None
    return latest.epoch, leo
