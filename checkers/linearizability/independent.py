"""Jepsen's independent keys: where each value is `[key value]`, each key is an object of its own.

`jepsen.independent` wraps the values of all calls so and marks none of them. What gives it away is a question: it is asked as
`:read [key nil]`, and that of a register that holds pairs as `:read nil`.
"""

from collections.abc import Hashable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Call, shown

_QUESTIONS = frozenset({"read", "dequeue", "acquire", "release"})  # they are asked without a value


def by_key(calls: Sequence[Call]) -> Sequence[Call]:
    """The calls with their keys beside them, or as they are where these are no keys.

    HistoryError with the line where a call about one key is answered for another.
    """
    asked = any(call.f in _QUESTIONS and _is_pair(call.argument) and call.argument[1] is None for call in calls)
    if asked and all(_is_pair(value) for call in calls for value in (call.argument, call.result) if value is not UNKNOWN):
        return [_split(call) for call in calls]
    return calls


def _split(call: Call) -> Call:
    assert _is_pair(call.argument)
    key, argument = call.argument
    if not _is_pair(call.result):
        return replace(call, key=key, argument=argument)
    if call.result[0] != key:
        raise HistoryError(f"line {call.line}: {call.f} of key {shown(key)} is answered for key {shown(call.result[0])}")
    return replace(call, key=key, argument=argument, result=call.result[1])


def _is_pair(value: Hashable) -> TypeGuard[tuple[Hashable, Hashable]]:
    return type(value) is tuple and len(value) == 2
