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
from tests.server.wire.talking import ORDERS, StockRequest, Talk, cluster, correlations, state, stock_requests

STOCK = stock_requests()
EVERYTHING = cluster(state(ORDERS), state(TopicPartition("orders-1")))
ALL_TOPICS = metadata.MetadataRequest(topics=None)


@pytest.mark.parametrize("sent", STOCK, ids=[f"{s.client}-{s.api}-{s.version}-{n}" for n, s in enumerate(STOCK)])
def test_recorded_stock_requests_are_answered_in_their_version(sent: StockRequest) -> None:
    """kio reads each response to its last byte."""
    talk = Talk(EVERYTHING)
    talk.feed(encode_frame(sent.frame))
    talk.answer_all()
    key, version = int.from_bytes(sent.frame[:2], "big"), sent.version
    if key == ApiKey.PRODUCE and b"\xff\xff\x00\x00\x00\x00" in sent.frame[:40]:  # acks=0
        assert talk.frames() == []
        return
    (frame,) = talk.frames()
    if (key, version) == (ApiKey.API_VERSIONS, 4):
        version = 0

    assert frame[:4] == sent.frame[4:8]
    at = response_body_at(frame, key, version)
    assert entity_reader(load_response_schema(key, version))(frame, at)[1] == len(frame) - at


def test_produced_batch_reaches_the_machine_unchanged() -> None:
    """The records are not decoded: the message has every byte of the batch."""
    for sent in STOCK:
        if sent.api == "Produce":
            talk = Talk(EVERYTHING)
            talk.feed(encode_frame(sent.frame))
            (ask,) = talk.asks()
            assert isinstance(ask, Produce)
            assert isinstance(ask.values, bytes)
            assert ask.values in sent.frame
            assert ask.tp == ORDERS


@pytest.mark.parametrize("version", [4, 5, 99])
def test_api_versions_in_unknown_version_is_answered_in_0(version: int) -> None:
    """KIP-511: the response has error 35 and the supported versions."""
    talk = Talk(EVERYTHING)
    talk.feed(encode_frame(b"\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff\x00whatever"))

    answer = talk.response(ApiKey.API_VERSIONS, 0, ApiVersionsResponse)
    assert answer.error_code == 35
    assert answer.api_keys == VERSIONS


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_api_versions_lists_exactly_the_served_versions(version: int) -> None:
    answer = Talk(EVERYTHING).call(ApiKey.API_VERSIONS, version, ApiVersionsRequest(), ApiVersionsResponse)

    assert answer == ApiVersionsResponse(0, VERSIONS)


def test_responses_come_in_the_order_of_the_requests() -> None:
    """Clients rely on the order; the machine may answer in any order."""
    talk = Talk(EVERYTHING)
    for _ in range(3):
        talk.send(ApiKey.METADATA, 8, ALL_TOPICS)
    first, second, third = talk.asks()
    talk.hear(EVERYTHING(third))
    talk.hear(EVERYTHING(second))
    early = talk.frames()
    talk.hear(EVERYTHING(first))

    assert early == []
    assert correlations(talk.frames()) == [1, 2, 3]


def test_client_session_limits_requests_in_progress() -> None:
    talk = Talk(EVERYTHING, in_flight=2)
    for _ in range(5):
        talk.send(ApiKey.METADATA, 8, ALL_TOPICS)

    assert talk.session.is_full
    assert talk.session.buffered > 0
    assert len(talk.asks()) == 2
    talk.hear(EVERYTHING(Metadata(1)))
    assert len(talk.asks()) == 1
    talk.session.is_held = True  # the client does not read
    talk.hear(EVERYTHING(Metadata(2)))
    assert talk.asks() == []
    talk.session.is_held = False
    talk.hear(EVERYTHING(Metadata(99)))
    talk.answer_all()
    talk.hear(EVERYTHING(Metadata(3)))
    talk.answer_all()
    assert correlations(talk.frames()) == [1, 2, 3, 4, 5]
    assert talk.session.buffered == 0


def test_late_answer_to_a_finished_client_request_is_dropped() -> None:
    talk = Talk(EVERYTHING)
    talk.hear(EVERYTHING(Metadata(5)))
    talk.send(ApiKey.METADATA, 8, ALL_TOPICS)
    talk.answer_all()
    talk.hear(EVERYTHING(Metadata(1)))

    assert len(talk.frames()) == 1


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
        Talk(EVERYTHING).feed(encode_frame(frame))


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", (100_001).to_bytes(4, "big")])
def test_long_frame_is_refused_before_its_bytes_arrive(length: bytes) -> None:
    with pytest.raises(WireError):
        Talk(EVERYTHING).feed(length)


@given(st.sampled_from(STOCK), st.data())
def test_damaged_request_is_answered_or_closes_the_connection(sent: StockRequest, data: st.DataObject) -> None:
    """Only WireError may be raised, and there is at most one response."""
    frame = bytearray(sent.frame)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(frame) - 1))
        frame[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(frame), len(frame), data.draw(st.integers(0, len(frame)))]))
    talk = Talk(EVERYTHING)
    with suppress(WireError):
        talk.feed(encode_frame(bytes(frame[:cut])))
        for _ in range(5):  # an exchange that waits for a topic polls until its timeout
            for ask in talk.asks():
                talk.now_ms += 40_000
                talk.hear(EVERYTHING(ask))

    assert len(talk.frames()) <= 1


@given(st.binary(max_size=120), st.sampled_from(VERSIONS))
@example(b"", VERSIONS[0])
def test_any_body_is_answered_or_closes_the_connection(body: bytes, api: ApiVersion) -> None:
    for version in range(api.min_version, api.max_version + 1):
        talk = Talk(EVERYTHING)
        header = api.api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x01\xff\xff"
        if is_flexible(api.api_key, version):
            header += b"\0"
        with suppress(WireError):
            talk.feed(encode_frame(header + body))
            for _ in range(5):
                for ask in talk.asks():
                    talk.now_ms += 2**32
                    talk.hear(EVERYTHING(ask))
        assert len(talk.frames()) <= 1


def test_fetch_at_the_log_end_waits_for_max_wait() -> None:
    sent = next(s for s in STOCK if s.api == "Fetch")
    talk = Talk(EVERYTHING)
    talk.feed(encode_frame(sent.frame))
    (ask,) = talk.asks()

    assert isinstance(ask, Fetch)
    assert ask.max_wait_ms == 500
    assert ask.replica is None
