"""Divide the rows of a partition by topic id, because several topics may have had one name (docs/promise.md DUR-8, KIP-516).

A topic that was deleted and created again is another topic. Each topic is judged by itself, up to the `topic-deleted` row of its
id; the same holds for a removed partition, even if it is added again. An event without an id belongs to every topic of the name.
An operation without an id belongs to the topic that its invocation or completion names, otherwise to the newest topic that
existed when it was invoked.
"""

from typing import NamedTuple

import polars as pl

from history.event import EventKind as K


class Life(NamedTuple):
    """The rows of one topic, by topic id, for one partition; several topics may have had the same name in turn."""

    topic_id: str  # "" if the rows name none
    deleted: bool
    operations: pl.DataFrame
    events: pl.DataFrame


LOOKS = [str(kind) for kind in (K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK, K.RECORD_ON_DISK)]


def lives(operations: pl.DataFrame, events: pl.DataFrame) -> list[Life]:
    """Divide one partition's rows by topic id, oldest topic first."""
    deleted = events.filter(pl.col("kind") == str(K.TOPIC_DELETED)).with_columns(pl.col("topic_id").fill_null(""))
    ended = dict(deleted.group_by("topic_id").agg(pl.col("index").min()).iter_rows())
    # The final observations may be stale: a topic that only they name was never written, led or read, and is ignored.
    acted = events.filter(~pl.col("kind").is_in(LOOKS))
    named = pl.concat([operations["topic_id"], acted["topic_id"]]).drop_nulls().unique().to_list()
    if len(named) <= 1 and not ended:
        return [Life(named[0] if named else "", False, operations, events)]
    ids = sorted(named or [""], key=_age)
    of_call = _topics_of_calls(operations, events, ids)
    own = operations.with_columns(pl.col("index").replace_strict(of_call, return_dtype=pl.String).alias("topic_id"))
    own = own.with_columns(pl.col("topic_id").cast(pl.String))  # without operations the line above yields a column of numbers
    all_lives = []
    for topic_id in ids:
        before = pl.col("index") < ended.get(topic_id, pl.UInt64.max())
        about = events.filter((pl.col("topic_id").is_null() | (pl.col("topic_id") == topic_id)) & before)
        all_lives.append(Life(topic_id, topic_id in ended, own.filter((pl.col("topic_id") == topic_id) & before), about))
    return all_lives


def _age(topic_id: str) -> tuple[int, str]:
    """Sort key: numeric ids by number (newer topics have greater ids), other ids alphabetically and first."""
    return (int(topic_id), "") if topic_id.isdecimal() else (0, topic_id)


def _topics_of_calls(operations: pl.DataFrame, events: pl.DataFrame, ids: list[str]) -> dict[int, str]:
    """The topic id that each client invocation and completion is about, by its row index."""
    named = events.filter(pl.col("topic_id").is_not_null()).group_by("topic_id").agg(pl.col("index").min())
    since = dict(named.iter_rows())
    topics: dict[int, str] = {}
    invoked: dict[int, int] = {}  # process -> index of its open invocation
    columns = (operations[name].to_list() for name in ("index", "process", "type", "topic_id"))
    for index, process, type_, topic_id in zip(*columns, strict=True):
        if type_ == "invoke":
            invoked[process] = index
            there = [known for known in ids if since.get(known, index) <= index]
            topics[index] = topic_id or (there[-1] if there else ids[0])
        else:
            half = invoked.get(process, index)
            topics[index] = topic_id or topics.get(half, ids[-1])
            topics[half] = topics[index]
    return topics
