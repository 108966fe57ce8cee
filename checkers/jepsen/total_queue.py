"""total-queue: what goes in comes out, once the queue was drained (`jepsen.checker/total-queue`).

`enqueue v`, `dequeue`, answered by a value or nil, and `drain`, answered by all values that it took. The order does not count,
and a value may come out again: that is noted. A value whose enqueue had returned before a drain began, and that never came out,
is lost; if a dequeue or drain of unknown outcome may have it, or no drain came after it, that is undecided. Jepsen's checker
takes any history for a drained one.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator

from checkers.jepsen.found import Finding, Found, Model, Note, Object, Unchecked, listed, reads
from history.foreign.step import Call, short

_Taken = dict[Hashable, list[Call]]  # each value with the calls that it came out by


def findings(queue: Object) -> Iterator[Finding]:
    """Find the values that came out and were never put in, and those that were put in and did not come out of a drained queue."""
    put: dict[Hashable, list[Call]] = {}
    for call in queue.calls:
        if call.f == "enqueue":
            put.setdefault(call.argument, []).append(call)
    drains = reads(queue.calls, "drain")
    takes: _Taken = {}
    for call in (*reads(queue.calls, "dequeue"), *drains):
        values = listed(call, call.result, "the answer to a drain") if call.f == "drain" else (call.result,)
        for value in values:
            if value is not None:
                takes.setdefault(value, []).append(call)
    yield from _unexpected_takes(takes, put, {call.argument: call for call in queue.failed if call.f == "enqueue"})
    again = [value for value, calls in takes.items() if len(calls) > len(put.get(value, calls))]
    if again:
        yield Note(f"{len(again)} values came out more often than they were put in, which is allowed, such as {short(again[0])}")
    yield from _missing_values(queue, put, takes, max((drain.start for drain in drains), default=-1))


def _unexpected_takes(takes: _Taken, put: dict[Hashable, list[Call]], failed: dict[Hashable, Call]) -> Iterator[Found]:
    """Values that were taken and that nobody had begun to put in."""
    for value, calls in takes.items():
        begun = min((call.start for call in put.get(value, ())), default=None)
        for call in calls:
            assert call.end is not None
            if begun is not None and begun < call.end:
                continue
            if begun is None and value in failed:
                words = f"line {call.line} takes {short(value)}, whose enqueue in line {failed[value].line} failed"
                yield Found("revived", (failed[value].line, call.line), words)
            else:
                words = f"line {call.line} takes {short(value)}, which nobody had begun to put in"
                yield Found("phantom-read", (call.line,), words)


def _missing_values(queue: Object, put: dict[Hashable, list[Call]], takes: _Taken, drained: int) -> Iterator[Finding]:
    """The values that did not come out; `drained`: where the last drain that returned began."""
    open_calls = [call for call in queue.calls if call.end is None and call.f != "enqueue"]
    missing = [call for value, calls in put.items() for call in _not_taken(calls, takes.get(value, []))]
    before = [call for call in missing if call.end is not None and call.end < drained]
    late_count = len(missing) - len(before)
    if late_count:
        yield Unchecked(f"{late_count} values did not come out, and no drain began after they were put in")
    if before and (len(before) <= len(open_calls) or any(call.f == "drain" for call in open_calls)):
        yield Unchecked(f"{len(before)} values did not come out, but may have by calls of unknown outcome")
        return
    for call in before:
        yield Found("lost", (call.line,), f"{short(call.argument)} of line {call.line} was put in and never came out")


def _not_taken(calls: list[Call], takes: list[Call]) -> list[Call]:
    """Of the enqueues of one value those that returned and that no call took: as few as can be, and rather the last ones."""
    take_ends = sorted(call.end for call in takes if call.end is not None)
    remaining: list[Call] = []
    for call in sorted((call for call in calls if call.end is not None), key=lambda call: call.end or 0):
        at = bisect_right(take_ends, call.start)
        if at < len(take_ends):
            take_ends.pop(at)
        else:
            remaining.append(call)
    return remaining


MODEL = Model(
    name="total-queue",
    claim="each value that was enqueued is dequeued or drained, and nothing else is",
    kinds=("lost", "revived", "phantom-read"),
    blind="The order of values, and values that come out twice (noted).",
    functions=("enqueue", "dequeue", "drain"),
    answers=("dequeue", "drain"),
    findings=findings,
)
