"""Fast pre-checks on columns: if one shows that a checker finds nothing in a partition's operations, the checker skips them.

A screen may suspect a good partition, but never passes a bad one. The checker then walks the rows of suspected partitions only;
of the others it reads the events alone. Screens know no cuts, so partitions that have any are always walked; so are partitions
with events that the checker judges together with operations (`Checker.tied`).
Each screen follows the rules of the checker that names it; `tests/checkers/test_screens.py` compares the two.
"""

import numpy as np

from checkers.engine.calms import calms, excuses
from checkers.engine.columns import ABSENT, NONE, OFFSET_BITS, Columns, Flags, Ints, Screened, packed
from checkers.engine.facts import MS, PROMPT_MS, Facts, recovery_deadline_ns
from checkers.engine.rows import OFFSET_MAX
from checkers.engine.tables import Events
from history.event import EventKind


def nothing(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect nothing: the checker reads no operations, or only those of partitions that are walked anyway."""
    return Screened(suspect=np.zeros(len(columns.partitions), np.bool_))


def offset_agreement(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where one offset has two values. Equal keys are neighbours in the sorted order."""
    keys, values = columns.by_offset
    differ = (keys[1:] == keys[:-1]) & (values[1:] != values[:-1])
    return Screened(suspect=columns.named(keys[1:][differ] >> OFFSET_BITS))


def acked_loss(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where a poll skips an offset that another answer gave to a client: without broker rows the only loss."""
    count = np.bincount(columns.promised >> OFFSET_BITS, minlength=len(columns.partitions))
    return Screened(suspect=_parts_passed_over(columns), counts={"promised": count, "excused": np.zeros_like(count)})


def polls(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where the offsets of one answer do not rise, or where a poll skips an offset that an answer gave."""
    turns = columns.turns
    answered = turns.ok & (turns.poll | turns.acks_all)
    return Screened(suspect=_parts_passed_over(columns) | columns.named(turns.part[answered & ~_has_rising_offsets(columns)]))


def _parts_passed_over(columns: Columns) -> Flags:
    """Find partitions with a poll that does not return exactly the known offsets from its position to its last record."""
    turns = columns.turns
    firsts = columns.turns.first[:-1]
    promised = columns.promised
    polls = np.flatnonzero(turns.ok & turns.poll)
    got = (columns.value >= 0) & (columns.offset >= 0)
    count = np.add.reduceat(got, firsts, dtype=np.int64)[polls]
    highest = np.maximum.reduceat(np.where(got, columns.offset, NONE), firsts)[polls]
    lowest = np.minimum.reduceat(np.where(got, columns.offset, 1 << OFFSET_BITS), firsts)[polls]
    position = columns.offset[turns.first[turns.other[polls]]]
    start = np.where(position == NONE, lowest, position)
    rising = _has_rising_offsets(columns)[polls]
    # Polls without a gap skip nothing.
    open_ = (count > 0) & ((highest - start + 1 != count) | (lowest < start) | ~rising)
    polls, start, count, highest, lowest, rising = (c[open_] for c in (polls, start, count, highest, lowest, rising))
    part = turns.part[polls]
    records_between = np.searchsorted(promised, packed(part, highest), side="right") - np.searchsorted(
        promised, packed(part, start)
    )
    # The poll returned as many offsets as are promised, none twice: it skipped only offsets that no answer gave.
    return columns.named(part[(records_between != count) | (lowest < start) | ~rising])


def _has_rising_offsets(columns: Columns) -> Flags:
    """For each invocation or completion, whether its offsets rise from row to row."""
    rises = np.ones(len(columns.turns.index), np.bool_)
    rows = np.flatnonzero((columns.value >= 0) & (columns.offset >= 0))
    turn, offset = columns.turn[rows], columns.offset[rows]
    rises[turn[1:][(turn[1:] == turn[:-1]) & (offset[1:] <= offset[:-1])]] = False
    return rises


def order(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions with an acknowledgement out of order, or with a value that was read but not sent there before."""
    return Screened(suspect=_parts_acknowledged_out_of_order(columns) | _parts_with_unsent_reads(columns))


def _parts_acknowledged_out_of_order(columns: Columns) -> Flags:
    """The partitions with an acknowledgement at or below an offset that was acknowledged before its call began."""
    turns = columns.turns
    firsts = columns.turns.first[:-1]
    acks = np.flatnonzero(turns.ok & turns.acks_all)
    has_offset = columns.offset >= 0
    highest = np.maximum.reduceat(columns.offset, firsts)[acks]
    lowest = np.minimum.reduceat(np.where(has_offset, columns.offset, 1 << OFFSET_BITS), firsts)[acks]
    acks, highest, lowest = (column[highest >= 0] for column in (acks, highest, lowest))
    # Sorted by part, and within a part by time; numpy sorts 16 bits by radix.
    by_part = np.argsort(turns.part[acks].astype(np.uint16), kind="stable")
    acks, highest, lowest = acks[by_part], highest[by_part], lowest[by_part]
    part = turns.part[acks]
    # Later parts have greater keys, so one running maximum serves all parts.
    came = packed(part, turns.index[acks])
    greatest = np.maximum.accumulate(packed(part, highest))
    last_before = np.searchsorted(came, packed(part, turns.index[turns.other[acks]])) - 1
    is_late = (last_before >= 0) & (greatest[last_before] >= packed(part, lowest))
    return columns.named(part[is_late])


def _parts_with_unsent_reads(columns: Columns) -> Flags:
    """The partitions in which a value was read that was not surely sent there before."""
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


def duplicates(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where a value was read at two offsets, or an idempotent producer's values are out of order."""
    turns = columns.turns
    read = columns.read[columns.offset[columns.read] >= 0]
    code, offset, part = columns.value[read], columns.offset[read], columns.part[read]
    place = np.full(columns.values, NONE, np.int64)
    place[code] = packed(part, offset)
    suspect = columns.named(part[place[code] != packed(part, offset)])
    sent = columns.sent[turns.once[columns.turn[columns.sent]]]
    part, places = columns.part[sent], place[columns.value[sent]]
    is_of_part = (places != NONE) & (places >> OFFSET_BITS == part)
    sent, part, places = sent[is_of_part], part[is_of_part], places[is_of_part]
    process = turns.process[columns.turn[sent]]
    by_process = np.lexsort((sent, process, part))
    part, process, places = part[by_process], process[by_process], places[by_process]
    back = (places[1:] < places[:-1]) & (process[1:] == process[:-1]) & (part[1:] == part[:-1])
    return Screened(suspect=suspect | columns.named(part[1:][back]), counts=_none(columns, "duplicates"))


def answers(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions with a produce that broke a rule, or was refused as if it did, or whose first offset was not told."""
    turns = columns.turns
    suspect = columns.named(turns.part[turns.produce & turns.faulted]) | columns.keyed(columns.unsaid)
    return Screened(suspect=suspect, counts=_none(columns, "misuses"))


def clients(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions with a call that failed, took long or has no answer (acks=0); none without the clients' timeout."""
    if facts.client_timeout_ms is None:
        return nothing(columns, shared, facts)
    turns = columns.turns
    ended = np.flatnonzero(~turns.asks & (turns.other != NONE))
    patience = min(PROMPT_MS, facts.client_timeout_ms) * MS
    slow = turns.time_ns[ended] - turns.time_ns[turns.other[ended]] > patience
    return Screened(suspect=columns.named(turns.part[ended[slow | ~turns.ok[ended] | turns.acks_none[ended]]]))


def replacement(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect all partitions if there was a fault of a whole broker, and else none."""
    return Screened(suspect=np.full(len(columns.partitions), EventKind.FAULT_BEGUN in shared.words))


def producers(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions to which an idempotent producer wrote."""
    return Screened(suspect=columns.named(columns.turns.part[columns.turns.once]))


def _none(columns: Columns, *names: str) -> dict[str, Ints]:
    return {name: np.zeros(len(columns.partitions), np.int64) for name in names}


def monotonic_hw(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where an answer lies outside its bounds, or where what one consumer was told falls in any epoch."""
    turns = columns.turns
    firsts = columns.turns.first[:-1]
    part = columns.turns.part
    answers = np.flatnonzero(turns.ok & ~turns.produce)
    got = (columns.value >= 0) & (columns.offset >= 0)
    start = np.full(len(turns.index), NONE, np.int64)
    start[answers] = columns.offset[turns.first[turns.other[answers]]]
    read = (turns.ok & turns.poll)[columns.turn] & got
    wrong = read & ((columns.offset < start[columns.turn]) | ((columns.hw != ABSENT) & (columns.offset >= columns.hw)))
    suspect = columns.named(columns.part[wrong]) | columns.named(part[turns.out_of_range])
    by_process = answers[np.lexsort((answers, turns.process[answers], part[answers]))]
    new = np.ones(len(by_process), np.bool_)
    new[1:] = (np.diff(turns.process[by_process]) != 0) | (np.diff(part[by_process]) != 0)
    consumer = np.cumsum(new) - 1
    # The end that a poll shows is behind its last record; that of a request for the end offset is its answer.
    end_shown = np.maximum.reduceat(np.where(got, columns.offset + 1, 0), firsts)[by_process]
    is_end = ~turns.poll[by_process]
    end = np.where(is_end, np.maximum(columns.offset[firsts[by_process]], 0), end_shown)
    end_told = is_end & (columns.offset[firsts[by_process]] != NONE)
    suspect |= columns.named(part[by_process[end_told & (_highest_before(consumer, end) > end)]])
    hw_hint = columns.hw[firsts[by_process]]
    hinted = turns.poll[by_process] & (hw_hint != ABSENT)
    suspect |= columns.named(part[by_process[hinted & ((hw_hint < 0) | (hw_hint > OFFSET_MAX))]])
    hint_kept = np.where(hinted, np.clip(hw_hint, 0, OFFSET_MAX), 0)
    return Screened(
        suspect=suspect | columns.named(part[by_process[hinted & (_highest_before(consumer, hint_kept) > hint_kept)]])
    )


def _highest_before(group: Ints, value: Ints) -> Ints:
    """The highest earlier value (0 or greater) in the group of each entry, 0 if there is none. Groups come in rising order."""
    keys = (group.astype(np.int64) << OFFSET_BITS) + value
    highest = np.zeros(len(keys), np.int64)
    if len(keys):
        highest[1:] = np.maximum.accumulate(keys)[:-1] - (group[1:] << OFFSET_BITS)
    return np.maximum(highest, 0)


def availability(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions with a call without answer, without late answers of each kind, or with records no final reader got."""
    turns = columns.turns
    suspect = np.zeros(len(columns.partitions), np.bool_)
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return Screened(suspect=suspect)
    asked_late = turns.asks & (turns.time_ns >= deadline)
    for kind in (turns.acks_all, turns.poll, ~turns.produce & ~turns.poll):
        late_turns = np.flatnonzero(asked_late & kind)
        answered = (turns.other[late_turns] != NONE) & turns.ok[turns.other[late_turns]]
        suspect |= columns.named(turns.part[late_turns]) & ~columns.named(turns.part[late_turns[answered]])
    late_turns = np.flatnonzero(asked_late & turns.produce)
    suspect |= columns.named(turns.part[late_turns[(turns.other[late_turns] == NONE) | ~turns.ok[turns.other[late_turns]]]])
    suspect |= columns.named(turns.part[asked_late & turns.acks_none])  # only the log says whether they arrived
    if facts.simulated:
        late_turns = np.flatnonzero(asked_late & (turns.other != NONE))
        slow = turns.time_ns[turns.other[late_turns]] - turns.time_ns[late_turns] > PROMPT_MS * MS
        suspect |= columns.named(turns.part[late_turns[slow]])
    end_answers = np.flatnonzero(turns.ok & ~turns.produce & ~turns.poll)
    suspect |= columns.named(turns.part[end_answers[columns.offset[turns.first[end_answers]] == NONE]])
    patience = facts.promise.request_timeout_ms * MS
    suspect |= columns.named(turns.part[turns.asks & (turns.other == NONE) & (turns.time_ns + patience < facts.end_ns)])
    if facts.final_reads_at_ns is None:
        return Screened(suspect=suspect)
    promised_rows = columns.delivered[turns.time_ns[columns.turn[columns.delivered]] <= facts.final_reads_at_ns]
    asked_at = turns.time_ns[turns.other[columns.turn[columns.read]]]
    final = columns.read[(asked_at >= facts.final_reads_at_ns) & (columns.offset[columns.read] >= 0)]
    unseen = promised_rows[~np.isin(_keys(columns, promised_rows), _keys(columns, final))]
    return Screened(suspect=suspect | columns.named(columns.part[unseen]))


def _keys(columns: Columns, rows: Ints) -> Ints:
    return packed(columns.part[rows], columns.offset[rows])


def progress(columns: Columns, shared: Events, facts: Facts) -> Screened:
    """Suspect partitions where no write of a calm was acknowledged."""
    turns, healed = columns.turns, facts.healed_at_ns
    suspect = np.zeros(len(columns.partitions), np.bool_)
    if healed is None:
        return Screened(suspect=suspect)
    acked = turns.part[turns.ok & turns.produce & (turns.time_ns < healed)]
    writes = np.flatnonzero(turns.acks_all & ~turns.asks & (turns.other != NONE))
    invoked = turns.time_ns[turns.other[writes]]
    places = facts.client_places or ("",)
    excused = excuses(shared, facts)
    at = turns.process[writes] % len(places)
    for start, end in calms(shared, facts):
        during = (invoked >= start) & (turns.time_ns[writes] < end)
        for place in sorted(set(places)):
            of_place = during & np.isin(at, [number for number, name in enumerate(places) if name == place])
            for begun, ended in excused.get(place, ()):
                of_place &= (turns.time_ns[writes] < begun) | (invoked >= ended)
            tried = writes[of_place]
            suspect |= columns.named(turns.part[tried]) & ~columns.named(turns.part[tried[turns.ok[tried]]])
    return Screened(suspect=suspect, counts={"acked_under_faults": np.bincount(acked, minlength=len(suspect))})
