"""CreateTopics 2 to 4 and DeleteTopics 1 to 3: checked against the broker's metadata, requested by znodes, answered when done.

Only the controller performs them (KIP-4); other brokers answer NOT_CONTROLLER. A topic counts as created when every partition has
a leader in this broker's metadata, and as deleted when it is no longer there. After the client's timeout the answer is
REQUEST_TIMED_OUT, and the request is still carried out. Topics have no configuration of their own: the brokers' settings apply.
"""

from collections import Counter
from collections.abc import Generator

from msgspec import Struct

from reference.client.commands import placed
from reference.errors import ErrorCode
from reference.messages import MetadataReply
from reference.types import BrokerId, Millis, topic_of
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange, Heard, metadata_of, pause
from server.wire.clients.metadata import live_brokers
from server.wire.clients.names import is_topic_name
from server.wire.clients.tasks import Done, DropTopic, MakeTopic

LOOK_AGAIN_MS = 20
_UNSET = -1
Assignment = tuple[tuple[BrokerId, ...], ...]


class CreatableAssignment(Struct, frozen=True):
    """The wanted replicas of one partition in a CreateTopics request."""

    partition_index: int
    broker_ids: tuple[int, ...]


class CreatableConfig(Struct, frozen=True):
    """A topic configuration entry in a CreateTopics request; the broker refuses such a topic."""

    name: str


class CreatableTopic(Struct, frozen=True, kw_only=True):
    """One topic of a CreateTopics request; -1 for a number that is not given."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableAssignment, ...]
    configs: tuple[CreatableConfig, ...]


class CreateTopicsRequest(Struct, frozen=True, kw_only=True):
    """A CreateTopics request; `validate_only` creates nothing."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool


class TopicResult(Struct, frozen=True, kw_only=True):
    """The result of one topic in a CreateTopics response."""

    name: str
    error_code: int
    error_message: str | None = None


class CreateTopicsResponse(Struct, frozen=True):
    """The fields of a CreateTopics response that the broker sets."""

    topics: tuple[TopicResult, ...]


class _RefusedError(Exception):
    def __init__(self, error: ErrorCode | EdgeError, text: str) -> None:
        super().__init__(text)
        self.error = error


def create_topics(call: Call, request: CreateTopicsRequest) -> Exchange:
    """Answer CreateTopics: request all valid topics, then wait until they have leaders or the time is up."""
    metadata = yield from metadata_of(call)
    deadline_ms = call.now_ms + max(request.timeout_ms, 0)
    names = Counter(topic.name for topic in request.topics)
    results: dict[str, TopicResult] = {}
    waited: dict[str, int] = {}
    for topic in request.topics:
        try:
            if metadata.controller != call.facing.broker:
                raise _RefusedError(ErrorCode.NOT_CONTROLLER, f"the controller is {metadata.controller}")
            if names[topic.name] > 1:
                raise _RefusedError(ErrorCode.INVALID_REQUEST, "a request must not name a topic twice")
            assignment = _assignment_of_topic(call, topic, metadata)
            if not request.validate_only:
                left_ms = Millis(max(deadline_ms - call.now_ms, 0))
                yield from _perform_task(call, MakeTopic(call.number(), topic.name, assignment, left_ms))
                waited[topic.name] = len(assignment)
            results[topic.name] = TopicResult(name=topic.name, error_code=0)
        except _RefusedError as refusal:
            results[topic.name] = TopicResult(name=topic.name, error_code=refusal.error, error_message=str(refusal))
    while waited:
        metadata = yield from metadata_of(call)
        led_partitions = Counter(topic_of(state.tp) for state in metadata.states if state.leader is not None)
        waited = {name: partitions for name, partitions in waited.items() if led_partitions[name] < partitions}
        if waited and (yield from _timed_out(call, deadline_ms)):
            for name in waited:
                text = "the topic is asked for, and not ready yet"
                results[name] = TopicResult(name=name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=text)
            break
    return CreateTopicsResponse(tuple(results[name] for name in names))


def _assignment_of_topic(call: Call, topic: CreatableTopic, metadata: MetadataReply) -> Assignment:
    """The replicas of each partition of a topic to create; _RefusedError with the code that Kafka would answer."""
    live = live_brokers(call.facing, metadata)
    if not is_topic_name(topic.name):
        raise _RefusedError(EdgeError.INVALID_TOPIC_EXCEPTION, "a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ -")
    if any(topic_of(state.tp) == topic.name for state in metadata.states):
        raise _RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name} exists")
    if topic.configs:
        raise _RefusedError(EdgeError.INVALID_CONFIG, "topic configs must be empty: topics use the settings of the brokers")
    if topic.assignments:
        return _given_assignment(topic, live, call.facing.partitions_max)
    partitions = 1 if topic.num_partitions == _UNSET else topic.num_partitions
    factor = 1 if topic.replication_factor == _UNSET else topic.replication_factor
    if not 1 <= partitions <= call.facing.partitions_max:
        raise _RefusedError(
            EdgeError.INVALID_PARTITIONS, f"num_partitions is {partitions}, but must be from 1 to {call.facing.partitions_max}"
        )
    if not 1 <= factor <= len(live):
        raise _RefusedError(EdgeError.INVALID_REPLICATION_FACTOR, f"{factor} replicas, but {len(live)} brokers are alive")
    return placed(live, partitions=partitions, replication_factor=factor)


def _given_assignment(topic: CreatableTopic, live: tuple[BrokerId, ...], partitions_max: int) -> Assignment:
    """The replicas that the client assigned. Raises _RefusedError if Kafka would refuse them."""
    if topic.num_partitions != _UNSET or topic.replication_factor != _UNSET:
        text = "replicas are given: number of partitions and replication factor must be -1"
        raise _RefusedError(ErrorCode.INVALID_REQUEST, text)
    by_index = {entry.partition_index: entry.broker_ids for entry in topic.assignments}
    if len(topic.assignments) > partitions_max:
        raise _RefusedError(
            EdgeError.INVALID_PARTITIONS,
            f"{len(topic.assignments)} partitions assigned, at most {partitions_max} allowed",
        )
    if sorted(by_index) != list(range(len(topic.assignments))):
        raise _RefusedError(EdgeError.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered from 0, each once")
    for index, replicas in sorted(by_index.items()):
        if not replicas or len(set(replicas)) < len(replicas) or len(replicas) != len(by_index[0]):
            raise _RefusedError(
                EdgeError.INVALID_REPLICA_ASSIGNMENT, f"partition {index} must have as many brokers as partition 0, each once"
            )
        unknown = sorted(set(replicas) - set(live))
        if unknown:
            raise _RefusedError(EdgeError.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: broker {unknown[0]} is not alive")
    return tuple(tuple(BrokerId(broker) for broker in by_index[index]) for index in sorted(by_index))


def _perform_task(call: Call, task: MakeTopic | DropTopic) -> Generator[None, Heard, None]:
    """Have the administration do the task. Raises _RefusedError with its error."""
    call.ask(task)
    result = yield
    assert isinstance(result, Done)
    if result.error is not ErrorCode.NONE:
        raise _RefusedError(ErrorCode(client_code(result.error)), f"{task.topic}: {result.error.name}")


def _timed_out(call: Call, deadline_ms: int) -> Generator[None, Heard, bool]:
    """Whether the time is up. If it is not, wait for LOOK_AGAIN_MS first, so that the caller can look again."""
    if call.now_ms >= deadline_ms:
        return True
    yield from pause(call, LOOK_AGAIN_MS)
    return False


# --- DeleteTopics ----------------------------------------------------------------------------------------------------------


class DeleteTopicsRequest(Struct, frozen=True, kw_only=True):
    """A DeleteTopics request."""

    topic_names: tuple[str, ...]
    timeout_ms: int


class DeletedTopic(Struct, frozen=True, kw_only=True):
    """The result of one topic in a DeleteTopics response."""

    name: str
    error_code: int


class DeleteTopicsResponse(Struct, frozen=True):
    """The fields of a DeleteTopics response that the broker sets."""

    responses: tuple[DeletedTopic, ...]


def delete_topics(call: Call, request: DeleteTopicsRequest) -> Exchange:
    """Answer DeleteTopics: request all deletions, then wait until the topics are gone or the time is up."""
    metadata = yield from metadata_of(call)
    deadline_ms = call.now_ms + max(request.timeout_ms, 0)
    existing_topics = {topic_of(state.tp) for state in metadata.states}
    errors: dict[str, int] = {}
    waited: set[str] = set()
    for name in dict.fromkeys(request.topic_names):
        try:
            if metadata.controller != call.facing.broker:
                raise _RefusedError(ErrorCode.NOT_CONTROLLER, "")
            if name not in existing_topics:
                raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            yield from _perform_task(call, DropTopic(call.number(), name, Millis(max(deadline_ms - call.now_ms, 0))))
            waited.add(name)
            errors[name] = 0
        except _RefusedError as refusal:
            errors[name] = refusal.error
    while waited:
        metadata = yield from metadata_of(call)
        waited &= {topic_of(state.tp) for state in metadata.states}
        if waited and (yield from _timed_out(call, deadline_ms)):
            errors.update(dict.fromkeys(sorted(waited), ErrorCode.REQUEST_TIMED_OUT))
            break
    return DeleteTopicsResponse(tuple(DeletedTopic(name=name, error_code=error) for name, error in errors.items()))
