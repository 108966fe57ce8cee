"""Checker: a record of one topic is never seen under another topic of the same name (docs/promise.md DUR-8, B-61).

A record belongs to the topic under whose id a leader appended it. If a consumer gets it, or a follower copies it, under an id
under which no leader appended it, it came from a log that should have been deleted. A producer that repeats a record under the id
of the next topic may have it in both, so leaders append a record that one call sends under one id only; this is judged in
simulated runs, because librdkafka sends no topic ids. Rows without a topic id are ignored, and a partition whose name had one
topic only is not judged.

    >>> from checkers.sketches import sketch
    >>> rows = "append node=b1 offset=0 value=a topic_id=1", "append node=b1 offset=0 value=b topic_id=2"
    >>> sketch("topic-identity", *rows, "ok poll offset=0 value=a topic_id=2")
    ['other-topic']
"""

from collections.abc import Iterator

import polars as pl

from checkers.engine import screens
from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "topic-identity"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report records seen under a topic id other than the one under which a leader appended them."""
    if len(events.distinct("topic_id") - {None}) < 2:
        return Findings()
    named = events.frame.filter(pl.col("topic_id").is_not_null() & pl.col("value").is_not_null())
    if named["topic_id"].n_unique() < 2:
        return Findings()
    appends = named.filter(pl.col("detail") == "leader").select("value", "topic_id", "index")
    first: dict[str, int] = {}
    owners: set[tuple[str, str]] = set()
    for value, topic_id, index in appends.iter_rows():
        first.setdefault(value, index)
        owners.add((value, topic_id))
    answered = (pl.col("f") == "poll") & (pl.col("type") == "ok")
    read = operations.frame.filter(answered & pl.col("value").is_not_null() & pl.col("topic_id").is_not_null())
    columns = ("index", "topic_id", "value")
    sightings = sorted([*named.select(columns).iter_rows(), *read.select(columns).iter_rows()])
    topic, partition = partition_of(operations, events)
    anomalies = []
    for index, topic_id, value in sightings:
        if (value, topic_id) not in owners and value in first:
            words = f"{value} appears under topic id {topic_id}, but was written under another topic id only"
            witness = tuple(sorted({first[value], index}))
            anomalies.append(Anomaly(kind="other-topic", checker=NAME, key=f"{topic}-{partition}", witness=witness, words=words))
    for value, ids, witness in _values_repeated(operations, appends) if facts.simulated else ():
        words = f"{value} was sent once, and was written under the topic ids {ids}"
        anomalies.append(Anomaly(kind="other-topic", checker=NAME, key=f"{topic}-{partition}", witness=witness, words=words))
    return Findings(anomalies=tuple(anomalies))


def _values_repeated(operations: Operations, appends: pl.DataFrame) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Values that one call sent and leaders appended under several topic ids: with these ids, and the first append under each."""
    by_topic = appends.group_by("value", "topic_id").agg(pl.col("index").min())
    several = by_topic.group_by("value").agg(pl.col("topic_id").sort_by("index"), pl.col("index").sort())
    sent = operations.frame.filter((pl.col("f") == "produce") & (pl.col("type") == "invoke")).group_by("value").len()
    once = several.filter(pl.col("index").list.len() > 1).join(sent.filter(pl.col("len") == 1), on="value").sort("value")
    for value, ids, indexes in once.select("value", "topic_id", "index").iter_rows():
        yield value, " and ".join(ids), tuple(indexes)


OTHER_TOPIC = Kind("other-topic", Harm.FALSE_READ, 20, breaks=("RES",), shown_by=("no-topic-id",))

CHECKER = Checker(
    name=NAME,
    claim="A record of one topic is never seen under another topic of the same name.",
    assumes="Brokers record the topic id with each append, clients with each read.",
    blind="Records whose first append has no row; reads without an id.",
    reports=(OTHER_TOPIC,),
    group_by=PARTITION,
    operations=("produce", "poll"),
    events=(K.APPEND,),
    across_topics=True,
    check=check,
    screen=screens.nothing,  # partitions with several topic ids are walked
)
