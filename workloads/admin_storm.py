"""admin-storm: produce-consume, while an administrator keeps the controller busy.

One administrator more. In phase "faults" it asks, a drawn gap apart, for a preferred leader election of a drawn partition or
for a partition more of a drawn topic (R-132 says on which brokers), at most ADDED_MAX of them. What was added is written by a
producer of its own, with acks=all, from the moment it is there, and read to its end by a final reader. In phase "final" the
administrator looks what is still asked for (docs/promise.md L4). A command that fails or whose outcome is unknown is followed
by the next one.
"""

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName
from workloads.produce_consume import FinalReader, Producer

ADDED_MAX = 3
GAP_MS_MIN = 500
GAP_MS_MAX = 3000
LOOK_BACKOFF_MS = 500
LOOKS_MAX = 10


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Those of produce-consume, then the producer and the reader of what is added, then the administrator."""
    shared = Draws(draws)
    added: list[PartitionName] = []
    producer = Producer(parameters.producers, shared, parameters, partitions=added)
    return (
        *produce_consume.processes(draws, parameters),
        producer,
        FinalReader(added),
        Administrator(shared, parameters, added),
    )


class Looker:
    """The last question of an administrator: what is still asked for? Asked again where ZooKeeper does not answer."""

    def __init__(self) -> None:
        self._left = LOOKS_MAX
        self._backing_off = False

    def next(self) -> Invocation | Sleep | Done:
        """Look, until that was answered."""
        if self._left == 0:
            return Done()
        if self._backing_off:
            self._backing_off = False
            return Sleep(LOOK_BACKOFF_MS)
        self._left -= 1
        return Invocation(f="admin-pending")

    def completed(self, completion: Completion) -> None:
        """Enough, or one look more."""
        self._backing_off = True
        if completion.type is OpType.OK:
            self._left = 0


class Administrator:
    """Asks for one thing after the other."""

    def __init__(self, draws: Draws, parameters: Parameters, added: list[PartitionName]) -> None:
        self._draws = draws
        self._parameters = parameters
        self._added = added
        self._next_index = {topic.name: topic.partitions for topic in parameters.topics}
        self._due_ms = 0
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """A command when it is due."""
        if phase == "final":
            return self._looker.next()
        if phase == "quiet":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + self._draws.between("workload gap admin", GAP_MS_MIN, GAP_MS_MAX)
        asked = sum(self._next_index[topic.name] - topic.partitions for topic in self._parameters.topics)
        if asked < ADDED_MAX and self._draws.ratio("workload admin", 1, 4):
            return self._add()
        everything = (*self._parameters.partitions, *self._added)
        partition = everything[self._draws.below("workload admin partition", len(everything))]
        return Invocation(f="elect-preferred", topic=partition.topic, partition=partition.partition)

    def _add(self) -> Invocation:
        topic = self._parameters.topics[self._draws.below("workload admin topic", len(self._parameters.topics))]
        index = self._next_index[topic.name]
        self._next_index[topic.name] += 1
        return Invocation(f="add-partition", topic=topic.name, partition=index, assignment=(topic.replicas[index],))

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """What was added is written from now on."""
        if invocation.f == "admin-pending":
            self._looker.completed(completion)
        elif invocation.f == "add-partition" and completion.type is OpType.OK:
            self._added.append(PartitionName(invocation.topic, invocation.partition))
