"""Encodes and decodes bodies of Kafka requests and responses as msgspec Structs, in any version of Kafka's schemas.

kio's generated classes are the schemas: the fields of each API and version, with types and defaults. This module decodes and
encodes instead of kio, because kio's reader trusts the length of an array (a claim of 2^31 elements ends the process) and rejects
unknown tagged fields.

One Struct serves all versions of an API. A Struct field that the version lacks keeps its default in decoding and is left out in
encoding. A schema field that the Struct lacks is skipped in decoding and gets the schema's default in encoding. Field names are
kio's, but times end in `_ms`. Times, error codes and UUIDs are integers; records may be a tuple of pieces. A decoded body
has at most ELEMENTS_MAX array elements in all.
"""

import struct
import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache

import msgspec
from kio.index import load_request_schema, load_response_schema

from server.wire.framing import WireError, read_varint, skip_tagged_fields

ELEMENTS_MAX = 100_000

S = typing.TypeVar("S", bound=msgspec.Struct)
_Schema = type
_FIXED = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "uint8": struct.Struct(">B"),
    "uint16": struct.Struct(">H"),
    "uint32": struct.Struct(">I"),
    "uint64": struct.Struct(">Q"),
    "float64": struct.Struct(">d"),
    "error_code": struct.Struct(">h"),
    "timedelta_i32": struct.Struct(">i"),
    "timedelta_i64": struct.Struct(">q"),
    "datetime_i64": struct.Struct(">q"),
}
_NO_TIME = {"timedelta_i32": 0, "timedelta_i64": 0, "datetime_i64": -1}
_TIMES = frozenset(_NO_TIME)


class Cursor:
    """The bytes being decoded, the current position and the number of array elements so far."""

    __slots__ = ("at", "data", "elements")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.elements = 0

    def take(self, size: int) -> bytes:
        """The next bytes; WireError if there are fewer."""
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.data):
            raise WireError(f"{size} bytes expected, {len(self.data) - start} left")
        return self.data[start : self.at]

    def varint(self) -> int:
        """The next unsigned varint."""
        value, self.at = read_varint(self.data, self.at)
        return value

    def count(self, size: int) -> int:
        """Count the elements of an array and return their number; each takes at least one byte, else WireError."""
        self.elements += size
        if size < 0 or size > len(self.data) - self.at or self.elements > ELEMENTS_MAX:
            raise WireError(f"array of {size} elements in {len(self.data) - self.at} bytes; at most {ELEMENTS_MAX} in a body")
        return size


Read = Callable[[Cursor], typing.Any]  # of what was read a Struct's annotations tell the type
Write = Callable[[list[bytes], object], None]


def read_request(api_key: int, version: int, into: type[S], data: bytes, at: int) -> S:
    """Decode the body of a request at position `at`. WireError if malformed; bytes behind it are ignored, as in Kafka."""
    return read_body(_request_schema(api_key, version), into, data, at)


def read_response(api_key: int, version: int, into: type[S], data: bytes, at: int) -> S:
    """Decode the body of a response at position `at`; WireError if it is malformed."""
    return read_body(_response_schema(api_key, version), into, data, at)


def write_request(api_key: int, version: int, entity: msgspec.Struct) -> list[bytes]:
    """Encode the body of a request as pieces of bytes to be joined."""
    return write_body(_request_schema(api_key, version), entity)


def write_response(api_key: int, version: int, entity: msgspec.Struct) -> list[bytes]:
    """Encode the body of a response as pieces of bytes to be joined."""
    return write_body(_response_schema(api_key, version), entity)


def read_body(schema: _Schema, into: type[S], data: bytes, at: int) -> S:
    """Decode a request's or response's body of this schema at position `at`; WireError if it is malformed."""
    entity = decoded(_struct_reader(schema, into), data, at)
    assert isinstance(entity, into)
    return entity


def decoded(read: Read, data: bytes, at: int) -> typing.Any:
    """What a reader finds at position `at`; WireError if it is malformed."""
    try:
        return read(Cursor(data, at))
    except struct.error:
        raise WireError("body is cut short") from None
    except UnicodeDecodeError:
        raise WireError("string is not UTF-8") from None


def write_body(schema: _Schema, entity: msgspec.Struct) -> list[bytes]:
    """Encode a request's or response's body of this schema as pieces of bytes to be joined."""
    pieces: list[bytes] = []
    _struct_writer(schema, type(entity))(pieces, entity)
    return pieces


@cache
def _request_schema(api_key: int, version: int) -> _Schema:
    return load_request_schema(api_key, version)  # imports kio's module of this version only


@cache
def _response_schema(api_key: int, version: int) -> _Schema:
    return load_response_schema(api_key, version)


# --- schemas ---------------------------------------------------------------------------------------------------------------


def _own_name(field: Field[object]) -> str:
    """The name of our field: kio's durations are numbers of milliseconds here."""
    return f"{field.name}_ms" if field.metadata.get("kafka_type") in _TIMES else field.name


def _without_none(kind: object) -> object:
    """Strip None from a type: X for "X | None"."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return next(part for part in typing.get_args(kind) if part is not types.NoneType)
    return kind


def _is_nullable(kind: object) -> bool:
    return types.NoneType in typing.get_args(kind) and typing.get_origin(kind) is not tuple


def _element_type(kind: object) -> object:
    """The element type of a tuple: X for "tuple[X, ...] | None"; X for X."""
    bare = _without_none(kind)
    return _without_none(typing.get_args(bare)[0]) if typing.get_origin(bare) is tuple else bare


def _is_array(field: Field[object]) -> bool:
    return typing.get_origin(_without_none(field.type)) is tuple


# --- reading ---------------------------------------------------------------------------------------------------------------


@cache
def _struct_reader(schema: _Schema, into: type[msgspec.Struct] | None) -> Read:
    """A reader for one entity; if `into` is None it skips the entity."""
    known = {} if into is None else {field.name: field.type for field in msgspec.structs.fields(into)}
    flexible: bool = schema.__flexible__  # type: ignore[attr-defined]  # of kio's classes
    plain: list[tuple[str | None, Read]] = []
    tagged: dict[int, tuple[str | None, Read]] = {}
    for field in fields(schema):
        name = _own_name(field)
        entry = (name if name in known else None, _field_reader(field, flexible, known.get(name)))
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = entry
        else:
            plain.append(entry)

    def read_entity(cursor: Cursor) -> object:
        values: dict[str, object] = {}
        for name, part in plain:
            value = part(cursor)
            if name is not None:
                values[name] = value
        if flexible:
            _read_tagged(cursor, tagged, values)
        return None if into is None else into(**values)

    return read_entity


def _read_tagged(cursor: Cursor, tagged: dict[int, tuple[str | None, Read]], values: dict[str, object]) -> None:
    """Read the tagged fields at the cursor into `values`; unknown tags are skipped."""
    if not tagged:
        cursor.at = skip_tagged_fields(cursor.data, cursor.at)
        return
    for _ in range(cursor.varint()):
        tag, size = cursor.varint(), cursor.varint()
        end = cursor.at + size
        if end > len(cursor.data):
            raise WireError("tagged field is cut short")
        if tag in tagged:
            name, part = tagged[tag]
            value = part(cursor)
            if cursor.at > end:
                raise WireError("tagged field is longer than its size")
            if name is not None:
                values[name] = value
        cursor.at = end


def _field_reader(field: Field[object], flexible: bool, kind: object) -> Read:
    """The reader of a schema's field; `kind` is the type of our field, None if we have none."""
    element = _element_type(field.type)
    if is_dataclass(element):
        inner = _element_type(kind)
        assert isinstance(element, type)
        into = inner if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None
        reader = _struct_reader(element, into)
    else:
        reader = primitive_reader(field.metadata["kafka_type"], flexible, nullable=_is_nullable(field.type))
    return array_reader(reader, flexible, nullable=_is_nullable(field.type)) if _is_array(field) else reader


def array_reader(reader: Read, flexible: bool, *, nullable: bool) -> Read:
    """A reader of an array of what `reader` reads, as a tuple."""

    def read_array(cursor: Cursor) -> object:
        size = cursor.varint() - 1 if flexible else int.from_bytes(cursor.take(4), "big", signed=True)
        if size == -1 and nullable:
            return None
        return tuple([reader(cursor) for _ in range(cursor.count(size))])

    return read_array


def primitive_reader(kind: str, flexible: bool, *, nullable: bool) -> Read:
    """A reader of one of Kafka's primitive types."""
    if kind in _FIXED:
        return _fixed_reader(_FIXED[kind])
    if kind == "uuid":
        return lambda cursor: int.from_bytes(cursor.take(16), "big")
    assert kind in ("string", "bytes", "records"), kind
    width = 2 if kind == "string" else 4

    def read_text_or_bytes(cursor: Cursor) -> object:
        size = cursor.varint() - 1 if flexible else int.from_bytes(cursor.take(width), "big", signed=True)
        if size == -1 and nullable:
            return None
        data = cursor.take(size)
        return data.decode() if kind == "string" else data

    return read_text_or_bytes


def _fixed_reader(layout: struct.Struct) -> Read:
    """A reader of one number of fixed width."""

    def read_number(cursor: Cursor) -> object:
        (value,) = layout.unpack_from(cursor.data, cursor.at)
        cursor.at += layout.size
        return value

    return read_number


# --- writing ---------------------------------------------------------------------------------------------------------------


@cache
def _struct_writer(schema: _Schema, kind: type[msgspec.Struct]) -> Write:
    """A writer of one entity: what our Struct lacks gets the schema's default, tagged fields at their default are left out."""
    flexible: bool = schema.__flexible__  # type: ignore[attr-defined]  # of kio's classes
    own_fields = {field.name: field for field in msgspec.structs.fields(kind)}
    plain: list[tuple[str | None, object, Write]] = []
    tagged: list[tuple[int, str, object, Write]] = []
    for field in sorted(fields(schema), key=lambda field: field.metadata.get("tag", -1)):
        name = _own_name(field)
        write = _field_writer(field, flexible, own_fields[name].type if name in own_fields else None)
        if "tag" not in field.metadata:
            plain.append((name if name in own_fields else None, _default_of_field(field), write))
        elif name in own_fields:
            tagged.append((field.metadata["tag"], name, own_fields[name].default, write))

    def write_entity(pieces: list[bytes], entity: object) -> None:
        for name, default, part in plain:
            part(pieces, default if name is None else getattr(entity, name))
        if flexible:
            present = [(tag, name, part) for tag, name, default, part in tagged if getattr(entity, name) != default]
            pieces.append(_encoded_varint(len(present)))
            for tag, name, part in present:
                body: list[bytes] = []
                part(body, getattr(entity, name))
                pieces += (_encoded_varint(tag), _encoded_varint(sum(map(len, body))), *body)

    return write_entity


def _default_of_field(field: Field[object]) -> object:
    """The value to encode for a schema field that the Struct lacks."""
    kind = field.metadata.get("kafka_type")
    if kind in _TIMES:
        seconds = getattr(field.default, "total_seconds", None)  # of a timedelta
        return _NO_TIME[kind] if seconds is None else int(seconds() * 1000)
    if field.default is not MISSING:
        return field.default
    if _is_array(field):
        return ()
    if _is_nullable(field.type):
        return None
    return {"string": "", "bytes": b"", "records": b"", "bool": False}.get(str(kind), 0)


def _field_writer(field: Field[object], flexible: bool, kind: object) -> Write:
    """The writer of a schema's field; `kind` is the type of our field, None if we have none."""
    element = _element_type(field.type)
    if is_dataclass(element):
        inner = _element_type(kind)
        assert isinstance(element, type)
        is_ours = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        writer = _struct_writer(element, inner) if is_ours else _refuse_element
    else:
        writer = primitive_writer(field.metadata["kafka_type"], flexible)
    return array_writer(writer, flexible) if _is_array(field) else writer


def _refuse_element(pieces: list[bytes], value: object) -> None:
    """Stands in for the writer of an entity that has no Struct: its array must be empty."""
    raise AssertionError("only an empty array can be encoded for an entity without a Struct")


def array_writer(writer: Write, flexible: bool) -> Write:
    """A writer of an array of what `writer` writes."""

    def write_array(pieces: list[bytes], value: object) -> None:
        assert value is None or isinstance(value, tuple)
        size = -1 if value is None else len(value)
        pieces.append(_encoded_varint(size + 1) if flexible else size.to_bytes(4, "big", signed=True))
        for item in value or ():
            writer(pieces, item)

    return write_array


def primitive_writer(kind: str, flexible: bool) -> Write:
    """A writer of one of Kafka's primitive types."""
    if kind in _FIXED:
        layout = _FIXED[kind]
        return lambda pieces, value: pieces.append(layout.pack(value))
    if kind == "uuid":
        return lambda pieces, value: pieces.append(int(value or 0).to_bytes(16, "big"))  # type: ignore[call-overload]
    width = 2 if kind == "string" else 4

    def write_text_or_bytes(pieces: list[bytes], value: object) -> None:
        body = _bytes_of(value)
        size = -1 if body is None else sum(map(len, body))
        pieces.append(_encoded_varint(size + 1) if flexible else size.to_bytes(width, "big", signed=True))
        pieces += body or ()

    return write_text_or_bytes


def _bytes_of(value: object) -> tuple[bytes, ...] | None:
    """A string or bytes as pieces to write; None for null."""
    match value:
        case None:
            return None
        case str():
            return (value.encode(),)
        case tuple():
            return value
        case _:
            assert isinstance(value, bytes)
            return (value,)


def _encoded_varint(value: int) -> bytes:
    """An unsigned varint (KIP-482)."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
