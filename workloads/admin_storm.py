"""admin-storm: produce-consume, while an administrator keeps the controller busy.

One administrator more. In phase "faults" it asks, a drawn gap apart, for one of
* a preferred leader election of a drawn partition, or, where the promise allows it, an unclean one (docs/promise.md DUR-7);
* a partition more of a drawn topic (R-132 says on which brokers), at most ADDED_MAX of them, and sometimes one of them less;
* other replicas for a drawn partition, of all brokers: mostly as many as before, sometimes more, or as few as one, which the
  controller refuses where it is fewer than min.insync.replicas; half of the time beside what is on its way already (R-231);
* everything that is pending to be rolled back (R-233), or, where that was asked for, moves to be allowed again (R-239).

Proposal B of KIP-236 has neither of the last two, and no znode for what comes beside (R-245, R-247): there it asks by a request,
half of the time, and else in the way of old (R-250); a roll-back is a request for the replicas that it has written down before.

What was added is written by a producer of its own, with acks=all, from the moment it is there until it is asked to go, and read
to its end by a final reader. It is asked to go until that was done, for else it would have to be read. Any other command that
fails or whose outcome is unknown is followed by the next one. Storms end: when phase "quiet" begins, half of them roll back what
is still pending, all of them allow moves again, until that was done, and then the cluster comes to rest. In phase "final" the
administrator looks what is still asked for (docs/promise.md LIVE-4).
"""

from history.op import OpType
from history.seed import Draws
from workloads import produce_consume
from workloads.client import AdminF, Completion, Done, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName
from workloads.produce_consume import FinalReader, Producer

ADDED_MAX = 3
REMOVES_ONE_IN = 8  # of what is asked for while there is anything to be removed
GAP_MS_MIN = 500
GAP_MS_MAX = 3000
CHOICES_PREFERRED = 2  # of eight drawn numbers those below are an election,
CHOICES_CANCEL = 6  # this one a cancellation, this and the next its end; the rest are moves
ROLLBACK_MS = 2000  # what is rolled back at the end has so long before moves are allowed again
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
        self._written_down = {
            PartitionName(topic.name, index): of for topic in parameters.topics for index, of in enumerate(topic.replicas)
        }
        self._moved: tuple[PartitionName, tuple[int, ...]] | None = None  # by the last request, and where it was before
        self._copies = {topic.name: len(topic.replicas[0]) for topic in parameters.topics}
        self._removing: Invocation | None = None
        self._cancelled = False  # perhaps
        self._rolls_back = draws.ratio("workload admin ends", 1, 2)
        self._ending, self._ended = False, not parameters.brokers
        self._due_ms = 0
        self._looker = Looker()

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """A command when it is due."""
        match phase:
            case "faults":
                if self._due_ms > now_ms:
                    return Sleep(self._due_ms - now_ms)
                self._due_ms = now_ms + self._draws.between("workload gap admin", GAP_MS_MIN, GAP_MS_MAX)
                return self._ask()
            case "quiet":
                return self._end(now_ms)
            case "final":
                return self._looker.next()

    def _ask(self) -> Invocation:
        if self._removing is None and self._added and self._draws.ratio("workload admin removes", 1, REMOVES_ONE_IN):
            self._removing = self._remove()
        if self._removing is not None:
            return self._removing
        asked = sum(self._next_index[topic.name] - topic.partitions for topic in self._parameters.topics)
        if asked < ADDED_MAX and self._draws.ratio("workload admin", 1, 4):
            return self._add()
        choice = self._draws.below("workload admin does", 8) if self._parameters.brokers else 0
        if choice >= CHOICES_CANCEL and (choice == CHOICES_CANCEL or self._cancelled):
            back = self._back()
            if back is not None:
                return back
        everything = (*self._parameters.partitions, *self._added)
        partition = everything[self._draws.below("workload admin partition", len(everything))]
        if choice < CHOICES_PREFERRED:
            unclean = self._parameters.by_operator and choice == 0
            f: AdminF = "elect-unclean" if unclean else "elect-preferred"
            return Invocation(f=f, topic=partition.topic, partition=partition.partition)
        return self._move(partition)

    def _add(self) -> Invocation:
        topic = self._parameters.topics[self._draws.below("workload admin topic", len(self._parameters.topics))]
        index = self._next_index[topic.name]
        self._next_index[topic.name] += 1
        return Invocation(f="add-partition", topic=topic.name, partition=index, assignment=(topic.replicas[index],))

    def _remove(self) -> Invocation:
        gone = self._added.pop(self._draws.below("workload admin gone", len(self._added)))
        return Invocation(f="remove-partition", topic=gone.topic, partition=gone.partition)

    def _move(self, partition: PartitionName) -> Invocation:
        brokers = list(self._parameters.brokers)
        count = self._copies[partition.topic]
        if self._draws.ratio("workload admin other count", 1, 4):
            count = self._draws.between("workload admin count", 1, len(brokers))
        replicas = [brokers.pop(self._draws.below("workload admin replica", len(brokers))) for _ in range(count)]
        beside = self._draws.ratio("workload admin extra", 1, 2)
        if beside and self._parameters.by_requests:
            return self._request(partition, tuple(replicas))
        self._written_down[partition] = tuple(replicas)
        f: AdminF = "reassign-extra" if beside else "reassign"
        return Invocation(f=f, topic=partition.topic, partition=partition.partition, assignment=(tuple(replicas),))

    def _request(self, partition: PartitionName, replicas: tuple[int, ...]) -> Invocation:
        """R-247: the client records where the partition was, if it is to be able to cancel."""
        self._moved = (partition, self._written_down[partition])
        self._written_down[partition] = replicas
        return Invocation(f="reassign-request", topic=partition.topic, partition=partition.partition, assignment=(replicas,))

    def _back(self) -> Invocation | None:
        """What takes back what was asked for; nothing where only requests can and none was made."""
        if self._parameters.by_requests:
            return None if self._moved is None else self._request(*self._moved)
        return self._allow() if self._cancelled else self._cancel()

    def _cancel(self) -> Invocation:
        self._cancelled = True
        return Invocation(f="cancel-reassignments")

    def _allow(self) -> Invocation:
        return Invocation(f="allow-reassignments")

    def _end(self, now_ms: int) -> Invocation | Sleep | Done:
        """Leave nothing that waits for an administrator."""
        if self._removing is not None and self._due_ms <= now_ms:
            self._due_ms = now_ms + LOOK_BACKOFF_MS
            return self._removing
        if self._removing is not None:
            return Sleep(self._due_ms - now_ms)
        if self._ended:
            return Done()
        if self._parameters.by_requests:  # what is in flight comes to its end by itself
            self._ended = True
            return (self._back() if self._rolls_back else None) or Done()
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
        """What was added is written from now on."""
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
