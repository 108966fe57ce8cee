"""Steps of the protocol that a history shows: elections, ISR changes, truncations, fences, moves, each under one short name.

The names are the vocabulary of docs/triage.md. A step is an event whose kind, with its detail where the detail is a word of the
protocol, says what a broker, a controller or ZooKeeper did. A write of a partition's state is named by what it changed.
"""

from collections.abc import Iterable, Iterator

import polars as pl

from history.event import EventKind as K

# The names of writes of a partition's state, and what each means.
WRITES: tuple[tuple[str, str], ...] = (
    ("created", "the first state of a partition"),
    ("left-without-leader", "no replica may lead"),
    ("elected-in-isr", "another leader, a member of the ISR before"),
    ("elected-from-elr", "another leader, an eligible leader replica that had left the ISR"),
    ("elected-outside-isr", "another leader that was neither in the ISR nor eligible"),
    ("epoch-raised", "the same leader in a new leader epoch"),
    ("isr-expanded", "the same leader and epoch, more members of the ISR"),
    ("isr-shrunk", "the same leader and epoch, other or fewer members of the ISR"),
    ("state-rewritten", "the same leader, epoch and ISR"),
)
HW_LOWERED = "hw-lowered"
# Steps that follow from others, by which no cause is named.
CONSEQUENCES = (K.ISR_CHANGE_SENT, K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.RECOVERED, K.REGISTERED, K.NODE_STARTED)

_PLAIN = (
    K.NODE_STARTED,
    K.REGISTERED,
    K.SESSION_ENDED,
    K.CONTROLLER_ELECTED,
    K.CONTROLLER_RESIGNED,
    K.FENCED,
    K.UNFENCED,
    K.ISR_CHANGE_SENT,
    K.BECAME_LEADER,
    K.BECAME_FOLLOWER,
    K.RESIGNED,
    K.RECOVERED,
    K.DIR_FAILED,
    K.TOPIC_DELETED,
    K.REPLICA_DELETED,
    K.REASSIGNMENT_REFUSED,
    K.UNCLEAN_ELECTION_ORDERED,
    K.ASSERTION,
)
_WITH_DETAIL = (K.BROKER_STATE, K.ISR_CHANGE_ENDED, K.TRUNCATE, K.WOUND)
# `halt:<why>`, `forward to 3,4`, `narrowed-early: ...`
_WITH_FIRST_WORD = (K.NODE_STOPPED, K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED, K.RULE_BROKEN)

_PLACE = ("topic", "topic_id", "partition")


def steps(events: pl.DataFrame) -> pl.DataFrame:
    """The steps of a run in the order of index. Columns: index, time_ns, node, topic, partition, step."""
    kind, detail = pl.col("kind"), pl.col("detail").fill_null("")
    named = events.filter(kind.is_in([str(k) for k in (*_PLAIN, *_WITH_DETAIL, *_WITH_FIRST_WORD)])).with_columns(
        pl.when(kind.is_in([str(k) for k in _WITH_DETAIL]))
        .then(kind + ":" + detail)
        .when(kind.is_in([str(k) for k in _WITH_FIRST_WORD]))
        .then(kind + ":" + detail.str.extract(r"^([^:\s]*)"))
        .otherwise(kind)
        .alias("step")
    )
    columns = ("index", "time_ns", "node", "topic", "partition", "step")
    return pl.concat([frame.select(columns) for frame in (named, _steps_of_writes(events), _rows_of_lowered_hw(events))]).sort(
        "index"
    )


def _steps_of_writes(events: pl.DataFrame) -> pl.DataFrame:
    """The writes of partition states, each with the name of its step."""
    written = events.filter(pl.col("kind") == str(K.STATE_WRITTEN))
    rows = written.select(*_PLACE, "leader", "leader_epoch", "isr", "elr").iter_rows()
    return written.with_columns(pl.Series("step", list(_names_of_writes(rows)), dtype=pl.String))


_Written = tuple[str, str | None, int, str | None, int | None, list[str] | None, list[str] | None]


def _names_of_writes(rows: Iterable[_Written]) -> Iterator[str]:
    """Name each write by what it changed against the write before it of the same partition."""
    before: dict[tuple[str, str | None, int], tuple[str | None, int | None, set[str], set[str]]] = {}
    for topic, topic_id, partition, leader, epoch, isr, elr in rows:
        now = (leader, epoch, set(isr or ()), set(elr or ()))
        was = before.get((topic, topic_id, partition))
        before[topic, topic_id, partition] = now
        yield "created" if was is None else _name_of_change(was, now)


def _name_of_change(
    was: tuple[str | None, int | None, set[str], set[str]], now: tuple[str | None, int | None, set[str], set[str]]
) -> str:
    """The name of the step from one partition state to the next."""
    leader, epoch, isr, _ = now
    if leader is None:
        return "left-without-leader"
    if leader != was[0]:
        return "elected-in-isr" if leader in was[2] else "elected-from-elr" if leader in was[3] else "elected-outside-isr"
    if epoch != was[1]:
        return "epoch-raised"
    if isr == was[2]:
        return "state-rewritten"
    return "isr-expanded" if isr > was[2] else "isr-shrunk"


def _rows_of_lowered_hw(events: pl.DataFrame) -> pl.DataFrame:
    """The rows in which a leader noted a lower high watermark than it had noted before."""
    own = ("node", "life", *_PLACE)
    noted = events.filter(pl.col("kind") == str(K.HW))
    fell = (pl.col("hw") < pl.col("hw").shift().over(own)) & (pl.col("detail") == "leader")
    return noted.filter(fell).with_columns(pl.lit(HW_LOWERED).alias("step"))


def leader_changes(events: pl.DataFrame) -> int:
    """How often ZooKeeper's leader of a partition changed to another broker; offline periods in between do not count."""
    written = events.filter((pl.col("kind") == str(K.STATE_WRITTEN)) & pl.col("leader").is_not_null())
    last: dict[tuple[str, int], str] = {}
    changes = 0
    for topic, partition, leader in written.select("topic", "partition", "leader").iter_rows():
        before = last.get((topic, partition))
        changes += before is not None and before != leader
        last[topic, partition] = leader
    return changes
