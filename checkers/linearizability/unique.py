"""Decide linearizability in n log n where the values show where each call belongs, without a search.

`decide` examines the calls of one object and returns None if its conditions do not hold. Where the search is as fast, it goes
first, because its witness has an order; if it does not decide soon, the values do.

* log, set: the observed offsets (or the inclusion of read sets) give each call a rank; calls of lower rank come first. An order
  exists if and only if no call of a lower rank was invoked after one of a higher rank returned: points in time can then be chosen
  rank by rank, each after the latest invocation so far.
* register with unique writes: Gibbons and Korach's zones. All reads of a value follow its write and precede the next write, so
  the zones of two values must not cross.
* FIFO queue with unique values: Henzinger, Sezgin and Vafeiadis's four bad patterns: a value never enqueued, dequeued twice, out
  of order, or an empty queue while a value was certainly in it. Of an unordered queue the same without the third.

A call of unknown outcome is left out if no call saw its effect; otherwise it has no end.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from checkers.linearizability.collections import FifoQueue, GrowSet, PartitionLog, UnorderedQueue, elements_read
from checkers.linearizability.model import Model
from checkers.linearizability.prefix import cut, opened
from checkers.linearizability.registers import Register
from checkers.linearizability.search import Outcome, Placed, Stuck, Undecided
from checkers.linearizability.witness import first_impossible
from history.foreign.step import UNKNOWN, Call, short

_FOREVER = 1 << 62
_BEFORE_ALL = -1
_SEARCHED_MAX = 64  # up to so many calls the search is as fast and gives a better witness
Ints = npt.NDArray[np.int64]

# The call that contradicts the others, and the reason in words.
Conflict = tuple[Call, str]


class NotApplicable(Exception):  # noqa: N818 - no error: the search decides then
    """Raised if the values do not determine the order of the calls, so that only a search can decide."""


def decide(model: Model, calls: Sequence[Call], *, hard: bool = False) -> Outcome | None:
    """Decide whether the calls on one object have an order that explains them; None if only a search can decide.

    `hard`: a short search did not decide, so few calls are looked at, too, and a queue whose values are not unique is searched
    for a value that is dequeued too often.
    """
    find = _conflict_finder(model)
    if find is None or (len(calls) <= _SEARCHED_MAX and not hard and not isinstance(model, PartitionLog)):
        return None
    try:
        conflict = find(calls)
        return Placed(order=()) if conflict is None else _first_stuck(find, calls)
    except NotApplicable:
        if hard and isinstance(model, FifoQueue) and overdrawn_conflict(calls) is not None:
            return _first_stuck(overdrawn_conflict, calls)
        # The search cannot guess the offsets of appends without an answer, so it would accuse their readers.
        return Undecided(steps=0) if isinstance(model, PartitionLog) else None


def _conflict_finder(model: Model) -> Callable[[Sequence[Call]], Conflict | None] | None:
    """The function that finds conflicts among calls on this model by unique values; None if there is none."""
    if type(model) is Register:
        first = model.initial()
        return lambda calls: register_conflict(calls, first)
    if isinstance(model, GrowSet):
        return set_conflict
    if isinstance(model, FifoQueue):
        ordered = not isinstance(model, UnorderedQueue)
        return lambda calls: queue_conflict(calls, ordered=ordered)
    return log_conflict if isinstance(model, PartitionLog) else None


def _first_stuck(find: Callable[[Sequence[Call]], Conflict | None], calls: Sequence[Call]) -> Stuck:
    """The shortest prefix of the history without an order; its last returned call is the impossible one."""

    def has_order(prefix: Sequence[Call]) -> bool | None:
        try:
            return find(prefix) is None
        except NotApplicable:  # a prefix may lack the values that determine the order
            return None

    returned = sorted((call for call in calls if call.end is not None), key=lambda call: call.end or 0)
    at = first_impossible(calls, has_order)
    conflict = find(cut(calls, returned[at].end or 0))
    assert conflict is not None
    before = sorted(returned[:at], key=lambda call: call.start)
    return Stuck(order=tuple(call.index for call in before), call=returned[at].index, state=None, why=conflict[1])


def _end(call: Call) -> int:
    return _FOREVER if call.end is None else call.end


# --- calls with ranks ---------------------------------------------------------------------------------------------------


def _rank_conflict(calls: Sequence[Call], ranks: Sequence[int]) -> Conflict | None:
    """Find a call that completed before a call of lower rank was invoked. Calls of equal rank are not ordered."""
    if not calls:
        return None
    rank = np.asarray(ranks, dtype=np.int64)
    order = np.argsort(rank, kind="stable")
    start = np.fromiter((c.start for c in calls), np.int64, len(calls))[order]
    end = np.fromiter((_end(c) for c in calls), np.int64, len(calls))[order]
    latest: Ints = np.maximum.accumulate(start)
    first_of_rank = np.searchsorted(rank[order], rank[order], side="left")
    below = np.where(first_of_rank > 0, latest[np.maximum(first_of_rank - 1, 0)], _BEFORE_ALL)
    wrong = np.flatnonzero(below > end)
    if not len(wrong):
        return None
    at = int(wrong[np.argmin(end[wrong])])
    predecessor = calls[int(order[int(np.flatnonzero(start == below[at])[0])])]
    call = calls[int(order[at])]
    after_predecessor = f"{call.f} of line {call.line} must come after {predecessor.f} of line {predecessor.line}"
    return call, f"{after_predecessor}, but returned before its invocation"


def log_conflict(calls: Sequence[Call]) -> Conflict | None:
    """The conflict between calls on a log: appends must follow offsets; a read comes after its append, a read of nil before.

    A read constrains a single append, so each read is compared with the latest invocation up to the rank of its append.
    """
    appends, homeless, conflict = _appends_by_offset(calls)
    if conflict is not None:
        return conflict
    chain = list(appends.values())
    ranks = [2 * offset + 1 for offset in appends]
    for call in calls:
        if call.f == "end" and isinstance(call.result, int):
            chain.append(call)
            ranks.append(2 * call.result)
        elif call.f == "read" and call.result is None and call.argument in appends:
            # A read of nil must be before its append; later appends follow that one anyway. Calls of lower rank need not
            # precede the read, so it has no end here.
            chain.append(opened(call))
            ranks.append(2 * int(str(call.argument)) + 1)
    conflict = _conflict_of_log_reads(calls, appends, chain, ranks)
    if conflict is None and chain and homeless:
        # An append that returned without an offset is behind all others, or in a gap; no call shows which append fills a gap.
        latest = max(call.start for call in chain)
        if any(_end(call) < latest for call in homeless):
            raise NotApplicable
    return conflict


def _conflict_of_log_reads(
    calls: Sequence[Call], appends: dict[int, Call], chain: list[Call], ranks: list[int]
) -> Conflict | None:
    """The conflict between reads of a log and its appends, whose order in real time is `chain` with its `ranks`."""
    nothing_read: dict[int, Call] = {}  # the latest read of nil, by offset
    for call in calls:
        if call.f == "read" and call.result is None and isinstance(call.argument, int) and call.argument in appends:
            known = nothing_read.get(call.argument)
            if known is None or known.start < call.start:
                nothing_read[call.argument] = call
    for offset, call in nothing_read.items():
        append = appends[offset]
        if _end(append) < call.start:
            return call, f"nil is read at offset {offset}, after line {append.line} appended {short(append.argument)} there"
    conflict = _rank_conflict(chain, ranks)
    if conflict is not None:
        return conflict
    earliest = _latest_start_by_rank(chain, ranks)
    for call in calls:
        if call.f == "read" and call.result is not UNKNOWN and call.result is not None:
            found = appends.get(int(str(call.argument)))
            if found is None or found.argument != call.result:
                there = "no value" if found is None else f"{short(found.argument)} of line {found.line}"
                return call, f"{short(call.result)} is read at offset {call.argument}, where {there} was appended"
            if _end(call) < earliest[2 * int(str(call.argument)) + 1]:
                return call, f"offset {call.argument} is read before the invocation of an append that must come earlier"
    return None


def _latest_start_by_rank(chain: Sequence[Call], ranks: Sequence[int]) -> dict[int, int]:
    """Map each rank to the latest invocation of the calls up to that rank."""
    latest_by_rank: dict[int, int] = {}
    latest = _BEFORE_ALL
    for at in sorted(range(len(chain)), key=ranks.__getitem__):
        latest = max(latest, chain[at].start)
        latest_by_rank[ranks[at]] = latest
    return latest_by_rank


def _appends_by_offset(calls: Sequence[Call]) -> tuple[dict[int, Call], list[Call], Conflict | None]:
    """Appends by offset, as answered or as seen by reads; returned appends without a known offset; and a conflict, if any."""
    appends: dict[int, Call] = {}
    lost: dict[Hashable, list[Call]] = {}  # appends without an answered offset, by value
    for call in calls:
        if call.f != "append":
            continue
        if not isinstance(call.result, int):
            lost.setdefault(call.argument, []).append(call)
        elif call.result in appends:
            answered_call = appends[call.result]
            return appends, [], (call, f"offset {call.result} was answered to line {answered_call.line} and to line {call.line}")
        else:
            appends[call.result] = call
    if lost:
        seen_at = sorted(
            {(call.argument, call.result) for call in calls if _is_seen_append(call, appends)}, key=lambda at: int(str(at[0]))
        )
        for offset, value in seen_at:
            # Of several appends of one value the first invoked takes the lowest offset: other choices only add constraints.
            waiting = lost.get(value, [])
            if waiting and int(str(offset)) not in appends:
                if len(waiting) > 1 and any(call.end is not None for call in waiting):
                    raise NotApplicable
                appends[int(str(offset))] = waiting.pop(0)
    return appends, [call for waiting in lost.values() for call in waiting if call.end is not None], None


def _is_seen_append(call: Call, appends: dict[int, Call]) -> bool:
    return call.f == "read" and call.result is not UNKNOWN and call.result is not None and call.argument not in appends


def set_conflict(calls: Sequence[Call]) -> Conflict | None:
    """The conflict between calls on a growing set: reads must include each other, an add precede the reads of its value."""
    adds: dict[Hashable, Call] = {}
    for call in calls:
        if call.f == "add" and adds.setdefault(call.argument, call) is not call:
            raise NotApplicable
    reads = sorted((c for c in calls if c.f == "read" and c.result is not UNKNOWN), key=lambda c: len(elements_read(c)))
    rank_of: dict[Hashable, int] = {}
    ranked: list[Call] = []
    ranks: list[int] = []
    level = 0
    before = frozenset[Hashable]()
    for call in reads:
        now = elements_read(call)
        if not before <= now:
            lost = min(map(short, before - now))
            return call, f"the read of line {call.line} lacks {lost}, which another read with no more values has"
        if now != before:
            level += 1
            strangers = [value for value in now - before if value not in adds]
            if strangers:
                stranger = min(map(short, strangers))
                return call, f"the read of line {call.line} has {stranger}, which was never added"
            rank_of.update(dict.fromkeys(now - before, 2 * level))
            before = now
        ranked.append(call)
        ranks.append(2 * level + 1)
    for value, call in adds.items():
        if value in rank_of or call.end is not None:
            ranked.append(call)
            ranks.append(rank_of.get(value, 2 * level + 2))
    return _rank_conflict(ranked, ranks)


# --- registers ----------------------------------------------------------------------------------------------------------


def register_conflict(calls: Sequence[Call], initial: Hashable) -> Conflict | None:
    """The conflict between calls on a register with unique values: the times in which it held two values must not cross."""
    writes = [call for call in calls if call.f == "write"]
    counted = Counter(call.argument for call in writes)
    if initial in counted or any(count > 1 for count in counted.values()):
        raise NotApplicable
    by_value = {call.argument: call for call in writes}
    # For each value: the first return and the last invocation among its write and its reads.
    first_end: dict[Hashable, int] = {initial: _BEFORE_ALL}
    last_start: dict[Hashable, int] = {initial: _BEFORE_ALL}
    speaker: dict[Hashable, Call] = {}
    for call in writes:
        first_end[call.argument], last_start[call.argument] = _end(call), call.start
        speaker[call.argument] = call
    read: set[Hashable] = set()
    for call in calls:
        value = call.result
        if call.f != "read" or value is UNKNOWN:
            continue
        if value != initial and value not in by_value:
            return call, f"{short(value)} was never written"
        if value != initial and _end(call) < by_value[value].start:
            return call, f"{short(value)} was read before it was written in line {by_value[value].line}"
        read.add(value)
        first_end[value] = min(first_end[value], _end(call))
        if call.start > last_start[value]:
            last_start[value], speaker[value] = call.start, call
    kept = [v for v in first_end if v == initial or v in read or by_value[v].end is not None]
    return _zone_conflict(kept, first_end, last_start, speaker)


def _zone_conflict(
    values: list[Hashable], first_end: dict[Hashable, int], last_start: dict[Hashable, int], speaker: dict[Hashable, Call]
) -> Conflict | None:
    """Find zones of two values that overlap impossibly.

    During a forward zone (first return to last invocation) the register holds the zone's value.
    """
    forward = sorted((v for v in values if first_end[v] < last_start[v]), key=lambda v: first_end[v])
    for former_value, next_value in pairwise(forward):
        if first_end[next_value] < last_start[former_value]:
            return speaker[former_value], f"{short(former_value)} was read after {short(next_value)} had replaced it"
    starts = np.asarray([first_end[v] for v in forward], dtype=np.int64)
    for value in values:
        if first_end[value] < last_start[value] or not forward or value not in speaker:
            continue
        at = int(np.searchsorted(starts, last_start[value])) - 1
        if at >= 0 and first_end[value] < last_start[forward[at]]:
            holder = forward[at]
            write_in_words = f"{short(value)} was written in line {speaker[value].line}"
            return speaker[holder], f"{short(holder)} was the value before and after {write_in_words}"
    return None


# --- queues -------------------------------------------------------------------------------------------------------------


def queue_conflict(calls: Sequence[Call], *, ordered: bool = True) -> Conflict | None:
    """The conflict between calls on a queue whose values are unique; `ordered`: first in, first out."""
    enqueued: dict[Hashable, Call] = {}
    # Check applicability first: with a value enqueued twice, a conflict would name the wrong call.
    for call in calls:
        if call.f == "enqueue" and enqueued.setdefault(call.argument, call) is not call:
            raise NotApplicable
        if call.f == "dequeue" and call.result is UNKNOWN:
            raise NotApplicable  # it may have dequeued any value
    dequeued: dict[Hashable, Call] = {}
    empty: list[Call] = []
    for call in calls:
        if call.f == "enqueue":
            continue
        if call.result is None:
            empty.append(call)
        elif call.result in dequeued:
            return call, f"{short(call.result)} was already dequeued in line {dequeued[call.result].line}"
        else:
            dequeued[call.result] = call
    for value, call in dequeued.items():
        if value not in enqueued:
            return call, f"{short(value)} was never enqueued"
        if _end(call) < enqueued[value].start:
            return call, f"{short(value)} was dequeued before it was enqueued in line {enqueued[value].line}"
    kept = {v: c for v, c in enqueued.items() if v in dequeued or c.end is not None}
    return (_overtaking_conflict(kept, dequeued) if ordered else None) or _conflict_of_empty_dequeue(kept, dequeued, empty)


def overdrawn_conflict(calls: Sequence[Call]) -> Conflict | None:
    """The first dequeue whose value was taken before as often as it can have been enqueued. None proves nothing."""
    enqueued: dict[Hashable, list[int]] = {}
    for call in sorted(calls, key=lambda call: call.start):
        if call.f == "enqueue":
            enqueued.setdefault(call.argument, []).append(call.start)
    dequeued: dict[Hashable, list[Call]] = {}
    for call in sorted(calls, key=_end):
        if call.f == "enqueue" or call.result is UNKNOWN or call.result is None:
            continue
        before, starts = dequeued.setdefault(call.result, []), enqueued.get(call.result, [])
        if len(before) < len(starts) and starts[len(before)] < _end(call):
            before.append(call)
            continue
        value, count = short(call.result), sum(start < _end(call) for start in starts)
        if count == 0:
            return call, f"{value} was not enqueued by then"
        if count == 1:
            return call, f"{value} was already dequeued in line {before[0].line}"
        return call, f"{value} was enqueued {count} times by then, and it is dequeued here once more"
    return None


def _overtaking_conflict(enqueued: dict[Hashable, Call], dequeued: dict[Hashable, Call]) -> Conflict | None:
    """Find in a queue a value that was certainly enqueued after another one and certainly dequeued before it."""
    by_end = sorted(enqueued, key=lambda v: _end(enqueued[v]))
    enqueue_ends = np.asarray([_end(enqueued[v]) for v in by_end], dtype=np.int64)
    out = np.asarray([dequeued[v].start if v in dequeued else _FOREVER for v in by_end], dtype=np.int64)
    if not len(out):
        return None
    latest: Ints = np.maximum.accumulate(out)
    for value, call in dequeued.items():
        before = int(np.searchsorted(enqueue_ends, enqueued[value].start)) - 1
        if before >= 0 and latest[before] > _end(call):
            overtaken = by_end[int(np.argmax(out[: before + 1]))]
            return call, f"{short(value)} was dequeued before {short(overtaken)}, which was enqueued earlier"
    return None


def _conflict_of_empty_dequeue(
    enqueued: dict[Hashable, Call], dequeued: dict[Hashable, Call], empty: list[Call]
) -> Conflict | None:
    """Find a dequeue that answered nil although the queue was certainly never empty during the call."""
    spans = sorted((_end(c), dequeued[v].start if v in dequeued else _FOREVER) for v, c in enqueued.items())
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if start >= end:
            continue
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    starts = np.asarray([start for start, _ in joined], dtype=np.int64)
    for call in empty:
        at = int(np.searchsorted(starts, call.start)) - 1
        if at >= 0 and joined[at][1] > _end(call):
            return call, f"the queue was not empty from the invocation of line {call.line} until its return"
    return None
