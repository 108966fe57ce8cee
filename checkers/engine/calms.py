"""The calms of a run: the periods in which no fault of a broker was in force, and when faults excuse the clients at one place."""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.engine.facts import MS, Facts
from checkers.engine.tables import Events
from history.event import EventKind as K
from history.fault_kinds import family_of
from history.promise import Promise

CALM_MS = 5000  # a connection stands still for some time after a cut, because TCP repeats what was lost ever more rarely
Times = list[tuple[int, int]]  # ns, each from its begin to its end
# Faults of the links of one broker, after which the others need nothing from it
CUT_OFF = (
    "isolate-one",
    "isolate-leader",
    "isolate-controller",
    "isolate-long",
    "cut-peers",
    "cut-peers-long",
    "cut-zookeeper",
    "cut-zookeeper-long",
)
DIRECTORIES = ("dir-unreadable", "dir-file", "dir-removed", "dir-failure", "dir-drop")  # faults that fail a directory


def still_ms(kind: str, promise: Promise) -> int:
    """How long after a fault of this kind a connection may stand still.

    A slow link holds a message for up to replica.lag.time.max.ms (`nemesis.link_kinds`), for twice as long where both its ends
    are slow, and a connection sends nothing before the two messages that open it have arrived.
    """
    return max(CALM_MS, 6 * promise.replica_lag_time_max_ms) if kind == "slow" else CALM_MS


def is_of_one_broker(kind: str) -> bool:
    """Whether a fault of this kind leaves the links among the other brokers, and the others themselves, as they are."""
    return family_of(kind) in ("pause", "disk", "crash", "power") or kind in ("bounce-at-once", "crash-at-step")


def place_of(facts: Facts, process: int) -> str:
    """The place of a client process; empty if the run names no places."""
    places = facts.client_places
    return places[process % len(places)] if places else ""


def calms(events: Events, facts: Facts) -> list[tuple[int, int]]:
    """Return each period before healing in which writes must be acknowledged, as start and end in ns.

    It starts B after the last fault in force ended and ends when the next one begins. Faults that hit only the clients at one
    place do not end it: clients at other places go on. Where the first fault is of that kind, the cluster was whole until then.
    """
    if facts.healed_at_ns is None:
        return []
    bound = facts.promise.bound_ms * MS
    in_force: set[str] = set()
    since: int | None = None
    periods: list[tuple[int, int]] = []
    only_places = False  # whether a place was hit since the cluster was calm
    for time_ns, kind, fault, node, _ in _fault_rows(events):
        if node in facts.client_places:
            since = time_ns if since is None and not in_force else since
            only_places = True
        elif kind == K.FAULT_BEGUN:
            if not in_force and since is not None:
                periods.append((since + bound, min(time_ns, facts.healed_at_ns)))
            in_force.add(fault)
            only_places = False
        elif fault in in_force:
            in_force.discard(fault)
            since = time_ns if not in_force else since
    if only_places and not in_force and since is not None:
        periods.append((since + bound, facts.healed_at_ns))
    return [(start, end) for start, end in periods if start < end]


def excuses(events: Events, facts: Facts) -> dict[str, Times]:
    """For each place of clients the times, in ns, at which its clients need not be served: a fault of it, and B after that."""
    times_by_place: dict[str, Times] = {}
    for fault_time in fault_times(events, facts):
        if fault_time.node in facts.client_places:
            until = facts.end_ns if fault_time.ended_ns is None else fault_time.ended_ns + facts.promise.bound_ms * MS
            times_by_place.setdefault(fault_time.node, []).append((fault_time.begun_ns, until))
    return times_by_place


class FaultTime(NamedTuple):
    """When one fault was in force at one node, or at one place of clients."""

    begun_ns: int
    ended_ns: int | None  # None: it lasted to the end of the run
    node: str
    kind: str


def fault_times(events: Events, facts: Facts) -> Iterator[FaultTime]:
    """Each fault at each node, in the order of their ends."""
    begun: dict[tuple[str, str], tuple[int, str]] = {}
    for time_ns, kind, fault, node, detail in _fault_rows(events):
        if kind == K.FAULT_BEGUN:
            begun.setdefault((fault, node), (time_ns, detail))
        elif (fault, node) in begun:
            since, what = begun.pop((fault, node))
            yield FaultTime(since, time_ns, node, what)
    for (_, node), (since, what) in begun.items():
        yield FaultTime(since, None, node, what)


def _fault_rows(events: Events) -> list[tuple[int, str, str, str, str]]:
    """The rows that begin or end a fault: time, kind, fault, node and what the fault is."""
    rows = events.of(K.FAULT_BEGUN, K.FAULT_ENDED).columns("time_ns", "kind", "fault", "node", "detail")
    return [(time_ns, kind, fault or "", node or "", detail or "") for time_ns, kind, fault, node, detail in rows]
