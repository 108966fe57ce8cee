"""Checker: a broker's processes and registrations come in order, and an ended one never acts again (KIP-380, B-47 to B-51).

The numbers of a broker's registrations rise in the order in which ZooKeeper made them, and so do the numbers of its lives. Once a
life has begun, earlier lives note nothing. The stamps of an ISR name existing registrations of the member itself, and a member's
stamp never goes back to an earlier registration.

    >>> from checkers.sketches import sketch
    >>> sketch("incarnations", "registered node=b1 incarnation=7", "registered node=b1 incarnation=5")
    ['incarnation-order']
"""

from itertools import repeat

import polars as pl

from checkers.engine.anomalies import BROKEN_MACHINE, Harm, Kind
from checkers.engine.checker import ANOMALIES_MAX, Checker, condensed
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.wounds import UNSTAMPED
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
    """The process starts and the ZooKeeper registrations of each broker in the rows read so far."""

    def __init__(self) -> None:
        self.life: dict[str, tuple[int, int]] = {}  # node -> its life, and the row
        self.registered: dict[tuple[str, int], int] = {}  # (node, registration) -> row
        self.last: dict[str, tuple[int, int]] = {}  # node -> registration and row
        self.stamped: dict[tuple[str, int, str | None, str], tuple[int, int]] = {}  # replica -> stamp and row
        self.anomalies: list[Anomaly] = []
        self.more = 0  # anomalies of rows that were left out

    def started(self, node: str, life: int, at: int) -> None:
        """A process of a node starts: its life must be later than the one before."""
        before, since = self.life.get(node, (0, -1))
        if life <= before:
            self._accuse(node, (since, at), f"life {life} of {node} began after life {before}")
        self.life[node] = (life, at)

    def spoke(self, node: str, life: int, at: int, kind: str, more: int) -> None:
        """Check that a row, and `more` rows like it, were recorded by the node's newest process."""
        now, since = self.life.get(node, (life, at))
        if life < now:
            self.more += more
            self._accuse(node, (since, at), f"life {life} of {node} noted {kind} after life {now} began")

    def registers(self, node: str, incarnation: int, at: int) -> None:
        """Check that a broker's registration in ZooKeeper has a higher number than its earlier ones."""
        before, since = self.last.get(node, (-1, -1))
        if incarnation <= before:
            self._accuse(node, (since, at), f"registration {incarnation} of {node} came after registration {before}")
        self.last[node] = (max(before, incarnation), at)
        self.registered[(node, incarnation)] = at

    def counted(self, replica: tuple[str, int, str | None, str], stamp: int, at: int) -> None:
        """Check the registration number under which the ISR in ZooKeeper lists a broker."""
        if stamp == UNSTAMPED:
            return
        node = replica[3]
        if (node, stamp) not in self.registered:
            self._accuse(node, (at,), f"the ISR lists {node} with registration {stamp}, which it never had")
        before, since = self.stamped.get(replica, (stamp, at))
        if stamp < before:
            self._accuse(node, (since, at), f"the ISR lists {node} with registration {stamp} again, after {before}")
        self.stamped[replica] = (max(stamp, before), at)

    def _accuse(self, node: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=KIND, checker=NAME, key=node, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the order of processes and registrations of all brokers. Rows that `_first_rows_of_lives` left out are counted."""
    lives = _Lives()
    spoken = {str(kind) for kind in _SPEAK}
    names = ("index", "kind", "node", "life", "incarnation", "topic", "partition", "topic_id", "isr", "stamps")
    more = events.column("more") if "more" in events.names else repeat(0, events.height)
    columns = (events.column(name) for name in names)
    for at, kind, node, life, incarnation, *about, isr, stamps, left_out in zip(*columns, more, strict=True):
        if kind == K.NODE_STARTED and life is not None:
            lives.started(node, life, at)
        elif kind == K.REGISTERED and incarnation is not None:
            lives.registers(node, incarnation, at)
        elif kind == K.STATE_WRITTEN:
            for member, stamp in zip(isr or (), stamps or (), strict=False):
                lives.counted((*about, member), stamp, at)
        elif kind in spoken and life is not None:
            lives.spoke(node, life, at, kind, left_out)
    return condensed(Findings(anomalies=tuple(lives.anomalies)), more=lives.more)


def _first_rows_of_lives(events: pl.DataFrame) -> pl.DataFrame:
    """Leave out rows of a life that noted as many before, with no start of its node between: if one is wrong, all are.

    The last row that stays counts the others in the column `more`. What remains grows with lives and not with records.
    """
    speaks = pl.col("kind").is_in([str(kind) for kind in _SPEAK])
    starts = (pl.col("kind") == str(K.NODE_STARTED)).cum_sum().over("node")
    alike = ("speaks", "node", "life", "starts")
    marked = events.with_columns(speaks=speaks, starts=starts).with_columns(
        number=pl.int_range(pl.len()).over(alike), count=pl.len().cast(pl.Int64).over(alike)
    )
    is_last = speaks & (pl.col("number") == ANOMALIES_MAX - 1)
    kept_frame = marked.filter(~speaks | (pl.col("number") < ANOMALIES_MAX))
    return kept_frame.with_columns(more=pl.when(is_last).then(pl.col("count") - ANOMALIES_MAX).otherwise(0))


CHECKER = Checker(
    name=NAME,
    claim="Registrations and process numbers of a broker rise, and an ended process reports nothing; the registrations that an "
    "ISR in ZooKeeper records for its members exist and never go back.",
    assumes="ZooKeeper's registrations are recorded completely; each row of a broker names the process that wrote it.",
    blind="Commands to an earlier incarnation that a broker obeyed (other checkers judge the effects).",
    reports=(Kind("incarnation-order", Harm.USURPED, 160, breaks=("CTL",), unshown=BROKEN_MACHINE),),
    group_by=WHOLE_RUN,
    events=(K.NODE_STARTED, K.REGISTERED, K.STATE_WRITTEN, *_SPEAK),
    check=check,
    split=gathered(check, keep=_first_rows_of_lives),
)
