"""What stands in an entity of Kafka's protocol, field by field: read off kio's generated classes, or classes of ours like them.

An entity is a frozen dataclass with `__flexible__` (KIP-482). kio's fields name their Kafka type in their metadata; ours are
annotated with the types below. A field with a tag may be absent and then has its default; nothing else may.
"""

import dataclasses
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, ClassVar, Protocol, Union, cast, get_args, get_origin
from uuid import UUID

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Uuid = Annotated[UUID | None, "uuid"]

_BY_CLASS = {str: "string", bool: "bool", bytes: "bytes"}


class Entity(Protocol):
    """A request, a response or a part of one, in one version."""

    __flexible__: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """One field. `kafka_type` is a name of Kafka's, or the class of a nested entity; of an array it is that of its elements."""

    name: str
    kafka_type: str | type[Entity]
    array: bool
    nullable: bool
    tag: int | None
    default: object  # of a field with a tag


def tagged(tag: int, kafka_type: str) -> dict[str, object]:
    """Metadata of a field of ours that stands among the tagged ones, as kio writes it."""
    return {"tag": tag, "kafka_type": kafka_type}


def fields_of(entity: type[Entity]) -> tuple[FieldSchema, ...]:
    """All fields in their order on the wire, the tagged ones last and by their tags."""
    found = [_field(field) for field in dataclasses.fields(entity)]
    plain = [field for field in found if field.tag is None]
    return (*plain, *sorted((field for field in found if field.tag is not None), key=lambda field: field.tag or 0))


def _field(field: dataclasses.Field[object]) -> FieldSchema:
    inner, nullable = _without_none(field.type)
    array = get_origin(inner) is tuple
    if array:
        inner = get_args(inner)[0]
    tag = field.metadata.get("tag")
    assert tag is None or field.default is not dataclasses.MISSING, f"{field.name} may be absent and has no default"
    named = field.metadata.get("kafka_type")
    kafka_type = named if isinstance(named, str) else _kafka_type(inner)
    return FieldSchema(name=field.name, kafka_type=kafka_type, array=array, nullable=nullable, tag=tag, default=field.default)


def _without_none(annotation: object) -> tuple[object, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    rest = [part for part in get_args(annotation) if part is not NoneType]
    assert len(rest) == 1, f"{annotation} is more than one type"
    return rest[0], True


def _kafka_type(annotation: object) -> str | type[Entity]:
    if get_origin(annotation) is Annotated:
        return str(get_args(annotation)[1])
    assert isinstance(annotation, type)
    if dataclasses.is_dataclass(annotation):
        return cast(type[Entity], annotation)
    return _BY_CLASS[annotation]
