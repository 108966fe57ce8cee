"""misuse: produce-consume, and one client that breaks the rules of produce requests and must be refused each time.

In phase "faults" the client writes GOOD_IN_A_ROW single values to a drawn partition as a correct idempotent producer. When all of
them were acknowledged, it sends a request that no leader may accept: a sequence with a gap, an old sequence, an old producer
epoch, an unknown producer id, no values, or invalid acks (bugs B-65, B-66). Like every other failed send, a refused value must
never appear in a log (docs/promise.md ORD-4), and an accepted one is an anomaly (ORD-3). In phase "quiet" the client is done.

An unknown producer id is wrong with any sequence but 0, with which a new producer begins. With `stranger_first` the client also
names one before its first right request to the drawn partition, where the next sequence of its own session may be 0.
"""

from typing import Literal

from msgspec.structs import replace

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import Completion, Done, Invocation, Misuse, Phase, Process, Sleep
from workloads.parameters import Parameters

GOOD_IN_A_ROW = 8
GAP_MS_MIN = 10
GAP_MS_MAX = 120
NO_SUCH_ACKS = 2
_Wrong = Misuse | Literal["empty", "acks"]
# The error that each mistake deserves; a leader has forgotten the batch that is behind, and cannot say where it is in the log.
_DESERVED: dict[_Wrong, str] = {
    "gap": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "behind": "DUPLICATE_SEQUENCE_NUMBER",
    "epoch": "INVALID_PRODUCER_EPOCH",
    "stranger": "UNKNOWN_PRODUCER_ID",
    "empty": "INVALID_REQUEST",
    "acks": "INVALID_REQUIRED_ACKS",
}


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The processes of produce-consume, then the client that breaks the rules."""
    return (*produce_consume.processes(draws, parameters), Misfit(Draws(draws), parameters))


class Misfit:
    """The client that breaks the rules: GOOD_IN_A_ROW correct produce requests, then a wrong one, and so on."""

    def __init__(self, draws: Draws, parameters: Parameters) -> None:
        self._draws = draws
        self._partitions = parameters.partitions
        self._partition = parameters.partitions[0]
        self._stranger_first = parameters.stranger_first
        self._begun = False  # by the request of a stranger
        self._good = 0
        self._written = 0
        self._due_ms = 0

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next produce of the client that breaks the rules, at its due time."""
        if phase != "faults":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + self._draws.between("workload gap misfit", GAP_MS_MIN, GAP_MS_MAX)
        value = f"x-{self._written}"
        self._written += 1
        if self._good == 0 and not self._begun:
            self._partition = self._partitions[self._draws.below("workload partition misfit", len(self._partitions))]
            self._begun = self._stranger_first
            if self._begun:
                return replace(self._produce(value, misuse="stranger"), deserves=_DESERVED["stranger"])
        self._begun = False
        if self._good < GOOD_IN_A_ROW:
            self._good += 1
            return self._produce(value)
        self._good = 0
        wrong = tuple(_DESERVED)[self._draws.below("workload misuse", len(_DESERVED))]
        match wrong:
            case "empty":
                request = self._produce(idempotent=False)
            case "acks":
                request = self._produce(value, acks=NO_SUCH_ACKS, idempotent=False)
            case mistake:
                request = self._produce(value, misuse=mistake)
        return replace(request, deserves=_DESERVED[wrong])

    def _produce(self, *values: str, acks: int = -1, idempotent: bool = True, misuse: Misuse = "") -> Invocation:
        """A produce to the client's partition."""
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
        """Begin anew after a right produce that was not acknowledged: the next wrong one might be right in a new session."""
        right = invocation.idempotent and not invocation.misuse
        if right and completion.type is not OpType.OK:
            self._good = 0
