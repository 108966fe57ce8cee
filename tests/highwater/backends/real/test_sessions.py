"""Transactions and members of groups with librdkafka, on its own mock cluster: the contract with `highwater.rig.attempts`."""

from collections.abc import Callable, Iterator
from threading import Event
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from msgspec.structs import replace

from highwater.backends.real.clients import transactions
from highwater.backends.real.clients.sessions import Sessions
from highwater.backends.real.clients.transactions import ABORTED, Reading, TransactionalProducer
from highwater.backends.real.zookeeper.local import free_port
from highwater.rig.attempts import Reply
from highwater.rig.sessions import (
    CommitCall,
    CommittedCall,
    GroupAbandonCall,
    GroupLeaveCall,
    GroupPollCall,
    GroupPositionsCall,
    ProcessCall,
    ReadCommittedCall,
    TxnCall,
)
from history.op import OpType
from workloads.client import Micro
from workloads.completion import completion_type
from workloads.parameters import AutoCommit, CommitsAfter

PARTITIONS = (("t", 0), ("t", 1))
POLL = Micro()
JOINED_POLLS_MAX = 40


@pytest.fixture
def cluster() -> Iterator[str]:
    """The addresses of a mock cluster of three brokers. Its transactions commit and abort; it hides no aborted records."""
    owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in owner.list_topics("t", timeout=10).brokers.values())
    owner.purge()


def sessions(
    addresses: str, name: str = "c0", run: str = "", membership: str = "", auto_commit: AutoCommit | None = None
) -> Sessions:
    settings = {"bootstrap.servers": addresses, "socket.timeout.ms": 1000, "log_level": 0, "error_cb": lambda _: None}
    return Sessions(name, settings, timeout_ms=1000, run=run, membership=membership, auto_commit=auto_commit)


def send(value: str, partition: int = 0) -> Micro:
    return Micro(topic="t", partition=partition, value=value)


def txn(*micros: Micro, aborts: bool = False) -> TxnCall:
    return TxnCall(id=1, micros=micros, aborts=aborts, reads=PARTITIONS)


def outcome(f: str, heard: Reply) -> OpType:
    return completion_type(f, heard.error, sent=heard.attempts > 0)


def test_committed_transaction_tells_offset_and_value(cluster: str) -> None:
    client = sessions(cluster)
    reply = client.perform(txn(send("a"), send("b", 1), send("c")))
    client.close()

    assert (outcome("txn", reply), reply.attempts) == (OpType.OK, 1)
    assert reply.told == [["send", "t-0", [0, "a"]], ["send", "t-1", [0, "b"]], ["send", "t-0", [1, "c"]]]


def read_to_the_end(reader: Sessions) -> list[str]:
    """The values that polls return until one is at the end of all partitions."""
    found: list[str] = []
    for _ in range(JOINED_POLLS_MAX):
        reply = reader.perform(txn(POLL))
        assert isinstance(reply.told, list)
        found += [value for records in reply.told[0][1].values() for _, value in records]
        if reply.at_end:
            break
    return found


def test_polls_continue_behind_the_last_record(cluster: str) -> None:
    writer, reader = sessions(cluster), sessions(cluster, "c1")
    writer.perform(txn(send("a")))
    first = read_to_the_end(reader)
    writer.perform(txn(send("b", 1)))
    later = [value for _ in range(5) for value in read_to_the_end(reader)]
    writer.close()
    reader.close()

    assert (first, later) == (["a"], ["b"])


def test_transaction_that_aborts_fails_and_reads_again(cluster: str) -> None:
    writer, client = sessions(cluster, "c1"), sessions(cluster)
    writer.perform(txn(send("a")))
    aborted = client.perform(txn(POLL, send("b", 1), aborts=True))
    again = client.perform(txn(POLL))
    writer.close()
    client.close()

    assert (outcome("txn", aborted), aborted.error, aborted.positions) == (OpType.FAIL, ABORTED, ())
    assert aborted.told[1] == ["send", "t-1", [0, "b"]]  # type: ignore[index]  # it was sent before it was aborted
    assert "a" in str(again.told)


@pytest.mark.slow
def test_transaction_that_reaches_nobody_certainly_failed() -> None:
    client = sessions(f"127.0.0.1:{free_port()}")
    reply = client.perform(txn(send("a")))
    client.close()

    assert (outcome("txn", reply), reply.attempts, reply.error) == (OpType.FAIL, 0, "_TIMED_OUT")


@pytest.mark.parametrize(
    ("f", "error", "sent", "type"),
    [
        ("txn", "_TIMED_OUT", True, OpType.INFO),  # the commit was asked for
        ("txn", "_TIMED_OUT", False, OpType.FAIL),
        ("txn", "INVALID_TXN_STATE", True, OpType.INFO),
        ("txn", ABORTED, False, OpType.FAIL),
        ("txn", None, True, OpType.OK),
        ("commit", "ILLEGAL_GENERATION", True, OpType.FAIL),
        ("commit", "REQUEST_TIMED_OUT", True, OpType.INFO),
        ("commit", "_STATE", False, OpType.FAIL),
        ("group-poll", "_TRANSPORT", True, OpType.FAIL),
        ("committed", "_TIMED_OUT", True, OpType.FAIL),
    ],
)
def test_outcome_of_a_session_call(f: str, error: str | None, sent: bool, type: OpType) -> None:
    assert completion_type(f, error, sent=sent) is type


@pytest.mark.slow
def test_member_is_assigned_reads_commits_and_leaves(cluster: str) -> None:
    writer, member = sessions(cluster), sessions(cluster, "c1")
    writer.perform(txn(send("a"), send("b")))
    poll = GroupPollCall(id=1, group="g", reads=PARTITIONS)
    polls = [member.perform(poll)]
    while not polls[-1].positions and len(polls) < JOINED_POLLS_MAX:
        polls.append(member.perform(poll))
    commit = member.perform(CommitCall(id=2, group="g", partition=("t", 0), offset=2))
    member.perform(GroupLeaveCall(id=3, group="g"))
    left = member.perform(CommitCall(id=4, group="g", partition=("t", 0), offset=1))
    answers = [writer.perform(CommittedCall(id=5, group="g", partition=partition)).offset for partition in PARTITIONS]
    writer.close()
    member.close()

    said = polls[-1].told
    assert isinstance(said, dict)
    assert (said["group"], said["records"]) == ("g", {"t-0": [[0, "a"], [1, "b"]]})
    assert {"t-0", "t-1"} <= set(said["assigned"])
    assert polls[-1].positions == (("t", 0, 2),)
    assert (outcome("commit", commit), outcome("commit", left), answers) == (OpType.OK, OpType.FAIL, [2, None])


@pytest.mark.slow
def test_positions_of_an_earlier_run_are_not_those_of_this_one(cluster: str) -> None:
    """A cluster that stays keeps the groups of earlier runs; their positions would look like lost commits."""
    earlier, later = sessions(cluster, run="-1"), sessions(cluster, "c1", run="-2")
    earlier.perform(txn(send("a")))
    poll = GroupPollCall(id=1, group="g", reads=PARTITIONS)
    polls = [earlier.perform(poll)]
    while not polls[-1].positions and len(polls) < JOINED_POLLS_MAX:
        polls.append(earlier.perform(poll))
    earlier.perform(CommitCall(id=2, group="g", partition=("t", 0), offset=1))

    question = CommittedCall(id=3, group="g", partition=("t", 0))
    answers = (earlier.perform(question).offset, later.perform(question).offset)
    earlier.close()
    later.close()

    assert answers == (1, None)


def written(cluster: str, *values: str) -> Sessions:
    """Write records to t-0, outside of any transaction, whose marker would have an offset too; a client that may ask."""
    producer = Producer({"bootstrap.servers": cluster, "log_level": 0})
    for value in values:
        producer.produce("t", value.encode(), partition=0)
    producer.flush(10)
    return sessions(cluster)


def given(member: Sessions) -> None:
    """Poll until the member is given records."""
    for _ in range(JOINED_POLLS_MAX):
        if member.perform(GroupPollCall(id=1, group="g", reads=PARTITIONS)).positions:
            return
    raise AssertionError("the member was given nothing")


def committed(client: Sessions) -> object:
    """What the group has committed of t-0."""
    told = client.perform(GroupPositionsCall(id=2, group="g", reads=PARTITIONS)).told
    assert isinstance(told, dict)
    return told["committed"]["t-0"]


@pytest.mark.slow
def test_automatic_commit_waits_for_the_next_poll(cluster: str) -> None:
    """The application is at work on what the last poll gave: it may crash (docs/promise.md SES-6)."""
    asks, member = written(cluster, "a", "b"), sessions(cluster, "c1", auto_commit=AutoCommit(interval_ms=10))
    given(member)
    sleep(0.5)
    before = committed(asks)
    member.perform(GroupPollCall(id=1, group="g", reads=PARTITIONS))
    sleep(0.5)
    after = committed(asks)
    member.close()
    asks.close()

    assert (before, after) == (None, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("after", "expected"), [("next-poll", None), ("delivery", 2)])
def test_abandoned_member_commits_no_more(cluster: str, after: CommitsAfter, expected: int | None) -> None:
    """It neither leaves nor commits; with `delivery` librdkafka had committed what it handed over."""
    commits = AutoCommit(interval_ms=10 if after == "delivery" else 100_000, after=after)
    asks, member = written(cluster, "a", "b"), sessions(cluster, "c1", auto_commit=commits)
    given(member)
    sleep(0.5)
    member.perform(GroupAbandonCall(id=3, group="g"))
    sleep(0.5)
    position = committed(asks)
    member.close()
    asks.close()

    assert position == expected


@pytest.mark.slow
def test_member_that_leaves_commits_what_it_was_given(cluster: str) -> None:
    asks, member = written(cluster, "a", "b"), sessions(cluster, "c1", auto_commit=AutoCommit(interval_ms=100_000))
    given(member)
    member.perform(GroupLeaveCall(id=3, group="g"))
    position = committed(asks)
    asks.close()

    assert position == 2


PROCESS = ProcessCall(id=1, group="g", reads=PARTITIONS, writes=(("results", 0),))
RESULTS = ReadCommittedCall(id=1, reads=(("results", 0),))


def processed(member: Sessions) -> dict[str, Any]:
    """What the first `process` that was given records tells."""
    for _ in range(JOINED_POLLS_MAX):
        reply = member.perform(PROCESS)
        assert isinstance(reply.told, dict)
        if reply.positions:
            assert reply.attempts == 1
            return reply.told
    raise AssertionError("the member was given nothing")


def test_results_and_positions_are_committed_together(cluster: str) -> None:
    writer, member, reader = (sessions(cluster, name) for name in ("c0", "c1", "c2"))
    writer.perform(txn(send("a"), send("b"), send("c", 1)))
    answers = [processed(member)]
    while sum(len(placed) for answer in answers for placed in answer["results"].values()) < 3:
        answers.append(processed(member))
    reply = reader.perform(RESULTS)
    for client in (writer, member, reader):
        client.close()

    assert [max(answer["positions"].get(of, 0) for answer in answers) for of in ("t-0", "t-1")] == [2, 1]
    assert isinstance(reply.told, dict)
    assert sorted(value for _, value in reply.told["records"]["results-0"]) == ["t-0@0=a", "t-0@1=b", "t-1@0=c"]


def test_call_without_an_answer_is_given_up(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's issues 5456 and 5511: it waits for a group coordinator that is down, however short its time is."""
    writer, member = sessions(cluster), sessions(cluster, "c1")
    writer.perform(txn(send("a")))
    monkeypatch.setattr(transactions, "CALL_S", 0.05)
    monkeypatch.setattr(transactions, "CLOSE_S", 0.05)
    never = Event()

    class Waiting(Producer):
        def send_offsets_to_transaction(self, *_: object) -> None:
            never.wait(30)

    monkeypatch.setattr(transactions, "Producer", Waiting)
    reply = next(reply for reply in (member.perform(PROCESS) for _ in range(JOINED_POLLS_MAX)) if reply.error is not None)
    never.set()
    writer.close()
    member.close()

    assert (reply.error, reply.attempts, outcome("process", reply)) == ("_TIMED_OUT", 0, OpType.FAIL)


def test_aborted_process_reads_its_records_again(cluster: str) -> None:
    writer, member = sessions(cluster), sessions(cluster, "c1")
    writer.perform(txn(send("a")))
    aborting = replace(PROCESS, aborts=True)
    reply = next(reply for reply in (member.perform(aborting) for _ in range(JOINED_POLLS_MAX)) if reply.error is not None)
    again = processed(member)
    writer.close()
    member.close()

    assert (reply.error, reply.attempts, reply.positions, outcome("process", reply)) == (ABORTED, 0, (), OpType.FAIL)
    assert [value for _, value in again["records"]["t-0"]] == ["a"]


def message(offset: int, error: KafkaError | None = None) -> Any:
    """A message of partition t-0, or an error about it."""
    return SimpleNamespace(
        topic=lambda: "t", partition=lambda: 0, error=lambda: error, offset=lambda: offset, value=lambda: b"%d" % offset
    )


def test_records_that_come_with_an_error_are_not_lost() -> None:
    """librdkafka goes on behind them: a member that told the error alone skipped them, and the cluster was accused."""
    unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    batches = [[message(0), message(-1, unknown)], [message(1)]]
    consumer: Any = SimpleNamespace(consume=lambda at_most, wait_s: batches.pop(0))
    reading = Reading()
    positions: dict[tuple[str, int], int] = {}

    assert reading.poll(consumer, 0.1, positions) == {"t-0": [[0, "0"]]}
    with pytest.raises(KafkaException):
        reading.poll(consumer, 0.1, positions)
    assert reading.poll(consumer, 0.1, positions) == {"t-0": [[1, "1"]]}
    assert positions == {("t", 0): 2}


class BehindOpenTransaction:
    """A consumer of one partition: committed records end at offset 3, the log at `high`."""

    def __init__(self, high: int) -> None:
        self._high = high

    def consume(self, _: int, __: float) -> list[Any]:
        return [message(3, KafkaError(KafkaError._PARTITION_EOF))]

    def get_watermark_offsets(self, _: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return 0, self._high

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("high", "is_at_end"), [(3, True), (5, False)])
def test_reader_behind_an_open_transaction_is_at_no_end(high: int, is_at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed records end at the first open transaction, and what is committed behind it is hidden."""
    client = sessions("127.0.0.1:1")
    reader = client._transactions
    monkeypatch.setattr(reader, "_consumer", BehindOpenTransaction(high))
    reply = reader.read(ReadCommittedCall(id=1, reads=(("t", 0),)))
    polled = reader.perform(TxnCall(id=2, micros=(POLL,), aborts=False, reads=(("t", 0),)))

    assert [reply.at_end, polled.at_end] == [is_at_end, is_at_end]
    assert reply.told == {"records": {}, **({"end": True} if is_at_end else {})}
    assert polled.told == [["poll", {}, *(["end"] if is_at_end else [])]]


def raised_by_callback(*_: Any, **__: Any) -> None:
    raise SystemError from KafkaException(KafkaError(KafkaError._FENCED))


def refused(*_: Any, **__: Any) -> None:
    raise BufferError


@pytest.mark.parametrize(
    ("calls", "act", "error"),
    [
        (SimpleNamespace(flush=raised_by_callback), lambda producer: producer.flush(1.0), "_FENCED"),
        (SimpleNamespace(commit_transaction=raised_by_callback), TransactionalProducer.commit, "_FENCED"),
        (SimpleNamespace(produce=refused), lambda producer: producer.send(("t", 0), "a", [], []), "_QUEUE_FULL"),
    ],
    ids=["flush", "commit", "produce"],
)
def test_other_errors_of_the_library_are_kafkas(
    calls: SimpleNamespace, act: Callable[[TransactionalProducer], object], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller gives the producer up after one kind of exception."""
    producer = TransactionalProducer("c0", {}, timeout_ms=1000)
    monkeypatch.setattr(producer, "_producer", calls)

    with pytest.raises(KafkaException) as raised:
        act(producer)
    assert transactions.name_of(raised.value.args[0]) == error


class AnsweredWithAnError:
    """A consumer of a group that has one partition, and is not told where the group stands."""

    def __init__(self) -> None:
        self.sought: list[TopicPartition] = []
        self.closed = False

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0)]

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[Any]:
        error = KafkaError(KafkaError._TIMED_OUT)
        return [SimpleNamespace(topic=of.topic, partition=of.partition, offset=-1001, error=error) for of in partitions]

    def seek(self, to: TopicPartition) -> None:
        self.sought.append(to)

    def close(self) -> None:
        self.closed = True


def test_member_that_is_told_no_position_joins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """To begin at the beginning instead would process all records again."""
    client = sessions("127.0.0.1:1", membership="cooperative")._member
    consumer = AnsweredWithAnError()
    monkeypatch.setattr(client, "_consumer", consumer)
    client._rewind(consumer)  # type: ignore[arg-type]

    assert (consumer.sought, consumer.closed) == ([], True)
