"""One client connection: requests in, responses out in the order of their requests (Kafka protocol guide, "Network").

Sans-IO: the caller feeds bytes and answers, takes from `asks` the questions to the machine and the process, and from `out` the
bytes to send. At most `in_flight_max` requests are in progress and further ones wait; if `is_full`, the caller should stop
reading. A request that cannot be answered raises WireError, and the caller must close the connection.
"""

from collections import deque

from msgspec import Struct

from server.wire.clients import apis
from server.wire.clients.exchange import Ask, Call, Exchange, Facing, Heard, Numbers
from server.wire.entities import write_response
from server.wire.framing import (
    FrameBuffer,
    RequestHeader,
    WireError,
    encode_frame,
    encode_response_header,
    read_request_header,
)
from server.wire.versions import API_VERSIONS


class _Slot:
    """A client's request in progress; `response` is None until it is answered, b"" if the client wants no response."""

    __slots__ = ("call", "exchange", "header", "response")

    def __init__(self, header: RequestHeader, call: Call, exchange: Exchange) -> None:
        self.header = header
        self.call = call
        self.exchange = exchange
        self.response: bytes | None = None


class Session:
    """The state of one client connection: received bytes, requests in progress, bytes to send."""

    def __init__(self, facing: Facing, *, request_bytes_max: int, in_flight_max: int) -> None:
        self.asks: list[Ask] = []
        self.out: list[bytes] = []
        self.is_held = False  # set while the client does not read its responses: no waiting request is started
        self._facing = facing
        self._in_flight_max = in_flight_max
        self._buffer = FrameBuffer(request_bytes_max)
        self._numbers = Numbers()
        self._frames_waiting: deque[bytes] = deque()
        self._slots: deque[_Slot] = deque()
        self._open_slots: dict[int, _Slot] = {}

    @property
    def is_full(self) -> bool:
        """True if no further request of this client may start: too many are in progress, or one must end first."""
        return self.is_held or len(self._slots) >= self._in_flight_max

    @property
    def buffered(self) -> int:
        """How many received bytes belong to requests that are not started yet."""
        return self._buffer.pending + sum(map(len, self._frames_waiting))

    def feed(self, data: bytes, now_ms: int) -> None:
        """Take bytes that a client sent. WireError if its connection must be closed, after `out` is sent."""
        self._frames_waiting.extend(self._buffer.feed(data))
        self._begin_waiting(now_ms)

    def hear(self, answer: Heard, now_ms: int) -> None:
        """Take the answer to one question in `asks`; ignored if the client's request is already answered."""
        slot = self._open_slots.pop(answer.correlation, None)
        if slot is not None and slot.response is None:
            self._advance_exchange(slot, answer, now_ms)
            self._send_ready()
        self._begin_waiting(now_ms)

    def _begin_waiting(self, now_ms: int) -> None:
        """Begin the requests that wait, as many as the session has room for."""
        while self._frames_waiting and not self.is_full:
            self._begin_exchange(self._frames_waiting.popleft(), now_ms)
            self._send_ready()

    def _begin_exchange(self, frame: bytes, now_ms: int) -> None:
        """Start the exchange of one request; ApiVersions in an unknown version is answered as version 0; others end it."""
        header, at = read_request_header(frame)
        if header.api_key == API_VERSIONS and not apis.is_served(header):
            version_0 = RequestHeader(api_key=API_VERSIONS, api_version=0, correlation=header.correlation)
            slot = _Slot(version_0, Call(self._facing, 0, self._numbers, now_ms), _over())
            slot.response = _encoded_response(version_0, apis.UNSUPPORTED)
            self._slots.append(slot)
            return
        if not apis.is_served(header):
            raise WireError(f"API {header.api_key} in version {header.api_version} is not served")
        call = Call(self._facing, header.api_version, self._numbers, now_ms)
        slot = _Slot(header, call, apis.start(header, call, frame, at))
        self._slots.append(slot)
        self._advance_exchange(slot, None, now_ms)

    def _advance_exchange(self, slot: _Slot, answer: Heard | None, now_ms: int) -> None:
        """Go on with an exchange until it waits for a reply of the broker or has its response."""
        slot.call.now_ms = now_ms
        try:
            if answer is None:
                next(slot.exchange)
            else:
                slot.exchange.send(answer)
        except StopIteration as end:
            response = end.value
            slot.response = b"" if response is None else _encoded_response(slot.header, response)
        for ask in slot.call.asks:
            self._open_slots[ask.correlation] = slot
        self.asks += slot.call.asks
        slot.call.asks.clear()

    def _send_ready(self) -> None:
        """Send the responses that are ready, in the order of their requests."""
        while self._slots and self._slots[0].response is not None:
            response = self._slots.popleft().response
            if response:
                self.out.append(response)


def _over() -> Exchange:
    yield from ()
    return None


def _encoded_response(header: RequestHeader, response: Struct) -> bytes:
    start = encode_response_header(header.api_key, header.api_version, header.correlation)
    return encode_frame(start, *write_response(header.api_key, header.api_version, response))
