"""Changes to a history of our own that must not change the verdict, such as other names.

Names inside of texts (what an administrator asked for, what a controller noted) change with the others.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import asdict, replace

from history.history import History
from history.op import Operation, OpType

NODES = {"b1": "node-z", "b2": "node-y", "b3": "node-x", "b4": "node-w"}  # the other way round in any order of names
_WORD = re.compile(r"[A-Za-z]\w*")


def _renamed(row: Struct, names: dict[str, str], columns: tuple[str, ...]) -> dict[str, object]:
    """Replace these words in these columns, also inside longer texts."""
    changed: dict[str, object] = {}
    for column, value in asdict(row).items():
        if column in columns and isinstance(value, str):
            changed[column] = _WORD.sub(lambda word: names.get(word[0], word[0]), value)
        elif column in columns and isinstance(value, tuple):
            changed[column] = tuple(names.get(element, element) if isinstance(element, str) else element for element in value)
    return changed


def _renamed_rows(history: History, names: dict[str, str], columns: tuple[str, ...]) -> tuple[list[Operation], list[object]]:
    """The operations and the events of a history with other names in these columns."""
    return (
        [replace(row, **_renamed(row, names, columns)) for row in history.operations],
        [replace(row, **_renamed(row, names, columns)) for row in history.events],
    )


def other_nodes(history: History) -> History:
    """Rename the brokers."""
    columns = ("node", "broker", "leader", "isr", "elr", "replicas", "detail", "value")
    operations, events = _renamed_rows(history, NODES, columns)
    original = history.manifest
    manifest = replace(
        original,
        brokers=tuple(NODES.get(node, node) for node in original.brokers),
        assignments=tuple(
            replace(assignment, replicas=tuple(NODES.get(n, n) for n in assignment.replicas))
            for assignment in original.assignments
        ),
    )
    return History(manifest, operations=operations, events=events)  # type: ignore[arg-type]


def other_topics(history: History) -> History:
    """Rename the topics."""
    original = history.manifest
    names = {topic.topic: f"a_{topic.topic}" for topic in original.promise.topics}
    operations, events = _renamed_rows(history, names, ("topic", "detail", "value"))
    promise = replace(
        original.promise,
        topics=tuple(replace(promised_topic, topic=names[promised_topic.topic]) for promised_topic in original.promise.topics),
    )
    assignments = tuple(
        replace(promised_topic, topic=names.get(promised_topic.topic, promised_topic.topic))
        for promised_topic in original.assignments
    )
    manifest = replace(original, promise=promise, assignments=assignments)
    return History(manifest, operations=operations, events=events)  # type: ignore[arg-type]


def other_values(history: History) -> History:
    """Rename the values, keeping different values different."""
    return History(
        history.manifest,
        operations=[
            replace(row, value=f"~{row.value[::-1]}")
            if row.f in ("produce", "poll", "send", "log") and row.value is not None
            else row
            for row in history.operations
        ],
        events=[
            replace(row, value=row.value and f"~{row.value[::-1]}", digest=row.digest and f"~{row.digest[::-1]}")
            for row in history.events
        ],
    )


def other_processes(history: History) -> History:
    """Renumber the processes in the opposite order."""
    operations = [replace(row, process=100_000 - 7 * row.process) for row in history.operations]
    return History(history.manifest, operations=operations, events=history.events)


def later(history: History) -> History:
    """Shift all times by a day."""
    day = 86_400 * 1_000_000_000
    original = history.manifest
    times = {
        name: at + day for name in ("healed_at_ns", "final_reads_at_ns", "end_ns") if (at := getattr(original, name)) is not None
    }
    return History(
        replace(original, **times),
        operations=[replace(row, time_ns=row.time_ns + day) for row in history.operations],
        events=[replace(row, time_ns=row.time_ns + day) for row in history.events],
    )


def with_gaps(history: History) -> History:
    """Renumber the rows in the same order, with gaps."""
    return History(
        history.manifest,
        operations=[replace(row, index=3 * row.index + 11) for row in history.operations],
        events=[replace(row, index=3 * row.index + 11) for row in history.events],
    )


def with_an_answer_more(history: History) -> History:
    """Append a failed call of a new process at the end; LIVE-5 does not ask for the earliest offset, so it proves nothing."""
    places_of_rows = [(row.index, row.time_ns) for row in history.operations] + [
        (row.index, row.time_ns) for row in history.events
    ]
    last, time_ns = max(places_of_rows)
    topic = history.manifest.promise.topics[0].topic
    invocation = Operation(
        index=last + 1, process=424_242, type=OpType.INVOKE, f="earliest", topic=topic, partition=0, time_ns=time_ns
    )
    completion = replace(invocation, index=last + 2, type=OpType.FAIL, error="NOT_LEADER_OR_FOLLOWER")
    return History(history.manifest, operations=[*history.operations, invocation, completion], events=history.events)


@dataclass(frozen=True, slots=True)
class Law:
    """A change, and the new name of each anomaly key."""

    change: Callable[[History], History]
    key: Callable[[str], str] = lambda key: key


LAWS: dict[str, Law] = {
    "nodes": Law(other_nodes, lambda key: NODES.get(key, key)),
    "topics": Law(other_topics, lambda key: f"a_{key}" if re.search(r"-\d+$", key) else key),
    "values": Law(other_values),
    "processes": Law(other_processes),
    "time": Law(later),
    "indices": Law(with_gaps),
    "an answer more": Law(with_an_answer_more),
}
