"""One client connection: recorded requests of stock clients, order of responses, malformed requests."""

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.serial import entity_reader

from reference.messages import Fetch, Metadata, Produce
from reference.types import TopicPartition
from server.wire.clients import metadata
from server.wire.clients.apis import VERSIONS, ApiKey, ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from server.wire.framing import WireError, encode_frame, response_body_at
from server.wire.versions import is_flexible
from tests.server.wire.talking import ORDERS, Connection, StockRequest, cluster, correlations, state, stock_requests

STOCK = stock_requests()
EVERYTHING = cluster(state(ORDERS), state(TopicPartition("orders-1")))
ALL_TOPICS = metadata.MetadataRequest(topics=None)


@pytest.mark.parametrize("sent", STOCK, ids=[f"{s.client}-{s.api}-{s.version}-{n}" for n, s in enumerate(STOCK)])
def test_recorded_stock_requests_are_answered_in_their_version(sent: StockRequest) -> None:
    """kio reads each response to its last byte."""
    connection = Connection(EVERYTHING)
    connection.feed(encode_frame(sent.frame))
    connection.answer_all()
    key = int.from_bytes(sent.frame[:2], "big")
    version = sent.version
    if key == ApiKey.PRODUCE and b"\xff\xff\x00\x00\x00\x00" in sent.frame[:40]:  # acks=0
        assert connection.frames() == []
        return
    (frame,) = connection.frames()
    if (key, version) == (ApiKey.API_VERSIONS, 4):
        version = 0

    assert frame[:4] == sent.frame[4:8]
    at = response_body_at(frame, key, version)
    assert entity_reader(load_response_schema(key, version))(frame, at)[1] == len(frame) - at


def test_produced_batch_reaches_the_machine_unchanged() -> None:
    """The records are not decoded: the message has every byte of the batch."""
    for sent in STOCK:
        if sent.api == "Produce":
            connection = Connection(EVERYTHING)
            connection.feed(encode_frame(sent.frame))
            (ask,) = connection.asks()
            assert isinstance(ask, Produce)
            assert isinstance(ask.values, bytes)
            assert ask.values in sent.frame
            assert ask.tp == ORDERS


@pytest.mark.parametrize("version", [4, 5, 99])
def test_api_versions_in_unknown_version_is_answered_in_0(version: int) -> None:
    """KIP-511: the response has error 35 and the supported versions."""
    connection = Connection(EVERYTHING)
    connection.feed(encode_frame(b"\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff\x00whatever"))

    answer = connection.response(ApiKey.API_VERSIONS, 0, ApiVersionsResponse)
    assert answer.error_code == 35
    assert answer.api_keys == VERSIONS


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_api_versions_lists_exactly_the_served_versions(version: int) -> None:
    answer = Connection(EVERYTHING).call(ApiKey.API_VERSIONS, version, ApiVersionsRequest(), ApiVersionsResponse)

    assert answer == ApiVersionsResponse(0, VERSIONS)


def test_responses_come_in_the_order_of_the_requests() -> None:
    """Clients rely on the order; the machine may answer in any order."""
    connection = Connection(EVERYTHING)
    for _ in range(3):
        connection.send(ApiKey.METADATA, 8, ALL_TOPICS)
    first, second, third = connection.asks()
    connection.hear(EVERYTHING(third))
    connection.hear(EVERYTHING(second))
    early = connection.frames()
    connection.hear(EVERYTHING(first))

    assert early == []
    assert correlations(connection.frames()) == [1, 2, 3]


def test_client_session_limits_requests_in_progress() -> None:
    connection = Connection(EVERYTHING, in_flight=2)
    for _ in range(5):
        connection.send(ApiKey.METADATA, 8, ALL_TOPICS)

    assert connection.session.is_full
    assert connection.session.buffered > 0
    assert len(connection.asks()) == 2
    connection.hear(EVERYTHING(Metadata(1)))
    assert len(connection.asks()) == 1
    connection.session.is_held = True  # the client does not read
    connection.hear(EVERYTHING(Metadata(2)))
    assert connection.asks() == []
    connection.session.is_held = False
    connection.hear(EVERYTHING(Metadata(99)))
    connection.answer_all()
    connection.hear(EVERYTHING(Metadata(3)))
    connection.answer_all()
    assert correlations(connection.frames()) == [1, 2, 3, 4, 5]
    assert connection.session.buffered == 0


def test_late_answer_to_a_finished_client_request_is_dropped() -> None:
    connection = Connection(EVERYTHING)
    connection.hear(EVERYTHING(Metadata(5)))
    connection.send(ApiKey.METADATA, 8, ALL_TOPICS)
    connection.answer_all()
    connection.hear(EVERYTHING(Metadata(1)))

    assert len(connection.frames()) == 1


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x08\x00\x00\x00\x01",  # without a client id
        b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff\x00\x00",  # a version that is not listed
        b"\x00\x04\x00\x01\x00\x00\x00\x01\xff\xff",  # LeaderAndIsr is not for clients
        b"\x03\xe8\x00\x00\x00\x00\x00\x01\xff\xff",  # nor are our own APIs
        b"\x00\x03\x00\x08\x00\x00\x00\x01\xff\xff\x7f\xff\xff\xff",  # 2^31 topics
        b"\x00\x03\x00\x08\x00\x00\x00\x01\x7f\xff",
    ],
)
def test_unanswerable_request_closes_the_connection(frame: bytes) -> None:
    with pytest.raises(WireError):
        Connection(EVERYTHING).feed(encode_frame(frame))


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", (100_001).to_bytes(4, "big")])
def test_long_frame_is_refused_before_its_bytes_arrive(length: bytes) -> None:
    with pytest.raises(WireError):
        Connection(EVERYTHING).feed(length)


@given(st.sampled_from(STOCK), st.data())
def test_damaged_request_is_answered_or_closes_the_connection(sent: StockRequest, data: st.DataObject) -> None:
    """Only WireError may be raised, and there is at most one response."""
    frame = bytearray(sent.frame)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        frame[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(frame), len(frame), data.draw(st.integers(0, len(frame)))]))
    connection = Connection(EVERYTHING)
    with suppress(WireError):
        connection.feed(encode_frame(bytes(frame[:cut])))
        for _ in range(5):  # an exchange that waits for a topic polls until its timeout
            for ask in connection.asks():
                connection.now_ms += 40_000
                connection.hear(EVERYTHING(ask))

    assert len(connection.frames()) <= 1


@given(st.binary(max_size=120), st.sampled_from(VERSIONS))
@example(b"", VERSIONS[0])
def test_any_body_is_answered_or_closes_the_connection(body: bytes, api: ApiVersion) -> None:
    for version in range(api.min_version, api.max_version + 1):
        connection = Connection(EVERYTHING)
        header = api.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff"
        if is_flexible(api.api_key, version):
            header += b"\0"
        with suppress(WireError):
            connection.feed(encode_frame(header + body))
            for _ in range(5):
                for ask in connection.asks():
                    connection.now_ms += 2**32
                    connection.hear(EVERYTHING(ask))
        assert len(connection.frames()) <= 1


def test_fetch_at_the_log_end_waits_for_max_wait() -> None:
    sent = next(s for s in STOCK if s.api == "Fetch")
    connection = Connection(EVERYTHING)
    connection.feed(encode_frame(sent.frame))
    (ask,) = connection.asks()

    assert isinstance(ask, Fetch)
    assert ask.max_wait_ms == 500
    assert ask.replica is None
