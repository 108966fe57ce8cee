"""Calls of clients that keep a session with the cluster: transactions, and the members of consumer groups.

The clients of the reference do not know them, so they are no calls of `reference.client.calls`.
"""

from msgspec import Struct

from workloads.client import AcknowledgeType, Micro, ShareF, StepF

Partition = tuple[str, int]


class TxnCall(Struct, frozen=True, kw_only=True):
    """A transaction of sends and polls; without a send it only polls. `reads` are the partitions that a poll reads."""

    id: int
    micros: tuple[Micro, ...]
    aborts: bool
    reads: tuple[Partition, ...]


class GroupPollCall(Struct, frozen=True, kw_only=True):
    """A poll of a member of a group, which joins if it is none."""

    id: int
    group: str
    reads: tuple[Partition, ...]


class GroupLeaveCall(Struct, frozen=True, kw_only=True):
    """The member leaves its group."""

    id: int
    group: str


class GroupAbandonCall(Struct, frozen=True, kw_only=True):
    """The member dies as a crashed program does: it does not leave its group, and commits nothing more."""

    id: int
    group: str


class GroupPositionsCall(Struct, frozen=True, kw_only=True):
    """Asks for the positions that the group committed last of these partitions."""

    id: int
    group: str
    reads: tuple[Partition, ...]


class CommitCall(Struct, frozen=True, kw_only=True):
    """The member commits the next position to read of a partition."""

    id: int
    group: str
    partition: Partition
    offset: int


class CommittedCall(Struct, frozen=True, kw_only=True):
    """Asks for the position that the group committed last."""

    id: int
    group: str
    partition: Partition


class ProcessCall(Struct, frozen=True, kw_only=True):
    """A poll of a member of a group, a result for each record, and the group's positions, in one transaction.

    `writes` are the partitions that results go to: that of the record's own partition, counted modulo their number. `work_ms` lie
    between results and positions. One that `aborts` ends its transaction before it adds the positions.
    """

    id: int
    group: str
    reads: tuple[Partition, ...]
    writes: tuple[Partition, ...]
    work_ms: int = 0
    aborts: bool = False


class ReadCommittedCall(Struct, frozen=True, kw_only=True):
    """A poll of committed records of these partitions, from where the client's last one ended; the first from the beginning."""

    id: int
    reads: tuple[Partition, ...]


class StepCall(Struct, frozen=True, kw_only=True):
    """One step of a transaction, of a producer whose transactional id other clients have, too.

    The first step, "init-transactions", makes a new producer. Each other one is of the last producer that was made.
    """

    id: int
    step: StepF
    transactional_id: str
    sends: tuple[Micro, ...] = ()


class ShareCall(Struct, frozen=True, kw_only=True):
    """What a member of a share group does; a "share-poll" joins if it is none.

    A "share-acknowledge" gives the records of the last poll these types in turn, by partition and offset, over and over.
    """

    id: int
    share: ShareF
    group: str
    reads: tuple[Partition, ...] = ()
    acknowledges: tuple[AcknowledgeType, ...] = ()


OfGroup = GroupPollCall | GroupLeaveCall | GroupAbandonCall | GroupPositionsCall | CommitCall | CommittedCall | ShareCall
SessionCall = ProcessCall | ReadCommittedCall | TxnCall | StepCall | OfGroup


def key_of(partition: Partition) -> str:
    """The name of a partition in the values of such operations."""
    return f"{partition[0]}-{partition[1]}"
