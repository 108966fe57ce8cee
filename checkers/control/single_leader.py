"""Checker: in each leader epoch at most one broker commits, and in each controller epoch at most one is controller.

Two brokers may both believe that they lead while a change of leader spreads. They must not both advance the HW in one epoch. The
evidence is therefore the HW rows of leaders, not BECAME_LEADER rows.

    >>> from checkers.sketches import sketch
    >>> rows = "became-leader node=b1 hw=0 leo=1", "became-leader node=b2 hw=0 leo=1"
    >>> sketch("single-leader", *rows, "hw node=b1 hw=1 leo=1", "hw node=b2 hw=1 leo=1")
    ['two-leaders']
    >>> rows = "controller-elected node=b1 controller_epoch=1", "controller-elected node=b2 controller_epoch=1"
    >>> sketch("single-controller", *rows)
    ['two-controllers']
"""

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, WHOLE_RUN, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K


def check_leaders(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report two nodes that raise the HW of one partition in one leader epoch."""
    topic, partition = partition_of(operations, events)
    standing: dict[tuple[str, int], int] = {}  # (node, epoch) -> HW
    committer: dict[int, EventRow] = {}
    accused: set[int] = set()
    anomalies: list[Anomaly] = []
    for row in events.rows:
        if row.kind == K.BECAME_LEADER:
            standing[(row.node, row.leader_epoch)] = row.hw or 0
            continue
        if row.detail != "leader":
            continue
        before = standing.get((row.node, row.leader_epoch))
        standing[(row.node, row.leader_epoch)] = row.hw
        if before is None or row.hw <= before:
            continue
        first = committer.setdefault(row.leader_epoch, row)
        if first.node != row.node and row.leader_epoch not in accused:
            accused.add(row.leader_epoch)
            words = f"{first.node} and {row.node} both advanced the high watermark as leader of epoch {row.leader_epoch}"
            key = f"{topic}-{partition}"
            anomaly = Anomaly(kind="two-leaders", checker="single-leader", key=key, witness=(first.at, row.at), words=words)
            anomalies.append(anomaly)
    return Findings(anomalies=tuple(anomalies))


def check_controllers(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report two nodes that were elected controller under one controller epoch. Rows without an epoch are ignored."""
    holder: dict[int, tuple[str, int]] = {}
    anomalies: list[Anomaly] = []
    elected = events.columns("index", "node", "controller_epoch")
    for index, node, epoch in ((*row, epoch) for *row, epoch in elected if epoch is not None and row[1] is not None):
        first, first_index = holder.setdefault(epoch, (node, index))
        if first != node:
            words = f"{first} and {node} were both elected controller with epoch {epoch}"
            anomaly = Anomaly(
                kind="two-controllers", checker="single-controller", key="", witness=(first_index, index), words=words
            )
            anomalies.append(anomaly)
    return Findings(anomalies=tuple(anomalies))


LEADERS = Checker(
    name="single-leader",
    claim="In each leader epoch of a partition at most one broker advances the high watermark.",
    assumes="Brokers record each change of the HW with the leader epoch in which they act.",
    blind="Two brokers that both act as leader while only one of them commits: that is allowed.",
    reports=(Kind("two-leaders", Harm.USURPED, 10, breaks=("SL",), shown_by=("no-epoch-bump",)),),
    group_by=PARTITION,
    events=(K.HW, K.BECAME_LEADER),
    check=check_leaders,
)

CONTROLLERS = Checker(
    name="single-controller",
    claim="Each controller epoch belongs to one broker.",
    assumes="A controller records its election with the epoch that it wrote.",
    blind="Protocol variants without a controller epoch; a controller that acts after it was deposed (see state-writes).",
    reports=(Kind("two-controllers", Harm.USURPED, 30, breaks=("CTL",), shown_by=("controller-epoch-in-memory",)),),
    group_by=WHOLE_RUN,
    events=(K.CONTROLLER_ELECTED,),
    check=check_controllers,
    split=gathered(check_controllers),
)
