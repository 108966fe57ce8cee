"""Administrative requests of clients: checked with Kafka's error codes, requested by znodes, answered when done."""

import pytest

from reference.errors import ErrorCode
from reference.messages import (
    Metadata,
    MetadataReply,
)
from reference.types import Millis, TopicPartition
from server.wire.clients import moves, topics
from server.wire.clients.apis import ApiKey
from server.wire.clients.exchange import Ask, Heard
from server.wire.clients.tasks import (
    CancelMoves,
    Directory,
    Dirs,
    Done,
    DropTopic,
    ListMoves,
    MakeTopic,
    Move,
    Moves,
    PendingMove,
)
from tests.server.wire.talking import ME, ORDERS, OTHER, THIRD, Connection, cluster, state

ONE = TopicPartition("orders-1")
SECOND = Millis(1000)
LEADING = cluster(state(ORDERS), state(ONE))


# --- CreateTopics, DeleteTopics --------------------------------------------------------------------------------------------


def creatable(name: str = "new", partitions: int = 2, factor: int = 2, **more: object) -> topics.CreatableTopic:
    given: dict[str, object] = {"assignments": (), "configs": (), **more}
    return topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **given)  # type: ignore[arg-type]


def creation(*of: topics.CreatableTopic, timeout_ms: int = 1000, validate_only: bool = False) -> topics.CreateTopicsRequest:
    return topics.CreateTopicsRequest(topics=of, timeout_ms=timeout_ms, validate_only=validate_only)


def assignment(*rows: tuple[int, tuple[int, ...]]) -> tuple[topics.CreatableAssignment, ...]:
    return tuple(topics.CreatableAssignment(index, replicas) for index, replicas in rows)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_create_topics_waits_until_the_topic_has_leaders(version: int) -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.CREATE_TOPICS, version, creation(creatable()))
    (look,) = connection.asks()
    connection.hear(LEADING(look))
    (make,) = connection.asks()
    assert make == MakeTopic(2, "new", ((ME, OTHER), (OTHER, THIRD)), SECOND)
    connection.hear(Done(2))
    (look,) = connection.asks()
    connection.hear(LEADING(look))
    (wait,) = connection.asks()
    assert connection.frames() == []
    connection.hear(Done(wait.correlation))
    (look,) = connection.asks()
    led = [state(TopicPartition(f"new-{index}")) for index in range(2)]
    connection.hear(MetadataReply(look.correlation, (ME, OTHER), tuple(led), controller=ME))

    answer = connection.response(ApiKey.CREATE_TOPICS, version, topics.CreateTopicsResponse)
    assert [(t.name, t.error_code) for t in answer.topics] == [("new", 0)]


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (creatable("no/name"), 17),
        (creatable(".."), 17),
        (creatable("x" * 250), 17),
        (creatable("orders"), 36),
        (creatable(partitions=0), 37),
        (creatable(partitions=1001), 37),
        (creatable(factor=4), 38),
        (creatable(factor=0), 38),
        (creatable(configs=(topics.CreatableConfig("retention.ms"),)), 40),
        (creatable(assignments=assignment((0, (1, 2)))), 42),
        (creatable(partitions=-1, factor=-1, assignments=assignment((1, (1, 2)))), 39),
        (creatable(partitions=-1, factor=-1, assignments=assignment((0, (1, 1)))), 39),
        (creatable(partitions=-1, factor=-1, assignments=assignment((0, (1, 9)))), 39),
        (creatable(partitions=-1, factor=-1, assignments=assignment((0, (1,)), (1, (1, 2)))), 39),
        (creatable(partitions=-1, factor=-1, assignments=assignment((0, ()))), 39),
    ],
)
def test_invalid_topic_is_refused_with_kafkas_code(of: topics.CreatableTopic, code: int) -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.CREATE_TOPICS, 4, creation(of))
    asks = connection.answer_all()

    assert [type(ask) for ask in asks] == [Metadata]
    (result,) = connection.response(ApiKey.CREATE_TOPICS, 4, topics.CreateTopicsResponse).topics
    assert result.error_code == code
    assert result.error_message


def test_create_topics_takes_a_replica_assignment() -> None:
    connection = Connection(LEADING)
    of = creatable(partitions=-1, factor=-1, assignments=assignment((1, (3, 1)), (0, (2, 3))))
    connection.send(ApiKey.CREATE_TOPICS, 4, creation(of))

    assert [ask for ask in connection.answer_all() if isinstance(ask, MakeTopic)] == [
        MakeTopic(2, "new", ((OTHER, THIRD), (THIRD, ME)), SECOND)
    ]


def test_only_the_controller_creates_and_deletes_topics() -> None:
    elsewhere = cluster(state(ORDERS), controller=OTHER)
    create_topics_response = Connection(elsewhere).call(
        ApiKey.CREATE_TOPICS, 4, creation(creatable()), topics.CreateTopicsResponse
    )
    request = topics.DeleteTopicsRequest(topic_names=("orders",), timeout_ms=100)
    deleted = Connection(elsewhere).call(ApiKey.DELETE_TOPICS, 3, request, topics.DeleteTopicsResponse)

    assert create_topics_response.topics[0].error_code == 41
    assert deleted.responses[0].error_code == 41


def test_validate_only_creates_no_topic() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.CREATE_TOPICS, 4, creation(creatable(), creatable("two"), creatable("two"), validate_only=True))
    asks = connection.answer_all()

    assert [type(ask) for ask in asks] == [Metadata]
    results = connection.response(ApiKey.CREATE_TOPICS, 4, topics.CreateTopicsResponse).topics
    assert [(result.name, result.error_code) for result in results] == [("new", 0), ("two", 42)]


def test_topic_not_ready_in_time_gets_request_timed_out() -> None:
    connection = Connection(LEADING)
    answer = connection.call(ApiKey.CREATE_TOPICS, 4, creation(creatable()), topics.CreateTopicsResponse)

    assert answer.topics[0].error_code == 7
    assert 1000 <= connection.now_ms < 1100


def test_delete_topics_waits_until_the_topic_is_gone() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.DELETE_TOPICS, 3, topics.DeleteTopicsRequest(topic_names=("orders", "none"), timeout_ms=1000))
    (look,) = connection.asks()
    connection.hear(LEADING(look))
    (drop,) = connection.asks()
    assert drop == DropTopic(2, "orders", SECOND)
    connection.hear(Done(2))
    (look,) = connection.asks()
    connection.hear(MetadataReply(look.correlation, (ME,), (), controller=ME))

    answer = connection.response(ApiKey.DELETE_TOPICS, 3, topics.DeleteTopicsResponse)
    assert [(t.name, t.error_code) for t in answer.responses] == [("orders", 0), ("none", 3)]


# --- reassignments, directories --------------------------------------------------------------------------------------------


def alteration(*of: tuple[int, tuple[int, ...] | None]) -> moves.AlterRequest:
    partitions = tuple(moves.ReassignablePartition(index, replicas) for index, replicas in of)
    return moves.AlterRequest(timeout_ms=1000, topics=(moves.ReassignableTopic("orders", partitions),))


def test_reassignments_are_checked_and_requested_one_by_one() -> None:
    connection = Connection(LEADING)
    request = alteration((0, (1, 3)), (1, ()), (2, (1, 2)), (3, (1, 1)))
    connection.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request)
    asks = connection.answer_all()

    assert [ask for ask in asks if isinstance(ask, Move)] == [Move(2, ORDERS, (ME, THIRD), SECOND)]
    answer = connection.response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moves.AlterResponse)
    assert [p.error_code for p in answer.responses[0].partitions] == [0, 39, 3, 3]


def test_cancellation_must_name_all_pending_reassignments() -> None:
    """KIP-236 rolls back all pending reassignments, so a request that leaves one out is refused."""
    connection = Connection(LEADING)
    connection.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, alteration((0, None), (1, None)))
    asks = connection.answer_all()
    answer = connection.response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moves.AlterResponse)
    assert [p.error_code for p in answer.responses[0].partitions] == [0, 85]
    assert any(isinstance(ask, CancelMoves) for ask in asks)

    connection = Connection(_two_pending)
    connection.send(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, alteration((0, None)))
    asks = connection.answer_all()
    answer = connection.response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, moves.AlterResponse)
    assert [p.error_code for p in answer.responses[0].partitions] == [42]
    assert not any(isinstance(ask, CancelMoves) for ask in asks)


def _two_pending(ask: Ask) -> Heard:
    if isinstance(ask, ListMoves):
        pending = tuple(PendingMove(tp, (ME, THIRD)) for tp in (ORDERS, ONE))
        return Moves(ask.correlation, ErrorCode.NONE, pending)
    return LEADING(ask)


def test_pending_reassignments_list_adding_and_removing_replicas() -> None:
    answer = Connection(LEADING).call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, moves.ListRequest(timeout_ms=100, topics=None), moves.ListResponse
    )
    no_such_partition = moves.ListRequest(timeout_ms=100, topics=(moves.ListedTopic("orders", (1,)),))

    (row,) = answer.topics[0].partitions
    assert (row.replicas, row.adding_replicas, row.removing_replicas) == ((1, 2, 3), (3,), (2,))
    assert Connection(LEADING).call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, no_such_partition, moves.ListResponse).topics == ()


@pytest.mark.parametrize("version", [0, 1])
def test_describe_log_dirs_lists_logs_and_failed_directories(version: int) -> None:
    answer = Connection(LEADING).call(ApiKey.DESCRIBE_LOG_DIRS, version, moves.DescribeRequest(None), moves.DescribeResponse)

    assert [(d.log_dir, d.error_code) for d in answer.results] == [("/a", 0), ("/b", 56)]
    assert answer.results[0].topics == (
        moves.DescribedTopic("orders", (moves.DescribedPartition(partition_index=0, partition_size=120),)),
    )


def test_fenced_broker_refuses_to_describe_its_log_dirs() -> None:
    """R-186: the response has an error at each directory and no log."""
    fenced = Connection(lambda ask: Dirs(ask.correlation, (Directory("/a", online=True),), ErrorCode.BROKER_NOT_AVAILABLE))
    answer = fenced.call(ApiKey.DESCRIBE_LOG_DIRS, 1, moves.DescribeRequest(None), moves.DescribeResponse)

    assert [(d.log_dir, d.error_code, d.topics) for d in answer.results] == [("/a", ErrorCode.BROKER_NOT_AVAILABLE, ())]
