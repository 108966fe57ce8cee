"""Orders of unclean elections that are requests to brokers, told as the znode that would say the same (docs/promise.md DUR-7).

The reference's administrators write the order into ZooKeeper, and the rows of elections are derived from that
(`highwater.rig.evidence`). Kafka's ask a broker, and only the harness knows that they did. An order stands from its call until
its answer; one of unknown outcome stands until the end, since nobody knows when it is carried out.
"""

from collections.abc import Iterable, Iterator, Sequence

from highwater.rig.commits import AnyCommit, NodeDeleted, NodeWritten
from history.op import Operation, OpType
from reference.coordination import paths
from reference.types import TopicPartition

ORDER = "elect-unclean"
NEAR_MS = 20  # by how much the times of commits and those of the harness may differ


def with_orders(commits: Sequence[AnyCommit], operations: Iterable[Operation], *, zero_ms: int) -> list[AnyCommit]:
    """The commits with the orders among them; `zero_ms` is the wall clock at the start of the run."""
    merged: list[AnyCommit] = []
    left = list(commits)
    for order in _orders(operations, zero_ms):
        while left and left[0].time_ms < order.time_ms:
            merged.append(left.pop(0))
        merged.append(order)
    return [*merged, *left]


def _orders(operations: Iterable[Operation], zero_ms: int) -> Iterator[AnyCommit]:
    """A write of all orders that stand, each time that one begins or ends."""
    standing: dict[int, TopicPartition] = {}  # by process, which has one call open at a time
    changes: list[tuple[int, int, TopicPartition | None]] = []
    for row in operations:
        if row.f != ORDER:
            continue
        at_ms = zero_ms + row.time_ns // 1_000_000
        if row.type is OpType.INVOKE:
            changes.append((at_ms - NEAR_MS, row.process, TopicPartition(row.value or "")))
        elif row.type is not OpType.INFO:
            changes.append((at_ms + NEAR_MS, row.process, None))
    for at_ms, process, tp in sorted(changes, key=lambda change: change[0]):
        standing.pop(process, None)
        if tp is not None:
            standing[process] = tp
        if not standing:
            yield NodeDeleted(zxid=0, session=0, time_ms=at_ms, path=paths.UNCLEAN_ELECTION)
            continue
        data = paths.preferred_payload(tuple(sorted(set(standing.values()))))
        yield NodeWritten(zxid=0, session=0, time_ms=at_ms, path=paths.UNCLEAN_ELECTION, data=data, version=0)
