"""ZooKeeper over kazoo: the requests of `reference.coordination.api`, performed on a real server.

This module adds what the interface promises and kazoo does not:

* Requests are performed and answered in order, one at a time. The operations of one request are sent together.
* When the connection is lost, every request handed in so far is answered `Unknown`. Requests handed in without a connection
  wait for the next one.
* kazoo forgets watches when the connection is lost. This module keeps each watch with the zxid that was last seen, reads the
  znode again after the reconnect, and reports a change at once, as ZooKeeper's own client does with SetWatches.
* After an expiry kazoo would open another session by itself and perform in it the requests handed in meanwhile. This module
  keeps the expired client from connecting and stops it; only `connect` opens a new session.

kazoo calls back from its own threads. All callbacks go through one queue, so that no later answer overtakes a watch. Each is
handed to `run_soon`, which must run it on the thread that owns this object; that thread alone touches the state.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, assert_never

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from msgspec import Struct

from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Change,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    RolledBack,
    SessionExpired,
    SessionState,
    SetData,
    Unknown,
    Written,
)
from server.watches import WatchBook

RECONNECT_DELAY_S = 0.05
_CHANGES: dict[str, Change] = {
    EventType.CREATED: "created",
    EventType.DELETED: "deleted",
    EventType.CHANGED: "changed",
    EventType.CHILD: "children",
}
_REFUSALS: tuple[tuple[type[Exception], AnyAnswer], ...] = (
    (BadVersionError, BadVersion()),
    (NoNodeError, NoNode()),
    (NodeExistsError, NodeExists()),
    (NotEmptyError, NotEmpty()),
    (RolledBackError, RolledBack()),
    (RuntimeInconsistency, RolledBack()),
    (NoChildrenForEphemeralsError, NoNode()),
)
_SESSION_TROUBLE = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)
# The result of one operation: a value of kazoo's or the exception that it raised.
_Outcome = Any


def _sleep(seconds: float) -> None:
    # Not time.sleep: with a libfaketime that does not fake the monotonic clock, clock_nanosleep fails with EINVAL.
    threading.Event().wait(seconds)


class _OneQueueHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    # Put watches into the queue of the answers: with kazoo's two queues a watch may arrive after a later read.
    #
    # `is_over` limits the client to one session. Otherwise kazoo would open a second session and perform in it the requests that
    # the owner handed in before it was told of the expiry.

    sleep_func = staticmethod(_sleep)
    is_over = False

    def create_connection(self, *args: Any, **options: Any) -> Any:
        if self.is_over:
            raise ConnectionRefusedError("the ZooKeeper session is over")
        return super().create_connection(*args, **options)

    def dispatch_callback(self, callback: Callback) -> None:
        self.completion_queue.put(lambda: callback.func(*callback.args))


class _Request(Struct):
    """A request to ZooKeeper that waits for its answer; `id` is None for one of this module that sets watches again."""

    id: int | None
    ops: tuple[AnyOp, ...]
    atomic: bool


class Listener(Protocol):
    """Callbacks for answers, watches and session changes of ZooKeeper, on the thread that owns `KazooCoordination`."""

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """ZooKeeper answered request `request_id`: one answer per operation."""

    def watch_fired(self, path: str, change: Change) -> None:
        """A ZooKeeper watch fired and is no longer set."""

    def state_changed(self, state: SessionState, session: int) -> None:
        """The state of the ZooKeeper session changed; `session` is its id."""


class KazooCoordination:
    """One node's access to ZooKeeper. Not thread-safe; kazoo's threads only call `run_soon`."""

    def __init__(
        self, hosts: str, session_timeout_ms: int, listener: Listener, run_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._listener = listener
        self._run_soon = run_soon
        self._client: KazooClient | None = None
        self._connected = False
        self._session = 0
        self._waiting: deque[_Request] = deque()
        self._active: _Request | None = None
        self._answers: list[AnyAnswer | None] = []  # of the active request
        self._stats: dict[int, Any] = {}  # of each Exists whose data is not read yet, by position in the request
        self._missing = 0
        self._round = 0  # number of the active request: results of abandoned requests have an older one
        self._watches = WatchBook()
        self._kazoo_watch: Callable[[WatchedEvent], None] = lambda _: None

    def connect(self) -> None:
        """Open a ZooKeeper session; answered by "connected".

        Requires that no session is open: none yet, or the last one is known to be over.
        """
        assert self._client is None
        client = KazooClient(
            self._hosts,
            timeout=self._session_timeout_ms / 1000,
            handler=_OneQueueHandler(),
            connection_retry=KazooRetry(max_tries=-1, delay=RECONNECT_DELAY_S, backoff=1, max_jitter=0.0, sleep_func=_sleep),
        )
        client.add_listener(partial(self._on_kazoo_state, client))
        self._client = client
        # One function for all watches: kazoo keeps a set of functions per path, so a path watched twice is reported once.
        self._kazoo_watch = partial(self._on_kazoo_watch, client)
        client.start_async()

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        """Perform ZooKeeper operations; answered once, by `replied`. Without a session SessionExpired, at once."""
        if self._client is None:
            answers: tuple[AnyAnswer, ...] = tuple(SessionExpired() for _ in ops)
            self._run_soon(partial(self._listener.replied, request_id, answers))
            return
        self._waiting.append(_Request(request_id, ops, atomic))
        self._next()

    def close(self) -> None:
        """Close the ZooKeeper session, which deletes its ephemerals. The listener is not called afterwards."""
        client, self._client = self._client, None
        self._give_up()
        self._waiting.clear()
        if client is not None:
            client.stop()
            client.close()

    # --- on kazoo's threads ------------------------------------------------------------------------------------------------

    def _on_kazoo_state(self, client: KazooClient, state: str) -> None:
        """On kazoo's thread: queue a change of the connection for the event loop."""
        expired = client.client_state == KeeperState.EXPIRED_SESSION
        if expired:
            client.handler.is_over = True
        session = client.client_id[0] if state == KazooState.CONNECTED else 0
        # The change of state is queued behind the answers that arrived before it.
        client.handler.completion_queue.put(partial(self._run_soon, partial(self._on_state, client, state, expired, session)))

    def _on_kazoo_watch(self, client: KazooClient, event: WatchedEvent) -> None:
        change = _CHANGES.get(event.type)
        if change is not None:  # kazoo reports NONE when it drops a watch
            self._run_soon(partial(self._on_watch, client, event.path, change))

    # --- session -----------------------------------------------------------------------------------------------------------

    def _on_state(self, client: KazooClient, state: str, expired: bool, session: int) -> None:
        """On the event loop: tell the listener, and answer the open requests of a lost connection or session."""
        if client is not self._client:
            return
        if state == KazooState.CONNECTED:
            self._connected = True
            self._session = session
            self._listener.state_changed("connected", session)
            self._set_watches_again()
            self._next()
        elif expired:
            self._connected = False
            self._client = None
            self._watches = WatchBook()
            # stop() blocks until kazoo's connection thread ends, which is still trying to open another session.
            threading.Thread(target=_discard, args=(client,), daemon=True).start()
            # The active request may have been performed in part before the session ended.
            self._answer_all(active=Unknown(), waiting=SessionExpired())
            self._listener.state_changed("expired", self._session)
        elif self._connected:
            self._connected = False
            self._answer_all(active=Unknown(), waiting=Unknown())
            self._listener.state_changed("disconnected", self._session)

    def _answer_all(self, *, active: AnyAnswer, waiting: AnyAnswer) -> None:
        """End every open request: the active one with `active`, the others with `waiting`."""
        ended = [] if self._active is None else [(self._active, active)]
        ended += [(request, waiting) for request in self._waiting]
        self._give_up()
        self._waiting.clear()
        for request, answer in ended:
            if request.id is not None:
                self._listener.replied(request.id, tuple(answer for _ in request.ops))

    def _give_up(self) -> None:
        self._active = None
        self._round += 1

    # --- requests ----------------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._active is None and self._connected and self._waiting:
            self._start_request(self._waiting.popleft())

    def _start_request(self, request: _Request) -> None:
        """Send a request's operations; each gets its own answer, a multi one answer."""
        assert self._client is not None
        self._active = request
        self._round += 1
        self._answers = [None] * len(request.ops)
        self._stats = {}
        self._missing = len(request.ops)
        if not request.ops:
            self._finish_request(())
        elif request.atomic:
            result = _transaction_of(self._client, request.ops).commit_async()
            result.rawlink(partial(self._on_kazoo_result, self._round, None))
        else:
            for index in range(len(request.ops)):
                self._submit(self._client, request.ops[index], index)

    def _submit(self, client: KazooClient, op: AnyOp, index: int) -> None:
        """Send one operation of the active request; an exists sends a get as well, for the data."""
        watch = self._kazoo_watch
        match op:
            case Create():
                result = client.create_async(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequential)
            case Delete():
                result = client.delete_async(op.path, op.version)
            case SetData():
                result = client.set_async(op.path, op.data, op.version)
            case GetData():
                result = client.get_async(op.path, watch if op.watch else None)
            case Exists():
                # ZooKeeper's exists returns no data, so a get follows; _exists joins the two results into one answer.
                result = client.exists_async(op.path, watch if op.watch else None)
            case GetChildren():
                result = client.get_children_async(op.path, watch if op.watch else None, include_data=True)
            case Check():
                raise AssertionError("Check is allowed only in an atomic request (multi)")
            case _:
                assert_never(op)
        result.rawlink(partial(self._on_kazoo_result, self._round, index))
        if isinstance(op, Exists):
            client.get_async(op.path).rawlink(partial(self._on_kazoo_result, self._round, index))

    def _on_kazoo_result(self, round_: int, index: int | None, result: Any) -> None:
        outcome = result.value if result.successful() else result.exception
        self._run_soon(partial(self._on_outcome, round_, index, outcome))

    def _on_outcome(self, round_: int, index: int | None, outcome: _Outcome) -> None:
        """Take kazoo's result of one operation, or of a multi; finish the request when none is missing."""
        request = self._active
        if round_ != self._round or request is None:
            return
        if isinstance(outcome, _SESSION_TROUBLE):
            return  # _on_state follows and answers this request together with the waiting ones
        if index is None:
            if isinstance(outcome, Exception):
                raise outcome
            self._finish_request(tuple(_answer_of(op, result) for op, result in zip(request.ops, outcome, strict=True)))
            return
        op = request.ops[index]
        if isinstance(op, Exists):
            answer = self._join_exists_and_get(op, index, outcome)
        else:
            self._register_watch(op, outcome, again=request.id is None)
            answer = _answer_of(op, outcome)
        if answer is None:
            return
        self._answers[index] = answer
        self._missing -= 1
        if not self._missing:
            self._finish_request(tuple(a for a in self._answers if a is not None))

    def _join_exists_and_get(self, op: Exists, index: int, outcome: _Outcome) -> AnyAnswer | None:
        """Join two results: first the exists, which set the watch (returns None), then the get, which has the data.

        If the znode was written between the two, both are sent again: the watch must belong to the data that is returned.
        """
        if index not in self._stats:
            self._stats[index] = outcome
            return None
        stat = self._stats.pop(index)
        answer = _answer_of(op, outcome)
        now = outcome[1].mzxid if isinstance(answer, Data) else None
        if now != (stat.mzxid if stat else None):
            assert self._client is not None
            self._submit(self._client, op, index)
            return None
        self._register_watch(op, stat, again=self._active is not None and self._active.id is None)
        return answer

    def _finish_request(self, answers: tuple[AnyAnswer, ...]) -> None:
        """Answer the active request and start the next one."""
        assert self._active is not None
        request, self._active = self._active, None
        if request.id is not None:
            self._listener.replied(request.id, answers)
        self._next()

    # --- watches -----------------------------------------------------------------------------------------------------------

    def _set_watches_again(self) -> None:
        """Before anything else, ask again for the watches that the lost connection had."""
        ops: list[AnyOp] = [Exists(path, watch=True) for path in self._watches.data_paths]
        ops += [GetChildren(path, watch=True) for path in self._watches.children_paths]
        if ops:
            self._waiting.appendleft(_Request(None, tuple(ops), atomic=False))

    def _register_watch(self, op: AnyOp, outcome: _Outcome, *, again: bool) -> None:
        """Store the zxid at which this operation set its watch. With `again`, report a change that the older watch missed."""
        missed: Change | None = None
        match op:
            case GetData(path=path, watch=True) if not isinstance(outcome, Exception):
                self._watches.set_data(path, outcome[1].mzxid)
            case Exists(path=path, watch=True):
                zxid = outcome.mzxid if outcome else None
                if again:
                    missed = self._watches.data_missed(path, zxid)
                else:
                    self._watches.set_data(path, zxid)
            case GetChildren(path=path, watch=True):
                zxid = None if isinstance(outcome, Exception) else outcome[1].pzxid
                if again:
                    missed = self._watches.children_missed(path, zxid)
                elif zxid is not None:
                    self._watches.set_children(path, zxid)
            case _:
                pass
        if missed is not None:
            self._fire(op.path, missed)

    def _on_watch(self, client: KazooClient, path: str, change: Change) -> None:
        if client is self._client:
            self._fire(path, change)

    def _fire(self, path: str, change: Change) -> None:
        if self._watches.fired(path, change):
            self._listener.watch_fired(path, change)


def _transaction_of(client: KazooClient, ops: tuple[AnyOp, ...]) -> Any:
    """Kazoo's transaction with these operations."""
    transaction = client.transaction()
    for op in ops:
        match op:
            case Create():
                transaction.create(op.path, op.data, ephemeral=op.ephemeral, sequence=op.sequential)
            case Delete():
                transaction.delete(op.path, op.version)
            case SetData():
                transaction.set_data(op.path, op.data, op.version)
            case Check():
                transaction.check(op.path, op.version)
            case GetData() | Exists() | GetChildren():
                raise AssertionError("an atomic request (multi) may only create, delete, set and check")
            case _:
                assert_never(op)
    return transaction


def _answer_of(op: AnyOp, outcome: _Outcome) -> AnyAnswer:
    """Kazoo's result as an answer; raises it again if it is no refusal of ZooKeeper."""
    if isinstance(outcome, Exception):
        for refusal, answer in _REFUSALS:
            if isinstance(outcome, refusal):
                return answer
        raise outcome
    match op:
        case Create():
            return Created(outcome)
        case Delete():
            return Deleted()
        case SetData():
            return Written(outcome.version)
        case Check():
            return Checked()
        case GetData() | Exists():
            data, stat = outcome
            return Data(data, stat.version, stat.czxid, stat.ephemeralOwner)
        case GetChildren():
            return Children(tuple(sorted(outcome[0])))
        case _:
            assert_never(op)


def _discard(client: KazooClient) -> None:
    client.stop()
    client.close()
