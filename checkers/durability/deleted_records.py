"""Checker of a black box: no record of a deleted topic comes back under the topic that has its name now (docs/promise.md DUR-8).

It judges as `topic_identity` does, without the appends of brokers and without topic ids in answers: clients name topics only. A
record belongs to a topic for certain if it was sent once, and the acknowledgement came before the deletion of that topic and
after its creation. If a final read returns it from a later topic of the name, or a disk holds it as a record of that topic at the
end, it came from a log that should have been deleted.

A client may have learned of the later topic late and may read from the deleted one meanwhile, which is stale and not wrong
(VIS-3), so earlier reads are not judged.

    >>> from checkers.durability.deleted_records import CHECKER
    >>> from checkers.judge import judge
    >>> from checkers.sketches import history_of
    >>> first = "assigned replicas=b1 topic_id=1", "ok produce value=a offset=0 attempts=1", "topic-deleted topic_id=1"
    >>> again = "assigned replicas=b1 topic_id=2", "record-on-disk node=b1 dir=0 offset=0 value=a"
    >>> [one.kind for one in judge(history_of(*first, *again), (CHECKER,)).anomalies]
    ['other-topic']
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from checkers.durability.topic_identity import OTHER_TOPIC
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_final
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "deleted-records"
_NEVER = 1 << 62
_MADE = (K.ASSIGNED, K.STATE_WRITTEN)
_ONCE = "once"  # an idempotent producer may have sent a record again


class _Life(NamedTuple):
    """A topic of the name: its id, the row that made it, and the row of its deletion."""

    topic_id: str
    made: int
    ended: int


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge one partition over all topics that had its name."""
    lives = _lives(events)
    if len(lives) < 2:
        return Findings()
    calls = operations.calls
    owners = _owners(calls, lives)
    topic, partition = partition_of(operations, events)
    anomalies = []
    for value, at, life in sorted(_sightings(calls, events, facts, lives), key=lambda seen: seen[1]):
        if value in owners and owners[value][0].made < life.made:
            owner, acked = owners.pop(value)
            words = f"{value} was acknowledged under topic id {owner.topic_id}, and is in the topic with id {life.topic_id}"
            key = f"{topic}-{partition}"
            anomalies.append(Anomaly(kind="other-topic", checker=NAME, key=key, witness=(acked, at), words=words))
    return Findings(anomalies=tuple(anomalies), counts={"deleted_records": len(owners) + len(anomalies)})


def _lives(events: Events) -> list[_Life]:
    """The topics that had the name, oldest first. A row of a topic comes at its time or some milliseconds early."""
    made: dict[str, int] = {}
    ended: dict[str, int] = {}
    for kind, index, topic_id in events.columns("kind", "index", "topic_id"):
        if kind in _MADE and topic_id is not None:
            made.setdefault(topic_id, index)
        elif kind == K.TOPIC_DELETED and topic_id is not None:
            ended.setdefault(topic_id, index)
    lives = (_Life(topic_id, at, ended.get(topic_id, _NEVER)) for topic_id, at in made.items())
    return sorted(lives, key=lambda life: life.made)


def _owners(calls: list[Call], lives: list[_Life]) -> dict[str, tuple[_Life, int]]:
    """The topic to which each value certainly belongs that was sent once, with the row of its acknowledgement."""
    times: dict[str, int] = {}
    owners: dict[str, tuple[_Life, int]] = {}
    for call in calls:
        if call.f != "produce":
            continue
        sent = [row.value for row in call.asked if row.value is not None]
        for value in sent:
            times[value] = times.get(value, 0) + 1
        once = call.type == "ok" and call.rows[0].attempts == 1 and call.asked[0].delivery != _ONCE and call.asked[0].acks != 0
        life = next((life for life, later in pairwise(lives) if _is_within(call, life, later)), None) if once else None
        if life is not None:
            owners |= dict.fromkeys(sent, (life, call.ended))
    return {value: owner for value, owner in owners.items() if times[value] == 1}


def _is_within(call: Call, life: _Life, later: _Life) -> bool:
    """Whether a call was made and answered while the name belonged to this topic, which was deleted."""
    return life.made < call.invoked and call.ended < min(life.ended, later.made) and life.ended != _NEVER


def _sightings(calls: list[Call], events: Events, facts: Facts, lives: list[_Life]) -> Iterator[tuple[str, int, _Life]]:
    """The values that were seen at the end in the last topic of the name, if it was not deleted, with the rows of that."""
    last = lives[-1]
    if last.ended != _NEVER:
        return
    for call in calls:
        if call.f == "poll" and call.type == "ok" and is_final(facts, call.invoked_ns):
            yield from ((row.value, row.at, last) for row in call.rows if row.value is not None)
    for value, index in events.of(K.RECORD_ON_DISK).columns("value", "index"):
        if value is not None:
            yield value, index, last


CHECKER = Checker(
    name=NAME,
    claim="A record of a deleted topic is not in the topic that has its name at the end: not read there, and on no disk.",
    assumes="The rows of coordination tell when each topic was made and deleted.",
    blind="Reads before the final ones; records that may have been sent twice; a topic whose last life was deleted.",
    reports=(OTHER_TOPIC,),
    group_by=PARTITION,
    operations=("produce", "poll"),
    events=(*_MADE, K.TOPIC_DELETED, K.RECORD_ON_DISK),
    across_topics=True,
    check=check,
)
