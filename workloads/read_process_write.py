"""read-process-write: the members of a group read records, send a result of each, and commit both in one transaction.

Kafka promises that this is done exactly once (KIP-98, KIP-129, KIP-447). The last topic of the plan takes the results, the others
are read. Producers write to these as in produce-consume.

Processors (`consumers` of them) are subscribed to the topics that are read, under one group, and see committed records only. Each
poll that gives records is one transaction: a result for every record, and the group's positions behind the records
(sendOffsetsToTransaction), with up to WORK_MS_MAX between the two. One in ABORTED_ONE_IN is aborted on purpose after the results
were sent, and its records are read again. A result names its record (history/results.py) and goes to the partition of the last
topic that has the number of the record's. So every record that the group has passed must have one result,
and no more. One operation in LEAVES_ONE_IN leaves the group; the next poll joins again. In phase "final" it polls until it
is at the end of its partitions, or until FINAL_ATTEMPTS_MAX polls in a row gave nothing, and leaves: the last one has them all.

Final readers come after the processors: each reads the results from the beginning until it is at the end, and the producers'
final readers read what was written.
"""

from collections.abc import Sequence

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume, transactions
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

GROUP = "processors"
LEAVES_ONE_IN = 60
WORK_MS_MAX = 200
ABORTED_ONE_IN = 8
FINAL_ATTEMPTS_MAX = 20


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: producers, processors, then final readers of what is read and of the results."""
    shared = Draws(draws)
    results = tuple(name for name in parameters.partitions if name.topic == parameters.partitions[-1].topic)
    inputs = tuple(name for name in parameters.partitions if name not in results)
    processors = tuple(Processor(i, shared, parameters, inputs, results) for i in range(parameters.consumers))
    readers = parameters.final_readers
    return (
        *(produce_consume.Producer(i, shared, parameters, partitions=inputs) for i in range(parameters.producers)),
        *processors,
        *(produce_consume.FinalReader(inputs[i::readers]) for i in range(readers)),
        *(transactions.FinalReader(transactions.committed_read(results), processors) for _ in range(readers)),
    )


class Processor:
    """A member of the group; `done` once it has left for good."""

    def __init__(
        self, number: int, draws: Draws, parameters: Parameters, inputs: Sequence[PartitionName], results: Sequence[PartitionName]
    ) -> None:
        self._name = f"x{number}"
        self._draws = draws
        self._reads = tuple((name.topic, name.partition) for name in inputs)
        self._writes = tuple((name.topic, name.partition) for name in results)
        self._interval_ms = parameters.poll_interval_ms
        self._due_ms = 0
        self._attempts = 0  # without anything read
        self._at_end = False
        self._is_finishing = False
        self.done = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next transaction, at its due time; sometimes it leaves the group."""
        if phase == "final":
            return self._last_invocation()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        low, high = (self._interval_ms + 1) // 2, self._interval_ms * 3 // 2
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", low, high)
        self._attempts, self._at_end = 0, False
        if self._draws.ratio(f"workload leaves {self._name}", 1, LEAVES_ONE_IN):
            return Invocation(f="group-leave", group=GROUP)
        return self._drawn_transaction()

    def _last_invocation(self) -> Invocation | Done:
        """The last transaction, again until the end is reached or FINAL_ATTEMPTS_MAX were made; then the leaving of the group."""
        if self.done:
            return Done()
        if not self._is_finishing:  # records may have been produced since an earlier poll came to the end
            self._is_finishing, self._at_end, self._attempts = True, False, 0
        if self._at_end or self._attempts >= FINAL_ATTEMPTS_MAX:
            self.done = True
            return Invocation(f="group-leave", group=GROUP)
        return self._drawn_transaction(last=True)

    def _drawn_transaction(self, *, last: bool = False) -> Invocation:
        """A transaction with drawn work in ms, and a drawn abort unless it is the last."""
        work_ms = self._draws.between(f"workload work {self._name}", 0, WORK_MS_MAX)
        aborts = self._draws.ratio(f"workload aborts {self._name}", 1, ABORTED_ONE_IN)
        return Invocation(
            f="process", group=GROUP, reads=self._reads, writes=self._writes, work_ms=work_ms, aborts=aborts and not last
        )

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Note whether the end was reached, or something was read."""
        if invocation.f == "process":
            self._at_end = completion.type is OpType.OK and completion.at_end and not completion.positions
            self._attempts = 0 if completion.positions else self._attempts + 1
