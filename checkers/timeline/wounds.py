"""Faults that destroyed bytes of one partition ("wounds"): when each is noticed, and until when the replica is exempt.

A wound is noticed when the session of the incarnation that suffered it has ended, or when the broker reports the directory
(docs/promise.md §1). A wounded replica is left out of the replica invariants until it is in the ISR under a new incarnation
(CUT-2).
"""

from collections.abc import Iterable
from itertools import repeat

from checkers.engine.rows import EventRow
from history.event import EventKind as K

# The stamp in protocols that do not tell registrations apart, and of a member that a leader was told of in a layout without them.
UNSTAMPED = -1


def stamps_of(isr: Iterable[str], stamps: Iterable[int] | None) -> dict[str, int | None]:
    """The members of an ISR with the registrations under which they joined; None for one that is not known."""
    known = repeat(UNSTAMPED) if stamps is None else stamps
    return {node: None if stamp == UNSTAMPED else stamp for node, stamp in zip(isr, known, strict=False)}


WOUND_ROWS = (K.WOUND, K.REGISTERED, K.SESSION_ENDED, K.STATE_WRITTEN)
NOTICE_ROWS = (K.REGISTERED, K.SESSION_ENDED, K.NODE_STARTED, K.DIR_FAILED)


class Sessions:
    """The ZooKeeper registration of each broker, and the failed log directories that its process has reported."""

    __slots__ = ("_reported", "current")

    def __init__(self) -> None:
        self.current: dict[str, int | None] = {}
        self._reported: dict[str, set[int | None]] = {}

    def see(self, row: EventRow) -> None:
        """Apply one row about registrations or failed log directories, whose kind is in `NOTICE_ROWS`."""
        if row.kind == K.REGISTERED:
            self.current[row.node] = row.incarnation
        elif row.kind == K.NODE_STARTED:
            self._reported.pop(row.node, None)
        elif row.kind == K.DIR_FAILED:
            self._reported.setdefault(row.node, set()).add(row.dir)
        elif self.current.get(row.node) == row.incarnation or row.incarnation is None:
            self.current.pop(row.node, None)

    def lasts(self, node: str, incarnation: int | None) -> bool:
        """True if the ZooKeeper session of this registration has not ended."""
        return node in self.current and self.current[node] == incarnation

    def hides(self, wound: EventRow) -> bool:
        """True if nobody can have noticed this data loss: the session lasts, and the directory was not reported as failed."""
        return self.lasts(wound.node, wound.incarnation) and wound.dir not in self._reported.get(wound.node, ())


class Wounded:
    """The replicas that lost bytes by a fault and have not rejoined the ISR: replica checkers leave them out.

    Takes rows whose kind is in `WOUND_ROWS`.
    """

    __slots__ = ("_isr", "_registered", "since")

    def __init__(self) -> None:
        self.since: dict[str, EventRow] = {}  # node -> its first wound since it last rejoined
        self._registered: set[str] = set()  # wounded nodes that have registered again since
        self._isr: tuple[str, ...] = ()

    def see(self, row: EventRow) -> None:
        """Apply one row about destroyed bytes or the ISR, whose kind is in `WOUND_ROWS`."""
        if row.kind == K.WOUND:
            self.since.setdefault(row.node, row)
            self._registered.discard(row.node)
        elif row.kind == K.REGISTERED and row.node in self.since:
            if row.incarnation != self.since[row.node].incarnation:
                self._registered.add(row.node)
        elif row.kind == K.STATE_WRITTEN:
            self._whole_again(row)

    def _whole_again(self, row: EventRow) -> None:
        """A wounded member may stay in the ISR all along. It is whole again once it leads, or an ISR lists it under another
        registration than the wounded one; where the stamp does not tell the registration, once it is added to the ISR again.

        A leader of an earlier protocol may add the wounded registration itself, by a fetch that was on its way since.
        """
        for position, node in enumerate(row.isr):
            if node not in self._registered:
                continue
            stamp = UNSTAMPED if row.stamps is None else row.stamps[position]
            anew = node not in self._isr if stamp == UNSTAMPED else stamp != self.since[node].incarnation
            if anew or node == row.leader:
                del self.since[node]
                self._registered.discard(node)
        self._isr = row.isr
