"""Decides whether a client's operation is recorded as ok, fail (certainly not done) or info (perhaps done), by its error.

A completion is `fail` where the operation certainly had no effect, now and later, and `info` where it may have had one. The
table is about produce; a poll or a question for the latest offset that failed is `fail`.
An operation that was never handed to the network (no leader was found) had no effect, whatever the error. An operation that was
sent several times is `fail` only if each attempt certainly failed. An error that is not in the table is `info`.

Some errors of a leader are definite, since it sends them before it appends: NOT_ENOUGH_REPLICAS (bugs B-65 d), the refusals of a
producer's sequence or epoch (bugs B-66) and of its bytes, and UNKNOWN_TOPIC_OR_PARTITION, which no produce in purgatory is
answered with, since its partition was known. NOT_LEADER_OR_FOLLOWER is not definite: a produce that waits for the ISR is answered
with it when the leader is deposed after its local append, and the next leader may commit the record (requirements U-24).

An ok with acks=0 says only that the request was sent; with acks=1, that one log had the record. Neither is promised (promise §1).

After an info the process cannot go on, as in Jepsen: its operation may take effect at any later time, so a later operation of
the same process number would not be known to follow it. The number is retired and the client goes on under the next one.
"""

from typing import get_args

from history.op import OpType
from workloads.client import RequestF

# Kafka's error name -> outcome of a produce that was sent
PRODUCE: dict[str, OpType] = {
    "NONE": OpType.OK,
    "OFFSET_OUT_OF_RANGE": OpType.INFO,
    "CORRUPT_MESSAGE": OpType.FAIL,
    "UNKNOWN_TOPIC_OR_PARTITION": OpType.FAIL,
    "LEADER_NOT_AVAILABLE": OpType.INFO,
    "NOT_LEADER_OR_FOLLOWER": OpType.INFO,
    "REQUEST_TIMED_OUT": OpType.INFO,
    "BROKER_NOT_AVAILABLE": OpType.INFO,
    "STALE_CONTROLLER_EPOCH": OpType.INFO,
    "NETWORK_EXCEPTION": OpType.INFO,
    "NOT_ENOUGH_REPLICAS": OpType.FAIL,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": OpType.INFO,
    "INVALID_REQUIRED_ACKS": OpType.FAIL,
    "TOPIC_ALREADY_EXISTS": OpType.INFO,
    "NOT_CONTROLLER": OpType.INFO,
    "INVALID_REQUEST": OpType.INFO,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": OpType.FAIL,
    "DUPLICATE_SEQUENCE_NUMBER": OpType.INFO,
    "INVALID_PRODUCER_EPOCH": OpType.FAIL,
    "KAFKA_STORAGE_ERROR": OpType.INFO,
    "UNKNOWN_PRODUCER_ID": OpType.FAIL,
    "REASSIGNMENT_IN_PROGRESS": OpType.INFO,
    "FENCED_LEADER_EPOCH": OpType.INFO,
    "UNKNOWN_LEADER_EPOCH": OpType.INFO,
    "STALE_BROKER_EPOCH": OpType.INFO,
    "OFFSET_NOT_AVAILABLE": OpType.INFO,
    "NO_REASSIGNMENT_IN_PROGRESS": OpType.INFO,
    "INVALID_RECORD": OpType.FAIL,
    "INVALID_UPDATE_VERSION": OpType.INFO,
    "UNKNOWN_TOPIC_ID": OpType.INFO,
    "INCONSISTENT_TOPIC_ID": OpType.INFO,
    "INELIGIBLE_REPLICA": OpType.INFO,
    "INVALID_INCARNATION_ID": OpType.INFO,
}

# librdkafka's own errors for a message, by its names. They do not tell whether the message was sent, so only the refusal to take
# the message is definite. Names that are not listed are INFO too; these are listed with their reasons.
PRODUCE |= {
    "_QUEUE_FULL": OpType.FAIL,  # produce() did not take it
    "_MSG_TIMED_OUT": OpType.INFO,  # of a message in the queue, and of one that was sent and not answered
    "_TIMED_OUT": OpType.INFO,  # the request was sent and not answered
    "_TIMED_OUT_QUEUE": OpType.INFO,  # the request waited behind others; an earlier one with this message may have gone out
    "_TRANSPORT": OpType.INFO,  # the connection broke with the request under way
    "_PURGE_QUEUE": OpType.INFO,  # the harness purges only at the end of a run
    "_PURGE_INFLIGHT": OpType.INFO,  # sent and not answered
    "_UNKNOWN_TOPIC": OpType.INFO,  # also for messages taken back from a deleted partition
    "_UNKNOWN_PARTITION": OpType.INFO,  # the same
    "_FATAL": OpType.INFO,  # an idempotent producer gives up with messages under way
    "_NO_REPORT": OpType.INFO,  # the harness's: no report came in time
    "_RETRIED": OpType.INFO,  # the harness's: an attempt before the last one; its outcome is not reported
}

# An administrator's requests have effects too. They are refused where a request or the topic exists already, or where there is
# nothing to roll back. After an earlier attempt what stands in the way may be the request itself.
ADMIN = frozenset(get_args(RequestF))
ADMIN_REFUSED = frozenset({"TOPIC_ALREADY_EXISTS", "REASSIGNMENT_IN_PROGRESS", "NO_REASSIGNMENT_IN_PROGRESS"})


# A transaction counts as sent once its commit was asked for: before that it can only be aborted. A group's coordinator answers
# these before it takes a commit, because the member is none any more.
# A producer that is initialized may still fence others when the client has given up waiting. What a failed txn-send or txn-abort
# sent is never committed, because nobody asks for it.
SESSION = frozenset({"txn", "process", "commit", "init-transactions", "txn-commit", "share-acknowledge"})
COMMIT_REFUSED = frozenset({"ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "FENCED_INSTANCE_ID"})


def completion_type(f: str, error: str | None, *, sent: bool, earlier: tuple[str, ...] = ()) -> OpType:
    """The outcome to record (ok, fail, info). `error`: Kafka's name, None for success; `sent`: whether it reached the network.

    `earlier` are the errors of attempts before the last one.
    """
    if error is None or error == "NONE":
        return OpType.OK
    if f in ADMIN and sent:
        return OpType.FAIL if error in ADMIN_REFUSED and not earlier else OpType.INFO
    if f in SESSION and sent:
        return OpType.FAIL if f == "commit" and error in COMMIT_REFUSED else OpType.INFO
    if f != "produce" or not sent:
        return OpType.FAIL
    return OpType.FAIL if all(PRODUCE.get(e) is OpType.FAIL for e in (*earlier, error)) else OpType.INFO


def number_after(number: int, completed: OpType, *, processes: int) -> int:
    """The process number of a client's next operation, a new one after info; the clients began as 0 … processes - 1."""
    assert number >= 0
    assert processes > 0
    return number + processes if completed is OpType.INFO else number
