"""Entities as bytes. What does not fit its field is a mistake of ours: struct.error, not a WireError."""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import cast
from uuid import UUID

from reference.wire.schema import Entity, FieldSchema, fields_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_Out = Callable[[bytes], None]
_Write = Callable[[_Out, object], None]


def write_entity(entity: Entity) -> bytes:
    """The bytes of an entity."""
    parts: list[bytes] = []
    _writer(type(entity))(parts.append, entity)
    return b"".join(parts)


def varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits (KIP-482)."""
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


# --- types of fields ---------------------------------------------------------------------------------------------------------


def _fixed(layout: str) -> _Write:
    pack = struct.Struct(layout).pack
    return lambda out, value: out(pack(value))


def _bool(out: _Out, value: object) -> None:
    out(b"\1" if value else b"\0")


def _uuid(out: _Out, value: object) -> None:
    out(bytes(16) if value is None else cast(UUID, value).bytes)


def _timedelta(write: _Write) -> _Write:
    return lambda out, value: write(out, cast(timedelta, value) // _MILLISECOND)


def _datetime(out: _Out, value: object) -> None:
    _int64(out, -1 if value is None else (cast(datetime, value) - _EPOCH) // _MILLISECOND)


_int16 = _fixed(">h")
_int32 = _fixed(">i")
_int64 = _fixed(">q")

_FIXED: dict[str, _Write] = {
    "int8": _fixed(">b"),
    "int16": _int16,
    "int32": _int32,
    "int64": _int64,
    "uint16": _fixed(">H"),
    "float64": _fixed(">d"),
    "bool": _bool,
    "uuid": _uuid,
    "error_code": _int16,
    "timedelta_i32": _timedelta(_int32),
    "timedelta_i64": _timedelta(_int64),
    "datetime_i64": _datetime,
}


def _compact_length(out: _Out, length: object) -> None:
    out(varint(cast(int, length) + 1))


def _text(value: object) -> bytes:
    return cast(str, value).encode()


def _as_it_is(value: object) -> bytes:
    return cast(bytes, value)


# --- made of these -------------------------------------------------------------------------------------------------------------


def _of_length(length: _Write, convert: Callable[[object], bytes]) -> _Write:
    def write(out: _Out, value: object) -> None:
        if value is None:
            length(out, -1)
            return
        data = convert(value)
        length(out, len(data))
        out(data)

    return write


def _array(length: _Write, element: _Write) -> _Write:
    def write(out: _Out, value: object) -> None:
        if value is None:
            length(out, -1)
            return
        elements = cast(tuple[object, ...], value)
        length(out, len(elements))
        for one in elements:
            element(out, one)

    return write


def _field(field: FieldSchema, *, flexible: bool) -> _Write:
    element: _Write
    if not isinstance(field.kafka_type, str):
        element = _writer(field.kafka_type)
    elif field.kafka_type == "string":
        element = _of_length(_compact_length if flexible else _int16, _text)
    elif field.kafka_type in ("bytes", "records"):
        element = _of_length(_compact_length if flexible else _int32, _as_it_is)
    else:
        element = _FIXED[field.kafka_type]
    return _array(_compact_length if flexible else _int32, element) if field.array else element


@cache
def _writer(entity: type[Entity]) -> _Write:
    fields = fields_of(entity)
    flexible = entity.__flexible__
    plain = tuple((field.name, _field(field, flexible=flexible)) for field in fields if field.tag is None)
    tagged = tuple((field, _field(field, flexible=flexible)) for field in fields if field.tag is not None)

    def write(out: _Out, value: object) -> None:
        for name, write_field in plain:
            write_field(out, getattr(value, name))
        if flexible:
            _tagged_fields(out, value, tagged)

    return write


def _tagged_fields(out: _Out, entity: object, fields: tuple[tuple[FieldSchema, _Write], ...]) -> None:
    """Those that say something else than their default."""
    said = [(field, write) for field, write in fields if getattr(entity, field.name) != field.default]
    out(varint(len(said)))
    for field, write in said:
        parts: list[bytes] = []
        write(parts.append, getattr(entity, field.name))
        assert field.tag is not None
        out(varint(field.tag) + varint(sum(map(len, parts))))
        out(b"".join(parts))
