"""A record of one topic is never seen under another of the same name (docs/promise.md DUR-8, B-61).

What a leader appended under the id of a topic belongs to that topic. A record that a consumer got, or that a follower copied,
under an id under which no leader ever appended it came out of a log that should have been deleted. Topics are told apart by
their ids, so rows that name none are passed over, and a partition of one topic alone has nothing to confuse.

    >>> from checkers.sketches import sketch
    >>> rows = "append node=b1 offset=0 value=a topic_id=1", "append node=b1 offset=0 value=b topic_id=2"
    >>> sketch("topic-identity", *rows, "ok poll offset=0 value=a topic_id=2")
    ['other-topic']
"""

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, partition_of
from checkers.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "topic-identity"


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """One partition: a record that is seen under an id without having been appended there, while another topic had it."""
    named = events.filter(pl.col("topic_id").is_not_null() & pl.col("value").is_not_null())
    if named["topic_id"].n_unique() < 2:
        return Findings()
    made = named.filter(pl.col("detail") == "leader").select("value", "topic_id", "index")
    first: dict[str, int] = {}
    owners: set[tuple[str, str]] = set()
    for value, topic_id, index in made.iter_rows():
        first.setdefault(value, index)
        owners.add((value, topic_id))
    read = operations.filter((pl.col("type") == "ok") & pl.col("value").is_not_null() & pl.col("topic_id").is_not_null())
    columns = ("index", "topic_id", "value")
    seen = sorted([*named.select(columns).iter_rows(), *read.select(columns).iter_rows()])
    topic, partition = partition_of(operations, events)
    found = []
    for index, topic_id, value in seen:
        if (value, topic_id) not in owners and value in first:
            words = f"{value} is seen in the topic of id {topic_id}, in which nobody wrote it"
            witness = tuple(sorted({first[value], index}))
            found.append(Anomaly(kind="other-topic", checker=NAME, key=f"{topic}-{partition}", witness=witness, words=words))
    return Findings(anomalies=tuple(found))


CHECKER = Checker(
    name=NAME,
    claim="A record of one topic is never seen under another topic of the same name.",
    assumes="Brokers say with each append, and clients with each read, the id of the topic they mean.",
    blind="Records whose first append nobody told of; reads without an id.",
    kinds=("other-topic",),
    group_by=PARTITION,
    operations=("poll",),
    events=(K.APPEND,),
    across_topics=True,
    check=check,
)
