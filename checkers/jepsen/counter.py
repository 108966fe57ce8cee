"""counter: a read shows the additions that had returned, and any of those that were still open (`jepsen.checker/counter`).

`add n` and `read`, answered by a number; n may be negative, which Jepsen's checker refuses. The counter begins at `--initial`, or
at 0. The additions that had succeeded when a read was invoked are in its answer; of those invoked before it returned any may be,
without those that certainly failed. So its lower bound counts the positive ones that had succeeded and the negative ones that
were invoked, its upper bound the other way round.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from checkers.jepsen.found import Finding, Found, Model, Object, reads, whole
from history.foreign.step import Call


def findings(counter: Object) -> Iterator[Finding]:
    """Find the reads of a counter that are below or above their bounds."""
    adds = [(call, whole(call, call.argument, "an addition")) for call in counter.calls if call.f == "add"]
    risen, fallen = (_Sums(call for call in adds if (call[1] > 0) == up) for up in (True, False))
    first = counter.initial if isinstance(counter.initial, int) else 0
    for call in reads(counter.calls):
        assert call.end is not None
        value = whole(call, call.result, "the answer to a read")
        lower = first + risen.returned(call.start) + fallen.invoked(call.end)
        upper = first + risen.invoked(call.end) + fallen.returned(call.start)
        if not lower <= value <= upper:
            kind, bound = ("below-lower-bound", lower) if value < lower else ("above-upper-bound", upper)
            words = f"line {call.line} reads {value}; the additions allow {lower} to {upper}"
            assert bound != value
            yield Found(kind, (call.line,), words)


class _Sums:
    """The sums of amounts of one sign that were added before each position of a history."""

    def __init__(self, adds: Iterable[tuple[Call, int]]) -> None:
        some = [*adds]
        self._begun = _sums((call.start, amount) for call, amount in some)
        self._done = _sums((call.end, amount) for call, amount in some if call.end is not None)

    def invoked(self, position: int) -> int:
        """The sum of the additions that were invoked before a position."""
        places, sums = self._begun
        return sums[bisect_left(places, position)]

    def returned(self, position: int) -> int:
        """The sum of the additions that had certainly succeeded before a position."""
        places, sums = self._done
        return sums[bisect_left(places, position)]


def _sums(amounts: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    ordered = sorted(amounts)
    return [at for at, _ in ordered], [0, *accumulate(amount for _, amount in ordered)]


MODEL = Model(
    name="counter",
    claim="read returns all additions that had returned, and any of those that were invoked",
    kinds=("below-lower-bound", "above-upper-bound"),
    blind="Reads between the bounds that no additions add up to, and reads that contradict each other between the bounds.",
    functions=("add", "read"),
    findings=findings,
)
