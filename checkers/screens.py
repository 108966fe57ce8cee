"""Fast pre-checks on columns ("screens"): when one shows that a checker would find nothing in a partition, it skips it.

A screen may suspect a good partition, but never passes a bad one. The checker then walks the rows of suspected partitions only.
Screens know neither cuts nor events, so partitions that have either are always walked.
Each screen follows the rules of the checker that names it; `tests/checkers/test_screens.py` compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from checkers.columns import NONE, OFFSET_BITS, Columns, Flags, Ints, packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """The result of a fast pre-check, for each partition: whether the checker must read it row by row, and the checker's counts.

    The counts are valid for partitions that are not read.
    """

    suspect: Flags
    counts: dict[str, Ints] = field(default_factory=dict)


Screen = Callable[[Columns], Screened]


def offset_agreement(columns: Columns) -> Screened:
    """Fast pre-check: suspect partitions where one offset has two values, which are neighbours when sorted."""
    keys, values = columns.by_offset
    differ = (keys[1:] == keys[:-1]) & (values[1:] != values[:-1])
    return Screened(suspect=columns.named(keys[1:][differ] >> OFFSET_BITS))


def acked_loss(columns: Columns) -> Screened:
    """Fast pre-check: suspect partitions where a poll skips an offset of which another answer told a client."""
    count = np.bincount(columns.promised >> OFFSET_BITS, minlength=len(columns.partitions))
    return Screened(suspect=_passes_over(columns), counts={"promised": count, "excused": np.zeros_like(count)})


def polls(columns: Columns) -> Screened:
    """Fast pre-check: suspect partitions where offsets in an answer do not rise, or a poll skips a known offset."""
    turns = columns.turns
    told = turns.ok & (turns.poll | turns.acks_all)
    return Screened(suspect=_passes_over(columns) | columns.named(turns.part[told & ~_rises(columns)]))


def committed_offsets(columns: Columns) -> Screened:
    """Fast pre-check: suspect nothing, as partitions with committed offsets are always read row by row."""
    return Screened(suspect=np.zeros(len(columns.partitions), np.bool_))


def _passes_over(columns: Columns) -> Flags:
    # Find partitions with a poll that does not return exactly the known offsets from its position to its last record.
    turns, firsts, promised = columns.turns, columns.turns.first[:-1], columns.promised
    polls = np.flatnonzero(turns.ok & turns.poll)
    got = (columns.value >= 0) & (columns.offset >= 0)
    count = np.add.reduceat(got, firsts, dtype=np.int64)[polls]
    highest = np.maximum.reduceat(np.where(got, columns.offset, NONE), firsts)[polls]
    lowest = np.minimum.reduceat(np.where(got, columns.offset, 1 << OFFSET_BITS), firsts)[polls]
    position = columns.offset[turns.first[turns.other[polls]]]
    asked = np.where(position == NONE, lowest, position)
    rising = _rises(columns)[polls]
    # Polls without a gap skip nothing.
    open_ = (count > 0) & ((highest - asked + 1 != count) | (lowest < asked) | ~rising)
    polls, asked, count, highest, lowest, rising = (c[open_] for c in (polls, asked, count, highest, lowest, rising))
    part = turns.part[polls]
    there = np.searchsorted(promised, packed(part, highest), side="right") - np.searchsorted(promised, packed(part, asked))
    # The poll returned as many offsets as are promised, none twice: it skipped only offsets that no answer gave.
    return columns.named(part[(there != count) | (lowest < asked) | ~rising])


def _rises(columns: Columns) -> Flags:
    # For each invocation or completion, whether its offsets rise from row to row.
    rises = np.ones(len(columns.turns.index), np.bool_)
    rows = np.flatnonzero((columns.value >= 0) & (columns.offset >= 0))
    turn, offset = columns.turn[rows], columns.offset[rows]
    rises[turn[1:][(turn[1:] == turn[:-1]) & (offset[1:] <= offset[:-1])]] = False
    return rises


def order(columns: Columns) -> Screened:
    """Fast pre-check: suspect partitions with an acknowledgement out of order, or a value read but not sent there before."""
    return Screened(suspect=_acknowledged_late(columns) | _read_unsent(columns))


def _acknowledged_late(columns: Columns) -> Flags:
    turns, firsts = columns.turns, columns.turns.first[:-1]
    acks = np.flatnonzero(turns.ok & ~turns.poll & turns.acks_all)
    known = columns.offset >= 0
    highest = np.maximum.reduceat(columns.offset, firsts)[acks]
    lowest = np.minimum.reduceat(np.where(known, columns.offset, 1 << OFFSET_BITS), firsts)[acks]
    acks, highest, lowest = (column[highest >= 0] for column in (acks, highest, lowest))
    by_part = np.argsort(turns.part[acks].astype(np.uint16), kind="stable")
    acks, highest, lowest = acks[by_part], highest[by_part], lowest[by_part]
    part = turns.part[acks]
    # Within a part acknowledgements are sorted by time. Later parts have greater keys, so one running maximum serves all parts.
    came = packed(part, turns.index[acks])
    so_far = np.maximum.accumulate(packed(part, highest))
    before = np.searchsorted(came, packed(part, turns.index[turns.other[acks]])) - 1
    late = (before >= 0) & (so_far[before] >= packed(part, lowest))
    return columns.named(part[late])


def _read_unsent(columns: Columns) -> Flags:
    turns, read, sent = columns.turns, columns.read, columns.sent
    first = np.full(columns.values, NONE, np.int64)
    where = np.full(columns.values, NONE, np.int32)
    code, turn, part = columns.value[sent], columns.turn[sent], columns.part[sent]
    # numpy keeps the last of several assignments. The rows are reversed, so that it is the first send.
    first[code[::-1]] = turns.index[turn[::-1]]
    where[code] = part
    # For a value that was sent to two partitions these arrays hold one of them only, so both are walked.
    again = where[code] != part
    suspect = columns.named(part[again]) | columns.named(where[code[again]])
    taken_back = np.zeros(columns.values, np.bool_)
    failed = (turns.other[turn] != NONE) & turns.failed[turns.other[turn]]
    taken_back[code[failed]] = True
    taken_back[code[~failed]] = False
    code, part = columns.value[read], columns.part[read]
    wrong = (where[code] != part) | (first[code] > turns.index[columns.turn[read]]) | taken_back[code]
    return suspect | columns.named(part[wrong])


def duplicates(columns: Columns) -> Screened:
    """Fast pre-check: suspect partitions where a value was read at two offsets, or an idempotent producer's out of order."""
    turns = columns.turns
    read = columns.read[columns.offset[columns.read] >= 0]
    code, offset, part = columns.value[read], columns.offset[read], columns.part[read]
    place = np.full(columns.values, NONE, np.int64)
    place[code] = packed(part, offset)
    suspect = columns.named(part[place[code] != packed(part, offset)])
    sent = columns.sent[turns.once[columns.turn[columns.sent]]]
    part, found = columns.part[sent], place[columns.value[sent]]
    there = (found != NONE) & (found >> OFFSET_BITS == part)
    sent, part, found = sent[there], part[there], found[there]
    process = turns.process[columns.turn[sent]]
    by_process = np.lexsort((sent, process, part))
    part, process, found = part[by_process], process[by_process], found[by_process]
    back = (found[1:] < found[:-1]) & (process[1:] == process[:-1]) & (part[1:] == part[:-1])
    zero = np.zeros(len(columns.partitions), np.int64)
    return Screened(suspect=suspect | columns.named(part[1:][back]), counts={"duplicates": zero})
