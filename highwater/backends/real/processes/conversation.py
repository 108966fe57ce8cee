"""Splits the bytes between a client or broker and a broker into frames, each with the kind of its message as plans name it.

A response does not name its API. Its correlation id is looked up among the requests of the same connection.
"""

from collections.abc import Iterator, Mapping

from highwater.backends.real.processes.proxy import Divide
from highwater.plans.plan import kebab
from nemesis import messages
from nemesis.messages import REPLY
from reference.messages import Fetch
from server.wire.codec import APIS
from server.wire.framing import FrameBuffer, WireError, encode_frame, read_correlation

OF_REFERENCE = {int(api): kebab(message.__name__) for message, api in APIS.items()}  # between its brokers
KINDS = {**messages.KINDS, **OF_REFERENCE}
_OF_QUORUM = {**KINDS, int(APIS[Fetch]): messages.QUORUM_FETCH}
FRAME_BYTES_MAX = 128 * 1024 * 1024  # above Kafka's socket.request.max.bytes
OPEN_MAX = 10_000  # unanswered requests that are remembered; then the oldest is dropped
_HEAD_BYTES = 8  # of a request, up to its correlation id


def of_kafka() -> tuple[Divide, Divide]:
    """The two readers of a new connection of a client or a broker: one for its requests, one for the responses."""
    return _readers(KINDS)


def of_quorum() -> tuple[Divide, Divide]:
    """The two readers of a new connection of a broker or a controller to a controller."""
    return _readers(_OF_QUORUM)


def _readers(kinds: Mapping[int, str]) -> tuple[Divide, Divide]:
    open_requests: dict[int, str] = {}
    return _Reader(kinds, open_requests, answers=False).read, _Reader(kinds, open_requests, answers=True).read


class _Reader:
    def __init__(self, kinds: Mapping[int, str], asked: dict[int, str], *, answers: bool) -> None:
        self._kinds = kinds
        self._kind_by_correlation = asked
        self._answers = answers
        self._buffer: FrameBuffer | None = FrameBuffer(FRAME_BYTES_MAX)

    def read(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield whole frames with the kinds of their messages. After bytes that are no frame, yield the rest as kind ""."""
        if self._buffer is None:
            yield "", data
            return
        try:
            frames = self._buffer.feed(data)
        except WireError:
            self._buffer = None
            yield "", data
            return
        for frame in frames:
            yield self._kind_of_frame(frame), encode_frame(frame)

    def _kind_of_frame(self, frame: bytes) -> str:
        """The kind of a frame; an answer's kind follows from the request with its correlation id. "" if it is unknown."""
        if self._answers:
            kind_asked = self._kind_by_correlation.pop(read_correlation(frame), None) if len(frame) >= _HEAD_BYTES // 2 else None
            return f"{kind_asked}{REPLY}" if kind_asked else ""
        if len(frame) < _HEAD_BYTES:
            return ""
        kind = self._kinds.get(int.from_bytes(frame[:2], "big", signed=True), "")
        self._kind_by_correlation[int.from_bytes(frame[4:8], "big", signed=True)] = kind
        if len(self._kind_by_correlation) > OPEN_MAX:
            del self._kind_by_correlation[next(iter(self._kind_by_correlation))]
        return kind
