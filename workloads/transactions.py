"""transactions: clients send and poll in transactions, as in Jepsen's workload of list-append over Kafka.

Values. The k-th value of client i is "w<i>-<k>", both from 0. It is unique in the run and never sent again.

Transactors (`producers` of them). Each has a transactional producer and a consumer that reads committed records of all
partitions from the beginning. In the phases "faults" and "quiet" it begins a transaction every producers / rate seconds on
average, of one to MICROS_MAX micro-operations, each of them a poll or a send to a drawn partition. One transaction in
ABORTED_ONE_IN is aborted on purpose: its records must never be seen. Readers (`consumers`) only poll. Done in phase "final".

A transaction whose commit was asked for and not confirmed is of unknown outcome. The client then begins anew as another
process and reads from the beginning again, as a crashed client of Jepsen does; after a failed one it reads its records again.

Final readers work only in phase "final": each polls all partitions from the beginning until it has come to the end of all, or
until FINAL_ATTEMPTS_MAX polls in a row gave nothing. No end is told while a transaction is open, which a coordinator aborts
within its timeout and ten seconds more.
"""

from collections.abc import Sequence
from typing import Protocol

from history.op import OpType
from history.seed import Draws
from workloads.client import Completion, Done, Invocation, Micro, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

MICROS_MAX = 4
ABORTED_ONE_IN = 8
FINAL_BACKOFF_MS = 250
FINAL_ATTEMPTS_MAX = 80
_POLL = Micro()


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: transactors, then readers, then final readers."""
    shared = Draws(draws)
    poll = _invocation_of(parameters.partitions, _POLL)
    return (
        *(Transactor(i, shared, parameters) for i in range(parameters.producers)),
        *(Reader(i, shared, parameters, poll) for i in range(parameters.consumers)),
        *(FinalReader(poll) for _ in range(parameters.final_readers)),
    )


class Transactor:
    """A client that sends and polls in transactions."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"w{number}"
        self._draws = draws
        self._partitions = parameters.partitions
        self._gap_ms = max(1, 1000 * parameters.producers // parameters.produce_per_s)
        self._due_ms = 0
        self._written = 0

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The client's next transaction, at its due time."""
        if phase == "final":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", self._gap_ms // 2, self._gap_ms * 3 // 2)
        count = self._draws.between(f"workload micros {self._name}", 1, MICROS_MAX)
        micros = tuple(self._micro() for _ in range(count))
        aborts = self._draws.ratio(f"workload aborts {self._name}", 1, ABORTED_ONE_IN) and any(m.value for m in micros)
        return _invocation_of(self._partitions, *micros, aborts=aborts)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Nothing: values are never sent again, whatever the result."""

    def _micro(self) -> Micro:
        """The next micro-operation: a poll, or a send to a drawn partition."""
        if self._draws.ratio(f"workload polls {self._name}", 1, 2):
            return _POLL
        partition = self._partitions[self._draws.below(f"workload partition {self._name}", len(self._partitions))]
        value = f"{self._name}-{self._written}"
        self._written += 1
        return Micro(topic=partition.topic, partition=partition.partition, value=value)


class Reader:
    """A client that only polls, each time after a drawn gap."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters, poll: Invocation) -> None:
        self._name = f"r{number}"
        self._draws = draws
        self._poll = poll
        self._interval_ms = parameters.poll_interval_ms
        self._due_ms = 0

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The client's next poll, at its due time."""
        if phase == "final":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        low, high = (self._interval_ms + 1) // 2, self._interval_ms * 3 // 2
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", low, high)
        return self._poll

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Nothing: the client of the cluster keeps the position."""


class Writer(Protocol):
    """A client that writes in transactions."""

    done: bool  # it has ended its last transaction


class FinalReader:
    """A client that reads all partitions of its polls to their ends after the faults, once these writers are done."""

    def __init__(self, poll: Invocation, writers: Sequence[Writer] = ()) -> None:
        self._poll = poll
        self._writers = writers
        self._attempts = 0  # without anything read
        self._is_done = False
        self._rests = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next poll, after a pause if the last one gave nothing."""
        if phase != "final" or self._is_done or self._attempts >= FINAL_ATTEMPTS_MAX:
            return Done()
        if self._rests or not all(writer.done for writer in self._writers):
            self._rests = False
            return Sleep(FINAL_BACKOFF_MS)
        return self._poll

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Note whether the end was reached, or something was read."""
        self._is_done = completion.type is OpType.OK and completion.at_end
        self._attempts = 0 if completion.positions else self._attempts + 1
        self._rests = not completion.positions


def committed_read(partitions: Sequence[PartitionName]) -> Invocation:
    """A poll of committed records of these partitions, outside of any transaction."""
    return Invocation(f="read-committed", reads=tuple((name.topic, name.partition) for name in partitions))


def _invocation_of(partitions: tuple[PartitionName, ...], *micros: Micro, aborts: bool = False) -> Invocation:
    """A transaction on these partitions; one that aborts deserves the outcome ABORTED."""
    reads = tuple((name.topic, name.partition) for name in partitions)
    deserves = "ABORTED" if aborts else None
    return Invocation(f="txn", micros=micros, aborts=aborts, reads=reads, deserves=deserves)
