"""Checker: no write of a partition's state leaves too few replicas that may be elected (docs/promise.md §1, DUR-4; KIP-966).

The replicas that may be elected are the ISR and the ELR as they stand in ZooKeeper. Committed records are on at least
min.insync.replicas of them. A write that takes them from at least that many to fewer forgets where committed records are, long
before a fault turns this into a loss: one wound may then destroy the last copy that counts.

Exempt are the election that an operator ordered, until the ISR is full again, and a partition with fewer assigned replicas, which
needs only these. A real cluster may be of a version that keeps no ELR: there a run shows that it keeps one by writing one.
Simulated runs are always judged: what is promised does not depend on what the protocol keeps.

    >>> from checkers.sketches import sketch
    >>> sketch("electorate", "state-written isr=b1,b2", "state-written isr=b1 elr=b2", "state-written isr=b1")
    ['short-electorate']
"""

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, promised
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "electorate"
_COLUMNS = ("partition", "index", "kind", "topic", "topic_id", "isr", "elr", "replicas")


class _Electorate:
    """The replicas of one partition that may be elected, as the last write left them."""

    __slots__ = ("at", "name", "needed", "ordered", "size")

    def __init__(self, name: str) -> None:
        self.name = name
        self.needed: int | None = None  # replicas that are assigned; None: not known
        self.ordered = False
        self.size = 0
        self.at = -1

    def written(self, at: int, size: int, isr: int, least: int) -> Anomaly | None:
        """Judge one write of the state, which leaves `size` replicas that may be elected, `isr` of them in the ISR."""
        least = least if self.needed is None else min(least, self.needed)
        self.ordered &= isr < least
        short = self.size >= least > size and not self.ordered
        words = f"{self.name}: a write leaves {size} replicas that may be elected, before it were {self.size}; needed: {least}"
        witness = (self.at, at)
        self.size, self.at = size, at
        return Anomaly(kind="short-electorate", checker=NAME, key=self.name, witness=witness, words=words) if short else None


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge all writes of partition states. Ignores `cuts` (excused losses): they excuse no write."""
    rows = [row for row in events.columns(*_COLUMNS) if row[0] is not None]
    if not facts.simulated and not any(elr for *_, elr, _ in rows):
        return Findings()
    anomalies: list[Anomaly] = []
    electorates: dict[tuple[str, str | None, int], _Electorate] = {}
    for partition, at, kind, topic, topic_id, isr, elr, replicas in rows:
        electorate = electorates.setdefault((topic, topic_id, partition), _Electorate(f"{topic}-{partition}"))
        promise = promised(facts, topic)
        if kind == K.ASSIGNED and replicas is not None:
            electorate.needed = len(replicas)
        elif kind == K.UNCLEAN_ELECTION_ORDERED:
            electorate.ordered = True
        elif kind == K.STATE_WRITTEN and isr is not None and promise is not None:
            anomaly = electorate.written(at, len({*isr, *(elr or ())}), len(isr), promise.min_insync_replicas)
            anomalies += [] if anomaly is None else [anomaly]
    return Findings(anomalies=tuple(anomalies))


CHECKER = Checker(
    name=NAME,
    claim="No write of a partition's state takes the replicas that may be elected, ISR and ELR, below min.insync.replicas.",
    assumes="ZooKeeper's writes and the operator's election orders are recorded completely, states with their ELR.",
    blind="Real clusters that keep no ELR; what the replicas that may be elected hold (see isr-agreement).",
    reports=(Kind("short-electorate", Harm.LOSS_NEXT, 30, breaks=("DUR",), shown_by=("no-elr",)),),
    group_by=WHOLE_RUN,
    events=(K.STATE_WRITTEN, K.ASSIGNED, K.UNCLEAN_ELECTION_ORDERED),
    needs=(K.STATE_WRITTEN,),
    complexity="n in the rows",
    check=check,
    split=gathered(check),
)
