"""create-delete: produce-consume, while one more topic is created and deleted under one name (bugs B-61, B-62).

An administrator creates the topic, deletes it after a drawn time and creates it again. Sometimes it creates the topic while it
exists, which must be refused. While the topic exists, a separate producer writes to it with acks=all; the producer stops when
the deletion is requested. A final reader reads a topic that exists at the end. After a request with an unknown outcome the
administrator requests deletions until one succeeds, also when the faults are over, so that the workload never confuses two topics
of the name. In phase "final" it lists the requests that are still pending (docs/promise.md LIVE-4). Deletion ends the promises of
the topic's id (DUR-8).
"""

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.admin_storm import LOOK_BACKOFF_MS, Looker, writer_and_reader
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, ParametersError, PartitionName, TopicShape

LIFE_MS_MIN = 1500
LIFE_MS_MAX = 5000
PAUSE_MS_MIN = 10  # the name is used again at once
PAUSE_MS_MAX = 1500


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The processes of produce-consume, then the producer and the reader of the scratch topic, then the administrator."""
    if parameters.scratch is None:
        raise ParametersError("workload create-delete needs the parameter `scratch`, the topic that it creates and deletes")
    shared = Draws(draws)
    existing: list[PartitionName] = []
    return (
        *produce_consume.processes(draws, parameters),
        *writer_and_reader(shared, parameters, parameters.producers, existing),
        Administrator(shared, parameters.scratch, existing),
    )


class Administrator:
    """A client that creates and deletes one topic in turn. `there` holds its partitions while it certainly exists."""

    def __init__(self, draws: Draws, topic: TopicShape, existing: list[PartitionName]) -> None:
        self._draws = draws
        self._topic = topic
        self._existing = existing
        self._partitions = tuple(PartitionName(topic.name, i) for i in range(topic.partitions))
        self._absent = True
        self._certain = False  # the topic existed for certain when its deletion was requested
        self._due_ms = 0
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The next creation or deletion of the topic, at its due time."""
        if phase == "final":
            return self._looker.next()
        over = phase != "faults"
        if over and (self._absent or self._existing):
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        if over:
            self._due_ms = now_ms + LOOK_BACKOFF_MS
            return self._deletion()
        again = bool(self._existing) and self._draws.ratio("workload topic again", 1, 4)
        if self._absent or again:
            self._due_ms = now_ms + self._draws.between("workload topic life", LIFE_MS_MIN, LIFE_MS_MAX)
            return Invocation(f="create-topic", topic=self._topic.name, assignment=self._topic.replicas)
        self._due_ms = now_ms + self._draws.between("workload topic pause", PAUSE_MS_MIN, PAUSE_MS_MAX)
        return self._deletion()

    def _deletion(self) -> Invocation:
        """The deletion of the topic, which does not exist from here on."""
        self._certain = bool(self._existing)
        self._existing.clear()
        return Invocation(f="delete-topic", topic=self._topic.name)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Record whether the topic exists now, and choose the next command; unknown outcomes count as not done.

        A deletion is refused while another request to delete topics stands (an operator's): then the topic exists as before.
        """
        match invocation.f:
            case "create-topic":
                self._absent = False
                if completion.type is OpType.OK and not self._existing:
                    self._existing.extend(self._partitions)
            case "delete-topic":
                self._absent = completion.type is OpType.OK
                if completion.type is OpType.FAIL and self._certain:
                    self._existing.extend(self._partitions)
            case _:
                self._looker.completed(completion)
