"""Histories of earlier schema versions, read as histories of this one.

Version 1 had fewer columns. Four kinds of events kept numbers and names in columns that are meant for something else; `MOVED`
lists them. A reader moves these values into the columns of version 2 and renews the digest of the manifest, which covers the
columns. `History` and the checkers thus see one schema. Nothing is written in an earlier version.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from history.columns import EVENTS
from history.digest import digest
from history.event import ClusterEvent, EventKind
from history.manifest import SCHEMA_VERSION, RunManifest
from history.op import Operation

# Kind, its column in version 1, its column since version 2.
MOVED = (
    (EventKind.FAULT_ACTED, "offset", "count"),
    (EventKind.GAUGE, "offset", "gauge"),
    (EventKind.BROKER_STATE, "leader", "broker"),
    (EventKind.LOG_ON_DISK, "value", "digest"),
)
_COLUMNS = {kind: (old, new) for kind, old, new in MOVED}
ADDED = tuple(column.name for column in EVENTS if column.since > 1)


def unknown_column(event: ClusterEvent) -> str | None:
    """The first column of a history's row that schema version 1 does not have; None if there is none."""
    return next((name for name in ADDED if getattr(event, name) is not None), None)


def upgraded(event: ClusterEvent) -> ClusterEvent:
    """Convert a history's row of schema version 1 to this version's columns."""
    if event.kind not in _COLUMNS:
        return event
    old, new = _COLUMNS[event.kind]
    return replace(event, **{old: None, new: getattr(event, old)})


def digest_in(version: int, operations: Sequence[Operation], events: Sequence[ClusterEvent]) -> str:
    """The digest of a history as an earlier schema version computed it, to check the digest stored in an old manifest."""
    return digest(operations, events if version == SCHEMA_VERSION else [_downgraded_event(event) for event in events])


def upgraded_manifest(manifest: RunManifest, digest: str) -> RunManifest:
    """The manifest of a history that was converted to this schema version; `digest` is that of the converted rows."""
    return replace(manifest, schema_version=SCHEMA_VERSION, digest=digest if manifest.digest else "")


def _downgraded_event(event: ClusterEvent) -> ClusterEvent:
    if event.kind not in _COLUMNS:
        return event
    old, new = _COLUMNS[event.kind]
    return replace(event, **{old: getattr(event, new), new: None})
