"""Performing a list of effects where log directories may fail: one rule for every world (KIP-112, R-290, R-291).

What failed is one directory, and the others go on. So after a failure these are left out of the rest of the list: every effect
on that directory; every note about a replica in it, which would claim what did not happen; and every `Send`, which has no
promise to arrive anyway, and behind a failed write may be its acknowledgement (B-63 f, KAFKA-10778). Timers, requests to
ZooKeeper and effects on other directories are performed. `DirFailed` is the next event that the machine is told.
"""

from collections.abc import Callable, Iterable

from reference.effects import (
    AnyEffect,
    Append,
    CreateReplica,
    DeleteReplica,
    Flush,
    MarkClean,
    MarkDir,
    Note,
    Send,
    Truncate,
    WriteCheckpoint,
)
from reference.events import DirFailed
from reference.types import TopicPartition

OnDisk = CreateReplica | MarkDir | MarkClean | DeleteReplica | Append | Truncate | Flush | WriteCheckpoint
_OF_A_REPLICA = (CreateReplica, DeleteReplica, Append, Truncate)


def perform(
    effects: Iterable[AnyEffect],
    attempt: Callable[[AnyEffect], str | None],
    replicas_in: Callable[[int], Iterable[TopicPartition]],
    alive: Callable[[], bool],
) -> list[DirFailed]:
    """Perform from left to right while the process is `alive`; what the machine must be told next, in order (R-290, R-291).

    `attempt` does one effect and returns the error where its directory refused it, `replicas_in` says whose logs a directory
    holds.
    """
    failed: dict[int, str] = {}
    withheld: set[TopicPartition] = set()
    for effect in effects:
        if not alive():
            break
        if failed and _is_left_out(effect, failed, withheld):
            _withhold(effect, withheld)
            continue
        error = attempt(effect)
        if error is not None:
            assert isinstance(effect, OnDisk), "nothing but a directory refuses"
            failed[effect.dir] = error
            withheld.update(replicas_in(effect.dir))
            _withhold(effect, withheld)
    return [DirFailed(dir_, error) for dir_, error in failed.items()]


def _is_left_out(effect: AnyEffect, failed: dict[int, str], withheld: set[TopicPartition]) -> bool:
    if isinstance(effect, OnDisk):
        return effect.dir in failed
    return isinstance(effect, Send) or (isinstance(effect, Note) and effect.tp in withheld)


def _withhold(effect: AnyEffect, withheld: set[TopicPartition]) -> None:
    """A replica that could not even be made is in no directory; what is noted of it is left out all the same."""
    if isinstance(effect, _OF_A_REPLICA):
        withheld.add(effect.tp)
