"""The programs of clients and administrators beside a table-top cluster: `Client`, `Admin`, and `highwater admin reassign`.

A program is a machine with timers of its own. It moves when `hear` hands it what has come, or when `fire` runs its next timer.
"""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from highwater.admin.reassign_tool import Command as ToolCommand
from highwater.errors import UsageError
from reference.client.admin import Admin
from reference.client.calls import Answered, Call
from reference.client.client import Client
from reference.client.commands import Command
from reference.coordination.memory import Fired
from reference.effects import AnyEffect, CancelTimer, Send, SetTimer, ZkConnect, ZkRequest
from reference.events import AnyEvent, ConnectionLost, Received, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.machine import Now
from reference.types import Address, BrokerId, Millis, broker_at
from server.wire.clients.exchange import Facing
from server.wire.clients.session import Session
from server.wire.clients.tasks import Done, Pause, Task
from server.wire.entities import write_request
from server.wire.framing import RequestHeader, WireError, encode_frame, encode_request_header
from tests.reference.wired import CLIENT, CONNECTION, WiredCluster

Outputs = Sequence[AnyEffect | Answered]


class Program:
    """One program: `inbox` holds the events that it has not handled."""

    def __init__(self, lab: WiredCluster, name: str) -> None:
        self.lab = lab
        self.name = name
        self.inbox: deque[AnyEvent] = deque()
        self.timers: dict[str, int] = {}

    @property
    def now(self) -> Now:
        """The clock of the cluster."""
        return Now(Millis(self.lab.now), Millis(self.lab.now))

    def fire(self) -> None:
        """Run the timer that is due next."""
        if self.timers:
            due_ms, name = min((due_ms, name) for name, due_ms in self.timers.items())
            del self.timers[name]
            self.lab.now = max(self.lab.now, due_ms)
            self.inbox.append(TimerFired(name))

    def perform(self, outputs: Outputs, other: Callable[[AnyEffect], None]) -> None:
        """Perform what a machine returned; `other` performs all but timers and answers."""
        for output in outputs:
            self.lab.record(self.name, "", output)
            match output:
                case SetTimer(name=name, hi_ms=ms):
                    self.timers[name] = self.lab.now + ms
                case CancelTimer(name=name):
                    self.timers.pop(name, None)
                case Answered():
                    pass
                case _:
                    other(output)


class ClientProgram(Program):
    """A producer and consumer that finds leaders by metadata."""

    def __init__(self, lab: WiredCluster) -> None:
        super().__init__(lab, CLIENT)
        self.machine = Client.boot(CLIENT, [BrokerId(i) for i in lab.ids], request_timeout_ms=Millis(3000))

    def start(self, call: Call) -> None:
        """Begin a call."""
        self.perform(self.machine.start(call, now=self.now), self._send)

    def hear(self) -> None:
        """Handle the next event: an answer on its way, or another one."""
        if self.lab.replies:
            self.inbox.append(Received(*self.lab.replies.popleft()))
        if self.inbox:
            self.perform(self.machine.handle(self.inbox.popleft(), now=self.now), self._send)

    def _send(self, effect: AnyEffect) -> None:
        assert isinstance(effect, Send)
        broker = broker_at(effect.to)
        if broker in self.lab.nodes:
            self.lab.handle_event(broker, Received(Address(CLIENT), effect.message))
        else:
            self.inbox.append(ConnectionLost(effect.to))


class KafkaProgram(Program):
    """A client in the bytes of Kafka's protocol, with a connection to each broker that it asks."""

    def __init__(self, lab: WiredCluster) -> None:
        super().__init__(lab, "kafka")
        self.sessions: dict[Address, tuple[int, Session]] = {}
        self.connections = 0
        self.requests = 0

    def ask(self, i: int, key: int, version: int, body: Struct) -> None:
        """Send a request to a broker."""
        self.requests += 1
        header = RequestHeader(api_key=key, api_version=version, correlation=self.requests, client_id="storm")
        frame = encode_frame(encode_request_header(header), *write_request(key, version, body))
        address = self._connection(i)
        self.lab.record(self.name, f"{type(body).__name__} of Kafka", (i, version), frame)
        self._go_on(address, lambda session: session.feed(frame, self.lab.now))

    def hear(self) -> None:
        """Handle the next answer of a broker."""
        if self.lab.answers:
            address, message = self.lab.answers.popleft()
            if address in self.sessions:
                self._go_on(address, lambda session: session.hear(message, self.lab.now))

    def _connection(self, i: int) -> Address:
        """The open connection to a broker, or a new one."""
        address = next((address for address, (broker, _) in self.sessions.items() if broker == i), None)
        if address is None:
            self.connections += 1
            address = Address(f"{CONNECTION}{self.connections}")
            advertised = {BrokerId(each): (f"host{each}", 9000 + each) for each in self.lab.ids}
            facing = Facing(broker=BrokerId(i), advertised=advertised)
            self.sessions[address] = i, Session(facing, request_bytes_max=100_000, in_flight_max=4)
        return address

    def _go_on(self, address: Address, step: Callable[[Session], None]) -> None:
        """Take a step with a session, put its questions to the broker's machine, and record its responses."""
        broker, session = self.sessions[address]
        try:
            step(session)
        except WireError as error:
            self.lab.record(self.name, "connections closed by brokers", str(error))
            del self.sessions[address]
        for response in session.out:
            self.lab.record(self.name, "responses to Kafka's clients", address, response)
        session.out.clear()
        asked, session.asks = session.asks, []
        if broker not in self.lab.nodes:
            self.sessions.pop(address, None)
            return
        for question in asked:
            if isinstance(question, Pause):
                self.lab.answers.append((address, Done(question.correlation)))
            else:
                assert not isinstance(question, Task), "no request of a storm needs the process"
                self.lab.handle_event(broker, Received(address, question))


class AdminProgram(Program):
    """An administrator with a session of its own, and the commands of `highwater admin reassign`."""

    def __init__(self, lab: WiredCluster) -> None:
        super().__init__(lab, "admin")
        self.machine = Admin(timeout_ms=Millis(8000))
        self.session = 0

    def start(self, command: Command) -> None:
        """Begin a command, unless the last one has not ended."""
        if self.machine.command is None:
            self.perform(self.machine.start(command), self._ask)

    def hear(self) -> None:
        """Handle the next event."""
        if self.inbox:
            self.perform(self.machine.handle(self.inbox.popleft()), self._ask)

    def expire(self) -> None:
        """End the session."""
        if self.session:
            self.lab.deliver_watches(self.lab.zk.expire(self.session))
            self.session = 0
            self.inbox.append(ZkState("expired"))

    def see(self, fired: Fired) -> None:
        """Take the watches of this session."""
        self.inbox.extend(ZkWatch(path, change) for session, path, change in fired if session == self.session)

    def run(self, command: ToolCommand) -> None:
        """Run a command of the tool to its end, and record its operations, its lines, or its refusal."""
        lab = self.lab
        try:
            asked = next(command)
            while True:
                answers, fired = lab.zk.submit(lab.admin, asked.ops, atomic=asked.atomic)
                lab.record("tool", "", ZkRequest(0, asked.ops, asked.atomic))
                lab.deliver_watches(fired)
                asked = command.send(answers)
        except StopIteration as done:
            lab.record("tool", "lines of the tool", done.value)
        except UsageError as error:
            lab.record("tool", "refusals of the tool", str(error))

    def _ask(self, effect: AnyEffect) -> None:
        match effect:
            case ZkConnect():
                self.session = self.lab.zk.connect(timeout_ms=6000)
                self.inbox.append(ZkState("connected", self.session))
            case ZkRequest(id=id_, ops=ops, atomic=atomic):
                answers, fired = self.lab.zk.submit(self.session, ops, atomic=atomic)
                self.inbox.append(ZkReplied(id_, answers))
                self.lab.deliver_watches(fired)
            case _:
                raise AssertionError(f"an administrator does not ask for {effect}")
