"""What consumers were given, over time: acknowledged records that nobody has read, and how far each reader is behind.

Jepsen draws both for its Kafka workload, as `unseen` and `realtime-lag`. A reader is a consumer, or a group with all its members.

* Unseen records: acknowledged, and returned by no read yet. They are told by their values, so a record that was lost stays unseen
  where another one has its offset.
* Realtime lag of a reader in a partition: how long ago the oldest record was acknowledged that lies behind all it was given. A
  reader that seeks back keeps its place.

A call of sessions names its records in JSON; a value of another form tells nothing here (the checkers say so).
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeGuard

from history.history import Attempt
from history.op import Operation, OpType
from reports.panels import Panel, PanelLine, Points, panels_figure
from reports.rows import CLIENTS
from reports.svg import PLOT, Backdrop, TimeScale, colour_of

PARTITIONS_MAX = 4  # with a panel of their own: those with the greatest lag
LINES_MAX = 8  # of a panel: those with the greatest values
_NS_PER_MS = 1_000_000
_Name = tuple[str, str | None]  # "orders-0", and the topic's id if it is known
_SESSIONS = ("group-poll", "share-poll", "process", "read-committed", "txn")


class Acknowledged(NamedTuple):
    """A record of which a producer was told that it is written; the offset is None if the answer did not tell it."""

    time_ns: int
    offset: int | None
    value: str


class Given(NamedTuple):
    """A record that a read returned. `reader` is a consumer ("client 2") or a group ("group g")."""

    asked_ns: int
    time_ns: int
    reader: str
    offset: int
    value: str
    has_place: bool = True  # whether the reader goes on behind it: a share group does not read in order


class Rebalance(NamedTuple):
    """A call by which a member of a group was given partitions, or lost some."""

    time_ns: int
    process: int
    row: int  # of the completion
    given: tuple[str, ...]
    taken: tuple[str, ...]

    @property
    def words(self) -> str:
        """What changed: "given t-0, t-1; taken t-2"."""
        parts = [f"{verb} {', '.join(keys)}" for verb, keys in (("given", self.given), ("taken", self.taken)) if keys]
        return "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTrack:
    """What was acknowledged and given of one partition ("orders-0"), each in the order of time."""

    key: str
    acknowledged: tuple[Acknowledged, ...]
    given: tuple[Given, ...]

    def readers(self, before_ns: int | None) -> tuple[str, ...]:
        """Who was given a record by a call before this time, and goes on behind it, by name. A final read is behind by design."""
        own = {r.reader for r in self.given if r.has_place and (before_ns is None or r.asked_ns < before_ns)}
        return tuple(sorted(own, key=natural))

    def unseen(self, times_ns: Sequence[int]) -> list[int]:
        """The number of unseen records at each of these times, which rise."""
        read_ns: dict[str, int] = {}
        for record in self.given:
            read_ns.setdefault(record.value, record.time_ns)
        changes = [(a.time_ns, 1) for a in self.acknowledged]
        changes += [(max(a.time_ns, read_ns[a.value]), -1) for a in self.acknowledged if a.value in read_ns]
        return _sums(sorted(changes), times_ns)

    def lags_ns(self, reader: str, times_ns: Sequence[int]) -> list[int | None]:
        """The realtime lag of a reader at each of these times, which rise; None before the first call that gave it a record.

        0: it was given all that is known to be written.
        """
        acks = iter([a for a in self.acknowledged if a.offset is not None])
        own = [record for record in self.given if record.reader == reader]
        reads = iter(own)
        begin_ns = min(record.asked_ns for record in own)
        ack, read = next(acks, None), next(reads, None)
        behind: list[tuple[int, int]] = []  # a heap of acknowledged records: time, offset
        place = 0  # the first offset behind all that it was given
        lags: list[int | None] = []
        for now in times_ns:
            while ack is not None and ack.time_ns <= now:
                assert ack.offset is not None
                heappush(behind, (ack.time_ns, ack.offset))
                ack = next(acks, None)
            while read is not None and read.time_ns <= now:
                place = max(place, read.offset + 1)
                read = next(reads, None)
            while behind and behind[0][1] < place:
                heappop(behind)
            lag = now - behind[0][0] if behind else 0
            lags.append(lag if now >= begin_ns else None)
        return lags


def _sums(changes: Iterable[tuple[int, int]], times_ns: Sequence[int]) -> list[int]:
    """The sum of the changes up to each time."""
    waiting = iter(changes)
    change = next(waiting, None)
    total, totals = 0, []
    for now in times_ns:
        while change is not None and change[0] <= now:
            total += change[1]
            change = next(waiting, None)
        totals.append(total)
    return totals


def delivery_of(attempts: Iterable[Attempt], clients: int) -> tuple[DeliveryTrack, ...]:
    """The tracks of all partitions with a record, by name; of one name a track for each topic id.

    `clients`: how many there are (`timeline.lane_count`).
    """
    acknowledged: defaultdict[_Name, list[Acknowledged]] = defaultdict(list)
    given: defaultdict[_Name, list[Given]] = defaultdict(list)
    for attempt in attempts:
        if not attempt.completion or attempt.completion[0].type is not OpType.OK:
            continue
        for name, record in _acknowledged_by(attempt):
            acknowledged[name].append(record)
        for name, read in _given_by(attempt, clients):
            given[name].append(read)
    names = acknowledged.keys() | given.keys()
    counts = Counter(key for key, _ in names)
    by_time = attrgetter("time_ns")
    return tuple(
        DeliveryTrack(
            key=key if counts[key] == 1 else f"{key} (topic {topic_id or 'without an id'})",
            acknowledged=tuple(sorted(acknowledged[key, topic_id], key=by_time)),
            given=tuple(sorted(given[key, topic_id], key=by_time)),
        )
        for key, topic_id in sorted(names, key=lambda name: (name[0], natural(name[1] or "")))
    )


def rebalances_of(attempts: Iterable[Attempt]) -> tuple[Rebalance, ...]:
    """The calls by which members of groups were given partitions or lost them, in the order of their operations."""
    found = []
    for attempt in attempts:
        if attempt.invoke[0].f not in ("group-poll", "process") or not attempt.completion:
            continue
        if attempt.completion[0].type is not OpType.OK:
            continue
        answer = _answer(attempt.completion[0])
        last = attempt.completion[-1]
        given, taken = (_texts(answer.get(name)) for name in ("assigned", "revoked"))
        if given or taken:
            found.append(Rebalance(last.time_ns, last.process, last.index, given, taken))
    return tuple(found)


def delivery_figure(
    tracks: Sequence[DeliveryTrack], scale: TimeScale, behind: Backdrop, *, final_reads_ns: int | None = None
) -> str:
    """Draw the unseen records of all partitions, and below the lag of the readers of each; "" without tracks.

    Final reads, from `final_reads_ns` on, begin at the beginning, so how far they are behind says nothing.
    """
    if not tracks:
        return ""
    span = scale.end_ns - scale.start_ns
    times = [scale.start_ns + span * column // PLOT for column in range(0, PLOT + 1, 2)]
    readers_by_key = {track.key: track.readers(final_reads_ns) for track in tracks}
    readers = sorted({reader for names in readers_by_key.values() for reader in names}, key=natural)
    colours = {reader: colour_of(number) for number, reader in enumerate(readers)}
    unseen = [
        _line(track.key, f"{track.key}: acknowledged records that nobody has read", colour_of(number), times, track.unseen(times))
        for number, track in enumerate(tracks)
    ]
    panels = []
    for track in (track for track in tracks if readers_by_key[track.key]):
        lines = [
            _line(reader, f"{track.key}: {reader}", colours[reader], times, [_ms(lag) for lag in track.lags_ns(reader, times)])
            for reader in readers_by_key[track.key]
        ]
        panels.append(_panel(f"{track.key}: realtime lag of each reader, ms", _LAG, lines))
    worst = sorted(panels, key=lambda panel: -panel.most)[:PARTITIONS_MAX]
    first = _panel("unseen records of each partition", _UNSEEN, unseen)
    return panels_figure(
        [first, *(panel for panel in panels if panel in worst)],
        scale,
        behind,
        label="unseen records, and the realtime lag of each reader over time, with the fault windows",
    )


_UNSEEN = "records that were acknowledged and that no read has returned yet"
_LAG = "how long ago the oldest record was acknowledged that lies behind all that the reader was given"


def _panel(name: str, title: str, lines: Sequence[PanelLine]) -> Panel:
    """A panel of the lines with the greatest values; its name says how many are left out."""
    most = sorted(lines, key=lambda one: -max((value for _, value in one.points if value is not None), default=0))[:LINES_MAX]
    left_out = len(lines) - len(most)
    return Panel(
        name=name + (f", {left_out} more are lower" if left_out else ""),
        title=title,
        lines=tuple(one for one in lines if one in most),
    )


def _ms(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // _NS_PER_MS


def _line(name: str, title: str, colour: str, times_ns: Sequence[int], values: Sequence[int | None]) -> PanelLine:
    points: Points = tuple(zip(times_ns, values, strict=True))
    return PanelLine(name=name, title=title, process=CLIENTS, colour=colour, points=points)


def natural(reader: str) -> tuple[str, int]:
    """The key by which readers are sorted: "client 10" behind "client 9"."""
    name, _, number = reader.rpartition(" ")
    return (name, int(number)) if number.isdigit() else (reader, 0)


def _acknowledged_by(attempt: Attempt) -> Iterator[tuple[_Name, Acknowledged]]:
    """The records that this call says are written."""
    first, last = attempt.invoke[0], attempt.completion[-1]
    if first.f == "produce" and first.acks != 0:
        for row in attempt.completion:
            if row.value is not None and row.partition is not None:
                yield _name_of(row), Acknowledged(row.time_ns, row.offset, row.value)
    elif first.f == "txn":
        for key, offset, value in _sent(last):
            yield (key, None), Acknowledged(last.time_ns, offset, value)


def _given_by(attempt: Attempt, clients: int) -> Iterator[tuple[_Name, Given]]:
    """The records that this call returned."""
    first, last = attempt.invoke[0], attempt.completion[-1]
    client = f"client {first.process % clients}"
    if first.f == "poll":
        for row in attempt.completion:
            if row.value is not None and row.offset is not None and row.partition is not None:
                yield _name_of(row), Given(first.time_ns, row.time_ns, client, row.offset, row.value)
    elif first.f in _SESSIONS:
        answer = _answer(last)
        group = answer.get("group")
        reader = f"group {_visible(group)}" if isinstance(group, str) else client
        polls = [answer.get("records"), *_polled(last)]
        for key, offset, value in chain.from_iterable(map(_placed, polls)):
            given = Given(first.time_ns, last.time_ns, reader, offset, value, has_place=first.f != "share-poll")
            yield (key, None), given


def _name_of(row: Operation) -> _Name:
    return f"{row.topic}-{row.partition}", row.topic_id


def _json(row: Operation) -> object:
    try:
        return json.loads(row.value or "null")
    except (ValueError, RecursionError):
        return None


def _answer(row: Operation) -> Mapping[str, object]:
    """The JSON object of a row; empty if it has none."""
    value = _json(row)
    return value if isinstance(value, dict) else {}


def _micros(row: Operation) -> Iterator[list[object]]:
    """The parts of a transaction: `["send", "t-0", [7, "a"]]`, `["poll", {"t-0": [[6, "b"]]}]`."""
    value = _json(row) if row.f == "txn" else None
    yield from (part for part in value if isinstance(part, list)) if isinstance(value, list) else ()


def _polled(row: Operation) -> Iterator[object]:
    yield from (micro[1] for micro in _micros(row) if len(micro) > 1 and micro[0] == "poll")


def _sent(row: Operation) -> Iterator[tuple[str, int | None, str]]:
    """The records that a transaction sent: partition, offset, value."""
    for micro in _micros(row):
        match micro:
            case ["send", str() as key, [offset, str() as value]]:
                yield _visible(key), offset if _is_offset(offset) else None, _visible(value)


def _placed(records: object) -> Iterator[tuple[str, int, str]]:
    """The records of `{"t-0": [[7, "a"]]}`: partition, offset, value."""
    for key, rows in records.items() if isinstance(records, dict) else ():
        for row in rows if isinstance(rows, list) else ():
            match row:
                case [int() as offset, str() as value, *_] if _is_offset(offset):
                    yield _visible(key), offset, _visible(value)


def _is_offset(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _visible(words: str) -> str:
    """Words from JSON, which may hold half of a surrogate pair, as a page can be written with them."""
    return words.encode("utf-8", "replace").decode("utf-8")


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_visible(item) for item in value if isinstance(item, str)) if isinstance(value, list) else ()
