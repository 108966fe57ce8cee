"""Records of deleted topics: a recorded run on Kafka 4.1.0 is VALID; with one record in the topic made again it is not.

The run performed corpus/real/create-delete.yaml.
"""

from collections.abc import Callable
from functools import cache

import pytest
from msgspec.structs import replace

from checkers.durability.deleted_records import CHECKER
from checkers.engine.verdict import Validity
from checkers.judge import judge
from checkers.sketches import history_of
from history import store
from history.event import EventKind as K
from history.history import History
from history.op import OpType
from tests.tidy.sources import ROOT

RECORDED = ROOT / "tests" / "highwater" / "kafka-4.1.0-create-delete"
FIRST = ("assigned replicas=b1 topic_id=1", "ok produce value=a offset=0 attempts=1", "topic-deleted topic_id=1")
AGAIN = "assigned replicas=b1 topic_id=2"
ON_DISK = "record-on-disk node=b1 dir=0 offset=0 value=a"


@cache
def recorded_history() -> History:
    return store.load(RECORDED)


def kinds(history: History) -> list[str]:
    return [anomaly.kind for anomaly in judge(history, (CHECKER,)).anomalies]


def test_recorded_run_that_makes_topics_again_is_valid() -> None:
    verdict = judge(recorded_history())

    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.not_live) == (Validity.VALID, True, (), ())
    assert verdict.counts["deleted_records"] > 10


def record_of_first_topic() -> str:
    """A record that was acknowledged before the topic `again` was deleted first."""
    history = recorded_history()
    deleted = next(row.index for row in history.events if row.kind is K.TOPIC_DELETED and row.topic == "again")
    rows = (row for row in history.operations if row.f == "produce" and row.topic == "again" and row.index < deleted)
    return next(row.value or "" for row in rows if row.type is OpType.OK and row.attempts == 1)


def on_disk(history: History) -> History:
    """The history with that record in place of one that a disk holds at the end."""
    at = next(i for i, row in enumerate(history.events) if row.kind is K.RECORD_ON_DISK and row.topic == "again")
    events = list(history.events)
    events[at] = replace(events[at], value=record_of_first_topic())
    return History(history.manifest, operations=history.operations, events=events)


def read(history: History) -> History:
    """The history with that record in place of one that a final reader was given."""
    began = history.manifest.final_reads_at_ns or 0
    rows = list(history.operations)
    places = (i for i, row in enumerate(rows) if row.f == "poll" and row.topic == "again" and row.time_ns > began)
    at = next(i for i in places if rows[i].type is OpType.OK and rows[i].value is not None)
    rows[at] = replace(rows[at], value=record_of_first_topic())
    return History(history.manifest, operations=rows, events=history.events)


@pytest.mark.parametrize("changed", [on_disk, read])
def test_record_of_a_deleted_topic_at_the_end_is_found(changed: Callable[[History], History]) -> None:
    assert kinds(changed(recorded_history())) == ["other-topic"]


@pytest.mark.parametrize(
    "rows",
    [
        (FIRST[0], "info produce value=a attempts=1", FIRST[2], AGAIN, ON_DISK),  # it may have come late
        (FIRST[0], "ok produce value=a offset=0 attempts=2", FIRST[2], AGAIN, ON_DISK),  # so may its other attempt
        (FIRST[0], "ok produce value=a offset=0 attempts=1 delivery=once", FIRST[2], AGAIN, ON_DISK),
        (*FIRST, AGAIN, "ok produce value=a offset=0 attempts=1", ON_DISK),  # it was sent again
        (*FIRST, AGAIN, "topic-deleted topic_id=2", ON_DISK),  # `convergence` judges what is left then
        (*FIRST, ON_DISK),
    ],
)
def test_record_that_may_be_of_the_later_topic_is_no_anomaly(rows: tuple[str, ...]) -> None:
    assert kinds(history_of(*rows)) == []


@pytest.mark.parametrize("answer", ["info produce value=a", "ok produce value=a offset=0 attempts=1"])
def test_call_that_was_open_may_come_to_the_later_topic(answer: str) -> None:
    """A client names topics, and keeps a record for its timeout: it is no phantom in the topic that was made meanwhile.

    So it was in a run on Kafka 4.1.0, where the call was acknowledged by the later topic and its client went on.
    """
    sent = ("invoke produce value=a", "topic-deleted topic_id=1", AGAIN, answer)
    later = ("ok produce value=b offset=1 attempts=1",)
    verdict = judge(history_of(FIRST[0], *sent, *later, "ok poll process=2 offset=0 value=a"))

    assert [anomaly.kind for anomaly in verdict.anomalies if anomaly.kind == "phantom-read"] == []
