"""The ISR of one partition in ZooKeeper over time, and the replicas that count for durability (docs/promise.md §1)."""

from checkers.engine.rows import EventRow
from history.event import EventKind as K

ISR_ROWS = (K.STATE_WRITTEN, K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)


class IsrHistory:
    """Tracks ISR, ELR and the replicas that count for durability of one partition, row by row. `min_isr` is the promise's m."""

    __slots__ = ("_elr", "_last_full", "_min_isr", "_sent", "epoch", "index", "isr", "leader")

    def __init__(self, min_isr: int) -> None:
        self._min_isr = min_isr
        self._last_full: tuple[str, ...] = ()
        self._elr: tuple[str, ...] = ()
        self._sent: dict[str, tuple[str, ...]] = {}  # leader -> the ISR it has asked for, not answered yet
        self.isr: tuple[str, ...] = ()
        self.leader: str | None = None
        self.epoch = -1
        self.index = -1  # row of the last written state; -1 if there is none

    def see(self, row: EventRow) -> None:
        """Apply one row about the partition's ISR, whose kind is in `ISR_ROWS`."""
        if row.kind == K.ISR_CHANGE_SENT:
            # A broker that ZooKeeper does not name as leader writes conditionally on an old version, so its change is refused.
            if row.node == self.leader:
                self._sent[row.node] = row.isr
        elif row.kind == K.ISR_CHANGE_ENDED:
            self._sent.pop(row.node, None)
        else:
            # Changes are conditional on the version: each change sent before this write is this write, or is refused.
            self._sent.clear()
            if len(row.isr) < self._min_isr:
                leavers = (node for node in self.isr if node not in self._elr)
                self._elr = tuple(node for node in (*self._elr, *leavers) if node not in row.isr)
            else:
                self._elr = ()
            self.isr, self.leader, self.epoch, self.index = row.isr, row.leader, row.leader_epoch, row.at
            if len(row.isr) >= self._min_isr:
                self._last_full = row.isr

    def eligible(self) -> tuple[str, ...]:
        """Return the replicas that may be elected leader: the ISR and the ELR.

        KIP-966: a replica that left the ISR while it was short is in the ELR, also if it had joined it while short. The high
        watermark did not move meanwhile, and the replica had to hold everything below it to join.
        """
        return self.isr + self._elr

    def counted_on(self) -> tuple[str, ...]:
        """Return the replicas whose copies count for durability (docs/promise.md §1).

        These are the ISR, and the last full ISR too if the ISR has fewer than m members.
        """
        staying = tuple(node for node in self.isr if all(node in proposal for proposal in self._sent.values()))
        if len(staying) >= self._min_isr:
            return staying
        return self.isr + tuple(node for node in self._last_full if node not in self.isr)
