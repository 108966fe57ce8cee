"""What the search knows and brokers do not: which records are promised, and the first broken promise (DUR-1).

A record is promised once it is below the high watermark of a leader or acknowledged. A record promised in an epoch must be in the
log of every leader of that epoch or a later one, in whichever order promise and election are observed. The explorer has no
wounds, so no loss is excused.
"""

from msgspec.structs import replace

from highwater.explore.state import Ghost, Promised
from reference.effects import Note
from reference.errors import ErrorCode
from reference.messages import ProduceReply
from reference.types import TopicPartition, index_of


def after_note(ghost: Ghost, values: tuple[str, ...], index: int, note: Note) -> Ghost:
    """Update the promised records after a broker reported something; `values` is the partition's log at that moment."""
    if note.tp is None or note.leader_epoch is None:
        return ghost
    if note.kind == "hw" and note.detail == "leader" and note.hw is not None:
        return _with_commit(ghost, note.tp, values[: note.hw], note.leader_epoch)
    if note.kind == "became-leader":
        return _with_election(ghost, note.tp, values, f"b{index + 1}", note.leader_epoch)
    return ghost


def after_reply(ghost: Ghost, values: tuple[str, ...], reply: ProduceReply) -> Ghost:
    """Update the promised records after the reply to a produce with acks=all."""
    if reply.error is not ErrorCode.NONE or reply.offset is None or reply.leader_epoch is None:
        return ghost
    return _with_commit(ghost, reply.tp, values[: reply.offset + 1], reply.leader_epoch)


def _with_commit(ghost: Ghost, tp: TopicPartition, values: tuple[str, ...], epoch: int) -> Ghost:
    """The ghost when these values are committed in this epoch; it compares them with earlier ones and the last leader's log."""
    before = ghost.partitions[index_of(tp)]
    for offset, (value, (earlier, _)) in enumerate(zip(values, before.committed, strict=False)):
        if value != earlier:
            return _with_complaint(ghost, f"{value} is committed at offset {offset}, where {earlier} was committed before")
    fresh = tuple((value, epoch) for value in values[len(before.committed) :])
    if not fresh:
        return ghost
    ghost = _with_promised(ghost, tp, replace(before, committed=before.committed + fresh))
    if epoch < before.top_epoch and before.top_log[: len(values)] != values:
        lacking = next(o for o, value in enumerate(values) if before.top_log[o : o + 1] != (value,))
        words = f"{values[lacking]} is committed at offset {lacking} in epoch {epoch}"
        return _with_complaint(ghost, f"{words}, and the leader of epoch {before.top_epoch} is without it")
    return ghost


def _with_election(ghost: Ghost, tp: TopicPartition, values: tuple[str, ...], node: str, epoch: int) -> Ghost:
    """The ghost when a broker leads with this log, which must have every value that was committed in earlier epochs."""
    before = ghost.partitions[index_of(tp)]
    for offset, (value, promised) in enumerate(before.committed):
        if promised <= epoch and values[offset : offset + 1] != (value,):
            return _with_complaint(ghost, f"{node} leads epoch {epoch} without {value}, which is committed at offset {offset}")
    if epoch >= before.top_epoch:
        return _with_promised(ghost, tp, replace(before, top_epoch=epoch, top_log=values))
    return ghost


def _with_promised(ghost: Ghost, tp: TopicPartition, promised: Promised) -> Ghost:
    index = index_of(tp)
    return replace(ghost, partitions=(*ghost.partitions[:index], promised, *ghost.partitions[index + 1 :]))


def _with_complaint(ghost: Ghost, words: str) -> Ghost:
    return ghost if ghost.wrong else replace(ghost, wrong=words)
