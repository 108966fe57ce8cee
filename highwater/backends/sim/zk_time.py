"""The time that ZooKeeper's leader takes for writes: one transaction after the other, each the same time.

V3's Discussion 1 counts "each ZK write takes 4ms", and 40 s for 10 000 of them: they take turns. A multi is one transaction.
Reads take no time of their own, but wait for the earlier writes of their session, because a session's requests are answered in
order. Sessions open and close at once.
"""

from highwater.backends.sim.simulation import Simulation
from reference.coordination.api import AnyOp, Exists, GetChildren, GetData

_READS = (GetData, Exists, GetChildren)


def transactions(ops: tuple[AnyOp, ...], *, atomic: bool) -> int:
    """How many transactions a request makes: one for a multi, else one for each write."""
    return 1 if atomic else sum(not isinstance(op, _READS) for op in ops)


class WriteTime:
    """When the leader of one ZooKeeper is done with what it was asked for."""

    __slots__ = ("_free_ns", "_sessions", "_sim")

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._free_ns = 0  # when the last write that was asked for is done
        self._sessions: dict[int, int] = {}  # the same, of each session

    def due_ns(self, session: int, count: int) -> int:
        """When a request of this session is due that makes so many transactions, in ns of virtual time."""
        now = self._sim.scheduler.now
        if count and self._sim.zk_write_ns:
            self._free_ns = self._sessions[session] = max(now, self._free_ns) + count * self._sim.zk_write_ns
        return max(now, self._sessions.get(session, 0))
