"""Layouts of our own as bytes: the fields of a struct in their order, the type of each says what is on the wire.

A layout is a class of `server.wire.frames`, with the fields of a document, or a message itself: all its fields but the
correlation, which is in the header. Only `_FIELDS` says otherwise. A partition is the name of its topic and its index, a number
that may be absent is -1, and a struct that may be absent an array of none or one.
"""

from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import IsrProposal, LeaderAndIsr, LogEnd, Message, PartitionState, StopPartition, StopReplica
from reference.types import (
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
    index_of,
    topic_of,
)
from server.wire.entities import (
    Cursor,
    Read,
    Write,
    array_reader,
    array_writer,
    decoded,
    primitive_reader,
    primitive_writer,
)
from server.wire.framing import skip_tagged_fields
from server.wire.values import error_of, only, tp_of

_NONE = -1
_NUMBERS: dict[object, str] = {
    bool: "bool",
    int: "int64",
    ErrorCode: "int16",
    BrokerId: "int32",
    LeaderEpoch: "int32",
    ControllerEpoch: "int32",
    ZkVersion: "int32",
    Incarnation: "int64",
    TopicId: "int64",
    Offset: "int64",
}
_COMMAND = ("controller", "controller_epoch", "broker_incarnation")
# The fields on the wire of classes that have them in another order, or have one that is not sent.
_FIELDS: dict[type[Struct], tuple[str, ...]] = {
    LeaderAndIsr: (*_COMMAND, "init", "states", "new"),
    StopReplica: (*_COMMAND, "partitions"),
    PartitionState: (
        *("tp", "topic_id", "controller_epoch", "leader", "leader_incarnation", "leader_epoch"),
        *("isr", "elr", "zk_version", "replicas", "offline"),
    ),
    StopPartition: ("tp", "topic_id", "leader_epoch", "delete", "moved"),
    LogEnd: ("tp", "topic_id", "last_epoch", "leo", "born"),
    IsrProposal: ("tp", "topic_id", "leader_epoch", "zk_version", "isr"),
}


class Codec(NamedTuple):
    """How values of one type are read and written, and how docs/wire.md names it."""

    read: Read
    write: Write
    words: str


def fields_of(kind: type[Struct]) -> dict[str, Any]:
    """The fields of a layout or a part of one that are on the wire, in their order, with their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in _FIELDS.get(kind, kind.__struct_fields__) if name != "correlation"}


def read_layout(layout: type[Struct], correlation: int, data: bytes, at: int, *, flexible: bool) -> Struct:
    """Decode a body of this layout at position `at`; WireError if it is malformed. A message gets the correlation."""
    fields = {"correlation": correlation} if issubclass(layout, Message) else {}
    return layout(**fields, **decoded(_fields(layout, flexible).read, data, at))


def write_layout(entity: Struct, *, flexible: bool) -> list[bytes]:
    """Encode a body as pieces of bytes to be joined."""
    pieces: list[bytes] = []
    _fields(type(entity), flexible).write(pieces, entity)
    return pieces


@cache
def codec(kind: Any, flexible: bool) -> Codec:
    """How values of this type are on the wire."""
    arguments = get_args(kind)
    if get_origin(kind) is Annotated:
        return _primitive(arguments[1], flexible, nullable=NoneType in get_args(arguments[0]))
    if kind is TopicPartition:
        return _partition(flexible)
    if get_origin(kind) is tuple:
        return _array(arguments[0], flexible) if arguments[1:] == (...,) else _tuple(arguments, flexible)
    if NoneType in arguments:
        return _optional(arguments[0], flexible)
    if kind is ErrorCode:
        number = _primitive("int16", flexible)
        return number._replace(read=lambda cursor: error_of(number.read(cursor)))
    if kind in _NUMBERS:
        return _primitive(_NUMBERS[kind], flexible)
    fields = _fields(kind, flexible)
    return fields._replace(read=lambda cursor: kind(**fields.read(cursor)))


@cache
def _fields(kind: type[Struct], flexible: bool) -> Codec:
    """How the fields of a struct are on the wire; they are read as a dict."""
    parts = [(name, codec(type_, flexible)) for name, type_ in fields_of(kind).items()]

    def read(cursor: Cursor) -> dict[str, object]:
        return {name: part.read(cursor) for name, part in parts}

    def write(pieces: list[bytes], value: object) -> None:
        for name, part in parts:
            part.write(pieces, getattr(value, name))

    return _entity(Codec(read, write, kind.__name__), flexible)


def _entity(part: Codec, flexible: bool) -> Codec:
    """The same with the tagged fields that end each entity of a flexible layout: none are written, any are skipped."""
    if not flexible:
        return part

    def read(cursor: Cursor) -> object:
        found = part.read(cursor)
        cursor.at = skip_tagged_fields(cursor.data, cursor.at)
        return found

    def write(pieces: list[bytes], value: object) -> None:
        part.write(pieces, value)
        pieces.append(b"\0")

    return part._replace(read=read, write=write)


def _array(kind: Any, flexible: bool) -> Codec:
    """Codec of an array of this type."""
    element = codec(kind, flexible)
    if kind is TopicPartition or get_origin(kind) is tuple:
        element = _entity(element._replace(words=f"({element.words})"), flexible)
    read = array_reader(element.read, flexible, nullable=False)
    return Codec(read, array_writer(element.write, flexible), f"array of {element.words}")


def _tuple(kinds: tuple[Any, ...], flexible: bool) -> Codec:
    """Codec of a tuple whose elements have these types."""
    parts = [codec(kind, flexible) for kind in kinds]

    def write(pieces: list[bytes], value: Any) -> None:
        for part, element in zip(parts, value, strict=True):
            part.write(pieces, element)

    words = ", ".join(part.words for part in parts)
    return Codec(lambda cursor: tuple([part.read(cursor) for part in parts]), write, words)


def _partition(flexible: bool) -> Codec:
    """Codec of a partition: topic and index."""
    topic, index = _primitive("string", flexible), _primitive("int32", flexible)

    def write(pieces: list[bytes], tp: Any) -> None:
        topic.write(pieces, topic_of(tp))
        index.write(pieces, index_of(tp))

    return Codec(lambda cursor: tp_of(topic.read(cursor), index.read(cursor)), write, "topic string, partition int32")


def _optional(kind: Any, flexible: bool) -> Codec:
    """Codec of a value or None: a null string, -1 for numbers, else an array of at most one."""
    if kind is str:
        return _primitive("string", flexible, nullable=True)
    if kind in _NUMBERS:
        number = codec(kind, flexible)

        def read(cursor: Cursor) -> object:
            found = number.read(cursor)
            return None if found == _NONE else found

        def write(pieces: list[bytes], value: object) -> None:
            number.write(pieces, _NONE if value is None else value)

        return Codec(read, write, f"{number.words}, {_NONE} for none")
    several = _array(kind, flexible)

    def read_one(cursor: Cursor) -> object:
        found = several.read(cursor)
        return only(found) if found else None

    return Codec(
        read_one,
        lambda pieces, value: several.write(pieces, () if value is None else (value,)),
        f"{several.words}, at most one",
    )


def _primitive(kind: str, flexible: bool, *, nullable: bool = False) -> Codec:
    read = primitive_reader(kind, flexible, nullable=nullable)
    return Codec(read, primitive_writer(kind, flexible), f"nullable {kind}" if nullable else kind)
