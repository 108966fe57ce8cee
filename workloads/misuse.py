"""misuse: produce-consume, while one client breaks the rules of produce requests, and must be refused each time.

One client more. In phase "faults" it writes GOOD_IN_A_ROW single values as an idempotent producer to a drawn partition, as it
should, and then one that no leader may take: a sequence with a gap, one from long ago, an epoch of the producer that has passed,
an id that nobody was given, no values at all, or acks that there are not (bugs B-65, B-66). What was refused for certain must
never appear in any log, like every other failed send (docs/promise.md ORD-4). In phase "quiet" it is done.
"""

from typing import Literal

from history.seed import Draws
from workloads import produce_consume
from workloads.client import Completion, Done, Invocation, Misuse, Phase, Process, Sleep
from workloads.parameters import Parameters

GOOD_IN_A_ROW = 8
GAP_MS_MIN = 10
GAP_MS_MAX = 120
NO_SUCH_ACKS = 2
_WRONGS: tuple[Misuse | Literal["empty", "acks"], ...] = ("gap", "behind", "epoch", "stranger", "empty", "acks")


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Those of produce-consume, then the one that misbehaves."""
    return (*produce_consume.processes(draws, parameters), Misfit(Draws(draws), parameters))


class Misfit:
    """Writes as it should for a while, and then as it should not."""

    def __init__(self, draws: Draws, parameters: Parameters) -> None:
        self._draws = draws
        self._partitions = parameters.partitions
        self._partition = parameters.partitions[0]
        self._good = 0
        self._written = 0
        self._due_ms = 0

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """A produce when it is due."""
        if phase != "faults":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + self._draws.between("workload gap misfit", GAP_MS_MIN, GAP_MS_MAX)
        value = f"x-{self._written}"
        self._written += 1
        if self._good == 0:
            self._partition = self._partitions[self._draws.below("workload partition misfit", len(self._partitions))]
        if self._good < GOOD_IN_A_ROW:
            self._good += 1
            return self._produce(value)
        self._good = 0
        match _WRONGS[self._draws.below("workload misuse", len(_WRONGS))]:
            case "empty":
                return self._produce(idempotent=False)
            case "acks":
                return self._produce(value, acks=NO_SUCH_ACKS, idempotent=False)
            case wrong:
                return self._produce(value, misuse=wrong)

    def _produce(self, *values: str, acks: int = -1, idempotent: bool = True, misuse: Misuse = "") -> Invocation:
        return Invocation(
            f="produce",
            topic=self._partition.topic,
            partition=self._partition.partition,
            values=values,
            acks=acks,
            idempotent=idempotent,
            misuse=misuse,
        )

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Refused or not, it goes on."""
