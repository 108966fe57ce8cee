"""Performing a machine's effects where a log directory may fail: one rule for the simulator and for real processes.

A failure concerns one directory; the others go on (KIP-112, R-290, R-291). After it these effects of the list are skipped: every
effect on that directory; every note about a replica in it, which would state what did not happen; and every `Send`, which may be
the acknowledgement of the failed write (B-63 f, KAFKA-10778) and is never guaranteed to arrive. Timers, requests to ZooKeeper and
effects on other directories are performed. `DirFailed` is the next event of the machine. It brings back the skipped answers to
LeaderAndIsr: the controller waits for them, and KIP-112 has them name the replicas that are offline now (R-294).
"""

from collections.abc import Callable, Iterable

from reference.effects import AnyEffect, Note, OnDisk, OnReplica, Send
from reference.events import DirFailed
from reference.messages import LeaderAndIsrReply
from reference.types import Address, TopicPartition


def perform(
    effects: Iterable[AnyEffect],
    attempt: Callable[[AnyEffect], str | None],
    replicas_in: Callable[[int], Iterable[TopicPartition]],
    alive: Callable[[], bool],
) -> list[DirFailed]:
    """Perform the effects from left to right while `alive()`; return the next events of the machine, in order (R-290, R-291).

    `attempt` performs one effect and returns the error if its directory failed. `replicas_in` lists the replicas in a directory.
    """
    failed: dict[int, str] = {}
    withheld: set[TopicPartition] = set()
    unanswered: list[tuple[Address, LeaderAndIsrReply]] = []
    for effect in effects:
        if not alive():
            break
        if failed and _is_left_out(effect, failed, withheld):
            _withhold(effect, withheld)
            if isinstance(effect, Send) and isinstance(effect.message, LeaderAndIsrReply):
                unanswered.append((effect.to, effect.message))
            continue
        error = attempt(effect)
        if error is not None:
            assert isinstance(effect, OnDisk), "only an effect on a directory may fail"
            failed[effect.dir] = error
            withheld.update(replicas_in(effect.dir))
            _withhold(effect, withheld)
    if not failed:
        return []
    last = next(reversed(failed))  # the machine then knows of all that failed
    return [DirFailed(dir_, error, tuple(unanswered) if dir_ == last else ()) for dir_, error in failed.items()]


def _is_left_out(effect: AnyEffect, failed: dict[int, str], withheld: set[TopicPartition]) -> bool:
    if isinstance(effect, OnDisk):
        return effect.dir in failed
    return isinstance(effect, Send) or (isinstance(effect, Note) and effect.tp in withheld)


def _withhold(effect: AnyEffect, withheld: set[TopicPartition]) -> None:
    # Skip notes about this replica too: if its creation failed, no directory lists it.
    if isinstance(effect, OnReplica):
        withheld.add(effect.tp)
