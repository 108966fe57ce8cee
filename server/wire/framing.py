"""Frames of Kafka's protocol and the headers in them, without sockets (Kafka protocol guide, KIP-482, KIP-511).

A frame is a length of 4 bytes and that many bytes. A request begins with API key, API version, correlation id and client id; a
response begins with the correlation id. From the first flexible version of an API on, both headers end with tagged fields. This
broker knows no tagged field of a header and skips them. The response to ApiVersions has the old header in every version, so that
any client can read it (KIP-511).
"""

from msgspec import Struct

from server.wire.versions import API_VERSIONS, is_flexible

_LENGTH_BYTES = 4
_REQUEST_PREFIX_BYTES = 8
_VARINT_BYTES_MAX = 5


class WireError(Exception):
    """Bytes from outside that are not a valid frame, header, body or record batch. The message is one line."""


class RequestHeader(Struct, frozen=True, kw_only=True):
    """The header of a request; `client_id` may be null."""

    api_key: int
    api_version: int
    correlation: int
    client_id: str | None = None


# --- frames ---------------------------------------------------------------------------------------------------------------


class FrameBuffer:
    """Splits a stream of bytes into frames. Between calls it holds only the bytes of one incomplete frame."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the frames that they complete, without their lengths.

        WireError if a frame claims to be longer than the limit. Then the next frame cannot be found: do not feed more.
        """
        self._bytes += data
        frames = []
        at = 0
        while at + _LENGTH_BYTES <= len(self._bytes):
            length = int.from_bytes(self._bytes[at : at + _LENGTH_BYTES], "big", signed=True)
            if not 0 <= length <= self._limit:
                raise WireError(f"frame size must be from 0 to {self._limit} bytes, not {length}")
            end = at + _LENGTH_BYTES + length
            if end > len(self._bytes):
                break
            frames.append(bytes(memoryview(self._bytes)[at + _LENGTH_BYTES : end]))
            at = end
        del self._bytes[:at]
        return frames

    @property
    def pending(self) -> int:
        """Number of bytes held of the incomplete frame."""
        return len(self._bytes)


def encode_frame(*parts: bytes) -> bytes:
    """Join the parts to one frame, with its length before it."""
    return b"".join((sum(map(len, parts)).to_bytes(_LENGTH_BYTES, "big"), *parts))


# --- headers --------------------------------------------------------------------------------------------------------------


def encode_request_header(header: RequestHeader) -> bytes:
    """The header of a request, without the length of the frame."""
    client = header.client_id
    name = b"" if client is None else client.encode()
    return b"".join(
        (
            header.api_key.to_bytes(2, "big", signed=True),
            header.api_version.to_bytes(2, "big", signed=True),
            header.correlation.to_bytes(4, "big", signed=True),
            # The client id has an old-style length in every version, so that any broker can read the header of ApiVersions.
            (-1 if client is None else len(name)).to_bytes(2, "big", signed=True),
            name,
            b"\0" if is_flexible(header.api_key, header.api_version) else b"",
        )
    )


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Read the header of a request, and the position of its body. The caller must refuse unknown APIs and versions."""
    if len(frame) < _REQUEST_PREFIX_BYTES + 2:
        raise WireError(f"request must have at least {_REQUEST_PREFIX_BYTES + 2} bytes, not {len(frame)}")
    api_key = int.from_bytes(frame[:2], "big", signed=True)
    api_version = int.from_bytes(frame[2:4], "big", signed=True)
    correlation = int.from_bytes(frame[4:8], "big", signed=True)
    length = int.from_bytes(frame[8:10], "big", signed=True)
    at = 10 + max(length, 0)
    if length < -1 or at > len(frame):
        raise WireError(f"client id of {length} bytes in a request of {len(frame)} bytes")
    try:
        client_id = None if length == -1 else frame[10:at].decode()
    except UnicodeDecodeError:
        raise WireError("client id is not UTF-8") from None
    if is_flexible(api_key, api_version):
        at = skip_tagged_fields(frame, at)
    return RequestHeader(api_key=api_key, api_version=api_version, correlation=correlation, client_id=client_id), at


def encode_response_header(api_key: int, api_version: int, correlation: int) -> bytes:
    """The header of a response, without the length of the frame."""
    flexible = is_flexible(api_key, api_version) and api_key != API_VERSIONS
    return correlation.to_bytes(4, "big", signed=True) + (b"\0" if flexible else b"")


def read_correlation(frame: bytes) -> int:
    """The correlation id of a response; only the sender of the request knows its API and version."""
    if len(frame) < 4:
        raise WireError(f"response must have at least 4 bytes, not {len(frame)}")
    return int.from_bytes(frame[:4], "big", signed=True)


def response_body_at(frame: bytes, api_key: int, api_version: int) -> int:
    """The position at which the body of a response begins."""
    if is_flexible(api_key, api_version) and api_key != API_VERSIONS:
        return skip_tagged_fields(frame, 4)
    return 4


# --- varints and tagged fields -----------------------------------------------------------------------------------------------


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits (KIP-482); also returns the position behind it."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(data):
            raise WireError("varint is cut short")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if value >= 1 << 32:
                break
            return value, at + index + 1
    raise WireError("varint has more than 32 bits")


def skip_tagged_fields(data: bytes, at: int) -> int:
    """Skip tagged fields, none of which is known here (KIP-482); returns the position behind them."""
    fields, at = read_varint(data, at)
    for _ in range(fields):
        _, at = read_varint(data, at)
        size, at = read_varint(data, at)
        at += size
        if at > len(data):
            raise WireError("tagged field is cut short")
    return at
