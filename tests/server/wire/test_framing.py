"""Frames and headers: they round-trip, kio reads them, and malformed bytes raise only WireError."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import ListPartitionReassignmentsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kio.index import load_request_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader

from server.wire.framing import (
    FrameBuffer,
    RequestHeader,
    WireError,
    encode_frame,
    encode_request_header,
    encode_response_header,
    read_correlation,
    read_request_header,
    read_varint,
    response_body_at,
    skip_tagged_fields,
)
from server.wire.versions import FLEXIBLE_FROM, is_flexible

HEADERS = st.builds(
    RequestHeader,
    api_key=st.integers(0, 1010),
    api_version=st.integers(0, 20),
    correlation=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=20),
)


@given(frames=st.lists(st.binary(max_size=50), max_size=6), cuts=st.lists(st.integers(0, 400), max_size=8))
def test_kafka_frames_are_found_however_the_bytes_are_split(frames: list[bytes], cuts: list[int]) -> None:
    data = b"".join(encode_frame(frame) for frame in frames)
    buffer = FrameBuffer(50)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    frames_found = [frame for lo, hi in pairwise(edges) for frame in buffer.feed(data[lo:hi])]
    assert frames_found == frames
    assert buffer.pending == 0


@pytest.mark.parametrize("length", [b"\x00\x00\x00\x65", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_frame_size_out_of_bounds_is_refused_at_once(length: bytes) -> None:
    """A port scanner's GET reads as a frame of 1.2 GB: no memory may be allocated for it."""
    with pytest.raises(WireError, match="frame size"):
        FrameBuffer(100).feed(length)


def test_frame_of_the_maximum_size_is_accepted() -> None:
    assert FrameBuffer(100).feed(encode_frame(b"x" * 60, b"y" * 40)) == [b"x" * 60 + b"y" * 40]


@given(header=HEADERS, body=st.binary(max_size=20))
def test_request_header_round_trips(header: RequestHeader, body: bytes) -> None:
    data = encode_request_header(header)
    assert read_request_header(data + body) == (header, len(data))


@given(header=HEADERS, correlation=st.integers(-(2**31), 2**31 - 1), body=st.binary(max_size=20))
def test_response_header_round_trips(header: RequestHeader, correlation: int, body: bytes) -> None:
    data = encode_response_header(header.api_key, header.api_version, correlation) + body
    assert read_correlation(data) == correlation
    assert data[response_body_at(data, header.api_key, header.api_version) :] == body


@given(data=st.binary(max_size=40))
def test_any_bytes_give_a_header_or_a_wire_error(data: bytes) -> None:
    try:
        header, at = read_request_header(data)
    except WireError:
        return
    assert 0 <= at <= len(data)
    assert header.api_key == int.from_bytes(data[:2], "big", signed=True)


@pytest.mark.slow
def test_flexible_api_versions_equal_those_of_library_kio() -> None:
    """A wrong header form shifts every byte behind it, so each version that kio has is compared."""
    compared = 0
    for key in api_key_map:
        for version in range(20):
            try:
                schema = load_request_schema(key, version)
            except Exception:  # noqa: BLE001 - kio raises various errors for a missing version
                continue
            if key in FLEXIBLE_FROM:
                assert is_flexible(key, version) == schema.__flexible__, (key, version)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize(
    ("request_", "key", "version"),
    [
        (MetadataRequest[5](topics=["t"], allow_auto_topic_creation=False), 3, 5),
        (ApiVersionsRequest[3](client_software_name="x", client_software_version="1"), 18, 3),
        (ListPartitionReassignmentsRequest[0](timeout_ms=1000, topics=None), 46, 0),
    ],
)
def test_kafka_python_request_headers_are_read(request_: object, key: int, version: int) -> None:
    request_.with_header(correlation_id=77, client_id="some client")  # type: ignore[attr-defined]
    data: bytes = request_.encode(header=True)  # type: ignore[attr-defined]
    header, at = read_request_header(data)
    assert header == RequestHeader(api_key=key, api_version=version, correlation=77, client_id="some client")
    body = bytes(data[at:])
    assert entity_reader(load_request_schema(key, version))(body, 0)[1] == len(body)


def test_api_versions_response_has_the_old_header() -> None:
    """KIP-511: the client does not know the broker's versions yet."""
    assert encode_response_header(18, 3, 1) == b"\0\0\0\1"
    assert encode_response_header(3, 9, 1) == b"\0\0\0\1\0"


def test_unknown_tagged_fields_are_skipped() -> None:
    data = b"\x02\x00\x01a\x07\x03abc" + b"rest"
    assert skip_tagged_fields(data, 0) == len(data) - 4


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01\x00\x05ab", b"\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f", b"\x80"])
def test_malformed_tagged_fields_raise_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        skip_tagged_fields(data, 0)


def test_varint_of_five_bytes_is_read() -> None:
    assert read_varint(b"\xff\xff\xff\xff\x0f\x00", 0) == (2**32 - 1, 5)
