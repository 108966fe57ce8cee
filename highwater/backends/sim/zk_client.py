"""The ZooKeeper client library of a simulated process.

It behaves like ZooKeeper's own: it tries the servers in turn, from a drawn one on, pings every third of the session timeout, and
gives up a silent server after two thirds. It answers requests in flight with `Unknown` before it reports `disconnected`,
reconnects with the same session and sets its watches again. It learns only from a server that its session has expired.
"""

from functools import partial
from typing import Protocol

from highwater.backends.sim.network import Acting, Connection
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import Answer, Hello, Line, Over, Ping, WatchEvent, Welcome, ZooKeeper
from highwater.rig.cuts import ZOOKEEPER
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Change,
    Children,
    Data,
    Exists,
    GetChildren,
    GetData,
    SessionExpired,
    Unknown,
)
from reference.coordination.memory import Watches
from reference.effects import ZkRequest
from reference.events import AnyEvent, ZkReplied, ZkState, ZkWatch
from reference.types import Address

DIAL_AGAIN_MS_MIN = 20
DIAL_AGAIN_MS_MAX = 400


class ZkHost(Protocol):
    """The simulated process that uses the ZooKeeper client library."""

    address: Address
    life: int

    def run(self, source: str, action: "partial[None]") -> None:
        """Run an action in the process now, or when it resumes from a pause; drop it if the process has ended by then."""

    def take(self, source: str, event: AnyEvent) -> None:
        """Hand an event from ZooKeeper to the broker machine."""

    def later(self, delay_ns: int, source: str, action: "partial[None]") -> None:
        """Run an action in the process after a delay, unless it has ended or restarted by then."""


class ZkClient:
    """The ZooKeeper client of one simulated process, from its start to its end."""

    __slots__ = (
        "_answers_lost",
        "_child",
        "_connection",
        "_data",
        "_draws",
        "_exist",
        "_heard_ns",
        "_host",
        "_life",
        "_network",
        "_pending",
        "_ping_due_ns",
        "_queue",
        "_scheduler",
        "_seen_zxid",
        "_servers",
        "_state",
        "_timeout_ms",
        "_turn",
        "session",
    )

    def __init__(self, host: ZkHost, zookeeper: ZooKeeper, sim: Simulation, *, timeout_ms: int) -> None:
        self._host = host
        self._servers = zookeeper.servers
        count = len(self._servers)
        self._turn = sim.draws.below(f"server {host.address}", count) if count > 1 else 0  # the next to dial
        self._scheduler = sim.scheduler
        self._network = sim.network
        self._draws = sim.draws
        self._timeout_ms = timeout_ms
        self.session = 0
        self._state = "closed"  # | "dialing" | "connected"
        self._connection: Connection | None = None
        self._pending: dict[int, tuple[AnyOp, ...]] = {}  # sent, not answered
        self._queue: list[ZkRequest] = []  # to be sent once connected
        self._answers_lost: dict[int, Acting] = {}  # requests whose answer a fault loses
        self._forget_session()

    def _forget_session(self) -> None:
        """Forget what belongs to the ended session: its watches and what it has seen."""
        self._seen_zxid = 0
        self._heard_ns = 0
        self._ping_due_ns = 0
        self._data: dict[str, None] = {}
        self._exist: dict[str, None] = {}
        self._child: dict[str, None] = {}

    # --- requests of the machine ----------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect to ZooKeeper and open a new session."""
        self.session = 0
        self._forget_session()
        if self._connection is not None and not self._connection.broken:
            self._network.sever(self._connection, some_arrive=True)
        self._connect_to_next()

    def ask(self, request: ZkRequest) -> None:
        """Send a request to ZooKeeper, or queue it until there is a connection."""
        if self._state == "closed":
            answers = (SessionExpired(),) * len(request.ops)
            self._host.later(0, ZOOKEEPER, partial(self._host.take, ZOOKEEPER, ZkReplied(request.id, answers)))
        elif self._state == "dialing":
            self._queue.append(request)
        else:
            self._send(request)

    def _send(self, request: ZkRequest) -> None:
        assert self._connection is not None
        self._pending[request.id] = request.ops
        self._network.send(self._connection.forth, request)

    def died(self) -> None:
        """Break the connection to ZooKeeper because the process has ended."""
        connection, self._connection, self._state = self._connection, None, "closed"
        if connection is not None and not connection.broken:
            self._network.sever(connection, some_arrive=True)

    def reset(self, server: Address) -> bool:
        """Break the connection to this ZooKeeper server; False if there is none."""
        if self._connection is None or self._connection.broken or self._connection.forth.link.target != server:
            return False
        self._network.sever(self._connection, some_arrive=True)
        return True

    def lose_answer(self, request: int, acting: Acting) -> None:
        """Let the connection break when the answer to this request arrives, which is then lost; `acting` counts that."""
        self._answers_lost[request] = acting

    # --- connecting -----------------------------------------------------------------------------------------------------------

    def _connect_to_next(self) -> None:
        """Connect to the next server, and ask for the session, or for a new one."""
        self._state = "dialing"
        server = self._servers[self._turn]
        self._turn = (self._turn + 1) % len(self._servers)
        line = Line(self._host.address, self._host.life)
        connection = line.connection = self._connection = Connection(
            self._network.link(self._host.address, server.address),
            serve=partial(server.serve, line),
            receive=partial(self._receive, line),
            on_lost=partial(self._on_connection_lost, line),
        )
        watches = Watches(sorted(self._data), sorted(self._exist), sorted(self._child))
        self._network.send(connection.forth, Hello(self.session, self._timeout_ms, watches, self._seen_zxid))
        self._host.later(self._timeout_ms * MS // 3, ZOOKEEPER, partial(self._dialed_long, connection))

    def _dialed_long(self, connection: Connection) -> None:
        if self._connection is connection and self._state == "dialing":
            self._on_disconnect()

    def _on_disconnect(self) -> None:
        """Give up the connection to ZooKeeper; requests sent or queued on it are answered Unknown."""
        connection, was, self._state = self._connection, self._state, "dialing"
        assert connection is not None
        self._connection = None
        if not connection.broken:
            self._network.sever(connection, some_arrive=True)
        lost = [*self._pending.items(), *((request.id, request.ops) for request in self._queue)]
        self._pending.clear()
        self._queue.clear()
        wait_ns = self._draws.between(f"dial {self._host.address}", DIAL_AGAIN_MS_MIN, DIAL_AGAIN_MS_MAX) * MS
        self._host.later(wait_ns, ZOOKEEPER, partial(self._dial_again, self.session))
        for request, ops in lost:
            self._host.take(ZOOKEEPER, ZkReplied(request, (Unknown(),) * len(ops)))
        if was == "connected":
            self._host.take(ZOOKEEPER, ZkState("disconnected", self.session))

    def _dial_again(self, session: int) -> None:
        if self._state == "dialing" and self._connection is None and self.session == session:
            self._connect_to_next()

    def _on_connection_lost(self, line: Line) -> None:
        self._host.run(ZOOKEEPER, partial(self._lost, line.connection))

    def _lost(self, connection: Connection) -> None:
        if self._connection is connection:
            self._on_disconnect()

    def _ping_or_give_up(self, connection: Connection) -> None:
        """Send pings, and take the connection for lost after two thirds of the timeout in silence."""
        if self._connection is not connection or self._state != "connected":
            return
        if self._scheduler.now - self._heard_ns > self._timeout_ms * MS * 2 // 3:
            self._on_disconnect()
            return
        if self._scheduler.now >= self._ping_due_ns:
            self._ping_due_ns = self._scheduler.now + self._timeout_ms * MS // 3
            self._network.send(connection.forth, Ping())
        self._host.later(self._timeout_ms * MS // 6, ZOOKEEPER, partial(self._ping_or_give_up, connection))

    # --- answers ----------------------------------------------------------------------------------------------------------------

    def _receive(self, line: Line, payload: object) -> None:
        self._host.run(ZOOKEEPER, partial(self._on_message, line.connection, payload))

    def _on_message(self, connection: Connection, payload: object) -> None:
        """Handle a message of the server; one in the list of lost answers breaks the connection instead."""
        if self._connection is not connection:
            return
        self._heard_ns = self._scheduler.now
        match payload:
            case Answer(id=request) if request in self._answers_lost:
                self._answers_lost.pop(request).count += 1
                self._on_disconnect()
            case Answer(id=request, answers=answers, zxid=zxid):
                self._seen_zxid = max(self._seen_zxid, zxid)
                self._note_watches(self._pending.pop(request), answers)
                self._host.take(ZOOKEEPER, ZkReplied(request, answers))
            case WatchEvent(path=path, change=change, zxid=zxid):
                self._seen_zxid = max(self._seen_zxid, zxid)
                self._drop_watches(path, change)
                self._host.take(ZOOKEEPER, ZkWatch(path, change))
            case Welcome(session=session, zxid=zxid):
                self._seen_zxid = max(self._seen_zxid, zxid)
                self._on_welcome(connection, session)
            case Over():
                self._on_over()
            case Ping():
                pass
            case _:
                raise AssertionError(payload)

    def _on_welcome(self, connection: Connection, session: int) -> None:
        """The session is open: send what waited, and tell the process."""
        self.session = session
        self._state = "connected"
        queue, self._queue = self._queue, []
        for request in queue:
            self._send(request)
        self._host.take(ZOOKEEPER, ZkState("connected", session))
        self._ping_or_give_up(connection)

    def _on_over(self) -> None:
        """The session has expired: answer what waited, and tell the process."""
        connection, self._connection, self._state = self._connection, None, "closed"
        assert connection is not None
        if not connection.broken:
            self._network.sever(connection, some_arrive=False)
        session, self.session = self.session, 0
        queue, self._queue = self._queue, []
        for request in queue:
            self._host.take(ZOOKEEPER, ZkReplied(request.id, (SessionExpired(),) * len(request.ops)))
        self._host.take(ZOOKEEPER, ZkState("expired", session))

    def _note_watches(self, ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> None:
        """Note the watches that these operations have set."""
        for op, answer in zip(ops, answers, strict=True):
            if not isinstance(op, GetData | Exists | GetChildren) or not op.watch:
                continue
            if isinstance(answer, Data):
                self._data[op.path] = None
            elif isinstance(answer, Children):
                self._child[op.path] = None
            elif isinstance(op, Exists):
                self._exist[op.path] = None

    def _drop_watches(self, path: str, change: Change) -> None:
        """Forget the watches that this change has fired."""
        if change in ("children", "deleted"):
            self._child.pop(path, None)
        if change != "children":
            self._data.pop(path, None)
            self._exist.pop(path, None)
