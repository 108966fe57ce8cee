"""Frames of Kafka's protocol and the headers in them (Kafka protocol guide, KIP-482, KIP-511); sans-IO.

A frame is a length of 4 bytes and that many bytes. A request begins with the key of its API, a version, a correlation id and
the name of the client; a response with the correlation id. From the first flexible version of an API on both headers end with
tagged fields, of which none is known here: they are skipped. Only the response to ApiVersions has the old header in every
version, so that a client can read it whatever the broker speaks (KIP-511).
"""

from msgspec import Struct

from server.wire.versions import API_VERSIONS, is_flexible

_LENGTH_BYTES = 4
_REQUEST_PREFIX_BYTES = 8
_VARINT_BYTES_MAX = 5


class WireError(Exception):
    """Bytes from outside that are no frame, header, entity or record batch as they should be. The message is one line."""


class RequestHeader(Struct, frozen=True, kw_only=True):
    """What stands before the body of a request."""

    api_key: int
    api_version: int
    correlation: int
    client_id: str | None = None


# --- frames ---------------------------------------------------------------------------------------------------------------


class FrameBuffer:
    """Bytes in as they come, whole frames out. It holds what came of the one frame that is not whole yet, and no more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now, without their lengths; WireError where one claims to be longer than the limit.

        After a WireError the connection has lost its place: nothing more may be fed.
        """
        self._bytes += data
        frames = []
        at = 0
        while at + _LENGTH_BYTES <= len(self._bytes):
            length = int.from_bytes(self._bytes[at : at + _LENGTH_BYTES], "big", signed=True)
            if not 0 <= length <= self._limit:
                raise WireError(f"a frame of {length} bytes; from 0 to {self._limit} are taken")
            end = at + _LENGTH_BYTES + length
            if end > len(self._bytes):
                break
            frames.append(bytes(memoryview(self._bytes)[at + _LENGTH_BYTES : end]))
            at = end
        del self._bytes[:at]
        return frames

    @property
    def pending(self) -> int:
        """Bytes of the frame that is not whole yet."""
        return len(self._bytes)


def encode_frame(*parts: bytes) -> bytes:
    """One frame of these bytes."""
    return b"".join((sum(map(len, parts)).to_bytes(_LENGTH_BYTES, "big"), *parts))


# --- headers --------------------------------------------------------------------------------------------------------------


def encode_request_header(header: RequestHeader) -> bytes:
    """The bytes before the body of a request."""
    client = header.client_id
    name = b"" if client is None else client.encode()
    return b"".join(
        (
            header.api_key.to_bytes(2, "big", signed=True),
            header.api_version.to_bytes(2, "big", signed=True),
            header.correlation.to_bytes(4, "big", signed=True),
            # The name keeps the old form in every version, so that any broker can read the header of ApiVersions.
            (-1 if client is None else len(name)).to_bytes(2, "big", signed=True),
            name,
            b"\0" if is_flexible(header.api_key, header.api_version) else b"",
        )
    )


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a request and where its body begins. An API or a version that is not known is the caller's to refuse."""
    if len(frame) < _REQUEST_PREFIX_BYTES + 2:
        raise WireError(f"a request of {len(frame)} bytes has no header")
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    api_version = int.from_bytes(frame[2:4], "big", signed=True)
    correlation = int.from_bytes(frame[4:8], "big", signed=True)
    length = int.from_bytes(frame[8:10], "big", signed=True)
    at = 10 + max(length, 0)
    if length < -1 or at > len(frame):
        raise WireError(f"a client's name of {length} bytes in a request of {len(frame)}")
    try:
        client_id = None if length == -1 else frame[10:at].decode()
    except UnicodeDecodeError:
        raise WireError("a client's name that is not UTF-8") from None
    if is_flexible(api_key, api_version):
        at = skip_tagged_fields(frame, at)
    return RequestHeader(api_key=api_key, api_version=api_version, correlation=correlation, client_id=client_id), at


def encode_response_header(api_key: int, api_version: int, correlation: int) -> bytes:
    """The bytes before the body of a response."""
    flexible = is_flexible(api_key, api_version) and api_key != API_VERSIONS
    return correlation.to_bytes(4, "big", signed=True) + (b"\0" if flexible else b"")


def read_correlation(frame: bytes) -> int:
    """Which request a response answers: only the asker knows of which API and version that was."""
    if len(frame) < 4:
        raise WireError(f"a response of {len(frame)} bytes has no header")
    return int.from_bytes(frame[:4], "big", signed=True)


def response_body_at(frame: bytes, api_key: int, api_version: int) -> int:
    """Where the body of a response begins."""
    if is_flexible(api_key, api_version) and api_key != API_VERSIONS:
        return skip_tagged_fields(frame, 4)
    return 4


# --- what both are made of -------------------------------------------------------------------------------------------------


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits (KIP-482), and where it ends; at most 32 bits."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(data):
            raise WireError("a number is cut short")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 32:
                break
            return value, at + index + 1
    raise WireError("a number of more than 32 bits")


def skip_tagged_fields(data: bytes, at: int) -> int:
    """Where tagged fields end, of which none is known: whoever knows fewer than the sender skips them (KIP-482)."""
    fields, at = read_varint(data, at)
    for _ in range(fields):
        _, at = read_varint(data, at)
        size, at = read_varint(data, at)
        at += size
        if at > len(data):
            raise WireError("a tagged field is cut short")
    return at
