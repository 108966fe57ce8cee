"""One name, several topics: the rows of a partition divided by the id of its topic (docs/promise.md DUR-8, KIP-516).

A topic that was deleted and made again is another topic. Each is judged by itself, and until its promises end: rows after a
`topic-deleted` row of its id say nothing of it any more, nor of a partition that was removed, though it be added again. A row
without an id is about all of them, but for an operation, which belongs to the topic that its other half names, or to the latest
one that was there when it began.
"""

from typing import NamedTuple

import polars as pl

from history.event import EventKind as K


class Life(NamedTuple):
    """One topic of the name, for one partition."""

    topic_id: str  # "" where the rows name none
    deleted: bool
    operations: pl.DataFrame
    events: pl.DataFrame


LOOKS = [str(kind) for kind in (K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK)]


def lives(operations: pl.DataFrame, events: pl.DataFrame) -> list[Life]:
    """The topics that the rows of one group are about, oldest first."""
    deleted = events.filter(pl.col("kind") == str(K.TOPIC_DELETED))
    ended = dict(deleted.group_by("topic_id").agg(pl.col("index").min()).iter_rows())
    # What is only found at the very end is somebody's belief: a topic that nobody wrote, led or read is none.
    acted = events.filter(~pl.col("kind").is_in(LOOKS))
    named = pl.concat([operations["topic_id"], acted["topic_id"]]).drop_nulls().unique().to_list()
    if len(named) <= 1 and not ended:
        return [Life(named[0] if named else "", False, operations, events)]
    ids = sorted(named, key=_age)
    of_call = _topics_of_calls(operations, events, ids)
    own = operations.with_columns(pl.col("index").replace_strict(of_call, return_dtype=pl.String).alias("topic_id"))
    own = own.with_columns(pl.col("topic_id").cast(pl.String))  # of no operations at all, the line above makes numbers
    found = []
    for topic_id in ids:
        before = pl.col("index") < ended.get(topic_id, pl.UInt64.max())
        about = events.filter((pl.col("topic_id").is_null() | (pl.col("topic_id") == topic_id)) & before)
        found.append(Life(topic_id, topic_id in ended, own.filter((pl.col("topic_id") == topic_id) & before), about))
    return found


def _age(topic_id: str) -> tuple[int, str]:
    """Ids are numbers that rise; others in the order of their letters."""
    return (int(topic_id), "") if topic_id.isdecimal() else (0, topic_id)


def _topics_of_calls(operations: pl.DataFrame, events: pl.DataFrame, ids: list[str]) -> dict[int, str]:
    """The index of each invocation and completion -> the id of the topic that is meant."""
    named = events.filter(pl.col("topic_id").is_not_null()).group_by("topic_id").agg(pl.col("index").min())
    since = dict(named.iter_rows())
    found: dict[int, str] = {}
    invoked: dict[int, int] = {}  # process -> index of its open invocation
    columns = (operations[name].to_list() for name in ("index", "process", "type", "topic_id"))
    for index, process, type_, topic_id in zip(*columns, strict=True):
        if type_ == "invoke":
            invoked[process] = index
            there = [known for known in ids if since.get(known, index) <= index]
            found[index] = topic_id or (there[-1] if there else ids[0])
        else:
            half = invoked.get(process, index)
            found[index] = topic_id or found.get(half, ids[-1])
            found[half] = found[index]
    return found
