"""share-groups: producers as in produce-consume, and the members of one share group, which acknowledge records (KIP-932).

Members (`consumers` of them). Each is subscribed to all topics under one group. After a poll that returned records it
acknowledges each: one in RELEASED_ONE_IN is released, so that it is delivered again, one in REJECTED_ONE_IN of the others is
rejected, and the rest is accepted. One operation in LEAVES_ONE_IN leaves the group, and one in ABANDONS_ONE_IN abandons the
consumer with the records that it holds: nobody tells the broker, and their locks run out. The next poll joins again. In phase
"final" the members leave.

A last member comes after them, in phase "final": it polls and accepts until LAST_POLLS_MAX polls in a row gave nothing, and
leaves. Final readers read what was written.
"""

from collections.abc import Sequence

from history.seed import Draws
from workloads import produce_consume
from workloads.client import AcknowledgeType, Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters

GROUP = "sharers"
RELEASED_ONE_IN = 8
REJECTED_ONE_IN = 16
LEAVES_ONE_IN = 60
ABANDONS_ONE_IN = 40
TYPES = 16  # that are drawn for one poll, and repeated behind that
LAST_POLLS_MAX = 40  # without anything; longer than twice the lock of a record
WAIT_MS = 250


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """Make the clients of the workload: producers, members of the group, final readers of each partition, the last member."""
    shared = Draws(draws)
    readers = parameters.final_readers
    members = tuple(Member(i, shared, parameters) for i in range(parameters.consumers))
    return (
        *(produce_consume.Producer(i, shared, parameters) for i in range(parameters.producers)),
        *members,
        *(produce_consume.FinalReader(parameters.partitions[i::readers]) for i in range(readers)),
        LastMember(parameters, members),
    )


class Member:
    """A member of the share group; `done` once it has left for good."""

    def __init__(self, number: int, draws: Draws, parameters: Parameters) -> None:
        self._name = f"s{number}"
        self._draws = draws
        self._poll = _poll(parameters)
        self._interval_ms = parameters.poll_interval_ms
        self._due_ms = 0
        self._holds = False  # records that it did not acknowledge
        self.done = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """Acknowledge what was polled; else the next operation, at its due time."""
        if phase == "final":
            if self.done:
                return Done()
            self.done = True
            return Invocation(f="share-leave", group=GROUP)
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        if self._draws.ratio(f"workload abandons {self._name}", 1, ABANDONS_ONE_IN):
            return Invocation(f="share-abandon", group=GROUP)
        if self._draws.ratio(f"workload leaves {self._name}", 1, LEAVES_ONE_IN):
            return Invocation(f="share-leave", group=GROUP)
        if self._holds:
            return Invocation(f="share-acknowledge", group=GROUP, acknowledges=tuple(self._type() for _ in range(TYPES)))
        low, high = (self._interval_ms + 1) // 2, self._interval_ms * 3 // 2
        self._due_ms = now_ms + self._draws.between(f"workload gap {self._name}", low, high)
        return self._poll

    def _type(self) -> AcknowledgeType:
        """What becomes of the next record."""
        if self._draws.ratio(f"workload releases {self._name}", 1, RELEASED_ONE_IN):
            return "release"
        return "reject" if self._draws.ratio(f"workload rejects {self._name}", 1, REJECTED_ONE_IN) else "accept"

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Remember whether records are to be acknowledged."""
        self._holds = bool(completion.positions)


class LastMember:
    """A member that takes what the others left, once they are gone."""

    def __init__(self, parameters: Parameters, members: Sequence[Member]) -> None:
        self._poll = _poll(parameters)
        self._members = members
        self._holds = False
        self._attempts = 0  # without anything polled
        self._has_left_group = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """Poll and accept until nothing comes any more, then leave."""
        if phase != "final" or self._has_left_group:
            return Done()
        if not all(member.done for member in self._members):
            return Sleep(WAIT_MS)
        if self._holds:
            return Invocation(f="share-acknowledge", group=GROUP, acknowledges=("accept",))
        self._has_left_group = self._attempts >= LAST_POLLS_MAX
        return Invocation(f="share-leave", group=GROUP) if self._has_left_group else self._poll

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Count the polls that gave nothing."""
        self._holds = bool(completion.positions)
        if invocation.f == "share-poll":
            self._attempts = 0 if self._holds else self._attempts + 1


def _poll(parameters: Parameters) -> Invocation:
    return Invocation(f="share-poll", group=GROUP, reads=tuple((name.topic, name.partition) for name in parameters.partitions))
