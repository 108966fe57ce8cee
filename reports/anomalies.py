"""The anomalies of a run's page: which are shown in full, and the rows, account and picture that explain each.

A failed run has hundreds of anomalies of a few kinds. Every kind is counted and a few examples of each are shown, from different
partitions first. Of several examples about the same offset only the first has the story.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from checkers.causes.cause import Cause
from checkers.engine.verdict import Anomaly, Verdict, counts
from checkers.registry import ALL, OF_BLACK_BOXES
from checkers.severity import severity
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from reports.offset_story import Place, story_of, witness_rows
from reports.replicas import PartitionTrack
from reports.rows import Line, event_line, folded, is_control, operation_line, partition_key
from reports.svg import NS_PER_S, TimeScale

EXAMPLES_MAX = 3  # anomalies of one kind that are shown in full; the rest are counted
WITNESSES_MAX = 12  # rows shown for one anomaly
STORY_MAX = 90  # lines of one story
STORY_LATER = 40  # lines of the story of a further example of a kind
PICTURES_MIN = 3  # this many anomalies have a picture, as has the first of each kind
_ZOOM_MARGIN_NS = 2 * NS_PER_S
_ZOOM_MAX_NS = 120 * NS_PER_S  # of one picture: where the witnesses are further apart, it shows the last ones
_OFFSET = re.compile(r"\boffset (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One kind of anomaly on a run's page: the claim of its checker, the number found, and the examples shown."""

    kind: str
    checker: str
    claim: str
    count: int
    shown: tuple[int, ...]  # numbers of the views


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyView:
    """One anomaly on a run's page, with what a reader needs to believe and to understand it."""

    number: int
    anomaly: Anomaly
    witnesses: tuple[Line, ...]
    witnesses_left_out: int
    place: Place | None
    story: tuple[Line, ...]
    story_left_out: int
    told_by: int | None  # the number of an earlier anomaly that has the story of the same place
    track: PartitionTrack | None  # None: the picture shows the brokers
    scale: TimeScale | None  # None: no picture


def kinds_of(verdict: Verdict, first: Anomaly | None = None) -> tuple[tuple[KindRow, ...], tuple[Anomaly, ...]]:
    """Return the kinds of anomalies, worst first, and the examples to show in full; `first` comes first of its kind."""
    claims = {checker.name: checker.claim for checker in (*OF_BLACK_BOXES, *ALL)}
    order = {name: number for number, name in enumerate(claims)}
    by_kind: dict[tuple[str, str], list[Anomaly]] = {}

    def rank(found: Anomaly) -> tuple[int, int, bool, Anomaly]:
        return severity(found.kind)[0], order.get(found.checker, len(order)), found != first, found

    for anomaly in sorted(verdict.anomalies, key=rank):
        by_kind.setdefault((anomaly.kind, anomaly.checker), []).append(anomaly)
    rows: list[KindRow] = []
    anomalies_shown: list[Anomaly] = []
    for (kind, checker), found in by_kind.items():
        examples = _examples_of_kind(found)
        numbers = tuple(range(len(anomalies_shown) + 1, len(anomalies_shown) + len(examples) + 1))
        anomalies_shown.extend(examples)
        count = counts(found).total()
        rows.append(KindRow(kind=kind, checker=checker, claim=claims.get(checker, ""), count=count, shown=numbers))
    return tuple(rows), tuple(anomalies_shown)


def _examples_of_kind(anomalies: Sequence[Anomaly]) -> list[Anomaly]:
    """At most EXAMPLES_MAX: the first anomaly of each partition, then the second ones, because one partition has one story."""
    nth: Counter[str] = Counter()
    ranked = []
    for anomaly in anomalies:
        ranked.append((nth[anomaly.key], anomaly))
        nth[anomaly.key] += 1
    return [anomaly for _, anomaly in sorted(ranked, key=lambda ranked_anomaly: ranked_anomaly[0])[:EXAMPLES_MAX]]


def views_of(
    history: History, shown: Sequence[Anomaly], tracks: Sequence[PartitionTrack], end_ns: int, cause: Cause | None = None
) -> tuple[AnomalyView, ...]:
    """The anomalies to show in full. Of several about one offset only the first has the account of that offset.

    The rows of the cause are in the account of its anomaly, and the row that did it is among its witnesses.
    """
    views: list[AnomalyView] = []
    number_by_place: dict[Place, int] = {}
    kinds: set[str] = set()
    for number, anomaly in enumerate(shown, start=1):
        cause_of_anomaly = cause if cause is not None and cause.anomaly == anomaly else None
        view = _view_without_story(history, anomaly, tracks, number, cause_of_anomaly)
        if number <= PICTURES_MIN or anomaly.kind not in kinds:
            view = replace(view, scale=_scale_around(view.witnesses, end_ns))
        most = STORY_LATER if anomaly.kind in kinds else STORY_MAX
        kinds.add(anomaly.kind)
        if view.place is not None and number_by_place.setdefault(view.place, number) != number:
            view = replace(view, told_by=number_by_place[view.place])
        else:
            story = folded(_with_cause(_story_of_view(history, view), history, view, cause_of_anomaly))
            story_kept = _bounded_story(story, most)
            view = replace(view, story=story_kept, story_left_out=len(story) - len(story_kept))
        views.append(view)
    return tuple(views)


def _view_without_story(
    history: History, anomaly: Anomaly, tracks: Sequence[PartitionTrack], number: int, cause: Cause | None
) -> AnomalyView:
    """The view without its story and its scale."""
    track = next((track for track in tracks if track.key == anomaly.key), None)
    place = _place_of(history, anomaly, track)
    if track is None and place is not None:
        track = next((t for t in tracks if (t.topic, t.partition) == (place.topic, place.partition)), None)
    offset = None if place is None else place.offset
    step = None if cause is None else cause.step
    pointed = sorted({*anomaly.witness, *(() if step is None else (step,))})
    lines = [line for index in pointed for line in _lines_of_witness(history, index, offset, step)]
    return AnomalyView(
        number=number,
        anomaly=anomaly,
        witnesses=tuple(lines[:WITNESSES_MAX]),
        witnesses_left_out=max(len(lines) - WITNESSES_MAX, 0),
        place=place,
        story=(),
        story_left_out=0,
        told_by=None,
        track=track,
        scale=None,
    )


def _story_of_view(history: History, view: AnomalyView) -> tuple[Line, ...]:
    if view.place is not None:
        return story_of(view.place, history, witness=view.anomaly.witness)
    return _story_around_witnesses(history, view) if view.witnesses else ()


def _scale_around(witnesses: Sequence[Line], end_ns: int) -> TimeScale | None:
    """The time span to draw around an anomaly: from its first witness to its last, with a margin."""
    if not witnesses:
        return None
    times = [line.time_ns for line in witnesses]
    last = min(max(times) + _ZOOM_MARGIN_NS, end_ns)
    return TimeScale(start_ns=max(min(times) - _ZOOM_MARGIN_NS, last - _ZOOM_MAX_NS, 0), end_ns=last)


def _bounded_story(story: tuple[Line, ...], most: int) -> tuple[Line, ...]:
    """Shorten the account of an anomaly in its middle; the first and last lines stay, and so do its witnesses."""
    if len(story) <= most:
        return story
    head, tail = most * 2 // 3, most // 3
    middle = tuple(line for line in story[head:-tail] if line.witness or line.step)
    return (*story[:head], *middle, *story[-tail:])


def lines_of(history: History, cause: Cause) -> tuple[Line, ...]:
    """The rows that the sentence of a cause tells of, and those that show its facts, in the order of index."""
    named = None if cause.anomaly is None else _OFFSET.search(cause.anomaly.words)
    offset = None if named is None else int(named[1])
    indices = sorted({*cause.rows, *cause.facts, *(() if cause.step is None else (cause.step,))})
    return tuple(
        replace(line, witness=False) for index in indices for line in _lines_of_witness(history, index, offset, cause.step)
    )


def _with_cause(story: tuple[Line, ...], history: History, view: AnomalyView, cause: Cause | None) -> tuple[Line, ...]:
    """The story with the rows that the cause names."""
    if cause is None:
        return story
    indexes = {line.index for line in story}
    added = [line for line in lines_of(history, cause) if line.index not in indexes]
    lines_told = [*(replace(line, step=line.index == cause.step) for line in story), *added]
    return tuple(sorted(lines_told, key=lambda line: line.index))


def _lines_of_witness(history: History, index: int, offset: int | None, step: int | None) -> list[Line]:
    """The rows of a witness as lines."""
    lines = [
        event_line(row, witness=True) if isinstance(row, ClusterEvent) else operation_line(row, witness=True)
        for row in witness_rows(history, index, offset)
    ]
    return [replace(line, step=index == step) for line in lines]


def _place_of(history: History, anomaly: Anomaly, track: PartitionTrack | None) -> Place | None:
    """The offset of an anomaly: the first one in its words, else the offset of the first record among its witnesses."""
    named = _OFFSET.search(anomaly.words)
    if named is not None and track is not None:
        return Place(topic=track.topic, partition=track.partition, offset=int(named[1]))
    for row in (row for index in anomaly.witness for row in witness_rows(history, index, None)):
        of_record = row.type is not OpType.INVOKE if isinstance(row, Operation) else row.kind is EventKind.APPEND
        if of_record and row.topic is not None and row.partition is not None and row.offset is not None and row.value is not None:
            return Place(topic=row.topic, partition=row.partition, offset=row.offset)
    return None


def _story_around_witnesses(history: History, view: AnomalyView) -> tuple[Line, ...]:
    """The story of an anomaly without an offset: its witnesses and the control events shortly before and between them."""
    times = [line.time_ns for line in view.witnesses]
    first = min(times) - _ZOOM_MARGIN_NS
    last = max(times)
    pointed = frozenset(view.anomaly.witness)
    around = [
        event_line(event)
        for event in history.events
        if first <= event.time_ns <= last
        and event.index not in pointed
        and is_control(event)
        and partition_key(event) in ("", view.anomaly.key)
    ]
    return tuple(sorted((*around, *view.witnesses), key=lambda line: line.index))
