"""Witnesses about calls on objects: an order that explains every answer, or calls that no order explains.

An order is replayed call by call. Of calls without one every order is tried; the other calls may then act any number of times in
their time, which allows more orders and never fewer. The objects are defined here, without a line of the judges.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from history.foreign.step import FALSE, UNKNOWN, Call, Pairs, text_of
from verifier.certificate import Linearization, NoLinearization, must

State = Any  # of an object: a value, a set, a tuple
_STATES_MAX, _SEARCHED_MAX = 5_000, 300_000  # of an object after one call; configurations of a search
_LOOKS = ("read", "get", "end")  # calls that make no other call possible
_ELSE = "\0else"  # a value that no call in question asks for


class Object(NamedTuple):
    """An object: its model, its first value, whether nil is one, and how many calls may have happened.

    `asked`: the values, strings or offsets that the calls in question ask for, or a version above all; None: nothing is left out.
    """

    model: str
    first: Hashable
    nil: bool
    calls: int
    asked: frozenset[Any] | None = None

    def begin(self) -> State:
        """The state before the first call."""
        empty: dict[str, State] = {"mutex": False, "fifo-queue": (), "partition-log": ((), 0), "versioned-node": None}
        empty |= dict.fromkeys(("set", "unordered-queue", "multi-register"), frozenset())
        return empty[self.model] if self.model in empty else self.of(text_of(self.first) if self.model == "kv" else self.first)

    def of(self, value: State) -> State:
        """The value, or one that stands for all that nobody asks for: a string counts if it may become one that was read."""
        if self.asked is None or value in self.asked:
            return value
        return value if self.model == "kv" and any(read_value.startswith(value) for read_value in self.asked) else _ELSE

    def after(self, state: State, call: Call) -> Iterator[State]:
        """The states that a call may leave; none if the object could not have answered so."""
        result, is_open = call.result, call.result is UNKNOWN
        match self.model, call.f, call.argument:
            case "register" | "cas-register", "write", value:
                yield self.of(value)
            case "register" | "cas-register" | "kv", "read" | "get", _:
                yield from [state] if is_open or (text_of(result) if self.model == "kv" else result) == state else []
            case "cas-register", "cas", (old, new):
                yield from [state] if state != old and (is_open or result in (FALSE, "false")) else []
                yield from [self.of(new)] if state == old and result not in (FALSE, "false") else []
            case "kv", "put" | "append", value:
                text = text_of(value) if call.f == "put" else f"{state}{text_of(value)}"
                yield _ELSE if call.f == "append" and state == _ELSE else self.of(text)
            case "mutex", "acquire" | "release", _:
                yield from [call.f == "acquire"] if state == (call.f == "release") else []
            case "set", "add", value:
                yield state | {value}
            case "set", "read", _:
                yield from [state] if is_open or frozenset(_values(call)) == state else []
            case "fifo-queue", "enqueue", value:
                yield (*state, value)
            case "fifo-queue", "dequeue", _:
                yield from [state[1:]] if is_open or result == (state[0] if state else None) else []
            case "unordered-queue", "enqueue", value:
                yield frozenset((Counter(dict(state)) + Counter([value])).items())
            case "unordered-queue", "dequeue", _:
                held = Counter(dict(state))
                takes = [*held] if is_open else [result] if result in held else []
                yield from (frozenset((held - Counter([value])).items()) for value in takes)
                yield from [state] if not held and (is_open or result is None) else []
            case "multi-register", "txn", _:
                yield from self._states_of_registers(dict(state), call.argument if is_open else result, is_open)
            case "partition-log", _, _:
                yield from self._states_of_log(state[0], state[1], call)
            case "versioned-node", _, _:
                yield from self._states_of_znode(state, call)
            case _:
                raise AssertionError(f"{call.f} of {self.model}")  # `all_are_calls` has looked

    def _states_of_registers(self, held: dict[Any, Any], micros: State, is_open: bool) -> Iterator[State]:
        for f, key, value in micros:
            is_asked = self.asked is None or (key, value) in self.asked
            if f in ("write", "w"):
                held[key] = value if is_asked else _ELSE
            elif not is_open and (value is not None or self.nil):
                found = held.get(key, dict(self.first).get(key) if isinstance(self.first, Pairs) else self.first)
                if found != value and (is_asked or found != _ELSE):
                    return
        yield frozenset(held.items())

    def _states_of_log(self, records: tuple[Any, ...], end: int, call: Call) -> Iterator[State]:
        result, offsets_asked = call.result, self.asked or frozenset()
        if call.f == "append":
            # Without an answered offset it may be at any: at one that is read, or at the first of the others.
            free_offset = next(offset for offset in range(end, end + len(offsets_asked) + 1) if offset not in offsets_asked)
            for at in [result] if isinstance(result, int) else [*offsets_asked, free_offset]:
                if at >= end:
                    yield ((*records, (at, call.argument)) if at in offsets_asked else records, at + 1)
        elif call.f == "end" and (not isinstance(result, int) or result >= end):
            yield records, result if isinstance(result, int) else end
        elif call.f == "read" and (result is UNKNOWN or dict(records).get(call.argument) == result):
            yield records, end

    def _states_of_znode(self, state: State, call: Call) -> Iterator[State]:
        argument: State = call.argument
        right: State = "no-node"
        after, result = state, call.result if text_of(call.result) is None else text_of(call.result)
        if call.f == "create":
            right, after = ("ok", (argument, 0)) if state is None else ("node-exists", state)
        elif state is not None and call.f == "read":
            right = state
        elif state is not None:
            wanted, version = argument[1] if call.f == "set" else argument, state[1] + 1
            right, after = (version, (argument[0], version)) if call.f == "set" else ("ok", None)
            right, after = (right, after) if wanted in (-1, state[1]) else ("bad-version", state)
        if result is UNKNOWN or right == result:
            yield after if after is None or self.asked is None else (after[0], min(after[1], *self.asked))


def _values(call: Call) -> tuple[Any, ...]:
    """The values in an answer of a set or queue."""
    return (
        tuple(call.result)
        if isinstance(call.result, tuple | frozenset)
        else ()
        if call.result in (None, UNKNOWN)
        else (call.result,)
    )


def objects(thing: Object, calls: Sequence[Call]) -> dict[Hashable, list[tuple[int, Call]]]:
    """The calls on each object with their numbers, without those whose answer was not recorded.

    Where every value is a pair `[key value]`, and a read asks `[key nil]`, each key is an object of its own.
    """
    parts: dict[Hashable, list[tuple[int, Call]]] = {}
    for at, call in by_key([*enumerate(calls[: thing.calls])]):
        is_nil = call.f == "read" and call.result is None and not thing.nil and thing.model in ("register", "cas-register")
        if not is_nil and not (thing.model == "multi-register" and call.argument == ()):
            parts.setdefault(None if thing.model == "multi-register" else call.key, []).append((at, call))
    return parts


def by_key(numbered: Sequence[tuple[int, Call]]) -> Sequence[tuple[int, Call]]:
    """Calls with their numbers, with keys and values separated where each key is an object of its own."""
    values: list[Any] = [value for _, call in numbered for value in (call.argument, call.result) if value is not UNKNOWN]
    asking: list[Any] = [call.argument for _, call in numbered if call.f in ("read", "dequeue", "acquire", "release")]
    pairs = all(type(value) is tuple and len(value) == 2 for value in values)
    return [(at, _on_its_key(call)) for at, call in numbered] if pairs and any(value[1] is None for value in asking) else numbered


def _on_its_key(call: Call) -> Call:
    argument: Any = call.argument
    result: Any = call.result
    return replace(call, key=argument[0], argument=argument[1], result=UNKNOWN if result is UNKNOWN else result[1])


def verify_order(thing: Object, calls: Sequence[Call], witness: Linearization) -> None:
    """Return if the order explains every answer; raise Refused if not."""
    must({*witness.order} <= {*range(thing.calls)}, "an operation that may not be in the order")
    parts = objects(thing, calls).values()
    for part in parts:
        numbers = {at for at, _ in part}
        _verify_path(thing, part, [at for at in witness.order if at in numbers])
    must(any(_one_could_be_wrong(thing, part) for part in parts), "no answer could have been wrong")


def _verify_path(thing: Object, part: Sequence[tuple[int, Call]], order: Sequence[int]) -> None:
    """Replay the calls on one object in an order; a call of unknown outcome that is not in it had no effect."""
    by_number, placed = dict(part), {*order}
    must(len(placed) == len(order) and placed <= by_number.keys(), "an operation is in the order twice, or none of the object")
    missing = [at for at, call in part if call.end is not None and at not in placed]
    must(not missing, f"operation {missing[:1]} returned and is not in the order")
    thing = thing._replace(asked=_asked_values(thing.model, [*by_number.values()])) if thing.model == "partition-log" else thing
    states, latest = {thing.begin()}, -9
    for at in order:
        call = by_number[at]
        must(call.end is None or call.end >= latest, f"operation {at} returned before one that it follows was invoked")
        states = {after for state in states for after in thing.after(state, call)}
        must(0 < len(states) <= _STATES_MAX, f"operation {at} could not have answered so at its place")
        latest = max(latest, call.start)


def _one_could_be_wrong(thing: Object, part: Sequence[tuple[int, Call]]) -> bool:
    # An acquire, an append and an end are right unless another answer contradicts them.
    told = [call.f for _, call in part if call.end is not None and _could_be_wrong(thing, call)]
    return len(told) > 1 or any(f not in ("acquire", "append", "end") for f in told)


def _could_be_wrong(thing: Object, call: Call) -> bool:
    result: Any = call.result
    if call.f == "txn":
        return any(f in ("r", "read") and (value is not None or thing.nil) for f, _, value in result)
    return call.f not in ("write", "put", "append", "add", "enqueue") or (
        thing.model == "partition-log" and isinstance(result, int)
    )


def verify_none(thing: Object, calls: Sequence[Call], witness: NoLinearization) -> None:
    """Return if no order explains the calls kept; raise Refused if one does."""
    kept = {*witness.kept}
    must([*witness.kept] == sorted(kept), "the calls kept are not each named once, in their order")
    part = next((part for part in objects(thing, calls).values() if kept <= {at for at, _ in part}), [])
    must(kept and part and witness.last in kept, "the calls kept are not calls on one object, with the last among them")
    must(not has_order(thing, part, kept), "an order explains the calls kept")
    end = calls[witness.last].end or 0
    known = [
        (at, replace(c, result=UNKNOWN, end=None) if c.end is None or c.end >= end else c) for at, c in part if c.start < end
    ]
    if witness.before:
        _verify_path(thing, known, witness.before)


def has_order(thing: Object, part: Sequence[tuple[int, Call]], kept: set[int]) -> bool:
    """Whether some order explains these calls, if each other call on the object may act any number of times in its time."""
    core, free = _relaxed(thing.model, [call for at, call in part if at in kept], [call for at, call in part if at not in kept])
    thing = thing._replace(asked=_asked_values(thing.model, core, free))
    left = [(0, thing.begin())]
    seen = {*left}
    while left:
        must(len(seen) < _SEARCHED_MAX, f"whether an order explains the calls kept is undecided after {_SEARCHED_MAX} steps")
        placed, state = left.pop()
        waiting = [(n, call) for n, call in enumerate(core) if not placed >> n & 1]
        if all(call.end is None for _, call in waiting):
            return True
        bound = min(call.end for _, call in waiting if call.end is not None)
        latest = max((call.start for n, call in enumerate(core) if placed >> n & 1), default=-9)
        moves = [(placed | 1 << n, call) for n, call in waiting if call.start < bound]
        moves += [(placed, call) for call in free if call.start < bound and (call.end is None or call.end > latest)]
        fresh = {(then, after) for then, call in moves for after in thing.after(state, call)} - seen
        seen |= fresh
        left += fresh
    return False


def _relaxed(model: str, core: list[Call], free: list[Call]) -> tuple[list[Call], list[Call]]:
    """The calls in question and the others that may help them. Of a set or queue only some values: those whose calls are kept.

    What holds for all values holds for these alone, so each call on another value is left out.
    """
    free = [call for call in free if call.f not in _LOOKS]
    if model in ("set", "fifo-queue", "unordered-queue"):
        put = {call.argument for call in (*core, *free) if call.f in ("add", "enqueue")}
        values = {
            value for call in core for value in ([call.argument] if call.f in ("add", "enqueue") else {*_values(call)} - put)
        }
        values -= {call.argument for call in free if call.f == "enqueue"}  # each of them acts once
        if model == "set":
            core = [replace(c, result=tuple({*_values(c)} & values)) if c.f == "read" and c.end is not None else c for c in core]
        core = [
            c for c in core if (c.argument in values if c.f in ("add", "enqueue") else model == "set" or {*_values(c)} <= values)
        ]
        free = [c for c in free if (c.argument in values if c.f == "add" else c.result is UNKNOWN or c.result in values)]
        free = [call for call in free if call.f != "enqueue"]
    if model == "partition-log":  # an append that nobody in question reads only forbids
        reads = {(call.argument, call.result) for call in core if call.f == "read"}
        tried = [replace(call, result=at) for call in free for at, value in reads if value == call.argument]
        known = {(call.start, call.result) for call in free if isinstance(call.result, int)}
        free = [c for c in tried if (c.start, c.result) in known or not any(start == c.start for start, _ in known)]
    return core, free


def _asked_values(model: str, core: Sequence[Call], free: Sequence[Call] = ()) -> frozenset[Any] | None:
    """What the calls in question ask for, as `Object.asked`."""
    if model in ("register", "cas-register", "kv", "partition-log"):
        if model == "kv":
            return frozenset(text for call in core if call.f in ("read", "get") and (text := text_of(call.result)) is not None)
        results = {call.argument if model == "partition-log" else call.result for call in core if call.f in ("read", "get")}
        return frozenset(results | {call.argument[0] for call in (*core, *free) if call.f == "cas"})  # type: ignore[index]
    if model == "multi-register":
        micros: list[Any] = [micro for call in core if call.end is not None for micro in call.result]  # type: ignore[attr-defined]
        return frozenset((key, value) for f, key, value in micros if f in ("r", "read"))
    if model == "versioned-node":
        sides = [side for call in (*core, *free) for side in (call.argument, call.result)]
        values = [value for side in sides for value in (side if isinstance(side, tuple) else [side])]
        return frozenset([1 + max((value for value in values if isinstance(value, int)), default=0)])
    return None
