"""Bodies: they round-trip through kio in every version, and false lengths allocate no memory."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from msgspec import Struct

from server.wire.entities import ELEMENTS_MAX, read_request, write_request, write_response
from server.wire.framing import WireError

PRODUCE, FETCH, METADATA = 0, 1, 3


class Partition(Struct, frozen=True):
    index: int
    records: bytes | tuple[bytes, ...] | None


class Topic(Struct, frozen=True):
    name: str
    partition_data: tuple[Partition, ...]


class Produce(Struct, frozen=True, kw_only=True):
    transactional_id: str | None = None
    acks: int
    timeout_ms: int
    topic_data: tuple[Topic, ...]


class Name(Struct, frozen=True):
    name: str


class Metadata(Struct, frozen=True, kw_only=True):
    topics: tuple[Name, ...] | None
    allow_auto_topic_creation: bool = True


class ReplicaState(Struct, frozen=True):
    replica_id: int = -1
    replica_epoch: int = -1


class Fetch(Struct, frozen=True, kw_only=True):
    max_wait_ms: int
    replica_state: ReplicaState = ReplicaState()


class Nothing(Struct, frozen=True):
    pass


REQUEST = Produce(acks=-1, timeout_ms=1500, topic_data=(Topic("orders", (Partition(0, b"abc"), Partition(1, None))),))


@pytest.mark.parametrize("version", range(3, 12))
def test_request_round_trips_in_every_version_and_through_kio(version: int) -> None:
    """Versions from 9 on are flexible: compact lengths, tagged fields."""
    data = b"".join(write_request(PRODUCE, version, REQUEST))

    assert read_request(PRODUCE, version, Produce, data, 0) == REQUEST
    by_kio, size = entity_reader(load_request_schema(PRODUCE, version))(data, 0)
    assert size == len(data)
    assert "timeout=datetime.timedelta(seconds=1, microseconds=500000)" in repr(by_kio)
    assert "records=b'abc'" in repr(by_kio)


def test_record_batches_may_be_encoded_in_pieces() -> None:
    pieces = Produce(acks=1, timeout_ms=1, topic_data=(Topic("t", (Partition(0, (b"ab", b"c")),)),))
    whole = Produce(acks=1, timeout_ms=1, topic_data=(Topic("t", (Partition(0, b"abc"),)),))

    assert b"".join(write_request(PRODUCE, 8, pieces)) == b"".join(write_request(PRODUCE, 8, whole))


def test_field_of_a_later_version_keeps_its_default() -> None:
    request = Metadata(topics=None, allow_auto_topic_creation=False)

    assert read_request(METADATA, version=4, into=Metadata, data=b"".join(write_request(METADATA, 4, request)), at=0) == request
    assert read_request(
        METADATA, version=3, into=Metadata, data=b"".join(write_request(METADATA, 3, request)), at=0
    ).allow_auto_topic_creation


def test_tagged_fields_are_encoded_unless_default() -> None:
    """The replica and its epoch are tagged from Fetch 15 on (KIP-903)."""
    plain, with_tagged_field = Fetch(max_wait_ms=5), Fetch(max_wait_ms=5, replica_state=ReplicaState(3, 70))
    short, long = (b"".join(write_request(FETCH, 15, fetch)) for fetch in (plain, with_tagged_field))

    assert len(long) > len(short)
    assert read_request(FETCH, version=15, into=Fetch, data=long, at=0) == with_tagged_field
    assert read_request(FETCH, version=15, into=Fetch, data=short, at=0) == plain


def test_unknown_tagged_field_in_a_body_is_skipped() -> None:
    data = b"".join(write_request(FETCH, 15, Fetch(max_wait_ms=5)))[:-1] + b"\x01\x63\x02xy"

    assert read_request(FETCH, version=15, into=Fetch, data=data, at=0) == Fetch(max_wait_ms=5)


@pytest.mark.parametrize("key", [0, 1, 2, 3, 10, 18, 19, 20, 22, 23, 45, 46])
def test_response_of_default_values_is_read_by_library_kio(key: int) -> None:
    for version in range(12):
        try:
            schema = load_response_schema(key, version)
        except Exception:  # noqa: BLE001  # kio raises various errors for a missing version
            continue
        data = b"".join(write_response(key, version, Nothing()))
        assert entity_reader(schema)(data, 0)[1] == len(data)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (8, struct.pack(">i", 2**31 - 1)),  # would end a process that allocates it
        (8, struct.pack(">i", ELEMENTS_MAX + 1) + bytes(3 * ELEMENTS_MAX)),
        (8, struct.pack(">i", -7)),
        (8, struct.pack(">ih", 1, 300) + b"abc"),
        (8, struct.pack(">ih", 1, -1)),  # a topic name must not be null
        (8, struct.pack(">ih", 1, 2) + b"\xff\xfe"),
        (8, b""),
        (9, b"\xff\xff\xff\xff\x0f"),
        (9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (9, b"\x01\x01\x00\x00\x01\x07\x20x"),
    ],
)
def test_malformed_lengths_in_a_request_are_refused(version: int, data: bytes) -> None:
    with pytest.raises(WireError):
        read_request(METADATA, version, Metadata, data, 0)


@given(st.sampled_from([0, 1, 3, 19, 45]), st.integers(0, 12), st.binary(max_size=80))
def test_any_bytes_decode_to_a_body_or_raise_wire_error(key: int, version: int, data: bytes) -> None:
    try:
        load_request_schema(key, version)
    except Exception:  # noqa: BLE001  # kio lacks this version
        return
    with suppress(WireError):
        assert read_request(key, version, Nothing, data, 0) == Nothing()
