"""groups: producers as in produce-consume, and the members of one consumer group, which poll and then commit.

Members (`consumers` of them). Each is subscribed to all topics under one group. After each poll that returned records it commits,
for each partition of them, the position behind the last one: what it commits, it was given (at least once). One operation in
ASKS_ONE_IN asks for the committed position of a drawn partition, and one in LEAVES_ONE_IN leaves the group, so that the others
are given its partitions; the next poll joins again. In phase "final" a member polls and commits until it is at the end of its
partitions, or until FINAL_ATTEMPTS_MAX polls in a row gave nothing, and then asks for all committed positions. An earlier poll
that came to the end does not count, because records may have been produced since.

A commit of unknown outcome is not repeated; the next one is of a later position.

With `auto_commit` the library of the client commits. A member asks for the positions of all partitions instead of one, and one
operation in ABANDONS_ONE_IN of phase "faults" drops its consumer, as a program that crashes while it works on what the last poll
gave. At the end it leaves before it asks, so its last records are committed.
"""

from collections.abc import Iterator

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import Completion, Done, GroupF, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

GROUP = "readers"
ASKS_ONE_IN = 10
LEAVES_ONE_IN = 60
ABANDONS_ONE_IN = 40
FINAL_ATTEMPTS_MAX = 20


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: producers, then members of the group, then final readers of each partition."""
    shared = Draws(draws)
    readers = parameters.final_readers
    member = Member if parameters.auto_commit is None else AutoCommitter
    return (
        *(produce_consume.Producer(i, shared, parameters) for i in range(parameters.producers)),
        *(member(i, shared, parameters) for i in range(parameters.consumers)),
        *(produce_consume.FinalReader(parameters.partitions[i::readers]) for i in range(readers)),
    )


class Member:
    """A member of the consumer group."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"m{number}"
        self._draws = draws
        self._partitions = parameters.partitions
        self._reads = tuple((name.topic, name.partition) for name in parameters.partitions)
        self._commits = "" if parameters.auto_commit is None else parameters.auto_commit.after
        self._interval_ms = parameters.poll_interval_ms
        self._due_ms = 0
        self._to_commit: list[tuple[str, int, int]] = []
        self._attempts = 0
        self._last = self._last_steps()
        self._ended = False
        self._is_finishing = False

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
        return self._drawn(phase)

    def _drawn(self, phase: Phase) -> Invocation:
        """The next operation."""
        if self._draws.ratio(f"workload leaves {self._name}", 1, LEAVES_ONE_IN):
            return self._does("group-leave")
        if self._draws.ratio(f"workload asks {self._name}", 1, ASKS_ONE_IN):
            return self._asks()
        return self._does("group-poll")

    def _asks(self) -> Invocation:
        return _committed(self._partitions[self._draws.below(f"workload asks about {self._name}", len(self._partitions))])

    def _last_steps(self) -> Iterator[Invocation]:
        """The operations after the last poll: a question for the committed position of each partition in turn."""
        return map(_committed, self._partitions)

    def _finish(self) -> Invocation | Done:
        """Poll until the end, FINAL_ATTEMPTS_MAX times at most, then take the last steps."""
        if not self._is_finishing:
            self._is_finishing, self._ended, self._attempts = True, False, 0
        if not self._ended and self._attempts < FINAL_ATTEMPTS_MAX:
            return self._does("group-poll")
        return next(self._last, None) or Done()

    def _does(self, f: GroupF) -> Invocation:
        reads = self._reads if f in ("group-poll", "group-positions") else ()
        return Invocation(f=f, group=GROUP, reads=reads, commits=self._commits)

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Remember what is to be committed."""
        if invocation.f == "group-poll":
            self._to_commit = list(completion.positions) if completion.type is OpType.OK and not self._commits else []
            self._attempts = 0 if completion.positions else self._attempts + 1
            self._ended = completion.type is OpType.OK and completion.at_end


class AutoCommitter(Member):
    """A member that commits automatically."""

    def _drawn(self, phase: Phase) -> Invocation:
        """The next operation; in phase "faults" the member may die."""
        if self._draws.ratio(f"workload abandons {self._name}", 1, ABANDONS_ONE_IN) and phase == "faults":
            return self._does("group-abandon")
        return super()._drawn(phase)

    def _asks(self) -> Invocation:
        return self._does("group-positions")

    def _last_steps(self) -> Iterator[Invocation]:
        """The operations after the last poll: leave, and ask for all positions."""
        return iter((self._does("group-leave"), self._does("group-positions")))


def _committed(partition: PartitionName) -> Invocation:
    return Invocation(f="committed", topic=partition.topic, partition=partition.partition, group=GROUP)
