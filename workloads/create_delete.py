"""create-delete: produce-consume, while a topic of its own comes and goes under one name (bugs B-61, B-62).

One administrator more: it makes the topic, lets it live for a drawn time, deletes it and makes it again. Now and then it asks for
the topic while it is there, and must be refused. While it is there a
producer of its own writes to it with acks=all; from the moment its deletion is asked for nobody is told of it any more. If it
is there at the end, a final reader reads it. A request whose outcome is unknown is followed by a deletion, asked for until one
is known to be done, so that no two topics of the name are mistaken for each other by the workload. In phase "final" the
administrator looks what is still asked for (docs/promise.md LIVE-4). Deletion ends the promises of the topic's id (DUR-8).
"""

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.admin_storm import Looker
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, ParametersError, PartitionName, TopicShape
from workloads.produce_consume import FinalReader, Producer

LIFE_MS_MIN = 1500
LIFE_MS_MAX = 5000
PAUSE_MS_MIN = 10  # a name that is given again at once
PAUSE_MS_MAX = 1500


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Those of produce-consume, then the producer and the reader of the topic that comes and goes, then the administrator."""
    if parameters.scratch is None:
        raise ParametersError("workload create-delete: there is no topic to create and delete")
    shared = Draws(draws)
    there: list[PartitionName] = []
    return (
        *produce_consume.processes(draws, parameters),
        Producer(parameters.producers, shared, parameters, partitions=there),
        FinalReader(there),
        Administrator(shared, parameters.scratch, there),
    )


class Administrator:
    """Makes a topic and deletes it, in turn. `there` holds its partitions while it certainly is there."""

    def __init__(self, draws: Draws, topic: TopicShape, there: list[PartitionName]) -> None:
        self._draws = draws
        self._topic = topic
        self._there = there
        self._absent = True
        self._due_ms = 0
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The other command when it is due."""
        if phase == "final":
            return self._looker.next()
        if phase == "quiet":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        again = bool(self._there) and self._draws.ratio("workload topic again", 1, 4)
        if self._absent or again:
            self._due_ms = now_ms + self._draws.between("workload topic life", LIFE_MS_MIN, LIFE_MS_MAX)
            return Invocation(f="create-topic", topic=self._topic.name, assignment=self._topic.replicas)
        self._due_ms = now_ms + self._draws.between("workload topic pause", PAUSE_MS_MIN, PAUSE_MS_MAX)
        self._there.clear()
        return Invocation(f="delete-topic", topic=self._topic.name)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """What is certain counts."""
        match invocation.f:
            case "create-topic":
                self._absent = False
                if completion.type is OpType.OK and not self._there:
                    self._there.extend(PartitionName(self._topic.name, i) for i in range(self._topic.partitions))
            case "delete-topic":
                self._absent = completion.type is OpType.OK
            case _:
                self._looker.completed(completion)
