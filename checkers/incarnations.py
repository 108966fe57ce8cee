"""Lives and registrations of a broker come in order (KIP-380, B-47 to B-51): what is over never speaks or counts again.

The registrations of a broker rise in the order in which ZooKeeper made them, its lives by their number. Once a life has begun,
its predecessors write nothing. The stamps of an ISR name registrations that were made by then, of the member
itself, and a member that was told apart by a later one is not told by an earlier one again.

    >>> from checkers.sketches import sketch
    >>> sketch("incarnations", "registered node=b1 incarnation=7", "registered node=b1 incarnation=5")
    ['incarnation-order']
"""

import polars as pl

from checkers.checker import WHOLE_RUN, Checker, Facts
from checkers.verdict import Anomaly, Cut, Findings
from checkers.wounds import UNSTAMPED
from history.event import EventKind as K

NAME = "incarnations"
KIND = "incarnation-order"
_SPEAK = (
    K.BECAME_LEADER,
    K.BECAME_FOLLOWER,
    K.APPEND,
    K.TRUNCATE,
    K.HW,
    K.FENCED,
    K.UNFENCED,
    K.REPLICA_DELETED,
)


class _Lives:
    """One pass over a run."""

    def __init__(self) -> None:
        self.life: dict[str, tuple[int, int]] = {}  # node -> its life, and the row
        self.registered: dict[tuple[str, int], int] = {}  # (node, registration) -> row
        self.last: dict[str, tuple[int, int]] = {}  # node -> registration and row
        self.stamped: dict[tuple[str, int, str | None, str], tuple[int, int]] = {}  # replica -> stamp and row
        self.anomalies: list[Anomaly] = []

    def started(self, node: str, life: int, at: int) -> None:
        """A process began."""
        before, since = self.life.get(node, (0, -1))
        if life <= before:
            self._accuse(node, (since, at), f"life {life} of {node} begins after its life {before}")
        self.life[node] = (life, at)

    def spoke(self, node: str, life: int, at: int, kind: str) -> None:
        """A process says something of itself."""
        now, since = self.life.get(node, (life, at))
        if life < now:
            self._accuse(node, (since, at), f"life {life} of {node} speaks ({kind}) after its life {now} began")

    def registers(self, node: str, incarnation: int, at: int) -> None:
        """ZooKeeper made a registration."""
        before, since = self.last.get(node, (-1, -1))
        if incarnation <= before:
            self._accuse(node, (since, at), f"registration {incarnation} of {node} comes after {before}")
        self.last[node] = (max(before, incarnation), at)
        self.registered[(node, incarnation)] = at

    def counted(self, replica: tuple[str, int, str | None, str], stamp: int, at: int) -> None:
        """A state names the registration under which a member joined."""
        if stamp == UNSTAMPED:
            return
        node = replica[3]
        if (node, stamp) not in self.registered:
            self._accuse(node, (at,), f"the ISR counts {node} by registration {stamp}, which it never had")
        before, since = self.stamped.get(replica, (stamp, at))
        if stamp < before:
            self._accuse(node, (since, at), f"the ISR counts {node} by registration {stamp} again, after {before}")
        self.stamped[replica] = (max(stamp, before), at)

    def _accuse(self, node: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=KIND, checker=NAME, key=node, witness=witness, words=words))


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """The whole run."""
    lives = _Lives()
    spoken = {str(kind) for kind in _SPEAK}
    names = ("index", "kind", "node", "life", "incarnation", "topic", "partition", "topic_id", "isr", "stamps")
    for at, kind, node, life, incarnation, *about, isr, stamps in zip(*(events[n].to_list() for n in names), strict=True):
        if kind == K.NODE_STARTED and life is not None:
            lives.started(node, life, at)
        elif kind == K.REGISTERED and incarnation is not None:
            lives.registers(node, incarnation, at)
        elif kind == K.STATE_WRITTEN:
            for member, stamp in zip(isr or (), stamps or (), strict=False):
                lives.counted((*about, member), stamp, at)
        elif kind in spoken and life is not None:
            lives.spoke(node, life, at, kind)
    return Findings(anomalies=tuple(lives.anomalies))


CHECKER = Checker(
    name=NAME,
    claim="Registrations and lives of brokers rise; what is over speaks no more, and the ISR counts nobody by what never was.",
    assumes="ZooKeeper's registrations are complete; each row of a broker names the life that speaks.",
    blind="Commands of the past that were obeyed (what came of them is judged elsewhere).",
    kinds=(KIND,),
    group_by=WHOLE_RUN,
    events=(K.NODE_STARTED, K.REGISTERED, K.STATE_WRITTEN, *_SPEAK),
    check=check,
)
