"""What the search knows and brokers do not: which records are promised, and the first broken promise (DUR-1).

A record is promised once it is below the high watermark of a leader or acknowledged. A record promised in an epoch must be in the
log of every leader of that epoch or a later one, in whichever order promise and election are observed. The explorer has no
wounds, so no loss is excused.
"""

from msgspec.structs import replace

from highwater.explore.state import Ghost
from reference.effects import Note
from reference.errors import ErrorCode
from reference.messages import ProduceReply


def see(ghost: Ghost, values: tuple[str, ...], index: int, note: Note) -> Ghost:
    """Update the promised records after a broker reported something; `values` is its log at that moment."""
    if note.kind == "hw" and note.detail == "leader" and note.hw is not None and note.leader_epoch is not None:
        return _promise(ghost, values[: note.hw], note.leader_epoch)
    if note.kind == "became-leader" and note.leader_epoch is not None:
        return _lead(ghost, values, f"b{index + 1}", note.leader_epoch)
    return ghost


def answered(ghost: Ghost, values: tuple[str, ...], reply: ProduceReply) -> Ghost:
    """Update the promised records after the reply to a produce with acks=all."""
    if reply.error is not ErrorCode.NONE or reply.offset is None or reply.leader_epoch is None:
        return ghost
    return _promise(ghost, values[: reply.offset + 1], reply.leader_epoch)


def _promise(ghost: Ghost, values: tuple[str, ...], epoch: int) -> Ghost:
    for offset, (held, promised) in enumerate(zip(values, ghost.committed, strict=False)):
        if held != promised[0]:
            return _wrong(ghost, f"{held} is committed at offset {offset}, where {promised[0]} was committed before")
    fresh = values[len(ghost.committed) :]
    if not fresh:
        return ghost
    ghost = replace(ghost, committed=ghost.committed + tuple((value, epoch) for value in fresh))
    if epoch < ghost.top_epoch and ghost.top_log[: len(values)] != values:
        lacking = next(o for o, value in enumerate(values) if ghost.top_log[o : o + 1] != (value,))
        words = f"{values[lacking]} is committed at offset {lacking} in epoch {epoch}"
        return _wrong(ghost, f"{words}, and the leader of epoch {ghost.top_epoch} is without it")
    return ghost


def _lead(ghost: Ghost, values: tuple[str, ...], node: str, epoch: int) -> Ghost:
    for offset, (value, promised) in enumerate(ghost.committed):
        if promised <= epoch and values[offset : offset + 1] != (value,):
            return _wrong(ghost, f"{node} leads epoch {epoch} without {value}, which is committed at offset {offset}")
    if epoch >= ghost.top_epoch:
        return replace(ghost, top_epoch=epoch, top_log=values)
    return ghost


def _wrong(ghost: Ghost, words: str) -> Ghost:
    return ghost if ghost.wrong else replace(ghost, wrong=words)
