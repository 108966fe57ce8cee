"""The definition of linearizability: some order of the calls, each between invocation and return, explains all answers.

Herlihy and Wing (1990). Every order that respects real time is tried; a call that never returned may be in it or not.
"""

from collections.abc import Hashable, Sequence

from history.foreign.step import UNKNOWN, Call
from proof.objects import Object


def is_linearizable(answers: Object, first: Hashable, calls: Sequence[Call]) -> bool:
    """Whether some order of the calls, each between invocation and return, explains all answers."""
    return _can_be_ordered(answers, first, tuple(calls))


def _can_be_ordered(answers: Object, state: Hashable, remaining: tuple[Call, ...]) -> bool:
    """Whether the remaining calls can follow in some order from this state."""
    if all(call.end is None for call in remaining):
        return True
    for call in remaining:
        if any(remaining_call.end is not None and remaining_call.end < call.start for remaining_call in remaining):
            continue  # that one comes first
        others = tuple(remaining_call for remaining_call in remaining if remaining_call is not call)
        for answer, after in answers(state, call.f, call.argument):
            if (call.result is UNKNOWN or call.result == answer) and _can_be_ordered(answers, after, others):
                return True
    return False


def cut(calls: Sequence[Call], end: int) -> list[Call]:
    """Return the part of a history up to the given return; calls that returned later become calls without an answer."""
    return [
        call if call.end is not None and call.end <= end else still_open(call) for call in calls if call.start < end
    ]  # fmt: skip


def still_open(call: Call) -> Call:
    """Return a call as it was before it returned: without an answer."""
    return Call(index=call.index, line=call.line, f=call.f, argument=call.argument, result=UNKNOWN, start=call.start, end=None)


def longest_prefix(answers: Object, first: Hashable, calls: Sequence[Call]) -> int | None:
    """The first return of a history up to which its calls have no order; None if the whole history has one."""
    returns = sorted(call.end for call in calls if call.end is not None)
    return next((end for end in returns if not is_linearizable(answers, first, cut(calls, end))), None)
