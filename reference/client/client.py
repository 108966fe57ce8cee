"""The client machine: finds the leader, sends each call to it alone (R-133), and answers within the call's timeout.

The client asks the brokers of its bootstrap list for Metadata in turn. It never asks the same one twice in a row, because a
broker that is cut off from the controller repeats old metadata. Lookups go on until the call's timeout. The operation itself is
sent once, and a produce up to `retries` times more (R-130): RETRY_BACKOFF_MS after a retriable error, or if no answer came within
half of the call's timeout. The call's answer is the result of its last attempt: an error of the leader, NETWORK_EXCEPTION if the
connection broke, REQUEST_TIMED_OUT without an answer. After an error of `reference.errors.REFRESH_METADATA` the next attempt for
that partition looks up its leader again (R-075).

Consumers send the leader epoch that they know (KIP-320); docs/promise.md VIS-2 depends on it. A produce with acks=0 is answered
as soon as it is sent, and may be lost (R-130: the asynchronous producer). An answer that arrives after its call or attempt has
ended is ignored. An idempotent produce waits for a producer id first (`reference.client.session`). Only one is in flight at a
time, so that a session which ends leaves no gap in the sequences.

State is plain data. Few calls are in flight at a time (a workload process has one), so they are searched, not indexed.
"""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from reference.client import session as sessions
from reference.client.calls import Answered, Call, EarliestCall, LatestCall, PollCall, Polled, ProduceCall
from reference.client.requests import Pending, is_idempotent, polled, request_of
from reference.client.routes import Routes, distrust, distrust_peer, leader_of, learn_epoch, learn_states
from reference.client.session import Session
from reference.effects import AnyEffect, CancelTimer, Send, SetTimer
from reference.errors import REFRESH_METADATA, RETRIABLE, ErrorCode
from reference.events import (
    AnyEvent,
    Booted,
    ConnectionLost,
    DirFailed,
    Flushed,
    Received,
    ShutDown,
    TimerFired,
    ZkReplied,
    ZkState,
    ZkWatch,
)
from reference.machine import Machine, Now
from reference.messages import (
    AnyMessage,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    ListOffsetsReply,
    Metadata,
    MetadataReply,
    ProduceReply,
)
from reference.types import NO_PRODUCER_ID, NO_TOPIC_ID, Address, BrokerId, LeaderEpoch, Millis, Offset, broker_address

LOOKUP_TIMEOUT_MS = Millis(400)  # of one Metadata request; then the client asks the next broker
LOOKUP_BACKOFF_MS = Millis(100)  # metadata.retry: after an answer without the leader
RETRY_BACKOFF_MS = Millis(100)  # retry.backoff.ms: between two attempts
_LOOKUP_TIMER = "metadata"
_CALL_TIMER = "call-"
_ATTEMPT_TIMER = "attempt-"

Outputs = list[AnyEffect | Answered]
_Answer = FetchReply | ProduceReply | ListOffsetsReply


class Client(Machine, kw_only=True):
    """One client process, created by `boot`; it has no timers or connections before the first call."""

    address: Address
    bootstrap: tuple[BrokerId, ...]
    request_timeout_ms: Millis
    correlation: int = 0  # of the last request
    turn: int = 0  # index in `bootstrap` of the next broker to ask for metadata
    routes: Routes = {}
    pending: dict[str, Pending] = {}  # by call id, in the order of their start
    looking_at: BrokerId | None = None  # last asked for metadata; while set, the lookup timer is armed
    session: Session = msgspec.field(default_factory=Session)

    @staticmethod
    def boot(address: Address, brokers: Sequence[BrokerId], *, request_timeout_ms: Millis) -> "Client":
        """A client that knows the bootstrap brokers alone, and asks them for metadata in this order."""
        assert brokers
        return Client(address=address, bootstrap=tuple(brokers), request_timeout_ms=request_timeout_ms)

    def start(self, call: Call, *, now: Now) -> Outputs:
        """Begin a client call; no call in flight may have its id. This method or a later `handle` returns its `Answered`."""
        assert str(call.id) not in self.pending
        assert not (is_idempotent(call) and any(is_idempotent(p.call) for p in self.pending.values())), "one at a time"
        pending = Pending(call, Millis(now.monotonic_ms + self.request_timeout_ms))
        self.pending[str(call.id)] = pending
        timer = SetTimer(f"{_CALL_TIMER}{call.id}", self.request_timeout_ms, self.request_timeout_ms)
        return [timer, *self._go_on(pending, now)]

    def handle(self, event: AnyEvent, *, now: Now) -> Outputs:
        """Let the client handle one event; returns effects and the `Answered` of calls that end."""
        match event:
            case Received():
                return self._receive(event.message, now)
            case TimerFired(name=name) if name == _LOOKUP_TIMER:
                return self._lookup_overdue()
            case TimerFired(name=name) if name == sessions.TIMER:
                self.session.asked = None
                return self._ask_for_id() if any(self._wants_id(p) for p in self.pending.values()) else []
            case TimerFired(name=name) if name.startswith(_ATTEMPT_TIMER):
                return self._on_attempt_timer(name, now)
            case TimerFired(name=name):
                return self._on_call_timer(name)
            case ConnectionLost():
                return self._on_disconnect(event.peer, now)
            case Booted() | ZkReplied() | ZkWatch() | ZkState() | Flushed() | DirFailed() | ShutDown():
                return []  # a client has no ZooKeeper session and no disk
            case _:
                assert_never(event)

    # --- finding leaders --------------------------------------------------------------------------------------------------

    def _look_up(self) -> Outputs:
        """Ask the next bootstrap broker for metadata."""
        self.looking_at = self.bootstrap[self.turn]
        self.turn = (self.turn + 1) % len(self.bootstrap)
        return [
            Send(broker_address(self.looking_at), Metadata(self._next_correlation())),
            SetTimer(_LOOKUP_TIMER, LOOKUP_TIMEOUT_MS, LOOKUP_TIMEOUT_MS),
        ]

    def _lookup_overdue(self) -> Outputs:
        self.looking_at = None
        return self._look_up() if any(self._wants_route(p) for p in self.pending.values()) else []

    def _wants_route(self, pending: Pending) -> bool:
        return pending.leader is None and not pending.backing_off and not self._wants_id(pending)

    def _on_metadata(self, reply: MetadataReply, now: Now) -> Outputs:
        """Take routes from a metadata reply, and send the calls that waited for one."""
        # An answer to an earlier lookup counts too: on a slow link every answer arrives after the timeout of its lookup.
        if self.looking_at is None:
            return []
        if reply.error is not ErrorCode.NONE:
            # KIP-343: this broker is fenced, and its metadata may be old. Ask the next one after a pause.
            return [SetTimer(_LOOKUP_TIMER, LOOKUP_BACKOFF_MS, LOOKUP_BACKOFF_MS)]
        learn_states(self.routes, reply.states)
        outputs: Outputs = []
        waiting = [p for p in self.pending.values() if self._wants_route(p)]
        for pending in waiting:
            leader = leader_of(self.routes, pending.call.tp)
            if leader is not None:
                outputs += self._send(pending, leader, now)
        if any(p.leader is None and str(p.call.id) in self.pending for p in waiting):
            return [*outputs, SetTimer(_LOOKUP_TIMER, LOOKUP_BACKOFF_MS, LOOKUP_BACKOFF_MS)]
        self.looking_at = None
        return [*outputs, CancelTimer(_LOOKUP_TIMER)]

    # --- a producer id ----------------------------------------------------------------------------------------------------

    def _wants_id(self, pending: Pending) -> bool:
        return is_idempotent(pending.call) and self.session.producer_id == NO_PRODUCER_ID

    def _ask_for_id(self) -> Outputs:
        """Ask the next bootstrap broker for a producer id."""
        session = self.session
        session.asked = self.bootstrap[session.turn]
        session.turn = (session.turn + 1) % len(self.bootstrap)
        session.correlation = self._next_correlation()
        return [
            Send(broker_address(session.asked), InitProducerId(session.correlation)),
            SetTimer(sessions.TIMER, sessions.ASK_TIMEOUT_MS, sessions.ASK_TIMEOUT_MS),
        ]

    def _on_producer_id(self, reply: InitProducerIdReply, now: Now) -> Outputs:
        """Begin a producer session, and send the produces that waited for one; after an error ask again later."""
        if reply.correlation != self.session.correlation or self.session.asked is None:
            return []
        if reply.error is not ErrorCode.NONE:
            return [SetTimer(sessions.TIMER, sessions.ASK_BACKOFF_MS, sessions.ASK_BACKOFF_MS)]
        waiting = [p for p in self.pending.values() if self._wants_id(p) and not p.backing_off]
        sessions.begin(self.session, reply.producer_id, reply.producer_epoch)
        outputs: Outputs = [CancelTimer(sessions.TIMER)]
        for pending in waiting:
            outputs += self._go_on(pending, now)
        return outputs

    # --- an attempt -------------------------------------------------------------------------------------------------------

    def _go_on(self, pending: Pending, now: Now) -> Outputs:
        """Send the call to the partition's leader, or ask first for the leader or the producer id that it needs."""
        pending.backing_off = False
        if self._wants_id(pending):
            return [] if self.session.asked is not None else self._ask_for_id()
        leader = leader_of(self.routes, pending.call.tp)
        if leader is not None:
            return self._send(pending, leader, now)
        return [] if self.looking_at is not None else self._look_up()

    def _send(self, pending: Pending, leader: BrokerId, now: Now) -> Outputs:
        """R-133: send the call to the partition's leader alone, however many replicas there are.

        The leader is the one of the brokers' metadata, not of ZooKeeper (C-25).
        """
        route = self.routes[pending.call.tp]
        if pending.attempts and pending.topic_id not in (NO_TOPIC_ID, route.topic_id):
            # The topic of the first attempt is deleted: sent again, the records might be in both topics (docs/promise.md DUR-8).
            return self._finish(pending, ErrorCode.UNKNOWN_TOPIC_ID)
        pending.leader, pending.leader_epoch, pending.topic_id = leader, route.leader_epoch, route.topic_id
        pending.asked = leader
        pending.correlation = self._next_correlation()
        pending.attempts += 1
        left_ms = Millis(max(1, pending.deadline_ms - now.monotonic_ms))
        outputs: Outputs = []
        if isinstance(pending.call, ProduceCall) and pending.attempts <= pending.call.retries:
            # An attempt gets half of the timeout, so that another one is possible if it gets no answer.
            left_ms = Millis(max(1, min(left_ms, self.request_timeout_ms // 2)))
            outputs = [SetTimer(f"{_ATTEMPT_TIMER}{pending.call.id}", left_ms, left_ms)]
        outputs.append(Send(broker_address(leader), request_of(pending, self.session, left_ms)))
        if isinstance(pending.call, ProduceCall) and pending.call.acks == 0:
            outputs += self._finish(pending, ErrorCode.NONE)
        return outputs

    def _receive(self, message: AnyMessage, now: Now) -> Outputs:
        """Dispatch a reply; replies to calls that have ended are dropped."""
        match message:
            case MetadataReply():
                return self._on_metadata(message, now)
            case InitProducerIdReply():
                return self._on_producer_id(message, now)
            case FetchReply() | ProduceReply() | ListOffsetsReply():
                pending = self._waiting_for(message.correlation)
                return [] if pending is None else self._on_reply(pending, message, now)
            case _:
                return []  # messages between nodes; an open port may receive anything

    def _waiting_for(self, correlation: int) -> Pending | None:
        waiting = (p for p in self.pending.values() if p.leader is not None and p.correlation == correlation)
        return next(waiting, None)

    def _on_reply(self, pending: Pending, reply: _Answer, now: Now) -> Outputs:
        """End the call with the leader's reply, or send a produce again after a retriable error."""
        assert pending.leader is not None
        epoch = reply.leader_epoch
        if reply.error == ErrorCode.NONE and epoch is not None:
            learn_epoch(self.routes, pending.call.tp, pending.leader, epoch, pending.topic_id)
        match pending.call, reply:
            case PollCall(offset=start), FetchReply(hw=hw, batches=batches):
                return self._finish(pending, reply.error, leader_epoch=epoch, hw=hw, records=polled(batches, start))
            case ProduceCall(), ProduceReply() if reply.error in RETRIABLE and self._may_try_again(pending, now):
                return self._try_again(pending, reply.error)
            case (ProduceCall(), ProduceReply(offset=offset)) | (LatestCall() | EarliestCall(), ListOffsetsReply(offset=offset)):
                return self._finish(pending, reply.error, leader_epoch=epoch, offset=offset)
            case _:
                return []  # a reply of the wrong type is ignored

    # --- another attempt --------------------------------------------------------------------------------------------------

    def _may_try_again(self, pending: Pending, now: Now) -> bool:
        """R-130: True while the call has retries and time left."""
        call = pending.call
        in_time = now.monotonic_ms + RETRY_BACKOFF_MS < pending.deadline_ms
        return isinstance(call, ProduceCall) and pending.attempts <= call.retries and in_time

    def _try_again(self, pending: Pending, error: ErrorCode) -> Outputs:
        """Let the call's next attempt begin after the backoff."""
        if error in REFRESH_METADATA:
            distrust(self.routes, pending.call.tp)
        pending.earlier = (*pending.earlier, error)
        pending.leader, pending.backing_off = None, True
        return [SetTimer(f"{_ATTEMPT_TIMER}{pending.call.id}", RETRY_BACKOFF_MS, RETRY_BACKOFF_MS)]

    def _on_attempt_timer(self, timer: str, now: Now) -> Outputs:
        """Begin the next attempt when the pause is over; give up an attempt that got no answer in its time."""
        pending = self.pending.get(timer.removeprefix(_ATTEMPT_TIMER))
        if pending is None:
            return []
        if pending.backing_off:
            return self._go_on(pending, now)
        if pending.leader is None or not self._may_try_again(pending, now):
            return []  # the call's own timeout decides
        return self._try_again(pending, ErrorCode.REQUEST_TIMED_OUT)

    # --- the end of a call ------------------------------------------------------------------------------------------------

    def _on_call_timer(self, timer: str) -> Outputs:
        """End a call that is open at its timeout."""
        pending = self.pending.get(timer.removeprefix(_CALL_TIMER))
        if pending is None:
            return []
        route = self.routes.get(pending.call.tp)
        # The partition has no leader, as far as known: that error says more than a timeout (docs/promise.md SILENT-2).
        if pending.attempts == 0 and route is not None and route.leader is None:
            return self._finish(pending, ErrorCode.LEADER_NOT_AVAILABLE)
        return self._finish(pending, ErrorCode.REQUEST_TIMED_OUT)

    def _on_disconnect(self, peer: Address, now: Now) -> Outputs:
        """Retry or end the calls that were waiting for this broker; what they asked for may have been done."""
        distrust_peer(self.routes, peer)
        outputs: Outputs = []
        for pending in list(self.pending.values()):
            if pending.leader is None or broker_address(pending.leader) != peer:
                continue
            if self._may_try_again(pending, now):
                outputs += self._try_again(pending, ErrorCode.NETWORK_EXCEPTION)
            else:
                outputs += self._finish(pending, ErrorCode.NETWORK_EXCEPTION)
        if self.session.asked is not None and broker_address(self.session.asked) == peer:
            outputs.append(SetTimer(sessions.TIMER, sessions.ASK_BACKOFF_MS, sessions.ASK_BACKOFF_MS))
        if self.looking_at is not None and broker_address(self.looking_at) == peer:
            # After a pause: if every broker refuses connections, the next lookup would fail at the same instant.
            outputs.append(SetTimer(_LOOKUP_TIMER, LOOKUP_BACKOFF_MS, LOOKUP_BACKOFF_MS))
        return outputs

    def _finish(
        self,
        pending: Pending,
        error: ErrorCode,
        *,
        offset: Offset | None = None,
        leader_epoch: LeaderEpoch | None = None,
        hw: Offset | None = None,
        records: tuple[Polled, ...] = (),
    ) -> Outputs:
        """Answer the caller and cancel the call's timers; an unacknowledged idempotent produce ends the producer session."""
        call = pending.call
        del self.pending[str(call.id)]
        if error in REFRESH_METADATA:
            distrust(self.routes, call.tp)
        if isinstance(call, ProduceCall) and call.idempotent and pending.attempts:
            if error is ErrorCode.NONE:
                sessions.acknowledged(self.session, call.tp, len(call.values))
            else:
                sessions.end(self.session)
        answered = Answered(
            id=call.id,
            error=error,
            attempts=pending.attempts,
            node=None if pending.asked is None else broker_address(pending.asked),
            topic_id=pending.topic_id,
            offset=offset,
            leader_epoch=leader_epoch,
            hw=hw,
            records=records,
            earlier=pending.earlier,
        )
        cancelled: Outputs = [CancelTimer(f"{_CALL_TIMER}{call.id}")]
        if isinstance(call, ProduceCall) and call.retries:
            cancelled.append(CancelTimer(f"{_ATTEMPT_TIMER}{call.id}"))
        return [*cancelled, answered]

    def _next_correlation(self) -> int:
        self.correlation += 1
        return self.correlation
