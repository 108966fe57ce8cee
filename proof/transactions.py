"""Random histories of a few transactions: correct ones with some mistakes, with many dependency cycles, with many unread writes.

A third of the first two kinds have values that no transaction wrote: as if a setup had written them, or at random.
"""

from collections.abc import Hashable, Sequence

from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

_KEYS = 2
_GHOST = 900  # the first value that no transaction writes
State = dict[Hashable, tuple[Hashable, ...]]
Transaction = tuple[tuple[str, Hashable, Hashable], ...]


def drawn(rng: Rng, writes: str) -> Paired:
    """Return a random history of two to four transactions whose reads mostly agree; often a last one reads all."""
    count = 2 + rng.below(3)
    plans = [[(rng.below(2) == 0, rng.below(_KEYS), 10 * t + m) for m in range(1 + rng.below(3))] for t in range(count)]
    states: list[State] = [{}]
    values: list[Transaction] = []
    for plan in plans:
        # Sometimes a stale state, and sometimes a micro-operation that reads from another state.
        state = dict(states[-1 - (rng.below(len(states)) if rng.below(3) == 0 else 0)])
        newest = dict(states[-1])
        micros: list[tuple[str, Hashable, Hashable]] = []
        for write, key, value in plan:
            if write:
                micros.append((writes, key, value))
                for state_there in (state, newest):
                    state_there[key] = (*state_there.get(key, ()), value)
            else:
                value_there = (states[rng.below(len(states))] if rng.below(12) == 0 else state).get(key, ())
                micros.append(("r", key, value_there if writes == "append" else value_there[-1] if value_there else None))
        states.append(newest)
        values.append(tuple(micros))
    if rng.below(2):
        state_seen = states[-1]
        values.append(
            tuple(
                ("r", k, state_seen.get(k, ()) if writes == "append" else (state_seen.get(k) or (None,))[-1])
                for k in range(_KEYS)
            )
        )
    return _scheduled_history(rng, _with_phantoms(rng, values, writes))


def tangled(rng: Rng, writes: str) -> Paired:
    """Return a random history of three to five mostly concurrent transactions, with many dependency cycles of all kinds."""
    count, keys = 3 + rng.below(3), 2 + rng.below(2)
    plans = [[(rng.below(2) == 0, key) for key in rng.shuffled(range(keys))[: 1 + rng.below(3)]] for _ in range(count)]
    order = {key: rng.shuffled([t for t in range(count) if (True, key) in plans[t]]) for key in range(keys)}
    values: list[Transaction] = []
    chained = writes == "w" and rng.below(2)  # each write after a read of the version that it replaces
    for number, plan in enumerate(plans):
        micros: list[tuple[str, Hashable, Hashable]] = []
        for write, key in plan:
            if write and chained:
                place = order[key].index(number)
                micros.append(("r", key, order[key][place - 1] if place else None))
            values_seen = order[key][: rng.below(len(order[key]) + 1)]
            value_shown: Hashable = tuple(values_seen) if writes == "append" else values_seen[-1] if values_seen else None
            micros.append((writes, key, number) if write else ("r", key, value_shown))
        values.append(tuple(micros))
    if rng.below(2):
        whole = {key: tuple(order[key]) for key in order}
        values.append(tuple(("r", k, v if writes == "append" else v[-1] if v else None) for k, v in whole.items()))
    together = rng.below(2) == 0
    values = _with_phantoms(rng, values, writes)
    return _all_overlapping(values) if together else _scheduled_history(rng, values)


def unread(rng: Rng, writes: str) -> Paired:
    """Return a random history of three to five transactions whose writes are mostly not read, so that no read shows their order.

    Writes of registers are mostly blind: the transaction does not read the version that it replaces.
    """
    count, keys = 3 + rng.below(3), 2 + rng.below(2)
    plans = [[(rng.below(5) < 3, key) for key in rng.shuffled(range(keys))[: 1 + rng.below(3)]] for _ in range(count)]
    values: list[Transaction] = []
    read = {key: rng.shuffled([t for t in range(count) if (True, key) in plans[t]])[: rng.below(3)] for key in range(keys)}
    for number, plan in enumerate(plans):
        values_seen = {key: [t for t in read[key] if t != number][: rng.below(3)] for _, key in plan}
        values_shown = {
            key: tuple(values_of_key) if writes == "append" else values_of_key[-1] if values_of_key else None
            for key, values_of_key in values_seen.items()
        }
        values.append(tuple((writes, key, number) if write else ("r", key, values_shown[key]) for write, key in plan))
    return _all_overlapping(values) if rng.below(2) else _scheduled_history(rng, values)


def _with_phantoms(rng: Rng, values: list[Transaction], writes: str) -> list[Transaction]:
    """One time in three with phantoms: at the start of (nearly) all reads of a key, or anywhere in one read."""
    if rng.below(3):
        return values
    key, ghosts = rng.below(_KEYS), tuple(range(_GHOST, _GHOST + 1 + rng.below(2)))
    everywhere = rng.below(2) == 0
    reads = [(at, place) for at, part in enumerate(values) for place, micro in enumerate(part) if micro[0] == "r"]
    reads_changed = (
        [read_place for read_place in reads if values[read_place[0]][read_place[1]][1] == key and rng.below(12)]
        if everywhere
        else rng.shuffled(reads)[:1]
    )
    for at, place in reads_changed:
        f, about, value_shown = values[at][place]
        if writes == "w":
            value_shown = ghosts[0] if value_shown is None or not everywhere else value_shown
        elif isinstance(value_shown, tuple):
            before = 0 if everywhere else rng.below(len(value_shown) + 1)
            value_shown = (*value_shown[:before], *ghosts, *value_shown[before:])
        values[at] = (*values[at][:place], (f, about, value_shown), *values[at][place + 1 :])
    return values


def _all_overlapping(values: Sequence[Transaction]) -> Paired:
    """The transactions all overlapping."""
    calls = [
        Call(index=at, line=at + 1, process=at, f="txn", argument=value, result=value, start=at, end=len(values) + at)
        for at, value in enumerate(values)
    ]
    return Paired(calls=tuple(calls), failed=(), steps=2 * len(calls))


def _scheduled_history(rng: Rng, values: Sequence[Transaction]) -> Paired:
    """The transactions overlapping at random, roughly in order; some of unknown outcome, some failed, some of one process."""
    spans = []
    clock = 0
    for value in values:
        start = max(0, clock - rng.below(60))
        end = start + 1 + rng.below(60)
        clock = max(clock, end)
        spans.append((start, end, value))
    spans.sort(key=lambda span: span[:2])
    calls: list[Call] = []
    failed: list[Call] = []
    free: list[tuple[int, int]] = []  # end and process
    for number, (start, end, value) in enumerate(spans):
        outcome = rng.below(16)
        ended = [process_free for process_free in free if process_free[0] < 4 * start]
        process = ended[rng.below(len(ended))][1] if ended and rng.below(2) else 100 + number
        free = [process_free for process_free in free if process_free[1] != process]
        if outcome > 0:
            free.append((4 * end + 2, process))
        call = Call(
            index=len(failed if outcome == 1 else calls), line=number + 1, process=process, f="txn", argument=value,
            result=value if outcome else UNKNOWN, start=4 * start, end=4 * end + 2 if outcome else None,
        )  # fmt: skip
        (failed if outcome == 1 else calls).append(call)
    return Paired(calls=tuple(calls), failed=tuple(failed), steps=2 * len(spans))
