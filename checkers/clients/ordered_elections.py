"""Which losses an unclean election may explain that an operator ordered, where brokers note nothing (docs/promise.md DUR-7).

The orders of a partition divide its run into eras. What was promised in one and is missing in a later one may be what the elected
replica lacked. These losses no order explains:

* the answer that lacks the record came before the next order, or the record was seen after it: the elected replica had it;
* a record behind it in the log, acknowledged in the same era, is there at the end: a log that has the one had the other;
* every final answer denies that the partition exists: no election removes it.

A former leader that ran on when the order was carried out may have answered clients for a while (VIS-3). So what was seen
afterwards, up to the bound B after healing, may be of the era before, unless it names the epoch of the elected leader. A process
that was stopped by then answers nobody.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from msgspec import Struct

from checkers.clients.final_reads import Loss, denial
from checkers.engine.facts import Facts, recovery_deadline_ns
from checkers.engine.rows import Call
from checkers.engine.tables import Events
from history.event import EventKind as K


class OrderedElections(Struct, frozen=True, kw_only=True):
    """The ordered elections of a partition: their rows, the epochs of their leaders, and which left a former leader running."""

    rows: tuple[int, ...]
    epochs: tuple[int | None, ...]
    lingering: tuple[bool, ...]
    settled_ns: int | None  # by when no former leader answers

    def before(self, at: int) -> int:
        """How many of them come before this row."""
        return bisect_left(self.rows, at)

    def era(self, call: Call) -> int:
        """How many of them certainly came before what the call was told."""
        era = self.before(call.invoked)
        settled = self.settled_ns is not None and call.invoked_ns >= self.settled_ns
        told = min((-1 if row.leader_epoch is None else row.leader_epoch for row in call.rows), default=-1)
        while era and self.lingering[era - 1] and not settled and told < (self.epochs[era - 1] or 0):
            era -= 1
        return era

    def explained(
        self, era: int, losses: Iterable[Loss], calls: Sequence[Call], final: Sequence[Call], *, offline: bool
    ) -> list[Loss]:
        """Those of the losses of an era's records that an order may explain."""
        if era >= len(self.rows) or (not offline and denial(final) is not None):
            return []
        kept = self._kept_up_to(era, calls, final)
        return [loss for loss in losses if self.before(loss.at) > era and loss.record.offset > kept]

    def _kept_up_to(self, era: int, calls: Sequence[Call], final: Sequence[Call]) -> int:
        """The highest offset that was acknowledged in an era and is read at the end with its record; -1 if there is none."""
        read = {(row.offset, row.value) for call in final if call.f == "poll" and call.type == "ok" for row in call.rows}
        acked = (call for call in calls if call.f == "produce" and call.type == "ok")
        rows = (row for call in acked if self.before(call.ended) == era == self.era(call) for row in call.rows)
        return max((row.offset for row in rows if row.offset is not None and (row.offset, row.value) in read), default=-1)


def ordered_elections(events: Events, facts: Facts) -> OrderedElections:
    """The unclean elections that an operator ordered and that the promise allows."""
    allowed = facts.promise.unclean_election == "by_operator"
    orders = list(events.of(K.UNCLEAN_ELECTION_ORDERED).columns("index", "leader")) if allowed else []
    states = list(events.of(K.STATE_WRITTEN).columns("index", "leader", "leader_epoch"))
    epochs = (next((epoch for written, _, epoch in states if written > at), None) for at, _ in orders)
    former = ({leader for written, leader, _ in states if written < at} - {None, elected} for at, elected in orders)
    return OrderedElections(
        rows=tuple(at for at, _ in orders),
        epochs=tuple(epochs),
        lingering=tuple(bool(_running(events, at, nodes)) for (at, _), nodes in zip(orders, former, strict=True)),
        settled_ns=recovery_deadline_ns(facts),
    )


def _running(events: Events, at: int, nodes: set[str]) -> set[str]:
    """Those of the nodes whose process was not stopped when this row was written."""
    running = set(nodes)
    for kind, index, node in events.columns("kind", "index", "node"):
        if index < at and kind == K.NODE_STOPPED:
            running.discard(node)
        elif index < at and kind == K.NODE_STARTED and node in nodes:
            running.add(node)
    return running
