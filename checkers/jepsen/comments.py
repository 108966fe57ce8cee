"""comments: a write that is visible does not hide one that had returned before it began (`jepsen.cockroach.comments`).

`write id` inserts an id once, `read` answers all ids of its key. Under strict serializability, if T1 returned before T2 was
invoked, a read that shows T2 shows T1.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator

from checkers.jepsen.found import Finding, Found, Model, Object, Unchecked, listed, reads
from history.foreign.step import Call, short, shown


def findings(table: Object) -> Iterator[Finding]:
    """Find the reads that show a write and lack one that had returned before it was invoked."""
    writes: dict[Hashable, Call] = {}
    for call in table.calls:
        if call.f == "write" and call.argument in writes:
            yield Unchecked(f"{short(call.argument)} is written twice, so its writes cannot be told apart")
            return
        if call.f == "write":
            writes[call.argument] = call
    failed = {call.argument: call for call in table.failed if call.f == "write"}
    done = sorted((call.end, call.index, call) for call in writes.values() if call.end is not None)
    end_times = [end for end, _, _ in done]
    for read in reads(table.calls):
        values_read = set(listed(read, read.result, "the answer to a read"))
        yield from _unexpected_values(read, values_read, writes, failed)
        shown_writes = [writes[value_read] for value_read in values_read if value_read in writes]
        if not shown_writes:
            continue
        latest = max(shown_writes, key=lambda call: call.start)
        before = done[: bisect_left(end_times, latest.start)]
        missing = next((call for _, _, call in before if call.argument not in values_read), None)
        if missing is not None:
            words = (
                f"line {read.line} shows {short(latest.argument)} of line {latest.line} and not {short(missing.argument)} "
                f"of line {missing.line}, which had returned before"
            )
            yield Found("missing-predecessor", (missing.line, latest.line, read.line), words)


def _unexpected_values(
    read: Call, values_read: set[Hashable], writes: dict[Hashable, Call], failed: dict[Hashable, Call]
) -> Iterator[Found]:
    """Values in a read that were not written, or whose write failed."""
    for value in sorted(values_read - set(writes), key=shown):
        if value in failed:
            words = f"line {read.line} reads {short(value)}, whose write in line {failed[value].line} failed"
            yield Found("revived", (failed[value].line, read.line), words)
        else:
            yield Found("phantom-read", (read.line,), f"line {read.line} reads {short(value)}, which nobody wrote")


MODEL = Model(
    name="comments",
    claim="a read that shows a write shows all writes that had returned before that write was invoked",
    kinds=("missing-predecessor", "revived", "phantom-read"),
    blind="Stale reads that show no later write; reads that contradict each other.",
    functions=("write", "read"),
    findings=findings,
)
