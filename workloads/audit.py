"""Audit: after healing, an auditor sends each kind of admin request once, beside any workload (docs/promise.md LIVE-5).

In phase "audit", which begins after the promise's bound, no fault is in force and every other administrator is done. The auditor
deposes the controller DEPOSED times, so that other brokers become controller, and after each time has a drawn partition led by
its preferred replica. Then it adds a partition to a drawn topic and moves a drawn partition to drawn replicas, waits until no
request is pending, and elects the preferred replica of every partition. A separate producer writes to the added partition with
acks=all; a final reader reads it.
"""

from collections.abc import Iterator

from history.op import OpType
from history.seed import Draws
from workloads.admin_storm import ADDED_MAX, writer_and_reader
from workloads.client import AdminF, Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

DEPOSED = 2
PAUSE_MS = 100  # between two requests, and between two looks at those that are pending
LOOKS_MAX = 40
PRODUCER = 3  # added to the number of producers; smaller numbers are those of other administrators' producers


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The producer and the reader of the partition that the auditor adds, then the auditor; none without an audit."""
    if not parameters.audited:
        return ()
    shared = Draws(draws)
    added: list[PartitionName] = []
    return (
        *writer_and_reader(shared, parameters, parameters.producers + PRODUCER, added),
        Auditor(shared, parameters, added),
    )


class Auditor:
    """A client that sends one admin request of each kind. `added` gets the partition that it adds."""

    def __init__(self, draws: Draws, parameters: Parameters, added: list[PartitionName]) -> None:
        self._draws = draws
        self._parameters = parameters
        self._added = added
        self._requests_left = self._requests()
        self._waits = False
        self._looks = 0
        self._paused = False

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The auditor's next request, after a pause."""
        if phase != "audit":
            return Done()
        self._paused = not self._paused
        if self._paused:
            return Sleep(PAUSE_MS)
        if self._waits:
            return Invocation(f="admin-pending")
        return next(self._requests_left, Done())

    def _requests(self) -> Iterator[Invocation]:
        """Each kind of request once: depositions and elections, a new partition, a move; then an election of each partition."""
        partitions = self._parameters.partitions
        for _ in range(DEPOSED):
            yield Invocation(f="depose-controller")
            yield _elect(partitions[self._draws.below("workload audit elects", len(partitions))])
        topics = self._parameters.topics
        topic = topics[self._draws.below("workload audit topic", len(topics))]
        index = topic.partitions + ADDED_MAX  # no other administrator adds it
        yield Invocation(f="add-partition", topic=topic.name, partition=index, assignment=(topic.replicas[index],))
        yield self._drawn_move()
        self._waits = True
        yield Invocation(f="admin-pending")
        for partition in (*partitions, PartitionName(topic.name, index)):
            yield _elect(partition)

    def _drawn_move(self) -> Invocation:
        """A move of a drawn partition to drawn brokers, as many as it has replicas."""
        partitions = self._parameters.partitions
        brokers = list(self._parameters.brokers)
        partition = partitions[self._draws.below("workload audit moves", len(partitions))]
        count = next(len(topic.replicas[0]) for topic in self._parameters.topics if topic.name == partition.topic)
        replicas = tuple(brokers.pop(self._draws.below("workload audit replica", len(brokers))) for _ in range(count))
        f: AdminF = "reassign-request" if self._parameters.by_requests else "reassign"
        return Invocation(f=f, topic=partition.topic, partition=partition.partition, assignment=(replicas,))

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Record whether the added partition exists, and whether requests are still pending."""
        done = completion.type is OpType.OK
        if invocation.f == "add-partition" and done:
            self._added.append(PartitionName(invocation.topic, invocation.partition))
        elif invocation.f == "admin-pending":
            self._looks += 1
            self._waits = self._looks < LOOKS_MAX and not (done and not completion.found)


def _elect(partition: PartitionName) -> Invocation:
    return Invocation(f="elect-preferred", topic=partition.topic, partition=partition.partition)
