"""Entities as bytes: what kio writes is read, what is written kio reads, and no bytes from outside do harm."""

import io
import tracemalloc
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar, TypeVar
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchRequest
from kio.schema.metadata.v5.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.request import MetadataRequest as FlexibleMetadataRequest
from kio.serial import entity_reader, entity_writer

from reference.wire.framing import WireError
from reference.wire.reading import ELEMENTS_MAX, read_entity
from reference.wire.schema import Entity, FieldSchema, Int32, Int64, Uuid, fields_of, tagged
from reference.wire.writing import write_entity

# Every version that is spoken with clients or between nodes, and those beside it.
SPOKEN = {
    0: range(3, 10),
    1: range(4, 17),
    2: range(1, 8),
    3: range(10),
    10: range(5),
    18: range(5),
    19: range(2, 6),
    20: range(1, 6),
    22: range(4),
    23: range(2, 5),
    35: range(1, 5),
    45: range(1),
    46: range(1),
}
ENTITIES = [
    load(key, version)
    for key, versions in SPOKEN.items()
    for version in versions
    for load in (load_request_schema, load_response_schema)
]
IDS = [f"{entity.__name__}-{entity.__version__}" for entity in ENTITIES]

E = TypeVar("E", bound=Entity)

_VALUES: dict[str, st.SearchStrategy[object]] = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
    "records": st.binary(max_size=6),
    "uuid": st.uuids() | st.none(),
    "error_code": st.sampled_from(ErrorCode),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
    "datetime_i64": st.integers(0, 2**32).map(lambda s: datetime.fromtimestamp(s, UTC)),
}


def values_of(schema: FieldSchema) -> st.SearchStrategy[object]:
    one = _VALUES[schema.kafka_type] if isinstance(schema.kafka_type, str) else instances(schema.kafka_type)
    values: st.SearchStrategy[object] = st.lists(one, max_size=2).map(tuple) if schema.array else one
    # kio cannot write a nullable field with a tag as null: absence says it
    if schema.nullable and schema.kafka_type != "uuid" and schema.tag is None:
        return st.none() | values
    return st.just(schema.default) | values if schema.tag is not None else values


def instances(entity: type[E]) -> st.SearchStrategy[E]:
    return st.builds(entity, **{schema.name: values_of(schema) for schema in fields_of(entity)})


@pytest.mark.parametrize("entity", ENTITIES, ids=IDS)
@settings(max_examples=5)
@given(data=st.data())
def test_bytes_are_those_of_kio_in_both_directions(entity: type[Entity], data: st.DataObject) -> None:
    value = data.draw(instances(entity))
    sink = io.BytesIO()
    entity_writer(entity)(sink, value)  # type: ignore[type-var]
    written = sink.getvalue()
    assert write_entity(value) == written
    assert read_entity(entity, written) == value
    assert entity_reader(entity)(written, 0) == (value, len(written))  # type: ignore[type-var]


@pytest.mark.parametrize("entity", ENTITIES, ids=IDS)
@settings(max_examples=5)
@given(data=st.data())
def test_any_bytes_are_an_entity_or_a_wire_error(entity: type[Entity], data: st.DataObject) -> None:
    good = write_entity(data.draw(instances(entity)))
    at = data.draw(st.integers(0, len(good)))
    spoiled = data.draw(
        st.sampled_from([good[:at], good[:at] + b"\xff" * 4 + good[at:], good[:at] + b"\x7f\xff\xff\xff" + good[at + 4 :]])
        | st.binary(max_size=60)
    )
    try:
        read_entity(entity, spoiled)
    except WireError:
        return


@pytest.mark.parametrize(
    ("entity", "claim"),
    [
        (MetadataRequest, b"\x7f\xff\xff\xff\0\1a"),
        (FlexibleMetadataRequest, b"\xff\xff\xff\xff\x0f\2a\0"),
        (FetchRequest, bytes(21) + b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_array_that_claims_billions_costs_nothing(entity: type[Entity], claim: bytes) -> None:
    """kio's reader asks for 16 GB here and takes the process with it."""
    read_entity(MetadataRequest, b"\xff\xff\xff\xff\0")
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            read_entity(entity, claim)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_array_of_more_elements_than_may_be_is_refused_though_its_bytes_are_there() -> None:
    """Two bytes of a name become an object of a hundred: a frame of 64 MB would be gigabytes."""
    elements = ELEMENTS_MAX + 1
    with pytest.raises(WireError, match="at most"):
        read_entity(MetadataRequest, elements.to_bytes(4, "big") + b"\0\0" * elements + b"\0")
    taken = read_entity(MetadataRequest, ELEMENTS_MAX.to_bytes(4, "big") + b"\0\0" * ELEMENTS_MAX + b"\0")
    assert taken.topics is not None
    assert len(taken.topics) == ELEMENTS_MAX


def test_unknown_tagged_fields_are_skipped() -> None:
    """librdkafka's Metadata from version 9 on ends with bytes that read as an empty tagged field 0 (and kio fails)."""
    body = b"\0\0\0\0"
    assert read_entity(FlexibleMetadataRequest, body + b"\1\0\0").topics is None
    assert read_entity(FlexibleMetadataRequest, body + b"\2\5\3abc\x90\x4e\0" + b"surplus").topics is None
    with pytest.raises(WireError, match="cut short"):
        read_entity(FlexibleMetadataRequest, body + b"\1\5\4abc")


def test_null_where_none_may_be_is_a_wire_error() -> None:
    assert read_entity(MetadataRequest, b"\0\0\0\1\0\1a\1") == MetadataRequest(
        topics=(MetadataRequestTopic(name="a"),),  # type: ignore[arg-type]
        allow_auto_topic_creation=True,
    )
    with pytest.raises(WireError):
        read_entity(MetadataRequest, b"\0\0\0\1\xff\xff\1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Of an entity of ours."""

    __flexible__: ClassVar[bool] = True
    number: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """An entity of ours."""

    __flexible__: ClassVar[bool] = True
    parts: tuple[Part, ...]
    text: str | None
    id: Uuid
    far: int = field(metadata=tagged(10_000, "int64"), default=-1)


@given(value=instances(Own))
def test_entities_of_ours_come_back(value: Own) -> None:
    assert read_entity(Own, write_entity(value)) == value


def test_entity_of_ours_on_the_wire() -> None:
    value = Own(parts=(Part(number=5),), text=None, id=UUID(int=1), far=9)
    assert write_entity(value) == b"\2" + b"\0\0\0\5\0" + b"\0" + bytes(15) + b"\1" + b"\1\x90\x4e\x08" + bytes(7) + b"\x09"


def test_tagged_field_whose_length_is_another_is_a_wire_error() -> None:
    good = write_entity(Own(parts=(), text=None, id=None, far=9))
    for size in (b"\7", b"\x09"):
        with pytest.raises(WireError):
            read_entity(Own, good.replace(b"\x90\x4e\x08", b"\x90\x4e" + size) + b"\0")


def test_field_types_of_ours() -> None:
    assert [(f.name, f.kafka_type, f.array, f.tag) for f in fields_of(Own)] == [
        ("parts", Part, True, None),
        ("text", "string", False, None),
        ("id", "uuid", False, None),
        ("far", "int64", False, 10_000),
    ]
    assert Int64 is not Int32
