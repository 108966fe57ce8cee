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
                for one in (state, newest):
                    one[key] = (*one.get(key, ()), value)
            else:
                held = (states[rng.below(len(states))] if rng.below(12) == 0 else state).get(key, ())
                micros.append(("r", key, held if writes == "append" else held[-1] if held else None))
        states.append(newest)
        values.append(tuple(micros))
    if rng.below(2):
        seen = states[-1]
        values.append(
            tuple(("r", k, seen.get(k, ()) if writes == "append" else (seen.get(k) or (None,))[-1]) for k in range(_KEYS))
        )
    return _scheduled(rng, _haunted(rng, values, writes))


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
            seen = order[key][: rng.below(len(order[key]) + 1)]
            shown: Hashable = tuple(seen) if writes == "append" else seen[-1] if seen else None
            micros.append((writes, key, number) if write else ("r", key, shown))
        values.append(tuple(micros))
    if rng.below(2):
        whole = {key: tuple(order[key]) for key in order}
        values.append(tuple(("r", k, v if writes == "append" else v[-1] if v else None) for k, v in whole.items()))
    together = rng.below(2) == 0
    values = _haunted(rng, values, writes)
    return _at_once(values) if together else _scheduled(rng, values)


def unread(rng: Rng, writes: str) -> Paired:
    """Return a random history of three to five transactions whose writes are mostly not read, so that no read shows their order.

    Writes of registers are mostly blind: the transaction does not read the version that it replaces.
    """
    count, keys = 3 + rng.below(3), 2 + rng.below(2)
    plans = [[(rng.below(5) < 3, key) for key in rng.shuffled(range(keys))[: 1 + rng.below(3)]] for _ in range(count)]
    values: list[Transaction] = []
    read = {key: rng.shuffled([t for t in range(count) if (True, key) in plans[t]])[: rng.below(3)] for key in range(keys)}
    for number, plan in enumerate(plans):
        seen = {key: [t for t in read[key] if t != number][: rng.below(3)] for _, key in plan}
        shown = {key: tuple(some) if writes == "append" else some[-1] if some else None for key, some in seen.items()}
        values.append(tuple((writes, key, number) if write else ("r", key, shown[key]) for write, key in plan))
    return _at_once(values) if rng.below(2) else _scheduled(rng, values)


def _haunted(rng: Rng, values: list[Transaction], writes: str) -> list[Transaction]:
    """One time in three with phantoms: at the start of (nearly) all reads of a key, or anywhere in one read."""
    if rng.below(3):
        return values
    key, ghosts = rng.below(_KEYS), tuple(range(_GHOST, _GHOST + 1 + rng.below(2)))
    everywhere = rng.below(2) == 0
    reads = [(at, place) for at, part in enumerate(values) for place, micro in enumerate(part) if micro[0] == "r"]
    some = [one for one in reads if values[one[0]][one[1]][1] == key and rng.below(12)] if everywhere else rng.shuffled(reads)[:1]
    for at, place in some:
        f, about, shown = values[at][place]
        if writes == "w":
            shown = ghosts[0] if shown is None or not everywhere else shown
        elif isinstance(shown, tuple):
            before = 0 if everywhere else rng.below(len(shown) + 1)
            shown = (*shown[:before], *ghosts, *shown[before:])
        values[at] = (*values[at][:place], (f, about, shown), *values[at][place + 1 :])
    return values


def _at_once(values: Sequence[Transaction]) -> Paired:
    calls = [
        Call(index=at, line=at + 1, process=at, f="txn", argument=value, result=value, start=at, end=len(values) + at)
        for at, value in enumerate(values)
    ]
    return Paired(calls=tuple(calls), failed=(), steps=2 * len(calls))


def _scheduled(rng: Rng, values: Sequence[Transaction]) -> Paired:
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
        ended = [one for one in free if one[0] < 4 * start]
        process = ended[rng.below(len(ended))][1] if ended and rng.below(2) else 100 + number
        free = [one for one in free if one[1] != process]
        if outcome > 0:
            free.append((4 * end + 2, process))
        call = Call(
            index=len(failed if outcome == 1 else calls), line=number + 1, process=process, f="txn", argument=value,
            result=value if outcome else UNKNOWN, start=4 * start, end=4 * end + 2 if outcome else None,
        )  # fmt: skip
        (failed if outcome == 1 else calls).append(call)
    return Paired(calls=tuple(calls), failed=tuple(failed), steps=2 * len(spans))
