"""zombies: clients share transactional ids, and take them over from each other while the other one still works (KIP-98).

Clients 2k and 2k + 1 have the id "shared-k", each with a producer of its own. The k-th value of client i is "z<i>-<k>", both from
0. It is unique in the run and never sent again.

Transactors (`producers` of them). Each initializes its producer, which takes the id over. From then on it makes transactions,
with pairs / rate seconds between them on average: it sends one to SENDS_MAX records, waits up to WORK_MS_MAX, and commits. One
in ABORTED_ONE_IN is aborted on purpose. One pause in DOZES_ONE_IN, within a transaction or behind one, is DOZE_MS_MIN to
DOZE_MS_MAX longer, so that the other client may take the id over. A client does not know that it lost the id before a call of
its own is refused, so it is a zombie until then. After a call that failed it gives the producer up, rests for REST_MS_MIN to
REST_MS_MAX, and takes the id back with a new one. It never commits what it could not send. In phase "final" it ends the open
transaction.

Readers (`consumers`) poll committed records of all partitions. Final readers read them from the beginning to the end, once the
transactors are done.
"""

from history.op import OpType
from history.seed import Draws
from workloads.client import Completion, Done, Invocation, Micro, Phase, Process, Sleep
from workloads.parameters import Parameters
from workloads.transactions import FinalReader, Reader, committed_read

SENDS_MAX = 3
WORK_MS_MAX = 300
ABORTED_ONE_IN = 8
DOZES_ONE_IN = 5
DOZE_MS_MIN = 500
DOZE_MS_MAX = 1500
REST_MS_MIN = 300
REST_MS_MAX = 2500


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: transactors, then readers, then final readers."""
    shared = Draws(draws)
    transactors = tuple(Transactor(i, shared, parameters) for i in range(parameters.producers))
    read = committed_read(parameters.partitions)
    return (
        *transactors,
        *(Reader(i, shared, parameters, read) for i in range(parameters.consumers)),
        *(FinalReader(read, transactors) for _ in range(parameters.final_readers)),
    )


class Transactor:
    """A client that takes the id over and makes transactions until it is fenced; `done` once it will end none any more."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"z{number}"
        self._id = f"shared-{number // 2}"
        self._draws = draws
        self._partitions = parameters.partitions
        self._gap_ms = max(1, 1000 * ((parameters.producers + 1) // 2) // parameters.produce_per_s)
        # The second one of a pair begins later, so that it finds somebody to take the id from.
        self._due_ms = REST_MS_MAX * (number % 2)
        self._now_ms = 0
        self._initialized = False
        self._has_open_transaction = False  # a transaction, whose records were sent
        self._written = 0
        self.done = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next step, at its due time."""
        if phase == "final":
            self.done = not self._has_open_transaction
            return Done() if self.done else self._ending()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._now_ms = now_ms
        if not self._initialized:
            return Invocation(f="init-transactions", transactional_id=self._id)
        return self._ending() if self._has_open_transaction else self._sends()

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Go on, or give the producer up after a failure."""
        self._has_open_transaction = invocation.f == "txn-send" and completion.type is OpType.OK
        self._initialized = completion.type is OpType.OK
        if not self._initialized:
            self._due_ms = self._now_ms + self._draws.between(f"workload rest {self._name}", REST_MS_MIN, REST_MS_MAX)
        elif self._has_open_transaction:
            self._due_ms = self._now_ms + self._draws.between(f"workload work {self._name}", 0, WORK_MS_MAX) + self._doze_ms()
        else:
            gap_ms = self._draws.between(f"workload gap {self._name}", self._gap_ms // 2, self._gap_ms * 3 // 2)
            self._due_ms = self._now_ms + gap_ms + self._doze_ms()

    def _doze_ms(self) -> int:
        """How much longer a pause is; 0 for most."""
        dozes = self._draws.ratio(f"workload dozes {self._name}", 1, DOZES_ONE_IN)
        return self._draws.between(f"workload doze {self._name}", DOZE_MS_MIN, DOZE_MS_MAX) if dozes else 0

    def _sends(self) -> Invocation:
        """The records of the next transaction, each to a drawn partition."""
        micros = []
        for _ in range(self._draws.between(f"workload sends {self._name}", 1, SENDS_MAX)):
            to = self._partitions[self._draws.below(f"workload partition {self._name}", len(self._partitions))]
            micros.append(Micro(topic=to.topic, partition=to.partition, value=f"{self._name}-{self._written}"))
            self._written += 1
        return Invocation(f="txn-send", transactional_id=self._id, micros=tuple(micros))

    def _ending(self) -> Invocation:
        """Commit the open transaction, or abort it on purpose."""
        aborts = self._draws.ratio(f"workload aborts {self._name}", 1, ABORTED_ONE_IN)
        return Invocation(f="txn-abort" if aborts else "txn-commit", transactional_id=self._id)
