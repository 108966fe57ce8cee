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
    ends = [end for end, _, _ in done]
    for read in reads(table.calls):
        seen = set(listed(read, read.result, "the answer to a read"))
        yield from _unexpected(read, seen, writes, failed)
        shown_writes = [writes[one] for one in seen if one in writes]
        if not shown_writes:
            continue
        latest = max(shown_writes, key=lambda call: call.start)
        before = done[: bisect_left(ends, latest.start)]
        missing = next((call for _, _, call in before if call.argument not in seen), None)
        if missing is not None:
            words = (
                f"line {read.line} shows {short(latest.argument)} of line {latest.line} and not {short(missing.argument)} "
                f"of line {missing.line}, which had returned before"
            )
            yield Found("missing-predecessor", (missing.line, latest.line, read.line), words)


def _unexpected(read: Call, seen: set[Hashable], writes: dict[Hashable, Call], failed: dict[Hashable, Call]) -> Iterator[Found]:
    for one in sorted(seen - set(writes), key=shown):
        if one in failed:
            words = f"line {read.line} reads {short(one)}, whose write in line {failed[one].line} failed"
            yield Found("revived", (failed[one].line, read.line), words)
        else:
            yield Found("phantom-read", (read.line,), f"line {read.line} reads {short(one)}, which nobody wrote")


MODEL = Model(
    name="comments",
    claim="a read that shows a write shows all writes that had returned before that write was invoked",
    kinds=("missing-predecessor", "revived", "phantom-read"),
    blind="Stale reads that show no later write; reads that contradict each other.",
    functions=("write", "read"),
    findings=findings,
)
