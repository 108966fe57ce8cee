"""Wing and Gong's search for an order of the calls on one object, with Lowe's cache of visited configurations.

A configuration of the search is the set of placed calls and the object's state after them. A call may be placed next if no
unplaced call returned before it was invoked. The search is deterministic and its budget counts steps, so that a history has the
same verdict on every machine.

Five rules keep the search small without losing a possible order:

1. Placed calls are stored as a base (all calls before it are placed) and a bit mask relative to it; this is cheap in long
   histories.
2. A call that only observes and is legal now is placed now: in any order that places it later it can be moved here.
3. Calls of unknown outcome are tried last, only if they change the state, and of equal calls only the earliest.
4. A configuration is dropped if one with the same placed calls and state, and no more crashed calls used, has failed before.
5. Of equal calls that are ready, only the one that returned first is tried: in an order that places another one now, the two can
   change places.

A part of a history can be searched for itself (`checkers.linearizability.windows`): then the state at its beginning is one of
several, and calls that were under way by then may have acted before, so that each of them is optional, up to its return. A call
invoked after that return ends this choice, so rules 2 and 5 leave it alone as long as there is one.
"""

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct

from checkers.linearizability.model import Foresees, Illegal, Model, State
from history.foreign.step import Call

_Chain = tuple[int, "_Chain | None"]  # the last placed call, and the calls before it
_FOREVER = 1 << 62
_BEGINNING = -1


class Placed(Struct, frozen=True, kw_only=True):
    """Outcome of a search: an order of the calls explains all answers; holds it as their indices."""

    order: tuple[int, ...]


class Stuck(Struct, frozen=True, kw_only=True):
    """Outcome of a search: no order exists. Holds the longest partial order, the call that cannot follow, the state before it."""

    order: tuple[int, ...]
    call: int
    state: Hashable
    why: str = ""  # the reason in words; "" if the state says it


class Undecided(Struct, frozen=True, kw_only=True):
    """Outcome of a search that used up its budget."""

    steps: int


Outcome = Placed | Stuck | Undecided


class _Frame:
    # A configuration on the search's current path, and the calls that are still to be tried next.

    __slots__ = ("base", "chain", "key", "mask", "moves", "spent", "state")

    def __init__(self, base: int, mask: int, spent: int, state: int, chain: "_Chain | None") -> None:
        self.base = base
        self.mask = mask
        self.spent = spent
        self.state = state
        self.chain = chain
        self.moves: list[tuple[int, int]] = []  # (call, state after it), crashed calls as -1 - call; tried from the end
        self.key = (base, mask, state)


class Search:
    """A search for an order of calls that can be continued: each `run` spends a budget and returns the outcome so far.

    `under_way`: returned calls that may have acted before all others. `states`: those that the object may have at first.
    """

    def __init__(
        self, model: Model, calls: Sequence[Call], *, under_way: Sequence[Call] = (), states: Sequence[State] | None = None
    ) -> None:
        required = sorted((c for c in calls if c.end is not None), key=lambda c: c.start)
        # Calls that need no place. Of equal ones the first in this list is tried: it must be placed before the others, or may be
        # placed when they may.
        crashed = sorted((c for c in under_way if not model.observes(c)), key=_end)
        crashed += sorted((c for c in calls if c.end is None and not model.observes(c)), key=lambda c: c.start)
        self._calls = required
        self._starts = [c.start for c in required] + [_FOREVER]
        self._ends = [_end(c) for c in required]
        self._observes = [model.observes(c) for c in required]
        self._crashed = crashed
        self._crashed_starts = [c.start if c.end is None else _BEGINNING for c in crashed]
        self._returns = [_end(c) for c in crashed if c.end is not None]  # of calls under way at first
        kinds: dict[Hashable, int] = {}
        self._table = _Table(model)
        self._kinds = [kinds.setdefault((c.f, c.argument, c.result), len(kinds)) for c in required]
        crashed_kinds = [kinds.setdefault((c.f, c.argument, c.result), len(kinds)) for c in crashed]
        self._crashed_kinds = crashed_kinds
        self._hope = _Hope(model, required, crashed) if isinstance(model, Foresees) else None
        self._failed: dict[tuple[int, int, int], list[int]] = {}
        self._steps = 0
        self._blocked = _BEGINNING
        self._best: tuple[int, int, _Chain | None, int] | None = None  # (first return not passed, its call, path, state)
        self._done: _Frame | None = None
        first = [_Frame(0, 0, 0, self._table.number(state), None) for state in (states or [model.initial()])]
        self._stack = [frame for frame in first if self._can_go_on(frame)]

    @property
    def steps(self) -> int:
        """The number of configurations (sets of placed calls with a state) that the search has visited so far."""
        return self._steps

    @property
    def blocked(self) -> int:
        """The latest return of a call that the search could not pass so far."""
        return max(self._blocked, self._best[0] if self._best else _BEGINNING)

    def run(self, steps: int) -> Outcome:
        """Continue the search: visit at most `steps` more configurations (sets of placed calls with a state)."""
        limit = self._steps + steps
        stack = self._stack
        while stack and self._done is None:
            if self._steps >= limit:
                return Undecided(steps=self._steps)
            top = stack[-1]
            if not top.moves:
                self._failed.setdefault(top.key, []).append(top.spent)
                stack.pop()
                continue
            call, state = top.moves.pop()
            self._place_call(top, call, state)
        if self._done is not None:
            return Placed(order=_order_of_chain(self._done.chain, self._index))
        assert self._best is not None
        _, stuck, chain, state = self._best
        return Stuck(order=_order_of_chain(chain, self._index), call=self._calls[stuck].index, state=self._table.state(state))

    def _index(self, call: int) -> int:
        return self._calls[call].index if call >= 0 else self._crashed[-1 - call].index

    def _place_call(self, top: _Frame, call: int, state: int) -> None:
        """Place a call and go on from there, if that can succeed."""
        if call < 0:
            frame = _Frame(top.base, top.mask, top.spent | 1 << (-1 - call), state, (call, top.chain))
        else:
            base, mask = _placed_with(top.base, top.mask, call)
            frame = _Frame(base, mask, top.spent, state, (call, top.chain))
        if self._can_go_on(frame):
            self._stack.append(frame)

    def _can_go_on(self, frame: _Frame) -> bool:
        """Place the legal observing calls, record the progress and list the moves. False if the configuration cannot succeed."""
        self._steps += 1
        table, starts, end_times, kinds = self._table, self._starts, self._ends, self._kinds
        base, mask = frame.base, frame.mask
        count = len(end_times)
        fence = self._first_open_return(base, mask, frame.spent)
        while True:
            # The calls that may be next: invoked before the first return of an unplaced call.
            first_end = _FOREVER
            last = -1
            near: list[int] = []
            i, mask_left = base, mask
            while starts[i] < first_end:
                if not mask_left & 1:
                    near.append(i)
                    if end_times[i] < first_end:
                        first_end = end_times[i]
                        last = i
                mask_left >>= 1
                i += 1
            looking = [
                c
                for c in near
                if self._observes[c]
                and starts[c] < min(first_end, fence)
                and table.after(frame.state, kinds[c], self._calls[c]) >= 0
            ]
            if not looking:
                break
            for call in looking:
                base, mask = _placed_with(base, mask, call)
                frame.chain = (call, frame.chain)
        frame.base, frame.mask, frame.key = base, mask, (base, mask, frame.state)
        if base == count:
            self._done = frame
            return True
        for spent in self._failed.get(frame.key, ()):
            if spent & frame.spent == spent:
                return False
        if self._best is None or first_end > self._best[0]:
            self._best = (first_end, last, frame.chain, frame.state)
        if self._hope is not None:
            state = table.state(frame.state)
            lost = [c for c in near if self._observes[c] and self._hope.is_lost(c, state, base, mask, frame.spent)]
            if lost:
                self._blocked = max(self._blocked, *(end_times[c] for c in lost))
                self._failed.setdefault(frame.key, []).append(frame.spent)
                return False
        self._list_moves(frame, near, first_end, fence)
        return True

    def _first_open_return(self, base: int, mask: int, spent: int) -> int:
        """The first return of a call that was under way at first, is not placed, and may still be."""
        if not self._returns:
            return _FOREVER
        latest = self._latest_invocation(base, mask)
        return next((end for j, end in enumerate(self._returns) if not spent >> j & 1 and end >= latest), _FOREVER)

    def _latest_invocation(self, base: int, mask: int) -> int:
        """The invocation of the call that was invoked last of those placed."""
        last = base + mask.bit_length() - 1
        return self._starts[last] if last >= 0 else _BEGINNING

    def _list_moves(self, frame: _Frame, near: list[int], first_end: int, fence: int) -> None:
        """The calls that may be placed next: ready ones, and one crashed call of each kind."""
        table, kinds, state = self._table, self._kinds, frame.state
        moves: list[tuple[int, int]] = []
        kinds_listed: set[int] = set()
        latest = self._latest_invocation(frame.base, frame.mask) if self._returns else _BEGINNING
        for j, start in enumerate(self._crashed_starts):
            if start > first_end:
                break
            kind = self._crashed_kinds[j]
            if frame.spent >> j & 1 or kind in kinds_listed or (j < len(self._returns) and self._returns[j] < latest):
                continue
            kinds_listed.add(kind)
            after = table.after(state, kind, self._crashed[j])
            if after >= 0 and after != state:
                moves.append((-1 - j, after))
        moves.reverse()
        ready = [c for c in near if self._starts[c] < first_end and (not self._observes[c] or self._starts[c] >= fence)]
        # Try the call that returned first before the others, because it blocks them.
        ready.sort(key=self._ends.__getitem__, reverse=True)
        first_of_kind = {kinds[call]: call for call in ready if self._starts[call] < fence}
        for call in ready:
            if first_of_kind.get(kinds[call], call) == call or self._starts[call] >= fence:
                after = table.after(state, kinds[call], self._calls[call])
                if after >= 0:
                    moves.append((call, after))
        frame.moves = moves


class _Hope:
    # The calls that could still make a read legal: a configuration without any is dropped before its moves are tried.

    def __init__(self, model: Foresees, required: Sequence[Call], crashed: Sequence[Call]) -> None:
        self._model = model
        self._required = required
        self._crashed = crashed
        self._of: dict[int, tuple[list[int], int]] = {}

    def is_lost(self, read: int, state: Hashable, base: int, mask: int, spent: int) -> bool:
        """Whether no order of the calls not yet placed can explain this read's answer."""
        if self._model.leads(state, self._required[read]):
            return False
        required, crashed = self._of.get(read) or self._calls_that_help(read)
        return not (crashed & ~spent) and all(c < base or mask >> (c - base) & 1 for c in required)

    def _calls_that_help(self, read: int) -> tuple[list[int], int]:
        """The calls that may make this read legal: required ones, and crashed ones as bits."""
        call = self._required[read]
        helps = self._model.helps
        assert call.end is not None
        required = [i for i, maybe_call in enumerate(self._required) if maybe_call.start < call.end and helps(maybe_call, call)]
        crashed = sum(
            1 << j for j, maybe_call in enumerate(self._crashed) if maybe_call.start < call.end and helps(maybe_call, call)
        )
        self._of[read] = (required, crashed)
        return required, crashed


def _end(call: Call) -> int:
    return _FOREVER if call.end is None else call.end


def _placed_with(base: int, mask: int, call: int) -> tuple[int, int]:
    """Return the base and the mask of placed calls after placing one more call."""
    mask |= 1 << (call - base)
    if mask & 1:
        ones = (~mask & (mask + 1)).bit_length() - 1
        return base + ones, mask >> ones
    return base, mask


def _order_of_chain(chain: "_Chain | None", index: Callable[[int], int]) -> tuple[int, ...]:
    """The numbers (by `index`) of the calls of a chain, the first placed one first."""
    order: list[int] = []
    while chain is not None:
        order.append(index(chain[0]))
        chain = chain[1]
    return tuple(reversed(order))


class _Table:
    """Numbers for object states and kinds of calls, with a cache of the transitions between them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._numbers: dict[Hashable, int] = {}
        self._states: list[Hashable] = []
        self._after: dict[tuple[int, int], int] = {}

    def number(self, state: Hashable) -> int:
        """The number under which the search caches an object's state."""
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def state(self, number: int) -> Hashable:
        """The object's state with this number in the cache."""
        return self._states[number]

    def after(self, state: int, kind: int, call: Call) -> int:
        """The number of the object's state after a call of this kind; -1 if the call is illegal."""
        key = (state, kind)
        state_after = self._after.get(key)
        if state_after is None:
            result = self._model.step(self._states[state], call)
            state_after = -1 if isinstance(result, Illegal) else self.number(result)
            self._after[key] = state_after
        return state_after
