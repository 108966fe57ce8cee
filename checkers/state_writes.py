"""What may be written of a partition's state in ZooKeeper, and by whom (docs/oracles.md §7.1 LeaderInIsr; B-38, B-39, B-44).

Judged at ZooKeeper's own writes, each against the one before. The leader that stands there may write another ISR and nothing
else; the controller may write all of it. The ISR lies within the assigned replicas and holds the leader; the leader epoch never
falls, and names one leader. A broker that was elected controller and has been replaced since is entitled to nothing.

Where the clocks of rows differ (ZooKeeper's are whole milliseconds, rounded down), an election counts from `SLACK_NS` before
its row, and whom it replaced may be in office until as long after it. A broker may hear that it was elected when it has been
replaced already: an election of a controller epoch below that of an earlier row replaces nobody.

    >>> from checkers.sketches import sketch
    >>> sketch("state-writes", "state-written leader=b1 isr=b2,b3")
    ['leader-outside-isr']
"""

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, partition_of
from checkers.rows import EventRow, event_rows
from checkers.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "state-writes"
SLACK_NS = 2_000_000


class _Controllers:
    """Who was controller when. A broker that resigned is still the last one: nobody replaced it."""

    def __init__(self, rows: list[EventRow], late: set[int]) -> None:
        elected = [(row.time_ns - SLACK_NS, row.node, row.at) for row in rows if row.kind == K.CONTROLLER_ELECTED]
        self._elected = [(since, node) for since, node, at in elected if at not in late]
        self._late = [(since, node) for since, node, at in elected if at in late]

    def at(self, time_ns: int) -> tuple[set[str], set[str]]:
        """Who may be controller at a time, and who was elected up to then; nobody where the first election is not past."""
        seen = [(since, node) for since, node in self._elected if since <= time_ns]
        # Of an election within the slack nobody knows on which side of the row it lies.
        settled = [node for since, node in seen if since + 2 * SLACK_NS <= time_ns]
        recent = {node for since, node in seen if since + 2 * SLACK_NS > time_ns}
        ever = {node for _, node in seen} | {node for since, node in self._late if since <= time_ns}
        return ({*settled[-1:], *recent}, ever) if settled else (set(), set())


class _States:
    """One pass over one partition."""

    def __init__(self, key: str, controllers: _Controllers) -> None:
        self.key, self.controllers = key, controllers
        self.before: EventRow | None = None
        self.assigned: tuple[str, ...] = ()
        self.named: dict[int, tuple[str, int]] = {}  # epoch -> the leader that it names, and the row
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Apply one row."""
        if row.kind == K.ASSIGNED:
            self.assigned = row.replicas
        elif row.kind == K.STATE_WRITTEN:
            self._shape(row)
            self._epoch(row)
            if self.before is not None and row.node is not None:
                self._writer(row, self.before)
            self.before = row

    def _shape(self, row: EventRow) -> None:
        outside = [node for node in row.isr if node not in self.assigned]
        if outside and self.assigned:
            words = f"{', '.join(outside)} in the ISR of epoch {row.leader_epoch}; assigned are {', '.join(self.assigned)}"
            self._accuse("isr-outside-replicas", (row.at,), words)
        if row.leader is not None and row.leader not in row.isr:
            words = f"{row.leader} leads epoch {row.leader_epoch} and is not in its ISR {', '.join(row.isr) or 'of nobody'}"
            self._accuse("leader-outside-isr", (row.at,), words)

    def _epoch(self, row: EventRow) -> None:
        if self.before is not None and row.leader_epoch < self.before.leader_epoch:
            words = f"the leader epoch fell from {self.before.leader_epoch} to {row.leader_epoch}"
            self._accuse("epoch-regressed", (self.before.at, row.at), words)
        if row.leader is None:
            return
        leader, at = self.named.setdefault(row.leader_epoch, (row.leader, row.at))
        if leader != row.leader:
            words = f"epoch {row.leader_epoch} names {leader} as its leader, and then {row.leader}"
            self._accuse("two-elected", (at, row.at), words)

    def _writer(self, row: EventRow, before: EventRow) -> None:
        controllers, ever = self.controllers.at(row.time_ns)
        if not ever or row.node in controllers:
            return
        same = (row.leader, row.leader_epoch) == (before.leader, before.leader_epoch)
        if row.node == before.leader and same:
            return
        what = "another ISR" if same else f"{row.leader or 'nobody'} as leader of epoch {row.leader_epoch}"
        if row.node in ever:
            words = f"{row.node}, which was controller and is no more, wrote {what}"
            self._accuse("deposed-controller", (before.at, row.at), words)
        else:
            words = f"{row.node}, which is neither controller nor leader, wrote {what}"
            if row.node == before.leader:
                words = f"{row.node}, which leads and is not controller, wrote {what}"
            self._accuse("unentitled-write", (before.at, row.at), words)

    def _accuse(self, kind: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """The states of one partition. What an excused loss took is no matter here: it changes nobody's rights."""
    topic, partition = partition_of(operations, events)
    rows = event_rows(events)
    states = _States(f"{topic}-{partition}", _Controllers(rows, _late(events)))
    for row in rows:
        states.see(row)
    return Findings(anomalies=tuple(states.anomalies))


def _late(events: pl.DataFrame) -> set[int]:
    """The rows of elections that were noted after one of a later controller epoch."""
    epochs = (
        events.filter(pl.col("kind") == str(K.CONTROLLER_ELECTED)).select("index", "controller_epoch").drop_nulls().sort("index")
    )
    return set(epochs.filter(pl.col("controller_epoch") < pl.col("controller_epoch").cum_max())["index"].to_list())


CHECKER = Checker(
    name=NAME,
    claim="ZooKeeper's ISR lies within the replicas and holds the leader; only its leader and the controller write it.",
    assumes="ZooKeeper's writes are complete and name their writer; controllers note their election.",
    blind="What was refused; assignments that nobody told of; writers within two milliseconds of an election.",
    kinds=(
        "isr-outside-replicas",
        "leader-outside-isr",
        "epoch-regressed",
        "two-elected",
        "unentitled-write",
        "deposed-controller",
    ),
    group_by=PARTITION,
    events=(K.STATE_WRITTEN, K.ASSIGNED, K.CONTROLLER_ELECTED),
    needs=(K.STATE_WRITTEN,),
    check=check,
)
