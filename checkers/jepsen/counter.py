"""counter: a read shows at least the additions that had returned, and at most those that were invoked (`jepsen.checker/counter`).

`add n` (n >= 0) and `read`, answered by a number. The counter begins at `--initial`, or at 0. The lower bound of a read is the
sum of the additions that had succeeded when it was invoked, the upper bound the sum of those invoked before it returned, without
those that certainly failed.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from checkers.jepsen.found import Finding, Found, Model, Object, reads, whole
from history.errors import HistoryError


def findings(counter: Object) -> Iterator[Finding]:
    """Find the reads of a counter that are below or above their bounds."""
    adds = [(call, whole(call, call.argument, "an addition")) for call in counter.calls if call.f == "add"]
    for call, amount in adds:
        if amount < 0:
            raise HistoryError(f"line {call.line}: an addition must be at least 0, not {amount}")
    done = _Sums((call.end, amount) for call, amount in adds if call.end is not None)
    begun = _Sums((call.start, amount) for call, amount in adds)
    first = counter.initial if isinstance(counter.initial, int) else 0
    for call in reads(counter.calls):
        assert call.end is not None
        value = whole(call, call.result, "the answer to a read")
        lower, upper = first + done.before(call.start), first + begun.before(call.end)
        if not lower <= value <= upper:
            kind, bound = ("below-lower-bound", lower) if value < lower else ("above-upper-bound", upper)
            words = f"line {call.line} reads {value}; the additions allow {lower} to {upper}"
            assert bound != value
            yield Found(kind, (call.line,), words)


class _Sums:
    """The sum of the amounts before each position of a history."""

    def __init__(self, amounts: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(amounts)
        self._at = [at for at, _ in ordered]
        self._sums = [0, *accumulate(amount for _, amount in ordered)]

    def before(self, position: int) -> int:
        return self._sums[bisect_left(self._at, position)]


MODEL = Model(
    name="counter",
    claim="read returns at least all additions that had returned, at most all that were invoked",
    kinds=("below-lower-bound", "above-upper-bound"),
    blind="Reads between the bounds that no additions add up to, and reads that contradict each other between the bounds.",
    functions=("add", "read"),
    findings=findings,
)
