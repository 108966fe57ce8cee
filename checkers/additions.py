"""Partitions whose addition was confirmed and that were never made (V3 §H, docs/promise.md LIVE-4).

The request to add a partition is deleted once it is carried out or refused, and then the administrator is told that it is done.
So a partition whose addition was confirmed, and that no controller refused, was assigned to brokers.

Not judged are partitions that were removed, and those of topics that were deleted: the addition may have come too early or too
late.
"""

from checkers.rows import Call, EventRow
from history.event import EventKind as K

REQUEST = "add-partition"
_ENDS = "delete-topic"


def unmade(done: list[Call], rows: list[tuple[str, EventRow]], refused: list[str]) -> list[str]:
    """Describe each confirmed addition without a partition; `refused`: what the controllers said of refused requests."""
    assigned = {name for name, row in rows if row.kind == K.ASSIGNED}
    removed = {name for name, row in rows if row.kind == K.TOPIC_DELETED}
    deleted = {call.asked[0].value for call in done if call.f == _ENDS}
    found = []
    for call in done:
        name, _ = call.request
        topic, _, index = name.rpartition("-")
        known = any(one.rpartition("-")[0] == topic for one in assigned)
        if call.f != REQUEST or call.type != "ok" or not known or name in assigned | removed or topic in deleted:
            continue
        if not any(f"/{topic}/{index}:" in said for said in refused):
            found.append(f"{name} was never made, though its addition was confirmed at row {call.ended}")
    return found
