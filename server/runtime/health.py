"""Health check by a client's Metadata request: a broker serves if it lists itself, i.e. is registered and not fenced (R-186)."""

import socket
from typing import TypeVar

from msgspec import Struct

from reference.types import BrokerId
from server.wire.clients.apis import ApiKey
from server.wire.clients.metadata import MetadataRequest, MetadataResponse
from server.wire.entities import read_response, write_request
from server.wire.framing import (
    RequestHeader,
    WireError,
    encode_frame,
    encode_request_header,
    read_correlation,
    response_body_at,
)

S = TypeVar("S", bound=Struct)
TIMEOUT_S = 2.0
_VERSION = 8
_RESPONSE_BYTES_MAX = 16 * 1024 * 1024
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # a listener bound to all addresses is reached at this one


def is_serving(where: tuple[str, int], broker: BrokerId) -> bool:
    """True if the broker that listens there lists itself in its metadata; False too if it does not answer."""
    try:
        response = told_by((_EVERYWHERE.get(where[0], where[0]), where[1]), MetadataRequest(topics=()))
    except (OSError, WireError):
        return False
    return any(metadata_broker.node_id == broker for metadata_broker in response.brokers)


def told_by(where: tuple[str, int], question: MetadataRequest) -> MetadataResponse:
    """Ask a broker for its metadata. OSError if it does not answer within TIMEOUT_S, WireError for a malformed response."""
    return ask(where, ApiKey.METADATA, _VERSION, question, MetadataResponse)


def ask(where: tuple[str, int], api: int, version: int, question: Struct, kind: type[S], *, timeout_s: float = TIMEOUT_S) -> S:
    """Send a broker one request over a new connection; return the response, decoded as `kind`. Errors as for `told_by`."""
    header = RequestHeader(api_key=api, api_version=version, correlation=1, client_id="health")
    request = write_request(header.api_key, header.api_version, question)
    with socket.create_connection(where, timeout_s) as connection:
        connection.sendall(encode_frame(encode_request_header(header), *request))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            if size > _RESPONSE_BYTES_MAX:
                raise WireError(f"response size must be at most {_RESPONSE_BYTES_MAX} bytes, not {size}")
            frame = stream.read(size)
    if read_correlation(frame) != header.correlation:
        raise WireError("response has a correlation id other than the request's")
    at = response_body_at(frame, header.api_key, header.api_version)
    return read_response(header.api_key, header.api_version, kind, frame, at)
