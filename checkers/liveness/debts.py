"""Steps of the protocol that must follow within a bounded time, and what hinders them (docs/promise.md LIVE-12)."""

from collections.abc import Iterable

from checkers.engine.calms import still_ms
from checkers.engine.facts import MS
from checkers.engine.rows import ClusterRow
from history.event import EventKind as K
from history.fault_kinds import family_of
from history.promise import Promise

DUE_MS = 500  # nearly twice what the slowest step took in 24 seeds of every fault and in all stored plans
TURN_MS = 100  # two requests to ZooKeeper and an answer, over the slowest links that plans draw
RETRY_MS = 300  # retry.backoff.ms: the controller waits where a write met another one, or a broker did not know its registration
TERM_MS = 1000  # a new controller first reads everything, and who asks it too early asks again after retry.backoff.ms
_ZOOKEEPER = ""  # in place of a broker: faults of its servers hinder every step
_IN_TURN = ("isr", "made", "out", "led", "over")  # steps that the controller takes for one partition after the other
Partition = tuple[str, int]
Key = tuple[str, str, Partition]  # the step, the broker that it is about, and the partition


class Debt:
    """A step that must follow: since when it is due, which brokers it needs beside the controller, and what is said of it."""

    __slots__ = ("_words", "at", "brokers", "due_ms", "incarnation", "since_ns", "spared", "stalled_ns", "until_ns")

    def __init__(self, row: ClusterRow, brokers: Iterable[str], words: str) -> None:
        self.at, self.since_ns, self.due_ms, self.until_ns = row.at, row.time_ns, 0, row.time_ns
        self.brokers, self._words = frozenset(brokers), words
        self.incarnation = row.incarnation
        self.stalled_ns = 0  # until when nobody could take the step
        self.spared: tuple[str, ...] = ()  # kinds of faults that do not hinder it

    @property
    def words(self) -> str:
        """The sentence that tells the step when it is late."""
        return f"{self._words} {self.due_ms} ms after row {self.at}"

    def defer(self, ms: int) -> None:
        """Give the step more time."""
        self.due_ms += ms
        self.until_ns += ms * MS

    def restart(self, row: ClusterRow, *, more_ms: int = 0) -> None:
        """Count its time from this row on: the controller has to read again, and perhaps to wait before it does."""
        self.due_ms += more_ms
        self.since_ns, self.until_ns = row.time_ns, row.time_ns + self.due_ms * MS

    def is_hindered_by(self, node: str, kind: str, needed: set[str]) -> bool:
        """Whether a fault of this kind at a broker hinders the step."""
        return family_of(kind) == "zookeeper" or (node in needed and kind not in self.spared)


class Debts:
    """The steps that must follow, and what hinders them: faults, and a controller that is missing or new."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.controller: str | None = None
        self.in_office_ns = 0  # since when
        self.in_force: dict[tuple[str, str], str] = {}  # (fault, broker) -> its kind
        self.calm_ns: dict[str, int] = {}  # broker, or ZooKeeper -> from when on its last fault hinders nothing any more
        self.open: dict[Key, Debt] = {}
        self._keys_of_partition: dict[Partition, dict[Key, None]] = {}  # the keys in `open`, by partition
        self.late: list[str] = []

    def owe(self, key: Key, row: ClusterRow, brokers: Iterable[str], words: str, *, more_ms: int = 0) -> Debt:
        """Expect a step, in place of the same step expected earlier."""
        self.drop(key)
        others = [debt for open_debt, debt in self.open.items() if open_debt[0] in _IN_TURN] if key[0] in _IN_TURN else []
        for open_debt in others:
            if open_debt.since_ns == row.time_ns:  # the controller may take this step before that one
                open_debt.defer(TURN_MS)
        self.open[key] = debt = Debt(row, brokers, words)
        self._keys_of_partition.setdefault(key[2], {})[key] = None
        debt.defer(DUE_MS + TURN_MS * len(others) + more_ms)
        return debt

    def settle(self, step: str | None = None, broker: str | None = None, partition: Partition | None = None) -> None:
        """Expect these steps no longer; None stands for any."""
        among = self.open if partition is None else self._keys_of_partition.get(partition, ())
        for key in [k for k in among if step in (None, k[0]) and broker in (None, k[1])]:
            self.drop(key)

    def drop(self, key: Key) -> None:
        """Expect this step no longer, if it was expected."""
        if self.open.pop(key, None) is not None:
            del self._keys_of_partition[key[2]][key]

    def resigned(self, node: str) -> None:
        """The broker is not controller any more, if it was."""
        if self.controller == node:
            self.controller = None

    def see_fault(self, row: ClusterRow) -> None:
        """A fault begins or ends at a broker."""
        if row.kind == K.FAULT_BEGUN:
            self.in_force[row.fault, row.node] = row.detail
        elif (kind := self.in_force.pop((row.fault, row.node), None)) is not None:
            node = _ZOOKEEPER if family_of(kind) == "zookeeper" else row.node
            self.calm_ns[node] = max(self.calm_ns.get(node, 0), row.time_ns + still_ms(kind, self.promise) * MS)

    def look(self, now: int) -> None:
        """Tell which steps are late. A step that was hindered has more time."""
        for key in [key for key, debt in self.open.items() if debt.until_ns < now]:
            debt = self.open[key]
            start = self._unhindered_since(debt)
            debt.until_ns = now if start is None else start + debt.due_ms * MS
            if debt.until_ns < now:
                self.drop(key)
                self.late.append(debt.words)

    def _unhindered_since(self, debt: Debt) -> int | None:
        """The time from which on nothing has hindered a step; None if something still does."""
        if self.controller is None:
            return None
        needed = {*debt.brokers, self.controller, _ZOOKEEPER}
        if any(debt.is_hindered_by(node, kind, needed) for (_, node), kind in self.in_force.items()):
            return None
        calm = [calm_ns for node, calm_ns in self.calm_ns.items() if node in needed]
        return max(debt.since_ns, debt.stalled_ns, self.in_office_ns + TERM_MS * MS, *calm)
