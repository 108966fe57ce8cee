"""Which branches of the protocol a simulated run takes, in which role of the broker and under which fault.

The watcher looks at the marks of `highwater.coverage.branches` after each event that a broker handles. What was marked between
two events of brokers belongs to clients and to ZooKeeper. Watching draws nothing and sends nothing, so the history is the same.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.node import Handler
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World
from highwater.coverage.branches import Reach, Step, counting, packed
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from nemesis.schedule import Window
from reference.config import BrokerConfig
from reference.controller.context import ControllerStep
from reference.effects import AnyEffect
from reference.events import AnyEvent, DirImage
from reference.machine import Now
from reference.node import Node, NodeState
from reference.replica.partition import Follower, Leader

ROLES = ("controller", "leader", "follower", "idle", "client")
CALM = "calm"  # no fault is in effect
LINGER_MS = 2000  # a fault counts as in effect for so long after its end: restarts and elections follow it
_CALM: tuple[str, ...] = (CALM,)
_CLIENT = len(ROLES) - 1
_NEVER_NS = 1 << 62


@contextmanager
def watching() -> Iterator[tuple[SimBackend, "Watcher"]]:
    """A simulator whose next run is watched, and the watcher. Not for two runs at a time."""
    with counting() as marks:
        watcher = Watcher(marks)
        yield _WatchedRuns(watcher), watcher


class _WatchedRuns(SimBackend):
    """A simulator that tells the watcher when its run has ended."""

    def __init__(self, watcher: "Watcher") -> None:
        super().__init__(watcher.boot, watcher.watch)
        self._watcher = watcher

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        """Simulate the plan and record its history."""
        try:
            return super().perform(plan, provenance)
        finally:
            self._watcher.end()


class Watcher:
    """Collects the marks of one run."""

    def __init__(self, marks: bytearray) -> None:
        self._marks = marks
        self._clear = bytes(len(marks))
        self._world: World | None = None
        self._timeline = Timeline(())
        self._seen: defaultdict[tuple[int, tuple[str, ...]], set[bytes]] = defaultdict(set)  # marks by role and faults
        self._steps: list[Step] = []
        self._branches_taken: defaultdict[str, set[int]] = defaultdict(set)  # branches by context

    def watch(self, world: World) -> None:
        """Take the clock and the schedule of a run that is about to begin."""
        self._world = world
        self._timeline = Timeline(world.plan.schedule)

    def boot(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> Handler:
        """A broker machine whose events are watched."""
        self.look(_CLIENT, 0)
        node = _Watched(NodeState(config=config, life=life, image=image))
        node.watcher = self
        return node

    def look(self, role: int, broker: int) -> None:
        """Note what was marked since the last look for this role, then clear the marks."""
        marks = self._marks
        if 1 not in marks:
            return
        assert self._world is not None
        now_ns, zero_ns = self._world.sim.scheduler.now, self._world.zero_ns
        marked = bytes(marks)
        marks[:] = self._clear
        kinds = self._timeline.at(now_ns - zero_ns) if zero_ns else _CALM
        marks_seen = self._seen[role, kinds]
        if marked not in marks_seen:
            marks_seen.add(marked)
            at_ms = (now_ns - zero_ns) // MS if zero_ns else -1
            self._step(at_ms, broker, [f"{ROLES[role]} {kind}" for kind in kinds], _marked_branches(marked))

    def _step(self, at_ms: int, broker: int, contexts: Sequence[str], branches: Sequence[int]) -> None:
        """Note the branches that are new in these contexts."""
        for context in contexts:
            taken_before = self._branches_taken[context]
            new = tuple(branch for branch in branches if branch not in taken_before)
            if new:
                taken_before.update(new)
                self._steps.append(Step(at_ms, broker, context, new))

    def end(self) -> None:
        """Note what was marked last. Marks of another performance, for the states on a page, are not those of the run."""
        if self._world is not None:
            self.look(_CLIENT, 0)
        self._world = None

    def reach(self) -> Reach:
        """What the run has taken."""
        return packed(self._steps)


class Timeline:
    """The kinds of faults in effect at each time of a schedule. Times must be asked for in their order."""

    def __init__(self, schedule: tuple[Window, ...]) -> None:
        spans = [(window.at_ms * MS, (window.until_ms + LINGER_MS) * MS, window.kind) for window in schedule]
        self._spans = spans
        self._edges = [*sorted({edge for begin, end, _ in spans for edge in (begin, end)}), _NEVER_NS]
        self._next = 0
        self._kinds = _CALM

    def at(self, time_ns: int) -> tuple[str, ...]:
        """The kinds in effect, in alphabetical order; CALM alone where there is none."""
        if time_ns >= self._edges[self._next]:
            while time_ns >= self._edges[self._next]:
                self._next += 1
            self._kinds = tuple(sorted({kind for begin, end, kind in self._spans if begin <= time_ns < end})) or _CALM
        return self._kinds


class _Watched(Node):
    """A broker machine that calls its watcher around each event."""

    __slots__ = ("watcher",)
    watcher: Watcher

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle the event as any node does."""
        watcher = self.watcher
        role = _role(self.state)
        watcher.look(_CLIENT, 0)
        try:
            return super().handle(event, now=now)
        finally:
            watcher.look(role, self.state.config.broker)


def _role(state: NodeState) -> int:
    """The role of a broker as a number of ROLES: the first that fits."""
    if state.controller.step is ControllerStep.ACTIVE:
        return 0
    role = 3
    for partition in state.broker.partitions.values():
        if isinstance(partition.role, Leader):
            return 1
        if isinstance(partition.role, Follower):
            role = 2
    return role


def _marked_branches(marked: bytes) -> tuple[int, ...]:
    """The numbers of the marks that are set."""
    branches_marked = []
    at = marked.find(1)
    while at >= 0:
        branches_marked.append(at)
        at = marked.find(1, at + 1)
    return tuple(branches_marked)
