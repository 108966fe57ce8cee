"""What all producers and consumers of one client are given, and how their errors are told."""

from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import BrokerResponseError, CommitFailedError, KafkaTimeoutError, ProducerFenced

from .owners import LateError

POLL_MS = 100
POLLED_MAX = 500
_MEMBER_MS = 6000  # the least session timeout that brokers allow by default
_HEARTBEAT_MS = 500
_TRANSACTION_MS = 6000  # after which the coordinator aborts a transaction that nobody ends
_BATCH_MS = 5  # the values of one produce travel as one batch
_TIMED_OUT = {"error": "REQUEST_TIMED_OUT", "code": 7}
_FENCED = {"error": "PRODUCER_FENCED", "code": 90}

Call = dict[str, Any]  # a call, as JSON
Heard = dict[str, Any]  # its answer


class Settings:
    """The settings of one client; `request` is its first one (clients/piped.py)."""

    def __init__(self, request: Call) -> None:
        self.timeout_s: float = request["timeout_ms"] / 1000
        self.transactional_id: str = request["transactional_id"]
        self.keyed: bool = request["keyed"]  # the key of a record is what its value has before "="
        self._name: str = request["client"]
        self._run: str = request["run"]  # ends the names of groups: on a cluster that stays, earlier runs have left theirs
        self._membership: str = request["membership"]
        self._auto_commit_ms: int = request["auto_commit_ms"]  # 0: members commit by calls
        self._timeout_ms: int = request["timeout_ms"]
        self._common = {
            "bootstrap_servers": request["brokers"].split(","),
            "client_id": self._name,
            "request_timeout_ms": self._timeout_ms,
            "retry_backoff_ms": 50,
            "metadata_max_age_ms": 5000,
        }

    def group(self, name: str) -> str:
        """The name of a group on the cluster."""
        return name + self._run

    def shared_id(self, shared: str) -> str:
        """A transactional id that clients share."""
        return f"highwater-{shared}{self._run}"

    def producer(self, *, acks: int, idempotent: bool) -> AIOKafkaProducer:
        """A producer; it takes no number of retries."""
        linger_ms = min(_BATCH_MS, self._timeout_ms - 1)
        return AIOKafkaProducer(**self._common, acks=acks, enable_idempotence=idempotent, linger_ms=linger_ms)

    def transactional(self, transactional_id: str) -> AIOKafkaProducer:
        """A producer of transactions."""
        limit_ms = max(_TRANSACTION_MS, self._timeout_ms)
        return AIOKafkaProducer(**self._common, transactional_id=transactional_id, transaction_timeout_ms=limit_ms)

    def consumer(self, isolation: str) -> AIOKafkaConsumer:
        """A consumer that chooses its partitions and positions."""
        own = {"auto_offset_reset": "none", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
        return AIOKafkaConsumer(**self._common, **own, isolation_level=isolation)

    def member(self, group: str, isolation: str) -> AIOKafkaConsumer:
        """A member of a group, which commits only by calls unless it commits automatically."""
        own = {
            **self._common,
            # It is the limit of JoinGroup, too, which the coordinator answers when the last member has joined.
            "request_timeout_ms": _MEMBER_MS + self._timeout_ms,
            "group_id": self.group(group),
            "auto_offset_reset": "earliest",
            "enable_auto_commit": self._auto_commit_ms > 0,
            "fetch_max_wait_ms": 50,
            "session_timeout_ms": _MEMBER_MS,
            "heartbeat_interval_ms": _HEARTBEAT_MS,
        }
        if self._auto_commit_ms > 0:
            own["auto_commit_interval_ms"] = self._auto_commit_ms
        if self._membership == "static":
            own["group_instance_id"] = self._name
        return AIOKafkaConsumer(**own, isolation_level=isolation)


def partition_of(name: str) -> TopicPartition:
    """The partition "topic-3"."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def key_of(partition: TopicPartition) -> str:
    """The name of a partition in values of operations."""
    return f"{partition.topic}-{partition.partition}"


def text_of(value: bytes | None) -> str:
    """The value of a record."""
    return (value or b"").decode()


def told_error(error: BaseException) -> Heard:
    """An error by Kafka's number where it has one, else by the name of its class.

    aiokafka tells some answers of brokers as the causes of errors of its own.
    """
    if isinstance(error, LateError | KafkaTimeoutError):
        return dict(_TIMED_OUT)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BrokerResponseError) and cause.errno > 0:
            return {"error": cause.message, "code": cause.errno}
        if isinstance(cause, ProducerFenced):
            return dict(_FENCED)
        cause = cause.__cause__
    return {"error": f"_{type(error).__name__}"}


def is_refused(error: BaseException) -> bool:
    """Whether a coordinator refused a commit because the member is none any more."""
    return isinstance(error, CommitFailedError)
