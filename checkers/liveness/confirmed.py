"""Additions and deletions that were confirmed and never carried out (V3 §H, R-149, docs/promise.md LIVE-4).

The request to add a partition or to delete a topic is deleted once it is carried out or refused, and then the administrator is
told that it is done. So a partition whose addition was confirmed, and that no controller refused, was assigned to brokers; and
the deletion of a topic that was there, if it was confirmed, began while the administrator waited.

Not judged are additions of partitions that were removed, and to topics that were deleted: they may have come too early or too
late. Deletions are judged in simulated runs only: on real nodes the rows of administrators and of ZooKeeper come by different
clocks.
"""

from checkers.engine.rows import Call, EventRow
from history.event import EventKind as K

_ADD = "add-partition"
_DELETE = "delete-topic"
_LIVES = (K.ASSIGNED, K.TOPIC_DELETED)


def unmade(calls: list[Call], rows: list[tuple[str, EventRow]], refused: list[str]) -> list[str]:
    """Describe each confirmed addition without a partition; `refused`: what the controllers said of refused requests."""
    assigned = {name for name, row in rows if row.kind == K.ASSIGNED}
    removed = {name for name, row in rows if row.kind == K.TOPIC_DELETED}
    deleted = {call.asked[0].value for call in calls if call.f == _DELETE}
    complaints = []
    for call in calls:
        name, _ = call.request
        topic, _, index = name.rpartition("-")
        topic_exists = any(assigned_name.rpartition("-")[0] == topic for assigned_name in assigned)
        if call.f != _ADD or call.type != "ok" or not topic_exists or name in assigned | removed or topic in deleted:
            continue
        if not any(f"/{topic}/{index}:" in refusal for refusal in refused):
            complaints.append(f"{name} was never made, though its addition was confirmed at row {call.ended}")
    return complaints


def undeleted(calls: list[Call], rows: list[tuple[str, EventRow]], refused: list[str]) -> list[str]:
    """Describe each confirmed deletion of a topic that was there and stayed; `refused` as above."""
    complaints = []
    for call in calls:
        topic = call.asked[0].value
        unknown = any("/delete_topics:" in refusal and topic in refusal.rpartition(": ")[2].split(", ") for refusal in refused)
        if call.f != _DELETE or call.type != "ok" or unknown:
            continue
        topic_rows = [row for name, row in rows if name.rpartition("-")[0] == topic and row.at < call.ended]
        last = next((row.kind for row in reversed(topic_rows) if row.at < call.invoked and row.kind in _LIVES), None)
        ended = any(row.kind == K.TOPIC_DELETED and row.at > call.invoked for row in topic_rows)
        if last == K.ASSIGNED and not ended:
            complaints.append(f"{topic} was not deleted, though its deletion was confirmed at row {call.ended}")
    return complaints
