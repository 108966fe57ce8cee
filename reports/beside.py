"""The view model of the page of two runs beside each other: where they part, how their plans differ, and both in one diagram.

The first run is the one that a reader asks about, the second one its neighbour: nearly the same, and it passes. A line of the
diagram is one row of a run, or one row that both have. Rows correspond if they say the same (`reports.divergence`); where the two
runs have corresponding rows in another order, each has a line of its own.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from checkers.causes.cause import Cause, cause_of
from checkers.engine.verdict import Verdict
from history.history import History
from history.manifest import RunManifest
from history.op import Operation
from reports.divergence import Comparer, Divergence, Mark, Row, divergence_of, partners
from reports.fault_windows import windows_of
from reports.first_call import FirstCall
from reports.nodes import NodeTrack, nodes_of
from reports.replicas import PartitionTrack, tracks_of
from reports.rows import Line, event_line, operation_line, partition_key
from reports.run_page import Banner, banner_of, end_ns_of, milestones_of, played_by, seed_words
from reports.spacetime import Diagram, drawn, is_deed, rows_of
from reports.svg import Backdrop, TimeScale, seconds
from reports.templating import counted

NEAR = 6  # rows shown before and after each mark
ROWS_MAX = 110  # rows of one run that are shown
WHOLE_MAX = 60  # rows of a run that is shown as a whole
AFTER_NS = 500_000_000  # shown of both runs after the last row that is told
PARTITIONS_MAX = 2

Place = Literal["both", "left", "right", "moved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """One thing in which two plans differ, for example a fault. Empty text: the plan does not have it."""

    what: str
    left: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a caller gives of one run: its history and verdict, a command that repeats it, and a link to its page."""

    history: History
    verdict: Verdict
    repeat: str
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs."""

    manifest: RunManifest
    played: str
    seed: str
    banner: Banner
    cause: str
    repeat: str
    link: str
    backdrop: Backdrop
    nodes: tuple[NodeTrack, ...]
    partitions: tuple[PartitionTrack, ...]
    diagram: Diagram


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkView:
    """A first difference. `columns` says what differs in two rows of one kind, `line` is its line in the diagram."""

    number: int
    words: str
    left: Line | None
    right: Line | None
    columns: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """One line of the diagram: a row of the left run, of the right one, or of both. `gap` rows before it are left out."""

    left: int | None
    right: int | None
    place: Place
    gap: int
    mark: int  # number of the mark that it belongs to; 0: none


@dataclass(frozen=True, slots=True, kw_only=True)
class BesidePage:
    """What the page shows, in its order."""

    left: Side
    right: Side
    divergence: Divergence
    marks: tuple[MarkView, ...]
    plans: tuple[PlanChange, ...]
    doubts: tuple[str, ...]
    lines: tuple[Pairing, ...]
    scale: TimeScale
    repeat: str
    first_call: FirstCall | None

    @property
    def parting(self) -> str:
        """How far the runs are the same, and the difference that tells most, in a sentence or two."""
        same = counted(self.divergence.same, "row")
        if not self.marks:
            return f"The runs are the same: {same}, faults aside."
        until = seconds(self.divergence.until_ns, 6)
        be = "is" if self.divergence.same == 1 else "are"
        return f"The first {same} {be} the same, up to {until} s. Then {_difference_in_words(self.marks[-1])}."


def _difference_in_words(mark: MarkView) -> str:
    """What the runs say at a difference, the earlier row first."""
    left_row, right_row = mark.left, mark.right
    if right_row is not None and (left_row is None or right_row.time_ns < left_row.time_ns):
        if left_row is None:
            return f"in the run beside it, {_said(right_row)}; in this run, nothing corresponds to it"
        does_not = f"{left_row.who}{f' on {left_row.where}' if left_row.where else ''} does not"
        there_in_words = f"its next row there is that it {left_row.words} at {seconds(left_row.time_ns)} s"
        return f"in the run beside it, {_said(right_row)}; in this run, {does_not}: {there_in_words}"
    assert left_row is not None
    return f"{_said(left_row)}; in the run beside it, {'nothing corresponds to it' if right_row is None else _said(right_row)}"


def _said(line: Line) -> str:
    return f"{line.who}{f' on {line.where}' if line.where else ''} {line.words} at {seconds(line.time_ns)} s"


_WORDS = {
    "differs": "the first row that differs at all: in its time, its order or its content",
    "says": "the first row that says something else",
    "decides": "the first change of a leader, an ISR, a log or a broker that differs",
}


def beside_of(
    left: Given, right: Given, *, plans: Sequence[PlanChange], repeat: str, first_call: FirstCall | None = None
) -> BesidePage:
    """Make the page of a run and its neighbour. `plans` says in what their plans differ."""
    parted = divergence_of(left.history, right.history)
    compare = Comparer(left.history, right.history)
    causes = [cause_of(side.history, side.verdict) for side in (left, right)]
    rows = _rows_of_both((left.history, right.history), parted.marks, causes)
    kept = _rows_drawn(rows, parted.marks, causes, compare)
    end_ns = max(end_ns_of(left.history), end_ns_of(right.history))
    keys = _partitions_shown(parted.marks, causes)
    sides = [
        _side_of(side, cause, rows=rows[n], kept=kept[n], keys=keys, end_ns=end_ns)
        for n, (side, cause) in enumerate(zip((left, right), causes, strict=True))
    ]
    lines = _pairings_in_order(rows, kept, parted.marks, compare)
    return BesidePage(
        left=sides[0],
        right=sides[1],
        divergence=parted,
        marks=tuple(_views_of_marks(parted.marks, lines, compare)),
        plans=tuple(plans),
        doubts=tuple(_doubts(left.history.manifest, right.history.manifest)),
        lines=tuple(lines),
        scale=TimeScale(start_ns=0, end_ns=end_ns),
        repeat=repeat,
        first_call=first_call,
    )


def _doubts(left: RunManifest, right: RunManifest) -> Iterator[str]:
    """Why the first difference may mean little."""
    if left.draws != right.draws:
        yield "The runs have other draws, so delays and requests differ by chance from the start."
    for manifest in (left, right):
        if manifest.backend not in ("sim", "explore"):
            yield f"{manifest.run_id} ran in real time ({manifest.backend}): it does not repeat, and times differ in any case."


def _side_of(
    side: Given, cause: Cause | None, *, rows: Sequence[Row], kept: Sequence[Row], keys: Sequence[str], end_ns: int
) -> Side:
    """One of the two runs: its facts, its timelines and its half of the diagram."""
    history, manifest = side.history, side.history.manifest
    rows_of_cause = frozenset[int]() if cause is None else frozenset(cause.rows)
    tracks = tracks_of(history.events, manifest.assignments, end_ns)
    return Side(
        manifest=manifest,
        played=played_by(manifest),
        seed=seed_words(manifest),
        banner=banner_of(side.verdict, manifest),
        cause="" if cause is None else cause.sentence,
        repeat=side.repeat,
        link=side.link,
        backdrop=Backdrop(windows=windows_of(history.events_frame, end_ns), milestones=milestones_of(manifest)),
        nodes=nodes_of(history.events, manifest.brokers, end_ns),
        partitions=tuple(track for track in tracks if track.key in keys[:PARTITIONS_MAX]),
        diagram=drawn(rows, kept, manifest.brokers, step=None if cause is None else cause.step, cause_rows=rows_of_cause),
    )


# --- which rows are shown -------------------------------------------------------------------------------------------------------


def _of_marks(marks: Iterable[Mark], side: int) -> set[int]:
    """The indices of the rows of one run that are marked."""
    return {row.index for mark in marks if (row := (mark.left, mark.right)[side]) is not None}


def _rows_of_both(histories: Sequence[History], marks: Sequence[Mark], causes: Sequence[Cause | None]) -> list[list[Row]]:
    """The rows of each run that the diagram may show; marked ones and those of a cause whatever their kind."""
    return [
        rows_of(history, _of_marks(marks, side) | frozenset(() if cause is None else cause.rows))
        for side, (history, cause) in enumerate(zip(histories, causes, strict=True))
    ]


def _partitions_shown(marks: Sequence[Mark], causes: Sequence[Cause | None]) -> list[str]:
    """The partitions that the page is about: of the causes, then of the marks, the most telling first."""
    named = [cause.key for cause in causes if cause is not None]
    named += [partition_key(row) for mark in reversed(marks) for row in (mark.left, mark.right) if row is not None]
    return list(dict.fromkeys(key for key in named if key))


def _rows_drawn(
    rows: Sequence[Sequence[Row]], marks: Sequence[Mark], causes: Sequence[Cause | None], compare: Comparer
) -> list[list[Row]]:
    """The rows of both runs that are shown. What corresponds to a shown row is shown, too: no line may seem to be missing."""
    keys = {"", *_partitions_shown(marks, causes)}
    pointed = [_of_marks(marks, side) | set(() if cause is None else cause.rows) for side, cause in enumerate(causes)]
    times = [row.time_ns for side in (0, 1) for row in rows[side] if row.index in pointed[side]]
    span = (min(times, default=0), max(times, default=0) + AFTER_NS)
    indexes = [
        {row.index for row in (rows[n] if len(rows[n]) <= WHOLE_MAX else _rows_to_draw(rows[n], pointed[n], keys, span))}
        for n in (0, 1)
    ]
    for row_here, row_beside in list(partners(compare, rows[0], rows[1])):
        if row_here.index in indexes[0] or row_beside.index in indexes[1]:
            indexes[0].add(row_here.index)
            indexes[1].add(row_beside.index)
    kept = [[row for row in rows[side] if row.index in indexes[side]] for side in (0, 1)]
    # Where one message is late, the same records come in another order for long: these rows would hide the others.
    common = list(partners(compare, *kept))
    straight = set(_pairs_in_same_order([(row_here.index, row_beside.index) for row_here, row_beside in common]))
    for row_here, row_beside in common:
        if (row_here.index, row_beside.index) not in straight and not is_deed(row_here):
            indexes[0] -= {row_here.index} - pointed[0]
            indexes[1] -= {row_beside.index} - pointed[1]
    return [[row for row in rows[side] if row.index in indexes[side]] for side in (0, 1)]


def _rows_to_draw(rows: Sequence[Row], pointed: set[int], keys: set[str], span: tuple[int, int]) -> list[Row]:
    """The rows to draw: those pointed at, their neighbours, and what brokers did in the span."""
    pointed_rows = [row for row in rows if partition_key(row) in keys or row.index in pointed]
    places = [number for number, row in enumerate(pointed_rows) if row.index in pointed]
    near = {
        place_near for place in places for place_near in range(max(place - NEAR, 0), min(place + NEAR + 1, len(pointed_rows)))
    }
    deeds = {number for number, row in enumerate(pointed_rows) if is_deed(row) and span[0] <= row.time_ns <= span[1]}

    def rank(number: int) -> tuple[int, int]:
        distance = min((abs(number - place) for place in places), default=0)
        return (0 if number in places else 1 if number in near else 2), distance

    return [pointed_rows[number] for number in sorted(near | deeds, key=rank)[:ROWS_MAX]]


# --- lines ----------------------------------------------------------------------------------------------------------------------


def _pairings_in_order(
    rows: Sequence[Sequence[Row]], kept: Sequence[Sequence[Row]], marks: Sequence[Mark], compare: Comparer
) -> list[Pairing]:
    """The lines of the diagram in order: rows of both runs where they correspond, between these those of one, by time."""
    place = [{row.index: number for number, row in enumerate(side)} for side in kept]
    pairs = [
        (place[0][place_here.index], place[1][place_beside.index])
        for place_here, place_beside in partners(compare, kept[0], kept[1])
    ]
    shared = _pairs_in_same_order(pairs)
    moved = (
        {place_here for place_here, _ in pairs} - {place_here for place_here, _ in shared},
        {place_beside for _, place_beside in pairs} - {place_beside for _, place_beside in shared},
    )
    pairs_found: list[tuple[int | None, int | None, Place]] = []
    end_pair = (len(kept[0]), len(kept[1]))
    for (left, right), (next_left, next_right) in pairwise([(-1, -1), *shared, end_pair]):
        alone: list[tuple[int, int, int]] = [(kept[0][n].time_ns, 0, n) for n in range(left + 1, next_left)]
        alone += [(kept[1][n].time_ns, 1, n) for n in range(right + 1, next_right)]
        for _, side, n in sorted(alone):
            where: Place = "moved" if n in moved[side] else ("left", "right")[side]
            pairs_found.append((n, None, where) if side == 0 else (None, n, where))
        if (next_left, next_right) != end_pair:
            pairs_found.append((next_left, next_right, "both"))
    return _numbered_pairings(pairs_found, rows, kept, marks)


def _pairs_in_same_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest list of corresponding rows that are in the same order in both runs (longest increasing subsequence)."""
    tails: list[int] = []
    chains: list[list[tuple[int, int]]] = []
    for pair in sorted(pairs):
        at = bisect_left(tails, pair[1])
        chain = [*(chains[at - 1] if at else []), pair]
        tails[at : at + 1] = [pair[1]]
        chains[at : at + 1] = [chain]
    return chains[-1] if chains else []


def _numbered_pairings(
    pairs_found: Sequence[tuple[int | None, int | None, Place]],
    rows: Sequence[Sequence[Row]],
    kept: Sequence[Sequence[Row]],
    marks: Sequence[Mark],
) -> list[Pairing]:
    """The lines with the rows that are left out before them, and with the marks that they belong to."""
    at = [{row.index: number for number, row in enumerate(side)} for side in rows]
    last = [-1, -1]
    lines: list[Pairing] = []
    for pair in ((left, right) for left, right, _ in pairs_found):
        gap = 0
        indices: list[int | None] = []
        for side in (0, 1):
            number = pair[side]
            indices.append(None if number is None else kept[side][number].index)
            if number is not None:
                index_here = at[side][kept[side][number].index]
                gap += index_here - last[side] - 1
                last[side] = index_here
        mark = next((n for n, own_mark in enumerate(marks, 1) if _names_a_row(own_mark, indices)), 0)
        lines.append(Pairing(left=indices[0], right=indices[1], place=pairs_found[len(lines)][2], gap=gap, mark=mark))
    return lines


def _names_a_row(mark: Mark, indices: Sequence[int | None]) -> bool:
    return any(row is not None and row.index == index for row, index in zip((mark.left, mark.right), indices, strict=True))


def _views_of_marks(marks: Sequence[Mark], lines: Sequence[Pairing], compare: Comparer) -> Iterator[MarkView]:
    """The marks in words; those that name the same rows are one."""
    rows = [tuple(None if row is None else row.index for row in (mark.left, mark.right)) for mark in marks]
    for number, mark in enumerate(marks, 1):
        if rows[number - 1] in rows[: number - 1]:
            continue
        same = [other_mark.what for other_mark, rows_of_mark in zip(marks, rows, strict=True) if rows_of_mark == rows[number - 1]]
        changes = () if mark.left is None or mark.right is None else compare.changes(mark.left, mark.right)
        yield MarkView(
            number=number,
            words=_WORDS[same[-1]],
            left=None if mark.left is None else line_of(mark.left),
            right=None if mark.right is None else line_of(mark.right),
            columns=", ".join(
                f"{name.removesuffix('_ns')} {_value_in_words(name, before)} / {_value_in_words(name, after)}"
                for name, before, after in changes
            ),
            line=next((place for place, line in enumerate(lines) if _names_a_row(mark, (line.left, line.right))), -1),
        )


def _value_in_words(name: str, value: object) -> str:
    """A value of a row in words."""
    if value is None:
        return "none"
    if name == "time_ns" and isinstance(value, int):
        return f"{value / 1e9:.6f} s"
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def line_of(row: Row) -> Line:
    """A row as a line of a log."""
    return operation_line(row) if isinstance(row, Operation) else event_line(row)
