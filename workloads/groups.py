"""groups: producers as in produce-consume, and the members of one consumer group, which poll and then commit.

Members (`consumers` of them). Each is subscribed to all topics under one group. After each poll that returned records it commits,
for each partition of them, the position behind the last one: what it commits, it was given (at least once). One operation in
ASKS_ONE_IN asks for the committed position of a drawn partition, and one in LEAVES_ONE_IN leaves the group, so that the others
are given its partitions; the next poll joins again. In phase "final" a member polls and commits until it is at the end of its
partitions, or until FINAL_ATTEMPTS_MAX polls in a row gave nothing, and then asks for all committed positions.

A commit of unknown outcome is not repeated; the next one is of a later position.
"""

from collections.abc import Iterator

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

GROUP = "readers"
ASKS_ONE_IN = 10
LEAVES_ONE_IN = 60
FINAL_ATTEMPTS_MAX = 20


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: producers, then members of the group, then final readers of each partition."""
    shared = Draws(draws)
    readers = parameters.final_readers
    return (
        *(produce_consume.Producer(i, shared, parameters) for i in range(parameters.producers)),
        *(Member(i, shared, parameters) for i in range(parameters.consumers)),
        *(produce_consume.FinalReader(parameters.partitions[i::readers]) for i in range(readers)),
    )


class Member:
    """A member of the consumer group."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"m{number}"
        self._draws = draws
        self._partitions = parameters.partitions
        self._reads = tuple((name.topic, name.partition) for name in parameters.partitions)
        self._interval_ms = parameters.poll_interval_ms
        self._due_ms = 0
        self._to_commit: list[tuple[str, int, int]] = []
        self._attempts = 0
        self._last: Iterator[PartitionName] = iter(parameters.partitions)
        self._ended = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """Commit what was polled; else the next operation, at its due time."""
        if self._to_commit:
            topic, partition, offset = self._to_commit.pop()
            return Invocation(f="commit", topic=topic, partition=partition, offset=offset, group=GROUP)
        if phase == "final":
            return self._finish()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        low, high = (self._interval_ms + 1) // 2, self._interval_ms * 3 // 2
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", low, high)
        if self._draws.ratio(f"workload leaves {self._name}", 1, LEAVES_ONE_IN):
            return Invocation(f="group-leave", group=GROUP)
        if self._draws.ratio(f"workload asks {self._name}", 1, ASKS_ONE_IN):
            return _asks(self._partitions[self._draws.below(f"workload asks about {self._name}", len(self._partitions))])
        return self._poll()

    def _finish(self) -> Invocation | Done:
        """Poll until the end, FINAL_ATTEMPTS_MAX times at most, then ask for the committed offset of each partition in turn."""
        if not self._ended and self._attempts < FINAL_ATTEMPTS_MAX:
            return self._poll()
        partition = next(self._last, None)
        return Done() if partition is None else _asks(partition)

    def _poll(self) -> Invocation:
        return Invocation(f="group-poll", group=GROUP, reads=self._reads)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Remember what is to be committed."""
        if invocation.f == "group-poll":
            self._to_commit = list(completion.positions) if completion.type is OpType.OK else []
            self._attempts = 0 if completion.positions else self._attempts + 1
            self._ended = completion.type is OpType.OK and completion.at_end


def _asks(partition: PartitionName) -> Invocation:
    return Invocation(f="committed", topic=partition.topic, partition=partition.partition, group=GROUP)
