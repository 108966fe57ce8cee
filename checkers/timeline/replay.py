"""The log of each replica of one partition, rebuilt from rows of brokers and of the harness.

An entry that no row shows is None (a crash fell between the append and its note, or the rows begin late). `may_hold` counts it as
a match, for accusations; `holds` does not, for excuses.
"""

from checkers.engine.rows import EventRow
from history.event import EventKind as K

REPLAYED = (K.APPEND, K.TRUNCATE, K.RECOVERED, K.REPLICA_DELETED, K.WOUND)


class Log:
    """One replica's log: values and record epochs by offset, in two lists whose length is the log end offset."""

    __slots__ = ("epochs", "shrunk", "values")

    def __init__(self) -> None:
        self.values: list[str | None] = []
        self.epochs: list[int | None] = []
        self.shrunk = -1  # index of the row that last made it shorter

    def holds(self, offset: int, value: str) -> bool:
        """True if the replica's log certainly has this value at this offset."""
        return offset < len(self.values) and self.values[offset] == value

    def may_hold(self, offset: int, value: str) -> bool:
        """True unless the rows show that the replica's log lacks this value at this offset."""
        return offset < len(self.values) and self.values[offset] in (value, None)

    def cut(self, leo: int, index: int) -> list[tuple[int, str]]:
        """Truncate the replica's log to `leo`; return the removed entries whose value is known, as (offset, value)."""
        removed = [(offset, value) for offset, value in enumerate(self.values[leo:], leo) if value is not None]
        if leo < len(self.values):
            del self.values[leo:], self.epochs[leo:]
            self.shrunk = index
        return removed

    def pad(self, leo: int) -> None:
        """Lengthen the replica's log to `leo` with entries of unknown value."""
        lack = leo - len(self.values)
        if lack > 0:
            self.values.extend([None] * lack)
            self.epochs.extend([None] * lack)


class Replicas:
    """The logs of all replicas of one partition. A replica that no row mentions has an empty log."""

    __slots__ = ("logs",)

    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}

    def log(self, node: str) -> Log:
        """Return the log of one replica; creates an empty one on first use."""
        log = self.logs.get(node)
        if log is None:
            log = self.logs[node] = Log()
        return log

    def replay(self, row: EventRow) -> list[tuple[int, str]]:
        """Apply one row that changes a replica's log; return the removed entries of known value, as (offset, value)."""
        log = self.log(row.node)
        if row.kind == K.APPEND:
            offset = row.offset
            end = len(log.values)
            removed = log.cut(offset, row.at) if offset < end else []
            if offset > end:
                log.pad(offset)
            log.values.append(row.value)
            log.epochs.append(row.leader_epoch)
            return removed
        if row.kind == K.RECOVERED:
            leo = row.leo or 0
            removed = log.cut(leo, row.at)
            log.pad(leo)
            return removed
        if row.kind == K.REPLICA_DELETED:
            return log.cut(0, row.at)
        return log.cut(row.offset, row.at)
