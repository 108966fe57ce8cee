"""The part of a history up to a return: calls that returned later are calls of unknown outcome in it."""

from collections.abc import Sequence

from history.foreign.step import UNKNOWN, Call


def cut(calls: Sequence[Call], end: int) -> list[Call]:
    """Return the part of a history up to the given return; calls that returned later become calls without an answer."""
    return [c if c.end is not None and c.end <= end else opened(c) for c in calls if c.start < end]


def opened(call: Call) -> Call:
    """Return a call as it was before it returned: without an answer."""
    return Call(
        index=call.index, line=call.line, process=call.process, f=call.f, key=call.key,
        argument=call.argument, result=UNKNOWN, start=call.start, end=None,
    )  # fmt: skip
