"""Checker: which writes to a partition's state in ZooKeeper are legal, and who may write them.

Source: docs/oracles.md §7.1 LeaderInIsr; B-38, B-39, B-44. Each write is judged against the one before. The leader named there
may write another ISR and nothing else; the controller may write everything. The ISR lies within the assigned replicas and holds
the leader. The epochs of leader and controller never fall, and each leader epoch names one leader. A broker that was elected
controller and has been replaced since may no longer write as controller.

The clocks of rows differ: ZooKeeper's times are whole milliseconds, rounded down. Therefore an election counts from `SLACK_NS`
before its row, and the broker that it replaced may act as controller until `SLACK_NS` after it. A broker may learn of its
election when it has already been replaced: an election with a controller epoch below that of an earlier row replaces nobody.

    >>> from checkers.sketches import sketch
    >>> sketch("state-writes", "state-written leader=b1 isr=b2,b3")
    ['leader-outside-isr']
"""

from itertools import pairwise

from checkers.engine.anomalies import BROKEN_MACHINE, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "state-writes"
SLACK_NS = 2_000_000


class _Controllers:
    """The brokers that can have been controller at each time. One that resigned counts until another is elected."""

    def __init__(self, rows: list[EventRow], late: set[int]) -> None:
        elected = [(row.time_ns - SLACK_NS, row.node, row.at) for row in rows if row.kind == K.CONTROLLER_ELECTED]
        self._elected = [(since, node) for since, node, at in elected if at not in late]
        self._late = [(since, node) for since, node, at in elected if at in late]

    def at(self, time_ns: int) -> tuple[set[str], set[str]]:
        """Return the brokers that can be controller at a time, and all elected until then."""
        elected_by_then = [(since, node) for since, node in self._elected if since <= time_ns]
        # An election within the slack may lie before or after the time.
        settled = [node for since, node in elected_by_then if since + 2 * SLACK_NS <= time_ns]
        recent = {node for since, node in elected_by_then if since + 2 * SLACK_NS > time_ns}
        ever = {node for _, node in elected_by_then} | {node for since, node in self._late if since <= time_ns}
        return ({*settled[-1:], *recent}, ever) if settled else (set(), set())


class _States:
    """The states of one partition in ZooKeeper, each judged against the state before."""

    def __init__(self, key: str, controllers: _Controllers) -> None:
        self.key, self.controllers = key, controllers
        self.before: EventRow | None = None
        self.assigned: tuple[str, ...] = ()
        self.named: dict[int, tuple[str, int]] = {}  # epoch -> its leader, and the row that named it first
        self.wanted: dict[str, tuple[str, ...]] = {}  # leader -> the ISR that it asked for last
        self.asks: dict[str, int] = {}  # leader -> the row in which the controller wrote what it had asked for
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Take in a row, and judge it if it is a state of the partition."""
        if row.kind == K.ASSIGNED:
            self.assigned = row.replicas
        elif row.kind == K.ISR_CHANGE_SENT:
            self.wanted[row.node] = row.isr
        elif row.kind == K.NODE_STARTED:
            self.wanted.pop(row.node, None)
            self.asks.pop(row.node, None)
        elif row.kind == K.STATE_WRITTEN:
            self._check_shape(row)
            self._check_epoch(row)
            if self.before is not None and row.node is not None:
                self._check_writer(row, self.before)
            self.before = row

    def _check_shape(self, row: EventRow) -> None:
        """The ISR must be among the assigned replicas, and the leader in the ISR."""
        outside = [node for node in row.isr if node not in self.assigned]
        if outside and self.assigned:
            words = f"{', '.join(outside)} in the ISR of epoch {row.leader_epoch}; assigned replicas: {', '.join(self.assigned)}"
            self._accuse("isr-outside-replicas", (row.at,), words)
        if row.leader is not None and row.leader not in row.isr:
            words = f"{row.leader} leads epoch {row.leader_epoch} but is not in its ISR: {', '.join(row.isr) or 'empty'}"
            self._accuse("leader-outside-isr", (row.at,), words)

    def _check_epoch(self, row: EventRow) -> None:
        """The leader epoch must not fall, and must have one leader."""
        if self.before is not None and row.leader_epoch < self.before.leader_epoch:
            words = f"the leader epoch fell from {self.before.leader_epoch} to {row.leader_epoch}"
            self._accuse("epoch-regressed", (self.before.at, row.at), words)
        if row.leader is None:
            return
        leader, at = self.named.setdefault(row.leader_epoch, (row.leader, row.at))
        if leader != row.leader:
            words = f"epoch {row.leader_epoch} names first {leader} and then {row.leader} as leader"
            self._accuse("two-elected", (at, row.at), words)

    def _check_writer(self, row: EventRow, before: EventRow) -> None:
        """Only the controller may write, or the leader another ISR, if it does not ask the controller for it."""
        same = (row.leader, row.leader_epoch) == (before.leader, before.leader_epoch)
        if same and row.leader is not None and row.node != row.leader and self.wanted.get(row.leader) == row.isr:
            self.asks[row.leader] = row.at
        controllers, ever = self.controllers.at(row.time_ns)
        if not ever or row.node in controllers:
            return
        if row.node == before.leader and same:
            if row.node in self.asks:
                words = (
                    f"{row.node} wrote another ISR itself, though it asks the controller for it since row {self.asks[row.node]}"
                )
                self._accuse("unentitled-write", (self.asks[row.node], row.at), words)
            return
        happened = "another ISR" if same else f"{row.leader or 'no broker'} as leader of epoch {row.leader_epoch}"
        if row.node in ever:
            words = f"{row.node} wrote {happened} after another controller had replaced it"
            self._accuse("deposed-controller", (before.at, row.at), words)
        else:
            words = f"{row.node} wrote {happened}, but is neither controller nor leader"
            if row.node == before.leader:
                words = f"{row.node} wrote {happened}, but is leader and not controller"
            self._accuse("unentitled-write", (before.at, row.at), words)

    def _accuse(self, kind: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the writes to one partition's state. Ignores `cuts` (excused losses): they change no right to write."""
    topic, partition = partition_of(operations, events)
    rows = events.rows
    states = _States(f"{topic}-{partition}", _Controllers(rows, _late_elections(events)))
    for row in rows:
        states.see(row)
    return Findings(anomalies=(*states.anomalies, *_writes_of_older_controllers(events, f"{topic}-{partition}")))


def _writes_of_older_controllers(events: Events, key: str) -> list[Anomaly]:
    """The writes that name an older controller epoch than the write before: their leader obeys nobody, or the wrong one."""
    anomalies = []
    for (at, before), (then, epoch) in pairwise(_controller_epochs(events, K.STATE_WRITTEN)):
        if epoch < before:
            words = f"the controller epoch in the state fell from {before} to {epoch}"
            anomalies.append(Anomaly(kind="epoch-regressed", checker=NAME, key=key, witness=(at, then), words=words))
    return anomalies


def _late_elections(events: Events) -> set[int]:
    """Rows of controller elections that were recorded after an election with a higher controller epoch."""
    highest = -1
    late_rows = set()
    for at, epoch in _controller_epochs(events, K.CONTROLLER_ELECTED):
        if epoch < highest:
            late_rows.add(at)
        highest = max(highest, epoch)
    return late_rows


def _controller_epochs(events: Events, kind: K) -> list[tuple[int, int]]:
    """The index and the controller epoch of each row of a kind that names one."""
    return [(at, epoch) for at, epoch in events.of(kind).columns("index", "controller_epoch") if epoch is not None]


CHECKER = Checker(
    name=NAME,
    claim="ZooKeeper's ISR lies within the replicas and holds the leader; only its leader and the controller write it.",
    assumes="ZooKeeper's writes are recorded completely, with the writer; controllers record their election.",
    blind="Refused writes; assignments that were not recorded; writers within two milliseconds of an election.",
    reports=(
        Kind("isr-outside-replicas", Harm.USURPED, 120, breaks=("ISR",), shown_by=("reassign-without-widening",)),
        Kind("leader-outside-isr", Harm.USURPED, 110, breaks=("ISR",), unshown=BROKEN_MACHINE),
        Kind("epoch-regressed", Harm.USURPED, 50, breaks=("SL",), unshown=BROKEN_MACHINE),
        Kind("two-elected", Harm.USURPED, 20, breaks=("SL",), shown_by=("no-epoch-bump",)),
        Kind("unentitled-write", Harm.USURPED, 60, breaks=("ISR",), unshown=BROKEN_MACHINE),
        Kind("deposed-controller", Harm.USURPED, 40, breaks=("CTL",), unshown=BROKEN_MACHINE),
    ),
    group_by=PARTITION,
    events=(K.STATE_WRITTEN, K.ASSIGNED, K.CONTROLLER_ELECTED, K.ISR_CHANGE_SENT, K.NODE_STARTED),
    needs=(K.STATE_WRITTEN,),
    check=check,
)
