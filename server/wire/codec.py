"""Encodes and decodes messages between brokers: one message is one Kafka request, its reply is the response.

Decoding a request needs its header. Encoding and decoding a response need the request and its version; the sender of the request
keeps both by correlation id, and so does the receiver. Malformed bytes raise WireError.
"""

from typing import assert_never, cast

from msgspec import Struct

from reference.config import NEWEST, Protocol, Release
from reference.messages import (
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    LogInfo,
    LogInfoReply,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    ReplicationRequest,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from server.wire import control, frames, proposals, replication
from server.wire.control import NOBODY, Sender
from server.wire.framing import (
    RequestHeader,
    WireError,
    encode_frame,
    encode_request_header,
    encode_response_header,
    response_body_at,
)
from server.wire.layouts import read_layout, write_layout
from server.wire.replication import Names
from server.wire.versions import Api, is_flexible, is_known, sent_by

NodeRequest = Fetch | EpochEnd | LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo | MetadataHeartbeat | IsrChange
NodeReply = (
    FetchReply
    | EpochEndReply
    | LeaderAndIsrReply
    | StopReplicaReply
    | UpdateMetadataReply
    | LogInfoReply
    | MetadataHeartbeatReply
    | IsrChangeReply
)

OwnRequest = LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo | MetadataHeartbeat | IsrChange

APIS: dict[type[NodeRequest], Api] = {
    Fetch: Api.FETCH,
    EpochEnd: Api.OFFSET_FOR_LEADER_EPOCH,
    LeaderAndIsr: Api.LEADER_AND_ISR,
    StopReplica: Api.STOP_REPLICA,
    UpdateMetadata: Api.UPDATE_METADATA,
    LogInfo: Api.LOG_INFO,
    MetadataHeartbeat: Api.METADATA_HEARTBEAT,
    IsrChange: Api.ISR_CHANGE,
}
# The layouts of each of our own requests and of its response, by version; the last one is the message itself, with all fields.
LAYOUTS: dict[type[OwnRequest], tuple[tuple[type[Struct], type[Struct]], ...]] = {
    LeaderAndIsr: (
        (frames.LeaderAndIsrV3, frames.V3Response),
        (frames.LeaderAndIsrKip112, LeaderAndIsrReply),
        (LeaderAndIsr, LeaderAndIsrReply),
    ),
    StopReplica: ((frames.StopReplicaV3, frames.V3Response), (StopReplica, StopReplicaReply)),
    UpdateMetadata: ((frames.UpdateMetadataKip112, UpdateMetadataReply), (UpdateMetadata, UpdateMetadataReply)),
    LogInfo: ((LogInfo, LogInfoReply),),
    MetadataHeartbeat: ((frames.HeartbeatKip343, frames.HeartbeatResponseKip343),),
    IsrChange: ((frames.IsrChangeKip343, frames.IsrChangeResponseKip343), (IsrChange, IsrChangeReply)),
}
_OWN = {APIS[kind]: kind for kind in LAYOUTS}


class Dialect(Struct, frozen=True, kw_only=True):
    """What a broker speaks and understands: its setting, its code, and what the documents' layouts have beside a message."""

    protocol: Protocol = NEWEST
    release: Release = NEWEST
    sender: Sender = NOBODY


TODAY = Dialect()


def version_of(request: NodeRequest, protocol: Protocol = NEWEST) -> int:
    """The API version in which a broker that speaks this protocol sends the request; for Fetch it depends on the topic id."""
    return replication.version_of(request) if isinstance(request, Fetch) else sent_by(protocol, APIS[type(request)])


# --- requests -------------------------------------------------------------------------------------------------------------


def request_frame(
    request: NodeRequest, *, version: int | None = None, client_id: str | None = None, sender: Sender = NOBODY
) -> bytes:
    """Encode a request to another broker as a frame. A value that does not fit its field is a bug: struct.error.

    `sender` says what the layouts of the documents have beside the message.
    """
    number = version_of(request) if version is None else version
    header = RequestHeader(api_key=APIS[type(request)], api_version=number, correlation=request.correlation, client_id=client_id)
    return encode_frame(encode_request_header(header), *_request_body(request, number, sender))


def _request_body(request: NodeRequest, version: int, sender: Sender) -> list[bytes]:
    """A request without its header; replication requests have their own writer."""
    match request:
        case Fetch():
            return replication.write_fetch(request, version)
        case EpochEnd():
            return replication.write_epoch_end(request)
        case _:
            layout, _ = LAYOUTS[type(request)][version]
            entity = request if isinstance(request, layout) else _frame_of(request, version, sender)
            return write_layout(entity, flexible=is_flexible(APIS[type(request)], version))


def _frame_of(request: OwnRequest, version: int, sender: Sender) -> Struct:
    """Convert a request to the layout of a document."""
    match request:
        case LeaderAndIsr() | StopReplica() | UpdateMetadata():
            return control.frame_of(request, version, sender)
        case MetadataHeartbeat() | IsrChange():
            return proposals.frame_of(request)
        case LogInfo():
            raise AssertionError("LogInfo is in no document")
        case _:
            assert_never(request)


def read_request(header: RequestHeader, frame: bytes, at: int, names: Names, release: Release = NEWEST) -> NodeRequest:
    """Decode another broker's request from position `at`. WireError if malformed, or in a version that the release has not."""
    if not is_known(release, header.api_key, header.api_version):
        raise WireError(f"API {header.api_key} version {header.api_version} is not used between brokers of release {release}")
    api = Api(header.api_key)
    version = header.api_version
    if api is Api.FETCH:
        return replication.read_fetch(header.correlation, version, frame, at, names)
    if api is Api.OFFSET_FOR_LEADER_EPOCH:
        return replication.read_epoch_end(header.correlation, frame, at)
    layout, _ = LAYOUTS[_OWN[api]][version]
    request = read_layout(layout, header.correlation, frame, at, flexible=is_flexible(api, version))
    match request:
        case LeaderAndIsr() | StopReplica() | UpdateMetadata() | LogInfo() | IsrChange():
            return request
        case frames.HeartbeatKip343() | frames.IsrChangeKip343():
            return proposals.proposal_of(header.correlation, request)
        case _:
            return control.command_of(header.correlation, cast(control.CommandFrame, request))


# --- responses ------------------------------------------------------------------------------------------------------------


def reply_frame(request: NodeRequest, version: int, reply: NodeReply) -> bytes:
    """Encode the response to another broker's request of this version as a frame."""
    header = encode_response_header(APIS[type(request)], version, request.correlation)
    return encode_frame(header, *_reply_body(request, version, reply))


def _reply_body(request: NodeRequest, version: int, reply: NodeReply) -> list[bytes]:
    """A response without its header, in the layout that answers this request in this version."""
    match request, reply:
        case Fetch(), FetchReply():
            return replication.write_fetch_reply(request, version, reply)
        case EpochEnd(), EpochEndReply():
            return replication.write_epoch_end_reply(request, reply)
        case LeaderAndIsr() | StopReplica(), LeaderAndIsrReply() | StopReplicaReply() if version == 0:
            entity: Struct = control.answer_frame(request, reply)
        case MetadataHeartbeat() | IsrChange(), MetadataHeartbeatReply() | IsrChangeReply() if version == 0:
            entity = proposals.decision_frame(reply)
        case _:
            entity = reply
    fits = not isinstance(request, ReplicationRequest) and isinstance(entity, LAYOUTS[type(request)][version][1])
    assert fits, f"{type(reply).__name__} cannot answer {type(request).__name__}"
    return write_layout(entity, flexible=is_flexible(APIS[type(request)], version))


def read_reply(request: NodeRequest, version: int, frame: bytes) -> NodeReply:
    """Decode the response to a request that was sent in this version."""
    at = response_body_at(frame, APIS[type(request)], version)
    match request:
        case Fetch():
            return replication.read_fetch_reply(request, version, frame, at)
        case EpochEnd():
            return replication.read_epoch_end_reply(request, frame, at)
        case _:
            _, layout = LAYOUTS[type(request)][version]
            reply = read_layout(layout, request.correlation, frame, at, flexible=is_flexible(APIS[type(request)], version))
    match reply:
        case frames.V3Response():
            assert isinstance(request, LeaderAndIsr | StopReplica)
            return control.answer_of(request, reply)
        case frames.HeartbeatResponseKip343() | frames.IsrChangeResponseKip343():
            return proposals.decision_of(request.correlation, reply)
        case _:
            return cast(NodeReply, reply)
