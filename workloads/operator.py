"""An operator who edits znodes under /admin by hand, and badly, beside any workload (R-005, R-148, R-233, KIP-236).

In phase "faults" the operator makes one of these edits after each drawn gap:
* a request that is no JSON, lacks fields, is empty, names an unknown topic or partition, a broker twice or -1;
* a request for one partition twice, with other replicas each time: the controller may carry out the last one;
* a change of the pending moves: other entries in their znode, or the znode deleted, or their cancellation with nothing to cancel.

The controller must delete what it cannot carry out, say so, and go on serving other requests (docs/promise.md LIVE-4, LIVE-5).
A broker that does not exist cannot be told from one that is down, so a move to it waits (KAFKA-4214): no edit asks for that.
No edit requests the deletion of a topic or partition that exists, so no promise ends. When phase "quiet" begins, the operator
allows moves again and repeats that until it succeeds.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from history.op import OpType
from history.seed import Draws
from workloads.client import Completion, Done, Edit, Invocation, Phase, Process, Sleep
from workloads.parameters import Parameters, PartitionName

T = TypeVar("T")
GAP_MS_MIN = 800
GAP_MS_MAX = 5000
BACKOFF_MS = 500
UNKNOWN_PARTITION = 900
REASSIGN = "/admin/reassign_partitions"
REASSIGN_EXTRA = "/admin/reassign_partitions_extra"
REASSIGN_CANCEL = "/admin/reassign_cancel"
REQUEST = "/admin/reassignment_requests/request_"
IN_FLIGHT = "/admin/reassignments"
PREFERRED = "/admin/preferred_replica_election"
DELETE_TOPICS = "/admin/delete_topics"
ADD = "/admin/partitions_add"
REMOVE = "/admin/partitions_remove"
_MALFORMED = ("", "{", "null", "[]", "{}", '{"version":1}', '{"version":1,"partitions":7}', '{"version":1,"partitions":[7,{}]}')
_UNKNOWN_TOPIC = "no-such-topic"


def processes(draws: int, parameters: Parameters) -> tuple[Process, ...]:
    """The operator; none where the plan has none."""
    return (Operator(Draws(draws), parameters),) if parameters.edits else ()


class Operator:
    """A client that edits znodes under /admin by hand."""

    def __init__(self, draws: Draws, parameters: Parameters) -> None:
        self._draws = draws
        self._parameters = parameters
        self._due_ms = 0
        self._allowed = False
        self._edits: tuple[Callable[[], Invocation], ...] = (
            self._malformed_invocation,
            self._malformed_invocation,
            self._unknown_subject,
            self._unknown_subject,
            self._contradiction,
            self._pending_moves,
            self._pending_moves,
            self._cancellation,
        )

    def next(self, *, now_ms: int, phase: Phase) -> Invocation | Sleep | Done:
        """The operator's next edit, at its due time."""
        if phase == "faults":
            if self._due_ms > now_ms:
                return Sleep(self._due_ms - now_ms)
            self._due_ms = now_ms + self._draws.between("workload operator gap", GAP_MS_MIN, GAP_MS_MAX)
            return self._pick("edit", self._edits)()
        if self._allowed or phase == "final":
            return Done()
        if self._due_ms > now_ms:
            return Sleep(self._due_ms - now_ms)
        self._due_ms = now_ms + BACKOFF_MS
        return Invocation(f="allow-reassignments")

    def completed(self, invocation: Invocation, completion: Completion) -> None:
        """Record whether moves are allowed again."""
        if invocation.f == "allow-reassignments":
            self._allowed = completion.type is OpType.OK

    def _malformed_invocation(self) -> Invocation:
        """Create an administrator's znode at a path that may be of no partition, with content that may be malformed."""
        partition = self._partition()
        under = f"{partition.topic}/{self._pick('index', (str(partition.partition), 'x', '-1', '1.5'))}"
        paths = (PREFERRED, DELETE_TOPICS, *self._roots(), f"{ADD}/{under}", f"{REMOVE}/{_UNKNOWN_TOPIC}/x")
        return _create(self._pick("path", paths), self._pick("malformed", _MALFORMED))

    def _unknown_subject(self) -> Invocation:
        """A request in the right form about something that does not exist."""
        partition_there, unknown = self._partition(), PartitionName(_UNKNOWN_TOPIC, 0)
        beyond = PartitionName(partition_there.topic, UNKNOWN_PARTITION)
        name = self._pick("unknown", (unknown, beyond))
        requests = (
            _create(PREFERRED, _json({"version": 1, "partitions": [{"topic": name.topic, "partition": name.partition}]})),
            _create(DELETE_TOPICS, _json({"version": 1, "topics": self._pick("topics", ([], [_UNKNOWN_TOPIC], ["", ""]))})),
            _create(f"{ADD}/{unknown.topic}/0", "[1]"),
            _create(f"{ADD}/{beyond.topic}/{UNKNOWN_PARTITION}", self._pick("added", ("[]", "[-1]", "[1,1]", "7", "[1"))),
            _create(f"{REMOVE}/{name.topic}/{name.partition}", ""),
            _create(self._pick("root", self._roots()), self._moves((name, self._replicas(partition_there)))),
            _create(self._pick("root", self._roots()), self._moves((partition_there, self._wrong_replicas(partition_there)))),
        )
        return self._pick("request", requests)

    def _contradiction(self) -> Invocation:
        """Two moves of one partition in one request."""
        partition = self._partition()
        twice = self._moves((partition, self._replicas(partition)), (partition, self._replicas(partition)))
        return _create(self._pick("root", self._roots()), twice)

    def _pending_moves(self) -> Invocation:
        """Edit or delete the znode of the pending moves, as an administrator had to before KIP-236."""
        partition = self._partition()
        if self._parameters.by_requests and self._draws.ratio("workload operator in flight", 1, 2):
            path = f"{IN_FLIGHT}/{partition.topic}/{partition.partition}"
            return _gone_rows(path) if self._draws.ratio("workload operator deletes", 1, 2) else _over(path, "{")
        path = self._pick("root", self._roots()[:1] if self._parameters.by_requests else self._roots())
        entry = self._moves((partition, self._replicas(partition)))
        match self._draws.below("workload operator pending", 3):
            case 0:
                return _gone_rows(path)
            case 1:
                return _over(path, self._pick("malformed", _MALFORMED))
            case _:
                return _over(path, entry)

    def _cancellation(self) -> Invocation:
        """Cancel all moves, or allow moves again; where moves are requests, edit the pending ones instead."""
        if self._parameters.by_requests:
            return self._pending_moves()
        withdrawn = self._draws.ratio("workload operator allows", 2, 3)
        return Invocation(f="allow-reassignments") if withdrawn else _create(REASSIGN_CANCEL, "")

    def _moves(self, *targets: tuple[PartitionName, list[int]]) -> str:
        entries = [{"topic": name.topic, "partition": name.partition, "replicas": replicas} for name, replicas in targets]
        return _json({"version": 1, "partitions": entries})

    def _roots(self) -> tuple[str, ...]:
        return (REASSIGN, REQUEST) if self._parameters.by_requests else (REASSIGN, REASSIGN_EXTRA)

    def _partition(self) -> PartitionName:
        return self._pick("partition", self._parameters.partitions)

    def _replicas(self, partition: PartitionName) -> list[int]:
        """As many brokers as the partition has replicas."""
        count = next(len(topic.replicas[0]) for topic in self._parameters.topics if topic.name == partition.topic)
        brokers_left = list(self._parameters.brokers)
        return [brokers_left.pop(self._draws.below("workload operator replica", len(brokers_left))) for _ in range(count)]

    def _wrong_replicas(self, partition: PartitionName) -> list[int]:
        replicas = self._replicas(partition)
        return self._pick("wrong", ([], [*replicas, replicas[0]], [-1], [*replicas, -1]))

    def _pick(self, what: str, choices: tuple[T, ...]) -> T:
        return choices[self._draws.below(f"workload operator {what}", len(choices))]


def _create(path: str, data: str) -> Invocation:
    return Invocation(f="edit-znode", edit=Edit(path=path, data=data))


def _over(path: str, data: str) -> Invocation:
    return Invocation(f="edit-znode", edit=Edit(path=path, data=data, over=True))


def _gone_rows(path: str) -> Invocation:
    return Invocation(f="edit-znode", edit=Edit(path=path))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
