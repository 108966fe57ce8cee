"""The table of the client APIs: key, versions, and the function that answers. ApiVersions returns it (KIP-35, KIP-511).

Only ApiVersions and the two APIs of KIP-455 have flexible versions: librdkafka's Metadata from version 9 on is malformed, and
no feature served here needs a later version. APIs outside the table are neither listed nor answered.
"""

from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from server.wire.clients import fetch, metadata, moves, offsets, produce, topics
from server.wire.clients.errors import EdgeError
from server.wire.clients.exchange import Call, Exchange
from server.wire.entities import read_request
from server.wire.framing import RequestHeader


class ApiKey(IntEnum):
    """The keys of the client APIs, with Kafka's numbers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_LOG_DIRS = 35
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46


class ApiVersion(Struct, frozen=True):
    """The versions of one API, from `min_version` to `max_version`."""

    api_key: int
    min_version: int
    max_version: int


class ApiVersionsRequest(Struct, frozen=True):
    """An ApiVersions request; the client's name and version are not read."""


class ApiVersionsResponse(Struct, frozen=True):
    """The fields of an ApiVersions response that are set."""

    error_code: int
    api_keys: tuple[ApiVersion, ...]


def _api_versions(call: Call, request: ApiVersionsRequest) -> Exchange:
    yield from ()
    return ApiVersionsResponse(0, VERSIONS)


class _Api(Struct, frozen=True):
    key: ApiKey
    min_version: int
    max_version: int
    start: Callable[[Call, bytes, int], Exchange]


def _api_of(key: ApiKey, versions: tuple[int, int], kind: type[Struct], exchange: Callable[..., Exchange]) -> _Api:
    """The API with an exchange that begins by decoding a request of this kind."""

    def start(call: Call, frame: bytes, at: int) -> Exchange:
        return exchange(call, read_request(key, call.version, kind, frame, at))

    return _Api(key, *versions, start)


_APIS = (
    _api_of(ApiKey.PRODUCE, (3, 8), produce.ProduceRequest, produce.produce),
    _api_of(ApiKey.FETCH, (4, 11), fetch.FetchRequest, fetch.fetch),
    _api_of(ApiKey.LIST_OFFSETS, (1, 5), offsets.ListOffsetsRequest, offsets.list_offsets),
    _api_of(ApiKey.METADATA, (4, 8), metadata.MetadataRequest, metadata.metadata),
    _api_of(ApiKey.FIND_COORDINATOR, (0, 2), metadata.FindCoordinatorRequest, metadata.find_coordinator),
    _api_of(ApiKey.API_VERSIONS, (0, 3), ApiVersionsRequest, _api_versions),
    _api_of(ApiKey.CREATE_TOPICS, (2, 4), topics.CreateTopicsRequest, topics.create_topics),
    _api_of(ApiKey.DELETE_TOPICS, (1, 3), topics.DeleteTopicsRequest, topics.delete_topics),
    _api_of(ApiKey.INIT_PRODUCER_ID, (0, 1), metadata.InitProducerIdRequest, metadata.init_producer_id),
    _api_of(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 3), offsets.EpochRequest, offsets.epoch_ends),
    _api_of(ApiKey.DESCRIBE_LOG_DIRS, (0, 1), moves.DescribeRequest, moves.describe_dirs),
    _api_of(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 0), moves.AlterRequest, moves.alter),
    _api_of(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), moves.ListRequest, moves.list_moves),
)
_BY_KEY: dict[int, _Api] = {api.key: api for api in _APIS}
VERSIONS = tuple(ApiVersion(api.key, api.min_version, api.max_version) for api in _APIS)

# KIP-511: an unknown version of ApiVersions is answered in version 0, with the supported versions.
UNSUPPORTED = ApiVersionsResponse(EdgeError.UNSUPPORTED_VERSION, VERSIONS)


def is_served(header: RequestHeader) -> bool:
    """True if this client API is served in this version."""
    api = _BY_KEY.get(header.api_key)
    return api is not None and api.min_version <= header.api_version <= api.max_version


def start(header: RequestHeader, call: Call, frame: bytes, at: int) -> Exchange:
    """Decode a client's request and begin to answer it; WireError if its body is malformed."""
    return _BY_KEY[header.api_key].start(call, frame, at)
