"""Divide the rows of a partition by topic id, because several topics may have had one name (docs/promise.md DUR-8, KIP-516).

A topic that was deleted and created again is another topic. Each topic is judged by itself, up to the `topic-deleted` row of its
id; the same holds for a removed partition, even if it is added again. An event without an id belongs to every topic of the name.
An operation without an id belongs to the topic that its invocation or completion names, otherwise to the newest topic that
existed when it was invoked. Where no operation names an id (clients of Kafka name topics), a call that was open when a later
topic was made may have come to that one as well: there it is a call without an answer.
"""

import sys
from typing import NamedTuple

from checkers.engine.tables import Events, Operations
from history.event import EventKind as K


class Life(NamedTuple):
    """The rows of one topic, by topic id, for one partition; several topics may have had the same name in turn."""

    topic_id: str  # "" if the rows name none
    deleted: bool
    operations: Operations
    events: Events


_NEVER = sys.maxsize
LOOKS = [str(kind) for kind in (K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK, K.RECORD_ON_DISK)]


def lives(operations: Operations, events: Events) -> list[Life]:
    """Divide one partition's rows by topic id, oldest topic first."""
    ended: dict[str, int] = {}
    for topic_id, index in events.of(K.TOPIC_DELETED).columns("topic_id", "index"):
        ended[topic_id or ""] = min(index, ended.get(topic_id or "", index))
    # The final observations may be stale: a topic that only they name was never written, led or read, and is ignored.
    named = (operations.distinct("topic_id") | events.without(*LOOKS).distinct("topic_id")) - {None}
    if len(named) <= 1 and not ended:
        return [Life(min(named, default=""), False, operations, events)]
    ids = sorted(named or [""], key=_age)
    of_call = _topics_of_calls(operations, events, ids)
    late = {} if operations.distinct("topic_id") - {None} else _open_calls(operations, events, of_call)
    all_lives = []
    for topic_id in ids:
        end = ended.get(topic_id, _NEVER)
        calls = zip(operations.places, operations.column("index"), strict=True)
        came_late = late.get(topic_id, set())
        own = operations.at(
            [place for place, index in calls if index < end and (of_call[index] == topic_id or index in came_late)]
        )
        rows = zip(events.places, *map(events.column, ("index", "topic_id")), strict=True)
        about = events.at([place for place, index, named_id in rows if named_id in (None, topic_id) and index < end])
        all_lives.append(Life(topic_id, topic_id in ended, own, about))
    return all_lives


def _open_calls(operations: Operations, events: Events, of_call: dict[int, str]) -> dict[str, set[int]]:
    """The invocations of earlier topics that were open when each topic was made, or are still without an answer then."""
    made: dict[str, int] = {}
    for topic_id, index in events.columns("topic_id", "index"):
        if topic_id is not None:
            made[topic_id] = min(index, made.get(topic_id, index))
    answered: dict[int, int] = {}  # index of an invocation -> that of its completion
    invoked: dict[int, int] = {}
    for index, process, type_ in operations.columns("index", "process", "type"):
        if type_ == "invoke":
            invoked[process] = index
            answered.setdefault(index, _NEVER)
        elif process in invoked:
            certain = type_ in ("ok", "fail")
            answered[invoked.pop(process)] = index if certain else _NEVER
    return {
        topic_id: {
            index for index, ended in answered.items() if index < at < ended and of_call[index] != topic_id and index in of_call
        }
        for topic_id, at in made.items()
    }


def _age(topic_id: str) -> tuple[int, str]:
    """Sort key: numeric ids by number (newer topics have greater ids), other ids alphabetically and first."""
    return (int(topic_id), "") if topic_id.isdecimal() else (0, topic_id)


def _topics_of_calls(operations: Operations, events: Events, ids: list[str]) -> dict[int, str]:
    """The topic id that each client invocation and completion is about, by its row index."""
    since: dict[str, int] = {}
    for known_id, index in events.columns("topic_id", "index"):
        since[known_id] = min(index, since.get(known_id, index))
    topics: dict[int, str] = {}
    invoked: dict[int, int] = {}  # process -> index of its open invocation
    for index, process, type_, topic_id in operations.columns("index", "process", "type", "topic_id"):
        if type_ == "invoke":
            invoked[process] = index
            ids_known = [known for known in ids if since.get(known, index) <= index]
            topics[index] = topic_id or (ids_known[-1] if ids_known else ids[0])
        else:
            half = invoked.get(process, index)
            topics[index] = topic_id or topics.get(half, ids[-1])
            topics[half] = topics[index]
    return topics
