"""The parameters of a workload, taken from the plan."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from workloads.client import Edit, RequestF

# What the members of a group commit automatically: what a poll gave once the member has polled again or leaves, or at once.
CommitsAfter = Literal["next-poll", "delivery"]


class PartitionName(Struct, frozen=True, array_like=True, order=True):
    """A partition, named by topic and index."""

    topic: str
    partition: int


class TopicShape(Struct, frozen=True, array_like=True):
    """A topic as it is at the start of a run; `replicas` has the brokers of its partitions and of those that may be added."""

    name: str
    partitions: int
    replicas: tuple[tuple[int, ...], ...]


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One admin request of a plan's script, `at_ms` after the start of the workload.

    `replicas`, preferred first: of each partition of a topic that is made; of the one partition that is added or moved. `edit`:
    what an operator does by hand. `settings`: those of the topic that an alter-config sets, in the system's own words.
    """

    at_ms: int
    do: RequestF
    topic: str = ""
    partition: int = 0
    replicas: tuple[tuple[int, ...], ...] = ()
    edit: Edit | UnsetType = UNSET
    settings: dict[str, str | int | bool] | UnsetType = UNSET


def word_of(value: str | int | bool) -> str:
    """A setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Asynchronous(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Producers that send in the background (`workloads.asynchronous`), beside the others: how many, and what each may do."""

    producers: int = 1
    retries: int = 3  # message.send.max.retries
    in_flight: int = 3  # batches of one producer at a time


class AutoCommit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members of a group that commit automatically (enable.auto.commit): how often, and from when on what they were given."""

    interval_ms: int = 500  # auto.commit.interval.ms
    after: CommitsAfter = "next-poll"


class Parameters(Struct, frozen=True, kw_only=True):
    """The parameters of a workload. Rates are of all clients together; times in ms. `records_per_produce` values form a batch."""

    partitions: tuple[PartitionName, ...]
    producers: int = 5
    consumers: int = 3
    final_readers: int = 2
    produce_per_s: int = 50
    records_per_produce: int = 1
    acks: tuple[int, ...] = (-1,)  # each produce draws one of these
    poll_interval_ms: int = 200
    seek_one_in: int = 0  # a consumer seeks before one poll in so many; 0: never
    stranger_first: bool = False  # the client of misuse names an unknown producer before its first right request
    idempotent: int = 0  # how many of the producers are idempotent
    asynchronous: Asynchronous | None = None  # None: there are none
    auto_commit: AutoCommit | None = None  # of the members of a group; None: they commit by calls
    topics: tuple[TopicShape, ...] = ()  # for administrators
    brokers: tuple[int, ...] = ()  # for administrators who move partitions
    by_requests: bool = False  # administrators move partitions by proposal B of KIP-236
    removes: bool = True  # administrators may remove the partitions that they added
    moves_to_min: int = 1  # replicas that administrators move a partition to at least; a controller may refuse more than that
    by_operator: bool = False  # an administrator may order unclean elections (docs/promise.md DUR-7)
    scratch: TopicShape | None = None  # the topic that an administrator creates and deletes
    retries: int = 0  # of each produce that asks for an answer
    only: frozenset[int] | None = None  # numbers of the produces that each producer makes in phase "faults"; None: all
    script: tuple[Step, ...] = ()  # requests of one more administrator, in the order of time
    edits: bool = False  # an operator edits znodes under /admin by hand
    audited: bool = False  # an auditor sends each kind of admin request in phase "audit"


class ParametersError(ValueError):
    """Parameters are invalid; the message is one line for the user."""


def check_parameters(parameters: Parameters) -> None:
    """Raise ParametersError for invalid parameters of a workload."""
    at_least_one = ("producers", "final_readers", "produce_per_s", "records_per_produce", "poll_interval_ms")
    for name in at_least_one:
        if getattr(parameters, name) < 1:
            raise ParametersError(f"workload: {name} must be at least 1, not {getattr(parameters, name)}")
    if parameters.consumers < 0:
        raise ParametersError(f"workload: consumers must not be negative, but is {parameters.consumers}")
    if not 0 <= parameters.idempotent <= parameters.producers:
        raise ParametersError(f"workload: {parameters.idempotent} of {parameters.producers} producers cannot be idempotent")
    if parameters.seek_one_in < 0:
        raise ParametersError(f"workload: seek_one_in must not be negative, but is {parameters.seek_one_in}")
    if parameters.retries < 0:
        raise ParametersError(f"workload: retries must not be negative, but is {parameters.retries}")
    if not parameters.partitions:
        raise ParametersError("workload: partitions is empty; at least one partition is needed")
    if not parameters.acks or any(acks not in (-1, 0, 1) for acks in parameters.acks):
        raise ParametersError(f"workload: acks must be some of -1, 0 and 1, not {list(parameters.acks)}")
