"""Small histories for models, brute force over all orders, and drawing histories by a seed."""

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, permutations

from checkers.linearizability.model import Illegal, Model
from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

Intent = tuple[str, Hashable, Hashable]  # function, argument, result


def possible(model: Model, calls: Sequence[Call]) -> bool:
    """Whether an order exists, by trying every order of every choice of crashed calls."""
    required = [c for c in calls if c.end is not None]
    crashed = [c for c in calls if c.end is None]
    choices = (list(chosen) for size in range(len(crashed) + 1) for chosen in combinations(crashed, size))
    return any(_fits(model, order) for chosen in choices for order in permutations(required + chosen))


def _fits(model: Model, order: Sequence[Call]) -> bool:
    latest = -1
    state = model.initial()
    for call in order:
        if call.end is not None and call.end < latest:
            return False
        latest = max(latest, call.start)
        after = model.step(state, call)
        if isinstance(after, Illegal):
            return False
        state = after
    return True


def drawn(rng: Rng, size: int, intent: Callable[[Rng, int], Intent], *, crash_in: int = 5) -> list[Call]:
    """Calls that overlap at random; one in `crash_in` crashes, none for 0."""
    places = list(rng.shuffled(range(2 * size)))
    spans = sorted(tuple(sorted(places[2 * i : 2 * i + 2])) for i in range(size))
    calls = []
    for index, (start, end) in enumerate(spans):
        f, argument, result = intent(rng, index)
        crashed = crash_in > 0 and rng.below(crash_in) == 0
        calls.append(call(index, f, argument, UNKNOWN if crashed else result, start, None if crashed else end))
    return calls


def call(index: int, f: str, argument: Hashable, result: Hashable, start: int, end: int | None) -> Call:
    """One call, in the line of its index."""
    return Call(index=index, line=index + 1, f=f, argument=argument, result=result, start=start, end=end)
