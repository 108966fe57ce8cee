"""What a run on real brokers proves: history rows from the brokers' reports and from ZooKeeper's transaction log.

The transaction log is complete and in the order of commit. Its times are milliseconds of the wall clock, rounded down, so that a
write is never recorded after its consequences. An ISR change that the leader noted in the same millisecond would be recorded
after the write; therefore the write is put right behind that note. Nodes run on after the end of a run until they are stopped,
and the record is cut at a moment near which nothing was committed (`whole_until`).
"""

import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from highwater.backends.real.batches import opened_line
from highwater.backends.real.merge import RowClock
from highwater.rig.commits import AnyCommit, NodeCreated, NodeWritten
from highwater.rig.evidence import CommitRows, Notebook, is_registration, registrant
from history.event import ClusterEvent, EventKind
from history.recorder import Recorder
from reference.coordination import paths
from reference.types import Address, TopicPartition
from server.lab.notes import NoteLine

_MS = 1_000_000
NEAR_NS = 20 * _MS  # by how much the time of a commit may be wrong: 1 ms, and adjustments of the wall clock


def wall_ahead_ns() -> int:
    """By how much the wall clock of this machine is ahead of its monotonic clock, ns."""
    return time.time_ns() - time.monotonic_ns()


def whole_until(commits: Iterable[AnyCommit], *, end_ns: int, start_ns: int, wall_ahead_ns: int) -> int:
    """The latest time up to `end_ns` at which the history may end: no ZooKeeper write was committed within NEAR_NS of it.

    A cut near a write could keep its effect and drop its cause, because the order of rows within `NEAR_NS` of a write is not
    known. The result is in ns since the start of the run, as is `end_ns`.
    """
    whole_ns, last_ns = end_ns, 0
    times = []
    for commit in commits:
        last_ns = max(last_ns, commit.time_ms * _MS - wall_ahead_ns - start_ns)
        times.append(last_ns)
    for at_ns in reversed(times):
        if at_ns < whole_ns - NEAR_NS:
            break
        if at_ns < whole_ns + NEAR_NS:
            whole_ns = at_ns - NEAR_NS
    return max(0, whole_ns)


def recorded_notes(lines: Iterable[NoteLine], *, start_ns: int) -> Recorder:
    """Turn what one broker reported into rows of the history, in the order in which it reported."""
    clock = RowClock(start_ns)
    recorder = Recorder(clock)
    notebooks: dict[tuple[str, int], Notebook] = {}
    for line in lines:
        process = (line.node, line.life)
        if process not in notebooks:
            notebooks[process] = Notebook(recorder, Address(line.node))
            notebooks[process].life = line.life
        clock.set(line.time_ns)
        notebooks[process].write(opened_line(line).note)
    return recorder


def stamped(events: Iterable[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """Add to each recorded loss of data the registration of its broker: the last one before the loss."""
    registered: dict[str | None, int | None] = {}
    rows = []
    for row in events:
        if row.kind is EventKind.REGISTERED:
            registered[row.node] = row.incarnation
        elif row.kind is EventKind.WOUND and row.incarnation is None:
            row = replace(row, incarnation=registered.get(row.node))
        rows.append(row)
    return tuple(rows)


class ZooKeeperEvidence:
    """Records history rows for ZooKeeper's committed changes, given in their order, at their times."""

    def __init__(self, lines: Sequence[NoteLine], starts: Iterable[ClusterEvent], *, start_ns: int, wall_ahead_ns: int) -> None:
        """`lines`: the reports of all brokers; `starts`: the history rows of the starts of their processes."""
        self._starts = [row for row in starts if row.kind is EventKind.NODE_STARTED]
        self._clock = RowClock(start_ns)
        self.recorder = Recorder(self._clock)
        self._rows = CommitRows()
        self._wall_ahead_ns = wall_ahead_ns
        # When each ISR change was sent: (node, partition, version it is conditional on).
        self._sent_ns: dict[tuple[str | None, TopicPartition | None, int | None], int] = {
            (line.node, line.note.tp, line.note.zk_version): line.time_ns
            for line in lines
            if line.note.kind == EventKind.ISR_CHANGE_SENT
        }
        self._node_of: dict[int, Address] = {}  # by session; a session that ended keeps its node
        self._last_ns = 0

    def add(self, commit: AnyCommit) -> None:
        """Record the history rows of one committed change in ZooKeeper."""
        life = None
        if isinstance(commit, NodeCreated) and is_registration(commit.path):
            self._node_of[commit.session] = registrant(commit.path)
            self._set_row_time(commit)
            life = self._life_at_row_time(self._node_of[commit.session])
        rows = self._rows.of(commit, writer=self._node_of.get(commit.session), life=life)
        if rows:
            self._set_row_time(commit, after_ns=self._time_of_sending(commit))
        self.recorder.record(rows)

    def _life_at_row_time(self, node: Address) -> int | None:
        """The life of this node that runs at the clock's time, None before the first.

        An earlier life's session may have registered; that registration ends soon, with its session.
        """
        began = [row for row in self._starts if row.node == node and row.time_ns <= self._clock()]
        return began[-1].life if began else None

    def _time_of_sending(self, commit: AnyCommit) -> int:
        """When a leader noted that it sends this write of a state (monotonic ns), 0 for any other commit."""
        tp = paths.tp_of_state_path(commit.path) if isinstance(commit, NodeWritten) else None
        if not isinstance(commit, NodeWritten) or tp is None:
            return 0
        return self._sent_ns.get((self._node_of.get(commit.session), tp, commit.version - 1), 0)

    def _set_row_time(self, commit: AnyCommit, *, after_ns: int = 0) -> None:
        """Set the rows' time to the commit's, but not before the previous commit's: the wall clock may go back."""
        at_ns = max(self._last_ns, commit.time_ms * _MS - self._wall_ahead_ns)
        if at_ns <= after_ns < at_ns + 2 * _MS:
            at_ns = after_ns + 1
        self._last_ns = at_ns
        self._clock.set(at_ns)
