"""Test clients of a real ZooKeeper: the caller runs their callbacks and can cut their connections."""

import itertools
import queue
import select
import socket
import threading
import time
from collections.abc import Callable

from highwater.backends.real.zookeeper.expiry import end_session
from reference.coordination.api import AnyAnswer, AnyOp, Change, Create, Exists, SessionState
from server.kazoo_client import KazooCoordination

PATIENCE_S = 20.0  # a longer wait means that something hangs
SESSION_TIMEOUT_MS = 10_000


class Proxy:
    """A TCP proxy between the server and one client, whose connections can be cut and joined."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_cut = threading.Event()
        self._is_stalled = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Close the connection and refuse new ones."""
        self._is_cut.set()

    def stall(self) -> None:
        """Forward nothing until `cut` or `join`."""
        self._is_stalled.set()

    def join(self) -> None:
        """Accept connections and forward again."""
        self._is_cut.clear()
        self._is_stalled.clear()

    def close(self) -> None:
        """Close all connections and end the thread."""
        self._is_over.set()
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        pairs: dict[socket.socket, socket.socket] = {}
        while not self._is_over.is_set():
            if self._is_cut.is_set():
                self._drop(pairs)
            heard = [] if self._is_stalled.is_set() else [*pairs]
            readable, _, _ = select.select([self._listener, *heard], [], [], 0.01)
            for ready in readable:
                if ready is self._listener:
                    inner, _ = self._listener.accept()
                    if self._is_cut.is_set():
                        inner.close()
                        continue
                    outer = socket.create_connection(self._target)
                    pairs.update({inner: outer, outer: inner})
                elif ready in pairs:
                    self._forward(ready, pairs)
        self._drop(pairs)

    def _forward(self, source: socket.socket, pairs: dict[socket.socket, socket.socket]) -> None:
        try:
            data = source.recv(65536)
            if data:
                pairs[source].sendall(data)
                return
        except OSError:
            pass
        peer = pairs.pop(source)
        del pairs[peer]
        source.close()
        peer.close()

    def _drop(self, pairs: dict[socket.socket, socket.socket]) -> None:
        for one in pairs:
            one.close()
        pairs.clear()


class Client:
    """A KazooCoordination whose callbacks run only inside `wait`."""

    def __init__(self, server: str, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.proxy = Proxy(server)
        self.log: list[object] = []  # answers, watches and states, in order
        self.states: list[tuple[SessionState, int]] = []
        self.watches: list[tuple[str, Change]] = []
        self.answers: dict[int, tuple[AnyAnswer, ...]] = {}
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue()
        self._ids = itertools.count(1)
        self.zookeeper = KazooCoordination(self.proxy.address, session_timeout_ms, self, self._calls.put)
        self.zookeeper.connect()

    def begin(self, *ops: AnyOp, atomic: bool = False) -> int:
        """Submit a request; returns its id."""
        request = next(self._ids)
        self.zookeeper.request(request, ops, atomic=atomic)
        return request

    def ask(self, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        """Submit a request and wait for its answers."""
        request = self.begin(*ops, atomic=atomic)
        self.wait(lambda: request in self.answers)
        return self.answers[request]

    def wait(self, until: Callable[[], bool]) -> None:
        """Run callbacks until `until` holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not until():
            self._calls.get(timeout=max(0.0, deadline - time.monotonic()))()

    def wait_for_state(self, state: SessionState) -> int:
        """Wait until this is the state; returns the session."""
        self.wait(lambda: bool(self.states) and self.states[-1][0] == state)
        return self.states[-1][1]

    def close(self) -> None:
        """Close the session and end all threads."""
        self.zookeeper.close()
        self.proxy.close()

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        assert request_id not in self.answers
        self.answers[request_id] = answers
        self.log.append(answers)

    def watch_fired(self, path: str, change: Change) -> None:
        self.watches.append((path, change))
        self.log.append((path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        self.states.append((state, session))
        self.log.append(state)


class KazooBench:
    """The clients of one server, for `tests.contract.coordination`."""

    def __init__(self, server: str, root: str) -> None:
        self.root = root
        self._server = server
        self._clients: dict[int, Client] = {}
        self.ask(self.connect(), Create(root, b""))

    def connect(self) -> int:
        client = Client(self._server)
        session = client.wait_for_state("connected")
        self._clients[session] = client
        return session

    def ask(self, session: int, *ops: AnyOp, atomic: bool = False) -> tuple[AnyAnswer, ...]:
        return self._clients[session].ask(*ops, atomic=atomic)

    def take_watch_events(self, session: int) -> list[tuple[str, Change]]:
        client = self._clients[session]
        client.ask(Exists(self.root))  # watches that fired earlier are delivered before its answer
        watch_events, client.watches = client.watches, []
        return watch_events

    def lose_connection(self, session: int) -> None:
        self._clients[session].proxy.cut()
        self._clients[session].wait_for_state("disconnected")

    def reconnect(self, session: int) -> None:
        self._clients[session].proxy.join()
        self._clients[session].wait_for_state("connected")

    def expire(self, session: int) -> None:
        end_session(self._server, session)
        self._clients[session].wait_for_state("expired")

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
