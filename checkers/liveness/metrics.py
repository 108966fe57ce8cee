"""Checker: the metrics of brokers tell the truth, once it stands (docs/promise.md LIVE-14; R-312 and Kafka's operators).

The harness scrapes each broker again and again (`metrics_ms` of a plan) and records what has changed. A value stands until the
next row of its metric or the end of the process. It is judged when it is told, and again just before the truth changes or a
fault begins: so after each fault that leaves enough time, and in the last scrape of the run.

* Gauges of the cluster: who is controller; partitions that a broker leads, that have too few replicas in sync, or no leader;
  the state of a broker and how many are fenced. They must agree with ZooKeeper and with the controller's heartbeats once these
  have stood as long as the metadata may take (`metadata.Standing`), and `AGE_MS` more, because a scrape is that old at most.
* Failed log directories: as many as the process has reported, `AGE_MS` later.
* Counters of a process never fall. They count no more elections and ISR changes than ZooKeeper shows, and no fewer than the
  leader noted; of elections no fewer than ZooKeeper shows, while no fault has hit the process or a link.

    >>> from checkers.sketches import sketch
    >>> node = "node-started node=b1 life=1"
    >>> told = "gauge node=b1 life=1 detail=kafka.server:name=OfflineLogDirectoryCount,type=LogManager gauge=1"
    >>> sketch("metrics", node, told)
    ['b1 reports OfflineLogDirectoryCount 1 at row 1, 0 is right']
"""

from bisect import bisect_right
from collections.abc import Iterator

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.liveness.metadata import KINDS, Known, Row, Standing, is_local, is_read
from history.event import EventKind as K

NAME = "metrics"
AGE_MS = 2000  # the longest time between two scrapes (`highwater.plans.plan.METRICS_MS_MAX`), and a slow one
DIRECTORIES = "OfflineLogDirectoryCount"
ELECTIONS, UNCLEAN = "LeaderElectionRateAndTimeMs", "UncleanLeaderElectionsPerSec"
SHRINKS, EXPANDS = "IsrShrinksPerSec", "IsrExpandsPerSec"
COUNTERS = (ELECTIONS, UNCLEAN, SHRINKS, EXPANDS)
_STATES = {"inactive": 1, "active": 2, "stopping": 3}  # KIP-343's numbers
_OWN = (K.GAUGE, K.BECAME_LEADER, K.ISR_CHANGE_ENDED)
_Name = tuple[str, int]


class Process:
    """What is known of one broker process: its failed directories, what it has done, and what its last scrapes told."""

    def __init__(self, *, is_first: bool = False) -> None:
        self.dirs: set[int] = set()
        self.dirs_ns = 0
        self.disturbed = not is_first  # a fault has hit it or a link: it may not know how a write of its broker ended
        self.written: dict[str, list[int]] = {counter: [] for counter in COUNTERS}  # the times at which ZooKeeper shows it
        self.noted: dict[str, list[int]] = {counter: [] for counter in COUNTERS}  # the times at which the leader noted it
        self.isr: dict[_Name, int] = {}  # sizes
        self.told: dict[str, tuple[int, int]] = {}  # metric -> its value, and the row that told it


class Truth:
    """What the metrics of each broker must say after the rows seen so far."""

    def __init__(self, facts: Facts) -> None:
        self.standing = Standing(facts.promise)
        self._min_isr = {topic.topic: topic.min_insync_replicas for topic in facts.promise.topics}
        self.processes: dict[str, Process] = {}
        self._states: dict[str, str | None] = {}  # of brokers at the present controller
        self._last: dict[tuple[str, int, str | None], Row] = {}  # the state of each partition that was written last

    def see(self, row: Row) -> None:
        """Apply a row that is not a gauge."""
        if row.kind == K.NODE_STARTED:
            self.processes[row.node] = Process(is_first=row.node not in self.processes)
        process = self.processes.setdefault(row.node, Process()) if row.node else Process()
        match row.kind:
            case K.NODE_STOPPED:
                process.told = {}
            case K.DIR_FAILED if row.dir is not None:
                process.dirs.add(row.dir)
                process.dirs_ns = row.time_ns
            case K.CONTROLLER_ELECTED:
                self._states = {}
            case K.BROKER_STATE if row.node == self.standing.controller:
                self._states[row.broker] = row.detail
            case K.FAULT_BEGUN if row.partition is None:
                for node, disturbed_process in self.processes.items():
                    disturbed_process.disturbed |= node == row.node or not is_local(row.detail or "")
            case K.STATE_WRITTEN:
                self._count(row)
            case K.BECAME_LEADER | K.ISR_CHANGE_ENDED if row.partition is not None:
                name = (row.topic, row.partition)
                size = len(row.isr or ())
                before = process.isr.get(name, size) if row.kind == K.ISR_CHANGE_ENDED else size
                if size != before:
                    process.noted[SHRINKS if size < before else EXPANDS].append(row.time_ns)
                process.isr[name] = size
            case _:
                pass
        if is_read(row.kind):
            self.standing.see(row)

    def _count(self, row: Row) -> None:
        """A state was written: an election by its writer, or another ISR of the same leader."""
        name = (row.topic, row.partition or 0, row.topic_id)
        before, self._last[name] = self._last.get(name), row
        if row.leader is None:
            return
        if before is None or before.leader != row.leader:
            if row.node is not None:
                writer = self.processes.setdefault(row.node, Process())
                writer.written[ELECTIONS].append(row.time_ns)
                if before is not None and row.leader not in (*(before.isr or ()), *(before.elr or ())):
                    writer.written[UNCLEAN].append(row.time_ns)
        elif before.leader_epoch == row.leader_epoch:
            size, size_before = len(row.isr or ()), len(before.isr or ())
            if size != size_before:
                leader = self.processes.setdefault(row.leader, Process())
                leader.written[SHRINKS if size < size_before else EXPANDS].append(row.time_ns)

    def due(self, now_ns: int) -> list[tuple[str, str]]:
        """The gauges to be judged before the truth changes: those of brokers that have been left alone for long enough."""
        calm = [node for node in self.processes if self.standing.is_calm(now_ns - AGE_MS * MS, node)]
        return [(node, metric) for node in calm for metric in self.processes[node].told if metric not in COUNTERS]

    # --- judging ----------------------------------------------------------------------------------------------------------

    def right(self, node: str, metric: str, value: int, now_ns: int) -> str | None:
        """What would be right in place of `value`; None if it is, or nobody can know. `now_ns` is when it was last scraped."""
        process = self.processes[node]
        since_ns = now_ns - AGE_MS * MS
        if metric == DIRECTORIES:
            wrong = value != len(process.dirs) and (not process.dirs or process.dirs_ns <= since_ns)
            return str(len(process.dirs)) if wrong else None
        if metric in COUNTERS:
            return self._right_count(process, metric, value, since_ns)
        if not self.standing.is_calm(since_ns, node):
            return None
        expected = self._gauge_of_cluster(node, metric, since_ns)
        return None if expected is None or expected == value else str(expected)

    def _right_count(self, process: Process, metric: str, value: int, since_ns: int) -> str | None:
        """The bound that a counter breaks, in words."""
        written = process.written[metric]
        if value > len(written):
            return f"at most {len(written)}"
        known = process.noted[metric] if metric in (SHRINKS, EXPANDS) else [] if process.disturbed else written
        least = bisect_right(known, since_ns)
        return None if value >= least else f"at least {least}"

    def _gauge_of_cluster(self, node: str, metric: str, now_ns: int) -> int | None:
        """The value of a gauge of the cluster; None if it is unknown or may just have changed."""
        leads = node == self.standing.controller
        if metric == "ActiveControllerCount":
            return int(leads)
        if metric == "BrokerState":
            return _STATES.get(self._states.get(node) or "")
        if metric == "FencedBrokerCount":
            inactive = self.standing.inactive(now_ns) if leads else set()
            return None if inactive is None else len(inactive)
        if metric == "OfflinePartitionsCount" and not leads:
            return 0
        partitions = self.standing.settled_partitions(now_ns)
        if partitions is None:
            return None
        if metric == "OfflinePartitionsCount":
            existing = [p.state for p in partitions.values() if p.state is not None or p.assigned is not None]
            return sum(state is None or state.leader is None for state in existing)
        led_partitions = [(name, p) for name, p in partitions.items() if p.state is not None and p.state.leader == node]
        return self._gauge_of_led_partitions(metric, led_partitions)

    def _gauge_of_led_partitions(self, metric: str, led_partitions: list[tuple[_Name, Known]]) -> int | None:
        """The value of a gauge of the partitions that a broker leads."""
        sizes = [
            (topic, len(p.assigned or ()), len((p.state.isr if p.state else None) or ())) for (topic, _), p in led_partitions
        ]
        match metric:
            case "LeaderCount":
                return len(led_partitions)
            case "UnderReplicatedPartitions" if all(assigned for _, assigned, _ in sizes):
                return sum(isr < assigned for _, assigned, isr in sizes)
            case "UnderMinIsrPartitionCount" if all(topic in self._min_isr for topic, _, _ in sizes):
                return sum(isr < self._min_isr[topic] for topic, _, isr in sizes)
        return None


def short_name(name: str) -> str:
    """The part of a metric's name that tells it from the others."""
    return name.partition("name=")[2].partition(",")[0]


def _complaints(events: Events, facts: Facts) -> Iterator[str]:
    """What metrics told that was not true; of each metric of a broker the first wrong value."""
    truth, accused = Truth(facts), set[tuple[str, str]]()
    for row, life, gauge in zip(events.as_rows(Row), events.column("life"), events.column("gauge"), strict=True):
        judged: list[tuple[str, str]] = []
        if is_read(row.kind):
            judged = truth.due(row.time_ns)
        elif row.kind == K.GAUGE and life is not None and row.node in truth.processes:
            process = truth.processes[row.node]
            metric = short_name(row.detail or "")
            before, _ = process.told.get(metric, (0, 0))
            process.told[metric] = (gauge, row.at)
            judged = [(row.node, metric)]
            if metric in COUNTERS and gauge < before:
                yield f"{row.node} reports {metric} {gauge} at row {row.at}, after {before}"
        for node, metric in judged:
            value, at = truth.processes[node].told[metric]
            right = truth.right(node, metric, value, row.time_ns)
            if right is not None and (node, metric) not in accused:
                accused.add((node, metric))
                until = "" if at == row.at else f", still at row {row.at}"
                yield f"{node} reports {metric} {value} at row {at}{until}, {right} is right"
        if row.kind != K.GAUGE:
            truth.see(row)


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the metrics that the harness recorded. Ignores `cuts` (excused losses)."""
    if K.GAUGE not in events.words:
        return Findings()
    complaints = tuple(_complaints(events, facts))
    return Findings(not_live=complaints, live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="The metrics of a broker agree with ZooKeeper, the controller and its own reports: gauges once these stand for as long "
    "as metadata may take and a scrape, counters at all times.",
    assumes="The harness records each change between two scrapes of a broker, and all values of the last scrape.",
    blind="Runs without scrapes, but for failed directories; gauges of the cluster soon after a change or a fault; replicas in "
    "failed directories, which the checker brokers judges; the time of the last election.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    events=(*KINDS, *_OWN),
    check=check,
    split=gathered(check),
)
