"""Messages, notes and ZooKeeper requests as one line each, for scenarios.

Fields have the names of the code. Left out are fields at their default, correlations, topic ids, and each broker's first
registration: `3` is broker 3, and `3#2` is broker 3 under its second registration.
"""

from enum import IntEnum

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from reference.coordination import paths
from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Written,
)
from reference.effects import Effect, Note, Send, WriteCheckpoint, ZkRequest
from reference.events import Event
from reference.messages import AnyMessage, Batch, IsrChange, IsrMember, MetadataHeartbeat
from reference.sealed import count, in_the_clear
from reference.types import Incarnation

Registrations = dict[Incarnation, str]  # czxid -> "3#2"
_LEFT_OUT = frozenset(
    {"born", "controller", "correlation", "created", "error_string", "leader_incarnation", "max_bytes", "max_records"}
    | {"max_wait_ms", "message", "number", "timeout_ms", "topic_id"}
)
_UNNAMED = frozenset(
    {"batches", "changes", "detail", "ends", "errors", "kind", "partitions", "results", "state", "states", "tp", "values"}
)
_VERBS = {
    Create: "create",
    SetData: "set",
    Delete: "delete",
    Check: "check",
    GetData: "read",
    Exists: "read",
    GetChildren: "list",
}
_ROWS = frozenset({"changes", "ends", "partitions", "results", "states"})  # last, and each in its line if there are several
_REPEATED = frozenset({"controller_epoch"})  # a command has it already


def message_in_words(message: AnyMessage, registrations: Registrations) -> str:
    """A message: its kind and its fields."""
    return f"{type(message).__name__} {fields_in_words(message, registrations)}".rstrip()


def fields_in_words(value: Struct, registrations: Registrations, *, skip: frozenset[str] = frozenset()) -> str:
    """The fields of a message or note that differ from their default, as name=value."""
    words = []
    for field in sorted(fields(value), key=lambda field: field.name in _ROWS):
        content = getattr(value, field.name)
        if content is False or field.name in _LEFT_OUT | skip:
            continue
        if content is not True and field.default is not NODEFAULT and content == field.default:
            continue
        if field.name in ("incarnation", "broker_incarnation"):
            content = registrations.get(content, "#1")
            if content.endswith("#1") and not isinstance(value, MetadataHeartbeat | IsrChange):
                continue
        word = field.name if content is True else _word(field.name, content, registrations)
        words.append(word if content is True or field.name in _UNNAMED else f"{field.name}={word}")
    return " ".join(word for word in words if word)


def _word(name: str, value: object, registrations: Registrations) -> str:
    match value:
        case None:
            return "none"
        case IntEnum():
            return value.name
        case IsrMember(broker=broker, incarnation=incarnation):
            registration = registrations.get(incarnation, "#1")
            return str(broker) if registration.endswith("#1") else registration
        case Batch(base_offset=offset, leader_epoch=epoch, values=values):
            words = f"{count(values)} sealed" if isinstance(values, bytes) else ",".join(in_the_clear(values))
            return f"{offset}:{words}@{epoch}"
        case Struct():
            return fields_in_words(value, registrations, skip=_REPEATED if name in ("states", "state") else frozenset())
        case tuple() if name == "errors":
            return " ".join(f"{tp}:{error.name}" for tp, error in value)
        case tuple():
            apart = f"\n{' ' * 11}" if name in _ROWS else ","
            words = apart.join(_word(name, item, registrations) for item in value) or "-"
            return f"{apart}{words}" if name in _ROWS and len(value) > 1 else words
        case bytes():
            return f"{count(value)} sealed"
        case _:
            return str(value)


def effect_in_words(effect: Effect | Event, registrations: Registrations) -> str:
    """An effect or an event: a message with its receiver, operations of ZooKeeper, or the kind and its fields."""
    match effect:
        case Send(to=to, message=message):
            return f"-> {to} {message_in_words(message, registrations)}"
        case ZkRequest(ops=ops, atomic=atomic):
            return f"{'at once: ' if atomic else ''}{', '.join(_op_in_words(op, registrations) for op in ops)}"
        case WriteCheckpoint(entries=entries):
            return " ".join(["checkpoint", *(f"{tp}:{hw}" for tp, hw in entries)])
        case Note():
            return fields_in_words(effect, registrations)
        case _:
            return f"{type(effect).__name__} {fields_in_words(effect, registrations)}".rstrip()


def content_in_words(path: str, data: bytes, registrations: Registrations) -> str:
    """What a znode holds: the state of a partition as fields, other content as it is."""
    tp = paths.tp_of_state_path(path)
    if tp is None:
        return data.decode()
    state = paths.decode_state(tp, (), Data(data, 0, 0))
    return fields_in_words(state, registrations, skip=frozenset({"tp", "zk_version", "replicas"}))


def exchange_in_words(op: AnyOp, answer: AnyAnswer, registrations: Registrations) -> str:
    """An operation on ZooKeeper and its answer: `= ` what was read, `-> ` the version written, `! ` an error."""
    return _op_in_words(op, registrations, answer)


def _op_in_words(op: AnyOp, registrations: Registrations, answer: AnyAnswer | None = None) -> str:
    content = f" {content_in_words(op.path, op.data, registrations)}".rstrip() if isinstance(op, Create | SetData) else ""
    depends = f" v{op.version}" if isinstance(op, SetData | Check) and op.version >= 0 else ""
    answered = "" if answer is None else _answer(op, answer, registrations)
    return f"{_VERBS[type(op)]} {op.path}{depends}{answered}{content}"


def _answer(op: AnyOp, answer: AnyAnswer, registrations: Registrations) -> str:
    match answer:
        case Data(data=data, version=version):
            return f" = v{version} {content_in_words(op.path, data, registrations)}"
        case Children(names=names):
            return f" = {','.join(names) or '-'}"
        case Created(path=path):
            return "" if path == op.path else f" -> {path.rpartition('/')[2]}"
        case Written(version=version):
            return f" -> v{version}"
        case Deleted() | Checked():
            return ""
        case _:
            return f" ! {type(answer).__name__}"
