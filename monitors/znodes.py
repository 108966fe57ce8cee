"""Rules of the znodes: what a process writes to ZooKeeper stands where the documents say, and in their form.

The paths and forms are written here a second time, in the words of the documents. A process that changed one for reading and
writing alike would agree with itself, and with no other tool or release.
"""

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from msgspec import Struct

from monitors.engine import Never, Rule
from monitors.patterns import Key, Memory, asked, noted
from reference.config import BrokerConfig
from reference.coordination.api import AnyOp, Check, Create, Delete, Exists, GetChildren, GetData, SetData
from reference.effects import Note


class _Form(Struct, forbid_unknown_fields=True):
    """The JSON of a znode; nothing may be missing, and nothing else may stand in it."""

    version: int


class _Controller(_Form):
    brokerid: int


class _Broker(_Form):  # R-150, of BrokerInfo version 4 or 5
    host: str
    port: int
    jmx_port: int


class _Topic(_Form):
    partitions: dict[str, list[int]]


class _State(_Form):  # R-152, and what this implementation adds
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: list[int]
    leader_incarnation: int
    incarnations: list[int]
    elr: list[int]
    elr_incarnations: list[int]


class _Move(Struct, forbid_unknown_fields=True):
    topic: str
    partition: int
    replicas: list[int]
    original_replicas: list[int] = []


class _Moves(_Form):
    partitions: list[_Move]


class _Request(_Form):
    assignments: dict[str, dict[str, list[int]]]
    legacy: bool = False


class _InFlight(_Form):  # and what this implementation adds
    replicas: list[int]
    top: int
    original_replicas: list[int]
    held: list[int]
    drop: list[int] = []
    legacy: bool = False


class _LogDirEvent(_Form):
    broker: int
    event: int


class _ProducerIds(_Form):  # Kafka's /latest_producer_id_block
    broker: int
    block_start: str
    block_end: str


class Znode(Struct, frozen=True):
    """A znode of the documents. `form`: the type of its JSON, None where the path alone counts, bytes for no data."""

    path: str  # a part `*` is a name
    form: type | None = None
    ephemeral: bool = False
    sequential: bool = False


_ZNODES = (
    Znode("/controller", _Controller, ephemeral=True),
    Znode("/controller_epoch", int),
    Znode("/brokers", bytes),
    Znode("/brokers/ids", bytes),
    Znode("/brokers/ids/*", _Broker, ephemeral=True),
    Znode("/brokers/topics", bytes),
    Znode("/brokers/topics/*", _Topic),
    Znode("/brokers/topics/*/partitions", bytes),
    Znode("/brokers/topics/*/partitions/*", bytes),
    Znode("/brokers/topics/*/partitions/*/state", _State),
    Znode("/admin"),
    *(Znode(f"/admin/{kind}{below}") for kind in ("partitions_add", "partitions_remove") for below in ("", "/*", "/*/*")),
    Znode("/admin/partitions_reassigned"),
    Znode("/admin/partitions_reassigned/*"),
    Znode("/admin/partitions_reassigned/*/*"),
    Znode("/admin/preferred_replica_election"),
    Znode("/admin/unclean_election"),  # docs/promise.md DUR-7
    Znode("/admin/delete_topics"),
    Znode("/admin/reassign_partitions", _Moves),
    Znode("/admin/reassign_partitions_extra", _Moves),
    Znode("/admin/reassign_cancel", bytes),
    Znode("/admin/reassignment_requests", bytes),
    Znode("/admin/reassignment_requests/request_*", _Request, sequential=True),
    Znode("/admin/reassignments", bytes),
    Znode("/admin/reassignments/*", bytes),
    Znode("/admin/reassignments/*/*", _InFlight),
    Znode("/log_dir_event_notification", bytes),
    Znode("/log_dir_event_notification/log_dir_event_*", _LogDirEvent, sequential=True),
    Znode("/latest_producer_id_block", _ProducerIds),
)


@lru_cache(maxsize=4096)
def documented_znode(path: str) -> Znode | None:
    """The znode of the documents that stands at this path; None if none does."""
    parts = path.split("/")
    return next((znode for znode in _ZNODES if _fits_pattern(znode.path.split("/"), parts)), None)


def _fits_pattern(wanted: list[str], parts: list[str]) -> bool:
    """Whether a path fits a pattern, part by part; `*` at the end of a part stands for any text."""
    return len(wanted) == len(parts) and all(
        part.startswith(want.removesuffix("*")) if want.endswith("*") else part == want
        for want, part in zip(wanted, parts, strict=True)
    )


def _undocumented_path(op: AnyOp, memory: Memory) -> Iterable[Key]:
    return [(op.path,)] if documented_znode(op.path) is None else ()


def _path_of_other_form(op: Create | SetData, memory: Memory) -> Iterable[Key]:
    """The path that is written to, if the write has not the form of its znode."""
    znode = documented_znode(op.path)
    if znode is not None and not _has_form_of(znode, op, memory):
        yield (op.path,)


def _has_form_of(znode: Znode, op: Create | SetData, memory: Memory) -> bool:
    """Whether a write fits a kind of znode: how it is created, and the form and meaning of its data."""
    if isinstance(op, Create) and (op.ephemeral, op.sequential) != (znode.ephemeral, znode.sequential):
        return False
    if znode.form in (None, bytes):
        return znode.form is None or not op.data
    try:
        return _has_right_fields(msgspec.json.decode(op.data, type=znode.form), op, memory.config)
    except msgspec.DecodeError:
        return False


def _has_right_fields(found: object, op: Create | SetData, config: BrokerConfig) -> bool:
    """Whether the JSON has the version of its form, and names this broker where it must."""
    match found:
        case _Controller(version=version, brokerid=broker):
            return (version, broker) == (1, config.broker)
        case _Broker(version=version, host=host, port=port):
            is_own = op.path.endswith(f"/{config.broker}") and (host, port) == (config.host, config.port)
            return version in (4, 5) and is_own
        case _LogDirEvent(version=version, broker=broker, event=event):
            return (version, broker, event) == (1, config.broker, 1)
        case _Form(version=version):
            return version == 1
    return True


def _controller_not_owned(note: Note, memory: Memory) -> Iterable[Key]:
    """The path of the controller's znode, if this session does not own it."""
    if memory.of("owns", "/controller") != memory.of("session"):
        yield ("/controller",)


def _registration_not_owned(note: Note, memory: Memory) -> Iterable[Key]:
    """The path of the broker's own registration, if this session does not own it."""
    path = f"/brokers/ids/{memory.config.broker}"
    if memory.of("owns", path) != memory.of("session"):
        yield (path,)


ZNODES: tuple[Rule, ...] = (
    Never(
        name="elected-without-znode",
        clause="R-001, R-041",
        says="the broker took office, and {0} is not of its session",
        what=noted("controller-elected", keys=_controller_not_owned),
    ),
    Never(
        name="registered-without-znode",
        clause="R-002, R-181",
        says="the broker took itself for registered, and {0} is not of its session",
        what=noted("registered", keys=_registration_not_owned),
    ),
    Never(
        name="unknown-znode",
        clause="R-001 to R-008, R-147 to R-154, R-245, R-246, R-299",
        says="no document names the path {0}",
        what=asked(Create, SetData, Delete, Check, GetData, Exists, GetChildren, keys=_undocumented_path),
    ),
    Never(
        name="another-znode-form",
        clause="R-001, R-002, R-148 to R-154, R-230, R-245, R-246, R-299",
        says="what was written to {0} has not the form of the documents",
        what=asked(Create, SetData, keys=_path_of_other_form),
    ),
)
