"""Splits the bytes between two brokers into frames, each with the kind of its message as plans name it ("fetch").

A response does not name its API. Its correlation id is looked up among the requests of the same connection.
"""

from collections.abc import Iterator

from highwater.backends.real.processes.proxy import Divide
from highwater.plans.plan import kebab
from server.runtime.transport import FRAME_BYTES_MAX
from server.wire.codec import APIS
from server.wire.framing import FrameBuffer, WireError, encode_frame, read_correlation, read_request_header

KINDS = {int(api): kebab(message.__name__) for message, api in APIS.items()}
OPEN_MAX = 10_000  # unanswered requests that are remembered; then the oldest is dropped


def between_brokers() -> tuple[Divide, Divide]:
    """The two readers of a new connection between brokers: one for its requests, one for the responses."""
    open_requests: dict[int, str] = {}
    return _Reader(open_requests, answers=False).read, _Reader(open_requests, answers=True).read


class _Reader:
    def __init__(self, asked: dict[int, str], *, answers: bool) -> None:
        self._asked = asked
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
            yield self._kind(frame), encode_frame(frame)

    def _kind(self, frame: bytes) -> str:
        """The kind of a frame; an answer's kind follows from the request with its correlation id. "" if it is unknown."""
        try:
            if self._answers:
                request_kind = self._asked.pop(read_correlation(frame), None)
                return "" if request_kind is None else f"{request_kind}-reply"
            header = read_request_header(frame)[0]
        except WireError:
            return ""
        kind = KINDS.get(header.api_key, "")
        self._asked[header.correlation] = kind
        if len(self._asked) > OPEN_MAX:
            del self._asked[next(iter(self._asked))]
        return kind
