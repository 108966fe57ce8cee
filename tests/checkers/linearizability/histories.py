"""Small histories for models, drawn by a seed."""

from collections.abc import Callable, Hashable

from history.foreign.step import UNKNOWN, Call
from history.seed import Rng

Intent = tuple[str, Hashable, Hashable]  # function, argument, result


def overlapping_calls(rng: Rng, size: int, intent: Callable[[Rng, int], Intent], *, crash_in: int = 5) -> list[Call]:
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
