"""Entities out of bytes that anybody may have sent.

kio's own reader is not for that: it sets aside room for as many elements as an array claims to have, which ends the process
where there is no such room, and fails at a tagged field that it does not know. Here a claim is believed element by element,
an entity has at most ELEMENTS_MAX of them, and whatever is wrong is a WireError. Bytes after an entity are ignored, as Java's
brokers do: librdkafka sends some (Metadata from version 9 on).
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TypeVar, cast
from uuid import UUID

from kio.schema.errors import ErrorCode

from reference.wire.framing import WireError, read_varint
from reference.wire.schema import Entity, FieldSchema, fields_of

ELEMENTS_MAX = 100_000  # of all arrays of an entity together: some 30 MB of objects at the worst

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TIME = -1

E = TypeVar("E", bound=Entity)


class _Cursor:
    """A place in bytes, and how many more elements may come."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.left = ELEMENTS_MAX

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise WireError(f"{size} bytes at {self.at} of {len(self.data)}")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def varint(self) -> int:
        """An unsigned number of variable length."""
        value, self.at = read_varint(self.data, self.at)
        return value


_Read = Callable[[_Cursor], object]
_ReadLength = Callable[[_Cursor], int]


def read_entity(entity: type[E], data: bytes, at: int = 0) -> E:
    """The entity that begins there. WireError where it is none, whatever is wrong with it."""
    try:
        return cast(E, _reader(cast(type[Entity], entity))(_Cursor(data, at)))
    except (struct.error, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise WireError(f"{entity.__name__}: {error}") from None


# --- types of fields ---------------------------------------------------------------------------------------------------------


def _fixed(layout: str) -> Callable[[_Cursor], int]:
    form = struct.Struct(layout)

    def read(cursor: _Cursor) -> int:
        (value,) = form.unpack_from(cursor.data, cursor.at)
        cursor.at += form.size
        return cast(int, value)

    return read


_int16 = _fixed(">h")
_int32 = _fixed(">i")
_int64 = _fixed(">q")


def _bool(cursor: _Cursor) -> bool:
    return cursor.take(1) != b"\0"


def _uuid(cursor: _Cursor) -> UUID | None:
    number = int.from_bytes(cursor.take(16), "big")
    return UUID(int=number) if number else None


def _error_code(cursor: _Cursor) -> ErrorCode:
    return ErrorCode(_int16(cursor))


def _timedelta(read: Callable[[_Cursor], int]) -> _Read:
    return lambda cursor: timedelta(milliseconds=read(cursor))


def _datetime(cursor: _Cursor) -> datetime | None:
    millis = _int64(cursor)
    return None if millis == _NO_TIME else _EPOCH + timedelta(milliseconds=millis)


_FIXED: dict[str, _Read] = {
    "int8": _fixed(">b"),
    "int16": _int16,
    "int32": _int32,
    "int64": _int64,
    "uint16": _fixed(">H"),
    "float64": _fixed(">d"),
    "bool": _bool,
    "uuid": _uuid,
    "error_code": _error_code,
    "timedelta_i32": _timedelta(_int32),
    "timedelta_i64": _timedelta(_int64),
    "datetime_i64": _datetime,
}


def _compact_length(cursor: _Cursor) -> int:
    return cursor.varint() - 1


def _text(piece: bytes) -> str:
    return piece.decode()


def _as_it_is(piece: bytes) -> bytes:
    return piece


# --- made of these -------------------------------------------------------------------------------------------------------------


def _of_length(length: _ReadLength, convert: Callable[[bytes], object], *, nullable: bool) -> _Read:
    def read(cursor: _Cursor) -> object:
        size = length(cursor)
        if size == -1 and nullable:
            return None
        return convert(cursor.take(size))

    return read


def _array(length: _ReadLength, element: _Read, *, nullable: bool) -> _Read:
    def read(cursor: _Cursor) -> object:
        elements = length(cursor)
        if elements == -1 and nullable:
            return None
        cursor.left -= elements
        if elements < 0 or cursor.left < 0:
            raise WireError(f"an array of {elements} elements; an entity has at most {ELEMENTS_MAX}")
        return tuple([element(cursor) for _ in range(elements)])

    return read


def _field(field: FieldSchema, *, flexible: bool) -> _Read:
    nullable = field.nullable and not field.array
    element: _Read
    if not isinstance(field.kafka_type, str):
        assert not nullable, f"{field.name}: no version that is spoken has a nullable entity"
        element = _reader(field.kafka_type)
    elif field.kafka_type == "string":
        element = _of_length(_compact_length if flexible else _int16, _text, nullable=nullable)
    elif field.kafka_type in ("bytes", "records"):
        element = _of_length(_compact_length if flexible else _int32, _as_it_is, nullable=nullable)
    else:
        element = _FIXED[field.kafka_type]
    if field.array:
        return _array(_compact_length if flexible else _int32, element, nullable=field.nullable)
    return element


@cache
def _reader(entity: type[Entity]) -> _Read:
    fields = fields_of(entity)
    flexible = entity.__flexible__
    plain = tuple((field.name, _field(field, flexible=flexible)) for field in fields if field.tag is None)
    tagged = {field.tag: (field.name, _field(field, flexible=flexible)) for field in fields if field.tag is not None}
    defaults = {field.name: field.default for field in fields if field.tag is not None}
    assert flexible or not tagged

    def read(cursor: _Cursor) -> Entity:
        values = {name: read_field(cursor) for name, read_field in plain}
        if flexible:
            values |= defaults
            for _ in range(cursor.varint()):
                _tagged_field(cursor, tagged, values)
        return entity(**values)

    return read


def _tagged_field(cursor: _Cursor, known: dict[int, tuple[str, _Read]], values: dict[str, object]) -> None:
    tag, size = cursor.varint(), cursor.varint()
    end = cursor.at + size
    if end > len(cursor.data):
        raise WireError(f"tagged field {tag} is cut short")
    if tag not in known:  # of a later version of the sender's schema (KIP-482)
        cursor.at = end
        return
    name, read_field = known[tag]
    values[name] = read_field(cursor)
    if cursor.at != end:
        raise WireError(f"tagged field {tag} has {size} bytes, of which {size - end + cursor.at} were read")
