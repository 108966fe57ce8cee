"""admin-storm: produce-consume, and an administrator that keeps the controller busy.

In phase "faults" the administrator sends one of these requests after each drawn gap:
* a preferred leader election of a drawn partition, or, where the promise allows it, an unclean one (docs/promise.md DUR-7);
* a new partition of a drawn topic, on the brokers of R-132, at most ADDED_MAX in all; or the removal of one that it added;
* other replicas for a drawn partition: mostly as many as before, sometimes more or fewer. The controller refuses fewer than
  min.insync.replicas. Half of the moves go to the extra znode, beside the moves in flight (R-231);
* the cancellation of all pending moves (R-233) or, after a cancellation, its end, so that moves are allowed again (R-239).

Proposal B of KIP-236 has no cancellation and no extra znode (R-245, R-247). There half of the moves are requests and half are
written in the legacy way (R-250); a roll-back is a request for the replicas that the administrator has recorded before.

A separate producer writes to added partitions with acks=all until their removal is requested; a final reader reads those that
remain. A removal is requested until it succeeds, since a partition that may still exist would have to be read. After any other
command that fails or has an unknown outcome the next one is sent. When phase "quiet" begins, half of the storms cancel the
pending moves, and all of them allow moves again and repeat that until it succeeds. In phase "final" the administrator lists the
requests that are still pending (docs/promise.md LIVE-4).
"""

from collections.abc import Sequence

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import AdminF, Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName
from workloads.produce_consume import FinalReader, Producer

ADDED_MAX = 3
DEPOSES_ONE_IN = 12  # commands, of an administrator that deposes controllers
REMOVES_ONE_IN = 8  # commands, while an added partition can be removed
GAP_MS_MIN = 500
GAP_MS_MAX = 3000
CHOICES_PREFERRED = 2  # of the drawn numbers 0 to 7, those below are an election,
CHOICES_CANCEL = 6  # this one is a cancellation, this and the next its end, the others are moves
ROLLBACK_MS = 2000  # from the cancellation at the end until moves are allowed again
LOOK_BACKOFF_MS = 500
LOOKS_MAX = 10


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The processes of produce-consume, then the producer and the reader of added partitions, then the administrator."""
    added: list[PartitionName] = []
    shared = Draws(draws)
    return (
        *produce_consume.processes(draws, parameters),
        *writer_and_reader(shared, parameters, parameters.producers, added),
        Administrator(shared, parameters, added),
    )


def writer_and_reader(
    draws: Draws, parameters: Parameters, number: int, partitions: list[PartitionName]
) -> tuple[Producer, FinalReader]:
    """The producer with this number, which writes to the partitions that exist now, and the reader of those that remain."""
    return Producer(number, draws, parameters, partitions=partitions), FinalReader(partitions)


class Looker:
    """A client that lists the pending admin requests after the run's faults, again and again while ZooKeeper does not answer."""

    def __init__(self) -> None:
        self._looks_left = LOOKS_MAX
        self._backing_off = False

    def next(self) -> Invocation | Sleep | Done:
        """A request for the list of pending admin requests, until it was answered or sent LOOKS_MAX times."""
        if self._looks_left == 0:
            return Done()
        if self._backing_off:
            self._backing_off = False
            return Sleep(LOOK_BACKOFF_MS)
        self._looks_left -= 1
        return Invocation(f="admin-pending")

    def completed(self, completion: Completion) -> None:
        """Stop after an answer; else ask again for the pending admin requests, after a pause."""
        self._backing_off = True
        if completion.type is OpType.OK:
            self._looks_left = 0


class Administrator:
    """A client that sends admin requests to ZooKeeper, one after the other.

    `others` are partitions beside those of the start that it elects and moves while they exist; with `deposes` it also deposes
    controllers.
    """

    def __init__(
        self,
        draws: Draws,
        parameters: Parameters,
        added: list[PartitionName],
        *,
        others: Sequence[PartitionName] = (),
        deposes: bool = False,
    ) -> None:
        self._draws = draws
        self._parameters = parameters
        self._added = added
        self._others = others
        self._deposes = deposes
        self._next_index = {topic.name: topic.partitions for topic in parameters.topics}
        known_topic_shapes = (*parameters.topics, *([] if parameters.scratch is None else [parameters.scratch]))
        self._written_down = {
            PartitionName(topic.name, index): of for topic in known_topic_shapes for index, of in enumerate(topic.replicas)
        }
        self._last_move: tuple[PartitionName, tuple[int, ...]] | None = None  # by the last request, with the replicas before it
        self._copies = {topic.name: len(topic.replicas[0]) for topic in known_topic_shapes}
        self._removing: Invocation | None = None
        self._cancelled = False  # True also where the outcome is unknown
        self._rolls_back = draws.ratio("workload admin ends", 1, 2)
        self._ending, self._ended = False, not parameters.brokers
        self._due_ms = 0
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The administrator's next command, at its due time."""
        match phase:
            case "faults":
                if self._due_ms > now_ms:
                    return Sleep(self._due_ms - now_ms)
                self._due_ms = now_ms + self._draws.between("workload gap admin", GAP_MS_MIN, GAP_MS_MAX)
                return self._next_request()
            case "quiet" | "audit":
                return self._ending_request(now_ms)
            case "final":
                return self._looker.next()

    def _next_request(self) -> Invocation:
        """The next request: depose, remove, add, cancel, elect or move, by draws."""
        if self._deposes and self._draws.ratio("workload admin deposes", 1, DEPOSES_ONE_IN):
            return Invocation(f="depose-controller")
        can_remove = self._parameters.removes and self._removing is None and bool(self._added)
        if can_remove and self._draws.ratio("workload admin removes", 1, REMOVES_ONE_IN):
            self._removing = self._remove()
        if self._removing is not None:
            return self._removing
        partitions_added = sum(self._next_index[topic.name] - topic.partitions for topic in self._parameters.topics)
        if partitions_added < ADDED_MAX and self._draws.ratio("workload admin", 1, 4):
            return self._added_partition()
        choice = self._draws.below("workload admin does", 8) if self._parameters.brokers else 0
        if choice >= CHOICES_CANCEL and (choice == CHOICES_CANCEL or self._cancelled):
            back = self._rollback()
            if back is not None:
                return back
        everything = (*self._parameters.partitions, *self._added, *self._others)
        partition = everything[self._draws.below("workload admin partition", len(everything))]
        if choice < CHOICES_PREFERRED:
            unclean = self._parameters.by_operator and choice == 0
            f: AdminF = "elect-unclean" if unclean else "elect-preferred"
            return Invocation(f=f, topic=partition.topic, partition=partition.partition)
        return self._drawn_move(partition)

    def _added_partition(self) -> Invocation:
        """Add the next partition to a drawn topic."""
        topic = self._parameters.topics[self._draws.below("workload admin topic", len(self._parameters.topics))]
        index = self._next_index[topic.name]
        self._next_index[topic.name] += 1
        return Invocation(f="add-partition", topic=topic.name, partition=index, assignment=(topic.replicas[index],))

    def _remove(self) -> Invocation:
        removed = self._added.pop(self._draws.below("workload admin gone", len(self._added)))
        return Invocation(f="remove-partition", topic=removed.topic, partition=removed.partition)

    def _drawn_move(self, partition: PartitionName) -> Invocation:
        """A request to move the partition to drawn replicas, by one of the three ways."""
        brokers = list(self._parameters.brokers)
        count = self._copies[partition.topic]
        if self._draws.ratio("workload admin other count", 1, 4):
            count = max(self._parameters.moves_to_min, self._draws.between("workload admin count", 1, len(brokers)))
        replicas = [brokers.pop(self._draws.below("workload admin replica", len(brokers))) for _ in range(count)]
        beside = self._draws.ratio("workload admin extra", 1, 2)
        if beside and self._parameters.by_requests:
            return self._requested_move(partition, tuple(replicas))
        self._written_down[partition] = tuple(replicas)
        f: AdminF = "reassign-extra" if beside else "reassign"
        return Invocation(f=f, topic=partition.topic, partition=partition.partition, assignment=(tuple(replicas),))

    def _requested_move(self, partition: PartitionName, replicas: tuple[int, ...]) -> Invocation:
        """R-247: request a reassignment; the client records the partition's replicas, to be able to cancel it."""
        self._last_move = (partition, self._written_down[partition])
        self._written_down[partition] = replicas
        return Invocation(f="reassign-request", topic=partition.topic, partition=partition.partition, assignment=(replicas,))

    def _rollback(self) -> Invocation | None:
        """The admin command that rolls moves back; None under proposal B of KIP-236 before any request was made."""
        if self._parameters.by_requests:
            return None if self._last_move is None else self._requested_move(*self._last_move)
        return self._allow() if self._cancelled else self._cancel()

    def _cancel(self) -> Invocation:
        self._cancelled = True
        return Invocation(f="cancel-reassignments")

    def _allow(self) -> Invocation:
        return Invocation(f="allow-reassignments")

    def _ending_request(self, now_ms: int) -> Invocation | Sleep | Done:
        """End the open partition removals and cancellations, so that nothing waits for an administrator at the end."""
        if self._removing is not None and self._due_ms <= now_ms:
            self._due_ms = now_ms + LOOK_BACKOFF_MS
            return self._removing
        if self._removing is not None:
            return Sleep(self._due_ms - now_ms)
        if self._ended:
            return Done()
        if self._parameters.by_requests:  # moves in flight end by themselves
            self._ended = True
            return (self._rollback() if self._rolls_back else None) or Done()
        if self._rolls_back:
            self._rolls_back = False
            self._due_ms = now_ms + ROLLBACK_MS
            return self._cancel()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + LOOK_BACKOFF_MS
        self._ending = True
        return self._allow()

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Keep account of partitions that this administrator added, and of its removals and cancellations."""
        done = completion.type is OpType.OK
        match invocation.f:
            case "admin-pending":
                self._looker.completed(completion)
            case "add-partition" if done:
                self._added.append(PartitionName(invocation.topic, invocation.partition))
            case "remove-partition" if done:
                self._removing = None
            case "allow-reassignments" if done:
                self._cancelled, self._ended = False, self._ended or self._ending
            case "cancel-reassignments" if completion.type is OpType.FAIL:
                self._cancelled = False
            case _:
                pass
