"""Does a broker serve? Asked as a client asks: it is registered and not fenced when it lists itself among the brokers (R-186)."""

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
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # what is bound to all addresses is asked at this one


def is_serving(where: tuple[str, int], broker: BrokerId) -> bool:
    """Is this broker, whose clients come in there, a broker of its cluster, to its own knowledge? No answer is a no."""
    try:
        response = told_by((_EVERYWHERE.get(where[0], where[0]), where[1]), MetadataRequest(topics=()))
    except (OSError, WireError):
        return False
    return any(found.node_id == broker for found in response.brokers)


def told_by(where: tuple[str, int], question: MetadataRequest) -> MetadataResponse:
    """What the broker there tells clients. OSError where nobody answers within TIMEOUT_S, WireError for no such answer."""
    return ask(where, ApiKey.METADATA, _VERSION, question, MetadataResponse)


def ask(where: tuple[str, int], api: ApiKey, version: int, question: Struct, kind: type[S]) -> S:
    """One request over a connection of its own, and the response to it, of that kind; errors as of `told_by`."""
    header = RequestHeader(api_key=api, api_version=version, correlation=1, client_id="health")
    request = write_request(header.api_key, header.api_version, question)
    with socket.create_connection(where, TIMEOUT_S) as connection:
        connection.sendall(encode_frame(encode_request_header(header), *request))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(stream.read(4), "big")
            if size > _RESPONSE_BYTES_MAX:
                raise WireError(f"a response of {size} bytes")
            frame = stream.read(size)
    if read_correlation(frame) != header.correlation:
        raise WireError("the answer to another question")
    at = response_body_at(frame, header.api_key, header.api_version)
    return read_response(header.api_key, header.api_version, kind, frame, at)
