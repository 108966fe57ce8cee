"""Checker of compacted topics: the last promised record of each key stays, or a later one of that key (docs/promise.md DUR-9).

The value of a record is "<key>=<value>". A record is promised if it was acknowledged under acks=all, or read. On a compacted
topic it may go once a later record of its key is in the log, so of each key the one with the highest offset must be there: the
final readers, which read each partition from the beginning, are given it or a record of the key behind it. A record of unknown
outcome may be that one. What was promised after the final reads began is not missed.

As in `checkers.clients.client_log`, wounds on fewer brokers than min.insync.replicas excuse no loss, and what more of them excuse
is not judged. A run in which the final readers were given every promised record shows nothing: nothing was compacted.

    >>> from msgspec.structs import replace
    >>> from checkers.clients.compaction import CHECKER
    >>> from checkers.sketches import history_of
    >>> from checkers.judge import judge
    >>> from history.history import History
    >>> one, two, other = ("ok produce value=k1=a offset=0", "ok produce value=k1=b offset=1", "ok produce value=k2=c offset=2")
    >>> read = history_of(one, two, other, "ok latest offset=3", "ok poll offset=0 value=k1=a", "ok poll offset=2 value=k2=c")
    >>> topics = tuple(replace(topic, keeps="last-of-key") for topic in read.manifest.promise.topics)
    >>> promise = replace(read.manifest.promise, topics=topics)
    >>> manifest = replace(read.manifest, promise=promise, final_reads_at_ns=read.operations[6].time_ns)
    >>> [found.words for found in judge(History(manifest, operations=read.operations, events=()), (CHECKER,)).anomalies]
    ['k1=b was acknowledged at offset 1, and the final reads passed by and were given no record of its key from there on']
"""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.clients.excuses import WOUNDS
from checkers.clients.final_reads import final_calls
from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, is_compacted, promised
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import Call
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings

NAME = "compaction"
SEPARATOR = "="
_ACKS_ALL = -1
_Partition = tuple[str, int]


class _Promised(NamedTuple):
    """A record that was acknowledged under acks=all, or read, and the row that says so."""

    offset: int
    value: str
    at: int
    how: str

    @property
    def key(self) -> str:
        return self.value.partition(SEPARATOR)[0]


class _Read(NamedTuple):
    """What the final readers were told of a partition: records by offset, and the end of the log (None: nobody was told)."""

    records: dict[int, str]
    reached: int  # behind the last record
    end: int | None
    last: int  # the row of the last answer


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the compacted topics of a run; counts the promised records that are `compacted`."""
    calls_by_partition: dict[_Partition, list[Call]] = {}
    about = {index: (topic, number) for index, topic, number in operations.columns("index", "topic", "partition")}
    for call in operations.calls:
        topic, number = about[call.invoked]
        if topic is not None and number is not None and is_compacted(facts, topic):
            calls_by_partition.setdefault((topic, number), []).append(call)
    if not calls_by_partition:
        return Findings()  # no topic of this run is compacted
    wounded = {str(node) for node in events.column("node")}
    anomalies: list[Anomaly] = []
    unchecked: list[str] = []
    compacted = 0
    for (topic, number), calls in sorted(calls_by_partition.items()):
        key = f"{topic}-{number}"
        promise = promised(facts, topic)
        if len(wounded) >= (1 if promise is None else promise.min_insync_replicas):
            unchecked.append(f"{NAME}: {', '.join(sorted(wounded))} lost bytes; nobody knows which losses of {key} that excuses")
            continue
        records = _promised_records(calls, facts)
        read = _read(calls, facts)
        compacted += sum(record.offset < read.reached and record.offset not in read.records for record in records)
        anomalies += _lost(key, records, read)
        unread = [record for record in _last_by_key(records) if record.offset >= read.reached and not _is_beyond(record, read)]
        if unread:
            unchecked.append(f"{NAME}: the final reads of {key} did not come to the last records of {len(unread)} keys")
    if not compacted and not unchecked and not anomalies:
        unchecked.append(f"{NAME}: every promised record was there at the end: nothing was compacted")
    return Findings(anomalies=tuple(anomalies), unchecked=tuple(unchecked), counts={"compacted": compacted})


def _promised_records(calls: list[Call], facts: Facts) -> list[_Promised]:
    """The records that were promised before the final reads, each with the first row that says so."""
    records: dict[tuple[int, str], _Promised] = {}
    began = facts.final_reads_at_ns
    for call in calls:
        produced = call.f == "produce" and call.asked[0].acks == _ACKS_ALL
        if call.type != "ok" or not (produced or call.f == "poll"):
            continue
        how = "was acknowledged" if produced else "was read"
        for row in call.rows:
            if row.offset is not None and row.value is not None and (began is None or row.time_ns <= began):
                records.setdefault((row.offset, row.value), _Promised(row.offset, row.value, call.ended, how))
    return list(records.values())


def _read(calls: list[Call], facts: Facts) -> _Read:
    """What the final readers were told; nothing if the history has no final reads."""
    answers = [call for call in final_calls(calls, facts) if call.type == "ok"]
    ends = [call.rows[0].offset for call in answers if call.f == "latest" and call.rows[0].offset is not None]
    rows = [row for call in answers if call.f == "poll" for row in call.rows if row.offset is not None and row.value is not None]
    records = {row.offset: row.value or "" for row in rows if row.offset is not None}
    last = max((call.ended for call in answers), default=-1)
    return _Read(records, max(records, default=-1) + 1, max(ends, default=None), last)


def _last_by_key(records: list[_Promised]) -> list[_Promised]:
    """Of each key the promised record with the highest offset."""
    last: dict[str, _Promised] = {}
    for record in sorted(records):
        last[record.key] = record
    return sorted(last.values())


def _is_beyond(record: _Promised, read: _Read) -> bool:
    return read.end is not None and record.offset >= read.end


def _lost(key: str, records: list[_Promised], read: _Read) -> Iterator[Anomaly]:
    """The last promised records of keys that the final readers passed by, or that lie behind the end that they were told."""
    newest: dict[str, int] = {}  # of the records that were read, by key
    for offset, value in read.records.items():
        name = value.partition(SEPARATOR)[0]
        newest[name] = max(offset, newest.get(name, -1))
    for record in _last_by_key(records):
        if newest.get(record.key, -1) >= record.offset:
            continue
        if record.offset < read.reached:
            found = "the final reads passed by and were given no record of its key from there on"
        elif _is_beyond(record, read):
            found = f"the log ended at {read.end} for the final readers"
        else:
            continue
        words = f"{record.value} {record.how} at offset {record.offset}, and {found}"
        yield Anomaly(kind=LOST_VALUE.name, checker=NAME, key=key, witness=(record.at, read.last), words=words)


LOST_VALUE = Kind("lost-value", Harm.LOSS, 15, unshown="the reference does not compact its logs; histories of the corpus show it")

CHECKER = Checker(
    name=NAME,
    claim="On a compacted topic the last promised record of each key, or a later one of the key, is read at the end.",
    assumes="Values name their key before the first `=`. The final readers read each partition from offset 0 on.",
    blind="Deletes (records without a value); records that were gone for a while; whether a cleaner leaves too much behind.",
    reports=(LOST_VALUE,),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest"),
    events=WOUNDS,
    check=check,
    split=gathered(check),
)
