"""All ways in which a few calls can overlap in time, each once.

Only "this call returned before that one was invoked" is evidence, so arrangements that agree on it are equal. There are 1, 2, 5,
15, 53 and 217 arrangements of 1 to 6 calls (interval orders; OEIS A022493): `test_shapes` counts them.
"""

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product

Spans = tuple[tuple[int, int], ...]  # for each call its invocation and its return
Before = frozenset[tuple[int, int]]


def before(spans: Spans) -> Before:
    """Return the pairs of calls of which the first returned before the second was invoked."""
    size = range(len(spans))
    return frozenset((a, b) for a, b in product(size, size) if spans[a][1] < spans[b][0])


@cache
def shapes(size: int) -> tuple[Spans, ...]:
    """One example of each way in which so many calls can overlap in time; the calls are in the order of their invocations."""
    shapes_by_order: dict[Before, Spans] = {}
    for spans in _arrangements(size):
        relation = before(spans)
        if not any(_renamed_order(relation, names) in shapes_by_order for names in permutations(range(size))):
            shapes_by_order[relation] = spans
    return tuple(shapes_by_order.values())


@cache
def symmetries(spans: Spans) -> tuple[tuple[int, ...], ...]:
    """Return the renamings of calls that keep how they overlap in time."""
    relation = before(spans)
    return tuple(names for names in permutations(range(len(spans))) if _renamed_order(relation, names) == relation)


def is_first_of_its_kind(letters: tuple[int, ...], spans: Spans) -> bool:
    """Whether this history is the first of those equal to it up to renaming of calls, so that each is tried once."""
    return all(letters <= tuple(letters[at] for at in names) for names in symmetries(spans))


def _renamed_order(relation: Before, names: tuple[int, ...]) -> Before:
    return frozenset((names[a], names[b]) for a, b in relation)


def _arrangements(size: int) -> Iterator[Spans]:
    """All ways in which this many calls can begin and end, one event after another."""

    def grow(position: int, spans: tuple[tuple[int, int], ...], running: tuple[int, ...]) -> Iterator[Spans]:
        if position == 2 * size:
            yield spans
            return
        if len(spans) < size:
            yield from grow(position + 1, (*spans, (position, -1)), (*running, len(spans)))
        for call in running:
            ended = (*spans[:call], (spans[call][0], position), *spans[call + 1 :])
            yield from grow(position + 1, ended, tuple(open_call for open_call in running if open_call != call))

    yield from grow(0, (), ())
