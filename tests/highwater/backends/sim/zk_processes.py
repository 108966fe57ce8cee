"""Processes that only ask ZooKeeper, and a witness of its commits."""

from collections import deque
from collections.abc import Iterable
from functools import partial

from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import ZooKeeper
from highwater.backends.sim.zk_client import ZkClient
from highwater.rig.commits import AnyCommit, SessionEnded
from reference.coordination.api import AnyAnswer, AnyOp
from reference.effects import ZkRequest
from reference.events import AnyEvent, ZkReplied, ZkState
from reference.types import Address

TIMEOUT_MS = 1500


class Seen:
    """A witness that keeps the commits."""

    def __init__(self) -> None:
        self.commits: list[tuple[AnyCommit, Address | None, int | None]] = []

    def committed(self, commits: Iterable[AnyCommit], *, writer: Address | None = None, life: int | None = None) -> None:
        self.commits += [(commit, writer, life) for commit in commits]

    @property
    def ended(self) -> list[int]:
        return [commit.session for commit, _, _ in self.commits if isinstance(commit, SessionEnded)]


class Process:
    """A process with only the client library; it can be paused."""

    def __init__(self, on: Simulation, server: ZooKeeper, name: str) -> None:
        self.sim = on
        self.address = Address(name)
        self.life = 1
        self.paused = False
        self.waiting: deque[partial[None]] = deque()
        self.told: list[AnyEvent] = []
        self.requests = 0
        self.zk = ZkClient(self, server, on, timeout_ms=TIMEOUT_MS)
        self.zk.connect()

    def run(self, source: str, action: "partial[None]") -> None:
        if self.paused:
            self.waiting.append(action)
        else:
            action()

    def take(self, source: str, event: AnyEvent) -> None:
        self.told.append(event)

    def later(self, delay_ns: int, source: str, action: "partial[None]") -> None:
        self.sim.scheduler.after(delay_ns, self.run, source, action)

    def resume(self) -> None:
        self.paused = False
        while self.waiting:
            self.waiting.popleft()()

    def ask(self, *ops: AnyOp, atomic: bool = False) -> int:
        self.requests += 1
        self.zk.ask(ZkRequest(self.requests, ops, atomic))
        return self.requests

    def answers(self, request: int) -> tuple[AnyAnswer, ...]:
        (found,) = (event.answers for event in self.told if isinstance(event, ZkReplied) and event.id == request)
        return found

    def is_answered(self, request: int) -> bool:
        return any(isinstance(event, ZkReplied) and event.id == request for event in self.told)

    def states(self) -> list[str]:
        return [event.state for event in self.told if isinstance(event, ZkState)]
