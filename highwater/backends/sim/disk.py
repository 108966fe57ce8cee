"""The simulated disks of one broker: log directories with a page cache, an fsync that takes time, and errors.

Each log keeps a journal of the operations since its last flush. A power loss undoes a drawn suffix of that journal, per log; the
last append that remains may be torn (its batch exists and is not intact). A crash undoes nothing. Checkpoints are replaced
atomically and durably, as `reference.effects` says.

A directory refuses with an error: EACCES, ENOTDIR and EIO refuse everything, ENOSPC refuses operations that need room. The
records that a power loss or a swap destroys are returned as `Wounds`: the first offset of each log whose record has changed.
"""

from typing import assert_never

import msgspec

from highwater.backends.sim.network import Acting
from history.seed import Draws
from reference.broker.startup import is_left_over
from reference.effects import Append, CreateReplica, DeleteReplica, MarkClean, MarkDir, Truncate, WriteCheckpoint
from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.sealed import count
from reference.types import NO_INCARNATION, Creation, Incarnation, Offset, TopicId, TopicPartition

Wounds = list[tuple[TopicPartition, TopicId, int]]  # (log, its topic, first offset destroyed)
Ends = list[tuple[TopicPartition, TopicId, int]]  # (log, its topic, its durable end)
DiskEffect = CreateReplica | MarkDir | MarkClean | DeleteReplica | Append | Truncate | WriteCheckpoint

_NEED_ROOM = (Append, CreateReplica, MarkDir, MarkClean, WriteCheckpoint)


class Refusal:
    """A fault that makes a simulated log directory fail all operations, or only those that need space."""

    __slots__ = ("acting", "error", "reads")

    def __init__(self, acting: Acting, error: str, *, reads: bool) -> None:
        self.acting = acting
        self.error = error
        self.reads = reads  # operations that need no room work


class _Log:
    # One log in the page cache. The journal holds, newest last, None for an append and the removed batches for a truncation.

    __slots__ = ("batches", "born", "created", "journal", "number", "told", "topic_id")

    def __init__(self, born: Incarnation, topic_id: TopicId, created: Creation) -> None:
        self.born = born
        self.topic_id = topic_id
        self.created = created
        self.batches: list[Batch] = []
        self.journal: list[tuple[Batch, ...] | None] = []
        self.number = 0  # of operations before the journal: all durable
        self.told = 0  # the durable end that `durable_ends` returned last


Mark = list[tuple[TopicPartition, _Log, int]]  # the last operation of each log that a flush makes durable


def _image_of(tp: TopicPartition, log: _Log) -> LogImage:
    return LogImage(tp, tuple(log.batches), log.born, log.topic_id, log.created)


class Directory:
    """One simulated log directory of a broker: its logs, checkpoint, markers and the faults active on it."""

    __slots__ = ("born", "checkpoint", "clean", "dirs", "dirty", "gone", "logs", "moved", "refusals", "slows")

    def __init__(self) -> None:
        self.born = NO_INCARNATION
        self.dirs = 0  # as marked
        self.clean = False
        self.logs: dict[TopicPartition, _Log] = {}
        self.dirty: dict[TopicPartition, _Log] = {}
        self.moved: set[TopicPartition] = set()  # logs whose durable end may have changed since `durable_ends`
        self.gone: dict[TopicPartition, _Log] = {}  # logs whose deletion is not durable yet
        self.checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
        self.refusals: list[Refusal] = []
        self.slows: list[tuple[int, Acting]] = []


class Disk:
    """The simulated log directories of a broker; they outlive its processes."""

    __slots__ = ("_draws", "_flush_ns_max", "_flush_ns_min", "_node", "dirs")

    def __init__(self, node: str, dirs: int, draws: Draws, flush_ns: tuple[int, int]) -> None:
        self._node = node
        self._draws = draws
        self._flush_ns_min, self._flush_ns_max = flush_ns
        self.dirs = [Directory() for _ in range(dirs)]

    # --- effects of a machine ----------------------------------------------------------------------------------------------

    def refuses(self, index: int, *, needs_room: bool) -> str | None:
        """The error that an access to this log directory gives now; None if it works."""
        for refusal in self.dirs[index].refusals:
            if needs_room or not refusal.reads:
                refusal.acting.count += 1
                return refusal.error
        return None

    def perform(self, effect: DiskEffect) -> str | None:
        """Write to the page cache (a checkpoint: to the disk). If the directory fails, change nothing and return the error."""
        directory = self.dirs[effect.dir]
        if directory.refusals:
            error = self.refuses(effect.dir, needs_room=isinstance(effect, _NEED_ROOM))
            if error is not None:
                return error
        match effect:
            case Append(tp=tp, batches=batches):
                log = directory.logs[tp]
                log.batches += batches
                log.journal += [None] * len(batches)
                directory.dirty[tp] = log
                directory.moved.add(tp)
            case Truncate(tp=tp, to=to):
                self._truncate(directory, tp, to)
            case WriteCheckpoint(entries=entries):
                directory.checkpoint = entries
            case CreateReplica(tp=tp, born=born, topic_id=topic_id, created=created):
                assert tp not in directory.logs
                directory.logs[tp] = _Log(born, topic_id, created)
                directory.moved.add(tp)
            case MarkDir(born=born, dirs=dirs):
                directory.born, directory.dirs = born, dirs
            case MarkClean(clean=clean):
                directory.clean = clean
            case DeleteReplica(tp=tp):
                log = directory.logs.pop(tp)
                directory.dirty.pop(tp, None)
                log.told = 0  # its deletion tells readers that nothing of it is durable; a power loss may undo the deletion
                directory.gone[tp] = log
            case _:
                assert_never(effect)
        return None

    def _truncate(self, directory: Directory, tp: TopicPartition, to: Offset) -> None:
        """Drop the batches from this offset on; the journal keeps them, since the truncation is not durable."""
        log = directory.logs[tp]
        keep = len(log.batches)
        while keep and log.batches[keep - 1].base_offset >= to:
            keep -= 1
        assert not keep or end_of(log.batches[keep - 1]) <= to  # always a batch boundary
        if keep < len(log.batches):
            log.journal.append(tuple(log.batches[keep:]))
            del log.batches[keep:]
            log.told = min(log.told, end_of(log.batches[-1]) if log.batches else 0)
            directory.dirty[tp] = log
            directory.moved.add(tp)

    def replicas_in(self, index: int) -> tuple[TopicPartition, ...]:
        """The partitions whose logs are in a log directory."""
        return tuple(self.dirs[index].logs)

    def flush_delay_ns(self, index: int) -> int:
        """The randomly chosen duration of an fsync of this directory that starts now."""
        delay_ns = self._draws.between(f"flush {self._node}", self._flush_ns_min, self._flush_ns_max)
        for extra_ns, acting in self.dirs[index].slows:
            acting.count += 1
            delay_ns += extra_ns
        return delay_ns

    def flush_mark(self, index: int) -> Mark:
        """Remember what a flush that starts now makes durable; pass the result to `flushed` when the flush ends."""
        return [(tp, log, log.number + len(log.journal)) for tp, log in self.dirs[index].dirty.items()]

    def flushed(self, index: int, mark: Mark) -> None:
        """End a flush: what was written before it began is durable, and a power loss no longer undoes it."""
        directory = self.dirs[index]
        directory.gone.clear()
        for tp, log, number in mark:
            directory.moved.add(tp)
            if number > log.number:
                del log.journal[: number - log.number]
                log.number = number
            if not log.journal and directory.dirty.get(tp) is log:
                del directory.dirty[tp]

    def durable_ends(self, index: int) -> Ends:
        """The logs of a directory whose durable end has changed since the last call or truncation, with that end.

        No power loss destroys a record below the durable end, however much of the unflushed writes it undoes.
        """
        changed: Ends = []
        directory = self.dirs[index]
        for tp, log in directory.logs.items() if directory.moved else ():
            if tp not in directory.moved:
                continue
            end = _durable_end(log)
            if end != log.told:
                log.told = end
                changed.append((tp, log.topic_id, end))
        directory.moved.clear()
        return changed

    # --- faults of the harness ------------------------------------------------------------------------------------------------

    def lose_unflushed(self, index: int, purpose: str, *, torn: bool, all_of_it: bool) -> Wounds:
        """Simulate a power loss: undo a random part of each log's unflushed writes, latest first."""
        directory = self.dirs[index]
        wounds: Wounds = []
        directory.moved.update(directory.dirty, directory.gone)
        for tp, log in sorted(directory.dirty.items()):
            key = f"{purpose} {self._node} {tp}"
            survive = 0 if all_of_it else self._draws.below(key, len(log.journal) + 1)
            before = list(log.batches)
            torn_here = torn and survive < len(log.journal) and self._draws.ratio(f"torn {key}", 1, 2)
            _undo_unflushed(log, survive, torn=torn_here)
            destroyed = _first_difference(before, log.batches)
            if destroyed is not None:
                wounds.append((tp, log.topic_id, destroyed))
            log.number += len(log.journal)
            log.journal.clear()
        for tp, log in sorted(directory.gone.items()):
            if tp not in directory.logs and (all_of_it or self._draws.ratio(f"undelete {purpose} {self._node} {tp}", 1, 2)):
                directory.logs[tp] = log
        directory.dirty.clear()
        directory.gone.clear()
        return wounds

    def swap(self, index: int) -> Wounds:
        """Replace a log directory by an empty one; returns what was lost of the logs that the broker would use."""
        images = self.image()
        logs = sorted(self.dirs[index].logs.items())
        logs = [(tp, log) for tp, log in logs if not is_left_over(_image_of(tp, log), index, images)]
        # also for an empty log: the ISR that counts on the replica does not know that the log was empty
        wounds = [(tp, log.topic_id, int(log.batches[0].base_offset) if log.batches else 0) for tp, log in logs]
        old, self.dirs[index] = self.dirs[index], Directory()
        self.dirs[index].refusals, self.dirs[index].slows = old.refusals, old.slows
        return wounds

    def image(self) -> tuple[DirImage, ...]:
        """The contents of all log directories, as a broker process reads them when it starts."""
        images = []
        for index, directory in enumerate(self.dirs):
            if directory.refusals and self.refuses(index, needs_room=False) is not None:
                images.append(DirImage(index, readable=False))
                continue
            logs = tuple(_image_of(tp, log) for tp, log in sorted(directory.logs.items()))
            images.append(
                DirImage(
                    index,
                    readable=True,
                    logs=logs,
                    checkpoint=directory.checkpoint,
                    born=directory.born,
                    dirs=directory.dirs,
                    clean=directory.clean,
                )
            )
        return tuple(images)


def end_of(batch: Batch) -> int:
    """The offset after the last record of a batch."""
    return batch.base_offset + count(batch.values)


def _durable_end(log: _Log) -> int:
    """The offset up to which every record of a log survives, whatever part of the journal a power loss undoes."""
    if not log.journal:
        return end_of(log.batches[-1]) if log.batches else 0
    durable = len(log.batches)
    end = end_of(log.batches[-1]) if log.batches else 0
    undone = 0  # batches that an undone truncation has put back
    for done in reversed(log.journal):
        if done is not None:
            undone += len(done)
        elif undone:
            undone -= 1
        else:
            durable -= 1
            end = int(log.batches[durable].base_offset)
    return end


def _undo_unflushed(log: _Log, survive: int, *, torn: bool) -> None:
    """Undo the changes of a log that were not durable, except the first `survive`; `torn` damages the last batch."""
    while len(log.journal) > survive:
        done = log.journal.pop()
        if done is not None:
            log.batches += done
            continue
        lost = log.batches.pop()
        if torn and len(log.journal) == survive:
            log.batches.append(msgspec.structs.replace(lost, intact=False))


def _first_difference(before: list[Batch], after: list[Batch]) -> int | None:
    """The first offset whose record in log `before` is missing or different in log `after`."""
    for old, new in zip(before, after, strict=False):
        if old != new:
            return old.base_offset
    return None if len(after) >= len(before) else before[len(after)].base_offset
