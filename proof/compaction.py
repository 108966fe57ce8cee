"""The definition of what stays on a compacted topic (docs/promise.md DUR-9), and random histories of one with its cleaner."""

from typing import Any

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Call, Case, calls
from proof.session_histories import MS, Calls
from proof.session_rows import UNJUDGED

_KEYS = ("a", "b", "c")
_READER, _FINAL_READER = 80, 90
_Log = dict[int, str]  # offset -> value


def compaction(case: Case) -> set[str]:
    """Definition of DUR-9: the final readers are given the last promised record of each key, or a later one of that key."""
    partitions = sorted({(row.topic, row.partition) for row in case.operations if row.topic and row.partition is not None})
    if not partitions:
        return set()
    if len({row.node for row in case.events if row.kind is K.WOUND}) >= case.m:
        return {UNJUDGED}
    found: set[str] = set()
    is_vacuous = True
    for topic, number in partitions:
        mine = [row for row in case.operations if (row.topic, row.partition) == (topic, number)]
        polls, produces = ([call for call in calls(mine, f) if call.ok] for f in ("poll", "produce"))
        acknowledged = [call for call in produces if call.asked[0].acks == -1]
        began = case.final_reads_at_ns
        promised = {
            (row.offset, row.value)
            for call in (*acknowledged, *polls)
            for row in call.answer
            if row.offset is not None and row.value is not None and (began is None or row.time_ns <= began)
        }
        read = {(row.offset, row.value) for call in polls if _is_late(case, call) for row in call.answer if row.value is not None}
        ends = [call.answer[0].offset for call in calls(mine, "latest") if call.ok and _is_late(case, call)]
        offsets = {offset for offset, _ in read}
        for offset, value in promised:
            if any(_key(other) == _key(value) and at > offset for at, other in promised):
                continue  # not the last of its key
            if any(_key(other) == _key(value) and at is not None and at >= offset for at, other in read):
                continue
            is_passed = any(at is not None and at > offset for at in offsets)
            is_cut_off = bool(ends) and all(end is not None and offset >= end for end in ends)
            found.add("lost-value" if is_passed or is_cut_off else UNJUDGED)
        is_vacuous &= not any(
            offset not in offsets and any(at is not None and at > offset for at in offsets) for offset, _ in promised
        )
    return found | ({UNJUDGED} if is_vacuous and not found else set())


def _key(value: str | None) -> str:
    return (value or "").split("=")[0]


def _is_late(case: Case, call: Call) -> bool:
    return case.final_reads_at_ns is not None and call.asked[0].time_ns >= case.final_reads_at_ns


class _Cleaned:
    """Two partitions that are written, read and compacted; some cleaners remove too much."""

    def __init__(self, rng: Rng) -> None:
        self.calls = Calls(rng)
        self.logs: dict[int, _Log] = {0: {}, 1: {}}
        self.ends = {0: 0, 1: 0}
        self.processes = 0
        self.loses = rng.below(3) == 0  # a cleaner that removes last records, too

    def produce(self, partition: int) -> None:
        """Write a record with a key."""
        calls, rng = self.calls, self.calls.rng
        self.processes += 1
        value, outcome = f"{rng.pick(_KEYS)}=v{self.processes}", calls.outcome(8)
        sent: dict[str, Any] = {"topic": "t", "partition": partition, "acks": -1 if rng.below(6) else 1}
        calls.write(self.processes, OpType.INVOKE, "produce", value, **sent)
        offset = self.ends[partition]
        if outcome is OpType.OK or (outcome is not OpType.FAIL and rng.below(2)):
            self.logs[partition][offset] = value
            self.ends[partition] += 1
        if outcome is not None:
            calls.write(self.processes, outcome, "produce", value, **sent, **({"offset": offset} if outcome is OpType.OK else {}))

    def clean(self, partition: int) -> None:
        """Remove records that later ones of their keys replace."""
        log, rng = self.logs[partition], self.calls.rng
        last = {_key(value): offset for offset, value in sorted(log.items())}
        for offset, value in sorted(log.items()):
            is_replaced = last[_key(value)] > offset
            if (is_replaced and rng.below(3)) or (self.loses and rng.below(6) == 0):
                del log[offset]

    def poll(self, reader: int, partition: int, position: int) -> int:
        """A poll, which some answer with fewer records; where the reader goes on."""
        calls, rng = self.calls, self.calls.rng
        where: dict[str, Any] = {"topic": "t", "partition": partition}
        calls.write(reader, OpType.INVOKE, "poll", **where, offset=position)
        if rng.below(16) == 0:
            calls.write(reader, OpType.FAIL, "poll", **where)
            return position
        records = [one for one in sorted(self.logs[partition].items()) if one[0] >= position][: 1 + rng.below(6)]
        if records and rng.below(24) == 0:
            del records[rng.below(len(records))]
        index = len(calls.rows)
        calls.time_ms += 1
        rows: list[tuple[str | None, int | None]] = [(value, offset) for offset, value in records] or [(None, None)]
        for slot, (value, offset) in enumerate(rows):
            calls.rows.append(
                Operation(
                    index=index,
                    slot=slot,
                    process=reader,
                    type=OpType.OK,
                    f="poll",
                    value=value,
                    offset=offset,
                    time_ns=calls.time_ms * MS,
                    **where,
                )
            )
        return records[-1][0] + 1 if records else position

    def latest(self, partition: int) -> None:
        """The final reader asks for the end of the log."""
        calls = self.calls
        where: dict[str, Any] = {"topic": "t", "partition": partition}
        calls.write(_FINAL_READER, OpType.INVOKE, "latest", **where)
        calls.write(_FINAL_READER, OpType.OK, "latest", **where, offset=max(0, self.ends[partition] - (calls.rng.below(12) == 0)))


def drawn_compaction(rng: Rng) -> Case:
    """Return a random history of a compacted topic, whose final reader reads each partition from the beginning."""
    topic = _Cleaned(rng)
    positions = {0: 0, 1: 0}
    for _ in range(8 + rng.below(16)):
        partition = rng.below(2)
        match rng.below(6):
            case 0:
                topic.clean(partition)
            case 1:
                positions[partition] = topic.poll(_READER, partition, positions[partition])
            case _:
                topic.produce(partition)
    final_reads_ms = topic.calls.time_ms + 1
    topic.calls.time_ms += 1
    for partition in (0, 1):
        if rng.below(3) == 0:
            topic.clean(partition)
        if rng.below(8):
            topic.latest(partition)
        position = 0
        for _ in range(rng.below(8) if rng.below(6) == 0 else 8):
            if position < topic.ends[partition]:
                position = topic.poll(_FINAL_READER, partition, position)
    nodes = [f"b{1 + number}" for number in range(rng.below(3))] if rng.below(10) == 0 else []
    at = topic.calls.rows[-1].index + 10
    events = [
        ClusterEvent(index=at + n, kind=K.WOUND, time_ns=0, node=node, topic="t", partition=0, life=1, offset=0)
        for n, node in enumerate(nodes)
    ]
    return Case(
        topic.calls.rows, events, m=1 + rng.below(2), final_reads_at_ns=final_reads_ms * MS if rng.below(12) else None,
        end_ns=(topic.calls.time_ms + 1) * MS, whole=True, compacted=True,
    )  # fmt: skip
