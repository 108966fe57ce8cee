"""Small histories of transactions, and judges that try every order: too slow for anything but these."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations

from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

_KEYS = 2
State = dict[Hashable, tuple[Hashable, ...]]


def drawn(rng: Rng, writes: str) -> Paired:
    """Two to four transactions; what they read is what some state held, mostly; often a last one reads everything."""
    count = 2 + rng.below(3)
    plans = [[(rng.below(2) == 0, rng.below(_KEYS), 10 * t + m) for m in range(1 + rng.below(3))] for t in range(count)]
    states: list[State] = [{}]
    values: list[tuple[tuple[str, Hashable, Hashable], ...]] = []
    for plan in plans:
        # A stale state now and then; and now and then a micro-operation that looks at another one.
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
    return _scheduled(rng, values)


def _scheduled(rng: Rng, values: Sequence[tuple[tuple[str, Hashable, Hashable], ...]]) -> Paired:
    """Overlapping at random, roughly in their order; some of unknown outcome, some failed; some of one process."""
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


def is_serializable(history: Paired, strength: str, writes: str) -> bool:
    """Whether some order of the committed, with some of the unknown, explains all reads. `strength`: "", process, realtime."""
    return any(_order(chosen, strength, writes, {}) for chosen in _choices(history))


def is_snapshot_isolated(history: Paired, strength: str) -> bool:
    """Whether some order of snapshots and commits does, where of two that overlap only one writes a key. Lists only."""
    return any(_snapshots(chosen, (), {}, {}, strength) for chosen in _choices(history))


def is_complete(history: Paired) -> bool:
    """Whether everything that certainly was appended was read, and everything read was appended: then nothing is left open."""
    appended = {(m[1], m[2]): c for c in history.calls for m in _micros(c) if m[0] == "append"}
    read = {(m[1], v) for c in history.calls if not c.crashed for m in _micros(c) if m[0] == "r" for v in _tuple(m[2])}
    return read <= set(appended) and all(name in read or call.crashed for name, call in appended.items())


def _tuple(value: Hashable) -> tuple[Hashable, ...]:
    return value if isinstance(value, tuple) else ()


def _micros(call: Call) -> tuple[tuple[str, Hashable, Hashable], ...]:
    micros = call.argument if call.crashed else call.result
    assert isinstance(micros, tuple)
    return tuple(m for m in micros if not (call.crashed and m[0] == "r"))


def _choices(history: Paired) -> Iterator[tuple[Call, ...]]:
    sure = [call for call in history.calls if not call.crashed]
    open_calls = [call for call in history.calls if call.crashed]
    for count in range(len(open_calls) + 1):
        for some in combinations(open_calls, count):
            yield (*sure, *some)


def _must_precede(one: Call, two: Call, strength: str) -> bool:
    if one.end is None or one.end >= two.start:
        return False
    return strength == "realtime" or (strength == "process" and one.process == two.process)


def _order(left: tuple[Call, ...], strength: str, writes: str, state: State) -> bool:
    if not left:
        return True
    for call in left:
        if any(_must_precede(other, call, strength) for other in left):
            continue
        after = _applied(call, state, writes)
        if after is not None and _order(tuple(c for c in left if c is not call), strength, writes, after):
            return True
    return False


def _applied(call: Call, state: State, writes: str) -> State | None:
    state = dict(state)
    for f, key, value in _micros(call):
        held = state.get(key, ())
        if f == writes:
            state[key] = (*held, value) if writes == "append" else (value,)
        elif (_tuple(value) if writes == "append" else () if value is None else (value,)) != held:
            return None
    return state


def _snapshots(left: tuple[Call, ...], running: tuple[tuple[Call, State], ...], state: State, at: State, strength: str) -> bool:
    """`left` have no snapshot yet; `at` says of each key which of the running ones must not write it, as indices."""
    if not left and not running:
        return True
    for call in left:
        if any(_must_precede(other, call, strength) for other in (*left, *(c for c, _ in running))):
            continue
        if _applied(call, state, "append") is None:
            continue
        if _snapshots(tuple(c for c in left if c is not call), (*running, (call, state)), state, at, strength):
            return True
    for number, (call, _) in enumerate(running):
        wrote = {m[1] for m in _micros(call) if m[0] == "append"}
        if any(call.index in at.get(key, ()) for key in wrote):
            continue
        rest = running[:number] + running[number + 1 :]
        after = dict(state)
        for f, key, value in _micros(call):
            if f == "append":
                after[key] = (*after.get(key, ()), value)
        barred = {**at, **{key: (*at.get(key, ()), *(c.index for c, _ in rest)) for key in wrote}}
        if _snapshots(left, rest, after, barred, strength):
            return True
    return False
