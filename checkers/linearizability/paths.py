"""Every way to order the calls around the one that cannot be placed, each with the object's states, for a page that shows them.

The proof (`witness`) is one order of the longest prefix. A reader asks why no other order helps: so the calls that are concurrent
with the impossible one are taken out of that order, with all that was placed after the first of them, and are placed again in
every way that real time and the object allow, up to a bound. Each way ends where no call that must come next is possible.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from checkers.linearizability.model import Illegal, Model, State
from checkers.linearizability.prefix import cut
from checkers.linearizability.search import Placed, Search, Stuck, Undecided
from history.foreign.step import Call

_STEPS_MAX = 200_000  # of the search for an order of the prefix
_VISITED_MAX = 20_000  # calls placed in search of paths
_DEEP_MAX = 200  # calls of one path, each of which is a level of recursion
_PATHS_MAX = 12
_TAKEN_OUT_MAX = 24  # calls that are placed again; more would have too many orders to show


class Place(Struct, frozen=True, kw_only=True):
    """A call, by its index, at its place in an order, and the object's state after it."""

    call: int
    state: State


class Path(Struct, frozen=True, kw_only=True):
    """An order that goes on after the base and ends where none of the calls `blocked`, which must come next, is possible."""

    places: tuple[Place, ...]
    blocked: tuple[int, ...]


class Account(Struct, frozen=True, kw_only=True):
    """Why a history has no order: the base, which all paths begin with, and the paths, longest first.

    `whole` is false where there are more paths than are listed. Without an order within the budget, base and paths are empty.
    """

    initial: State
    base: tuple[Place, ...]
    paths: tuple[Path, ...]
    whole: bool


def account(model: Model, calls: Sequence[Call], stuck: Stuck) -> Account:
    """Find the paths of a history without an order. `calls` are those on one object, `stuck` is the proof for them."""
    impossible = next(call for call in calls if call.index == stuck.call)
    assert impossible.end is not None
    calls_before = cut(calls, impossible.end)
    base = _longest_prefix(model, calls_before, stuck)
    if base is None:
        return Account(initial=model.initial(), base=(), paths=(), whole=False)
    by_index = {call.index: call for call in calls_before}
    keep = _places_kept(base, by_index, impossible)
    places = base[:keep]
    placed = {place.call for place in places}
    again = [call for call in calls_before if call.index not in placed]
    walk = _Walk(model, again)
    paths = sorted(walk.paths(places[-1].state if places else model.initial()), key=lambda path: -len(path.places))
    return Account(
        initial=model.initial(), base=places, paths=tuple(paths[:_PATHS_MAX]), whole=walk.whole and len(paths) <= _PATHS_MAX
    )


def _longest_prefix(model: Model, calls_before: Sequence[Call], stuck: Stuck) -> tuple[Place, ...] | None:
    """The longest prefix in an order: the proof's own if it is one, else one that is searched for; None if that takes too long.

    () if the prefix has no order either: another of its calls is impossible, too.
    """
    own = _places_along(model, calls_before, stuck.order) if stuck.order else None
    if own is not None:
        return own
    outcome = Search(model, [call for call in calls_before if call.index != stuck.call]).run(_STEPS_MAX)
    if isinstance(outcome, Undecided):
        return None
    return _places_along(model, calls_before, outcome.order) if isinstance(outcome, Placed) else ()


def _places_along(model: Model, calls_before: Sequence[Call], order: Sequence[int]) -> tuple[Place, ...] | None:
    """The states along an order; None if it breaks real time or the object."""
    by_index = {call.index: call for call in calls_before}
    state = model.initial()
    places = list[Place]()
    latest = -1
    for index in order:
        call = by_index.get(index)
        if call is None or (call.end is not None and call.end < latest):  # it returned before a call placed earlier was made
            return None
        after = model.step(state, call)
        if isinstance(after, Illegal):
            return None
        state, latest = after, max(latest, call.start)
        places.append(Place(call=index, state=state))
    return tuple(places)


def _places_kept(base: Sequence[Place], by_index: dict[int, Call], impossible: Call) -> int:
    """How much of the order all paths share: up to the first call that is concurrent with the impossible one."""

    def concurrent(call: Call) -> bool:
        return call.end is None or call.end > impossible.start

    keep = next((n for n, place in enumerate(base) if concurrent(by_index[place.call])), len(base))
    return max(keep, len(base) - _TAKEN_OUT_MAX)


class _Walk:
    """A depth-first walk through the orders of some calls. `whole` is false once it gave up."""

    def __init__(self, model: Model, calls: Sequence[Call]) -> None:
        self.whole = True
        self._model = model
        self._calls = sorted(calls, key=lambda call: call.start)
        self._visited = 0
        self._seen: set[tuple[frozenset[int], State]] = set()

    def paths(self, state: State) -> Iterator[Path]:
        """The ways to go on from a state until nothing that must come next is possible."""
        yield from self._paths_from(state, (), frozenset())

    def _paths_from(self, state: State, places: tuple[Place, ...], used: frozenset[int]) -> Iterator[Path]:
        """Every path from this state, depth first; a path ends where no call changes anything."""
        if (used, state) in self._seen:
            return
        self._seen.add((used, state))
        self._visited += 1
        if self._visited > _VISITED_MAX or len(places) >= _DEEP_MAX:
            self.whole = False
            return
        ready = self._possible_next_calls(used)
        moves = [(call, self._model.step(state, call)) for call in ready]
        # A call of unknown outcome that changes nothing now leads nowhere.
        useful = [
            (call, after) for call, after in moves if not isinstance(after, Illegal) and (call.end is not None or after != state)
        ]
        if not useful:
            yield Path(places=places, blocked=tuple(call.index for call in ready if call.end is not None))
        for call, after in useful:
            yield from self._paths_from(after, (*places, Place(call=call.index, state=after)), used | {call.index})

    def _possible_next_calls(self, used: frozenset[int]) -> list[Call]:
        """The calls that may come next: no other call returned before they were made."""
        remaining = [call for call in self._calls if call.index not in used]
        first_end = min((call.end for call in remaining if call.end is not None), default=None)
        return [call for call in remaining if first_end is None or call.start < first_end]
