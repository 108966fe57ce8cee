"""Definitions of Jepsen's models that look at reads, decided by trying every order of the calls that may explain a read.

Each function says whether the history of one object is possible: "possible", "impossible", or "undecided" if the rule cannot
decide. A read that did not return proves nothing; a change of unknown outcome may have happened or not.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

from history.foreign.pairing import Paired
from history.foreign.step import Call

INITIAL = ((0, 2), (1, 1))  # the balances of a bank, given for some histories
POSSIBLE, IMPOSSIBLE, UNDECIDED = "possible", "impossible", "undecided"


def told(history: Paired) -> list[Call]:
    """Return the reads that returned, in order of invocation."""
    return sorted((c for c in history.calls if c.f == "read" and c.end is not None), key=lambda c: c.start)


def changes(history: Paired) -> list[Call]:
    """Return the calls other than reads that may have happened, in order of invocation."""
    return sorted((c for c in history.calls if c.f != "read"), key=lambda c: c.start)


def answered(call: Call) -> Any:
    """Return the answer of a call, as its model has it."""
    return call.result


def asked(call: Call) -> Any:
    """Return the argument of a call, as its model has it."""
    return call.argument


def _all(history: Paired, is_right: Callable[[Call], bool]) -> str:
    reads = told(history)
    return UNDECIDED if not reads else POSSIBLE if all(map(is_right, reads)) else IMPOSSIBLE


def bank(history: Paired, initial: Hashable) -> str:
    """Transfers of 1 lead from the first balances to those of every read."""
    settings: Any = initial
    reads: list[Any] = [dict(answered(c)) for c in told(history)]
    if not reads:
        return UNDECIDED
    first = dict(settings) if settings else reads[0]
    if any(value is None or value < 0 for read in reads for value in read.values()):
        return IMPOSSIBLE
    reached = _reachable_balances(first)
    if any(tuple(sorted(read.items())) not in reached for read in reads):
        return IMPOSSIBLE
    return POSSIBLE if settings or len(reads) > 1 else UNDECIDED


def _reachable_balances(first: dict[int, int]) -> set[tuple[tuple[int, int], ...]]:
    """All balances that transfers of one unit can reach."""
    reached = {tuple(sorted(first.items()))}
    to_visit = list(reached)
    while to_visit:
        state = dict(to_visit.pop())
        for source, target in permutations(state, 2):
            if state[source] > 0:
                after = tuple(sorted({**state, source: state[source] - 1, target: state[target] + 1}.items()))
                if after not in reached:
                    reached.add(after)
                    to_visit.append(after)
    return reached


def long_fork(history: Paired, initial: Hashable) -> str:
    """Some order of the writes explains each read as what a prefix of it wrote."""
    writes: list[Any] = [asked(c)[0][1:] for c in changes(history)]
    reads: list[Any] = [answered(c) for c in told(history)]
    if not reads:
        return UNDECIDED
    if any(value is not None and (key, value) not in writes for read in reads for _, key, value in read):
        return IMPOSSIBLE
    failed: list[Any] = [asked(c)[0][1:] for c in history.failed if c.f == "write"]
    keys = [key for key, _ in (*writes, *failed)]
    if len(set(keys)) < len(keys):
        return UNDECIDED
    return POSSIBLE if any(all(_shows_prefix(order, read) for read in reads) for order in permutations(writes)) else IMPOSSIBLE


def _shows_prefix(order: Sequence[tuple[Hashable, Hashable]], read: Sequence[tuple[str, Hashable, Hashable]]) -> bool:
    states = [dict(order[:size]) for size in range(len(order) + 1)]
    return any(all(state.get(key) == value for _, key, value in read) for state in states)


def counter(history: Paired, initial: Hashable) -> str:
    """A read is between the sums of the fewest and of the most additions that it may have seen."""

    def is_right(read: Call) -> bool:
        adds = [c for c in changes(history) if c.start < (read.end or 0)]
        must = [c for c in adds if c.end is not None and c.end < read.start]
        chosen_adds = [s for size in range(len(adds) + 1) for s in combinations(adds, size) if all(c in s for c in must)]
        sums: list[Any] = [sum(asked(c) for c in s) for s in chosen_adds]
        return bool(min(sums) <= answered(read) <= max(sums))

    return _all(history, is_right)


def set_full(history: Paired, initial: Hashable) -> str:
    """The read that was invoked last shows each element that was known before, once, and nothing that nobody added."""
    return _of_set(history, strict=False)


def strict_set(history: Paired, initial: Hashable) -> str:
    """Every read shows each element that was known before it was invoked."""
    return _of_set(history, strict=True)


def _of_set(history: Paired, *, strict: bool) -> str:
    """The definition of set (`strict`: of a set that is linearizable)."""
    reads = told(history)
    added: dict[Any, list[Call]] = {}
    for call in changes(history):
        added.setdefault(call.argument, []).append(call)
    sets_shown: list[Any] = [answered(c) for c in reads]
    if any(len(set(set_shown)) < len(set_shown) or not set(set_shown) <= set(added) for set_shown in sets_shown):
        return IMPOSSIBLE
    for element, adds in added.items():
        end_times = [
            c.end
            for c in (*adds, *(r for r, set_shown in zip(reads, sets_shown, strict=True) if element in set_shown))
            if c.end is not None
        ]
        judged = reads if strict else reads[-1:]
        if any(element not in answered(r) and min(end_times, default=r.start) < r.start for r in judged):
            return IMPOSSIBLE
    return POSSIBLE if reads and sets_shown[-1] else UNDECIDED


def sequential(history: Paired, initial: Hashable) -> str:
    """Some moments, one after another, explain what a read saw of subkeys that appeared one after another."""

    def is_right(read: Call) -> bool:
        key, shown = answered(read)
        subkeys: list[Any] = list(shown)
        writes = [c for c in (*history.calls, *history.failed) if c.f == "write" and c.argument == key]
        last = len(subkeys) if any(c.start < (read.end or 0) for c in writes) else 0
        numbers = list(reversed(range(len(subkeys))))
        return any(
            subkeys == [f"{key}_{number}" if number < count else None for number, count in zip(numbers, counts, strict=True)]
            for counts in combinations_with_replacement(range(last + 1), len(subkeys))
        )

    return _all(history, is_right)


def comments(history: Paired, initial: Hashable) -> str:
    """Some order of the writes that respects real time begins with those that a read shows."""
    writes = changes(history)
    if len({c.argument for c in writes}) < len(writes):
        return UNDECIDED

    def is_right(read: Call) -> bool:
        shown: Any = set(answered(read))
        return any({c.argument for c in order[: len(shown)]} == shown for order in _orders(writes))

    return _all(history, is_right)


def _orders(writes: Sequence[Call]) -> Iterator[tuple[Call, ...]]:
    for order in permutations(writes):
        if not any(second.end is not None and second.end < first.start for first, second in combinations(order, 2)):
            yield order


def monotonic(history: Paired, initial: Hashable) -> str:
    """The rows of the last read are additions in growing order, with all that had returned before it."""
    reads = told(history)
    if not reads:
        return UNDECIDED
    last = reads[-1]
    rows: list[Any] = [dict(row) for row in answered(last)]
    values = [row["val"] for row in rows]
    stamps = [row["sts"] for row in rows]
    if values != sorted(set(values)) or stamps != sorted(stamps):
        return IMPOSSIBLE
    done = [(c, dict(answered(c))["val"]) for c in changes(history) if c.end is not None]
    if any(value not in values for c, value in done if (c.end or 0) < last.start):
        return IMPOSSIBLE
    perhaps = [c for c in changes(history) if c.end is None and c.start < (last.end or 0)]
    unwritten = [value for value in values if value not in {value_added for _, value_added in done}]
    return POSSIBLE if len(unwritten) <= len(perhaps) else IMPOSSIBLE


def total_queue(history: Paired, initial: Hashable) -> str:
    """Some choice of an enqueue for each value that came out leaves no acknowledged enqueue behind in a drained queue."""
    puts = [c for c in history.calls if c.f == "enqueue"]
    done = [c for c in history.calls if c.f != "enqueue" and c.end is not None]
    lost = [c.f for c in history.calls if c.f != "enqueue" and c.end is None]
    if not done:
        return UNDECIDED
    came = [(c, value) for c in done for value in (answered(c) if c.f == "drain" else [answered(c)]) if value is not None]
    sources = [[put for put in puts if put.argument == value and put.start < (c.end or 0)] for c, value in came]
    verdict = IMPOSSIBLE
    for chosen in product(*sources):
        not_taken = [put for put in puts if put.end is not None and put not in chosen]
        owed = [put for put in not_taken if any(c.f == "drain" and c.start > (put.end or 0) for c in done)]
        if not not_taken:
            return POSSIBLE
        if len(owed) <= len(lost) or (owed and "drain" in lost):
            verdict = UNDECIDED
    return verdict


def unique_ids(history: Paired, initial: Hashable) -> str:
    """No two calls were answered one id."""
    ids = [answered(c) for c in history.calls if c.end is not None and answered(c) is not None]
    return (
        UNDECIDED if len(ids) < 2 else IMPOSSIBLE if any(first == second for first, second in combinations(ids, 2)) else POSSIBLE
    )


def adya_g2(history: Paired, initial: Hashable) -> str:
    """In some order of the inserts that committed, each finds no row of its key by those before it."""
    inserts: list[tuple[Any, bool]] = [(asked(c)[0], c.end is not None) for c in history.calls]
    sure = [key for key, certain in inserts if certain]
    failed: list[Any] = [asked(c)[0] for c in history.failed]
    if not any(all(key not in order[:at] for at, key in enumerate(order)) for order in permutations(sure)):
        return IMPOSSIBLE
    return POSSIBLE if any(key in failed for key in sure) else UNDECIDED


DEFINITIONS: dict[str, Callable[[Paired, Hashable], str]] = {
    "bank": bank, "long-fork": long_fork, "counter": counter, "set-full": set_full, "set-full, linearizable": strict_set,
    "sequential": sequential, "comments": comments, "monotonic": monotonic, "broadcast": set_full,
    "total-queue": total_queue, "unique-ids": unique_ids, "adya-g2": adya_g2,
}  # fmt: skip
