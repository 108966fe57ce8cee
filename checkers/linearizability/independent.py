"""Jepsen's independent keys: if each value is `[key value]`, each key is an object of its own.

`jepsen.independent` wraps the values of all calls in this way without marking them. Invocations of reads show it: with keys they
are `:read [key nil]`, and for a register that holds pairs `:read nil`.
"""

from collections.abc import Hashable, Sequence
from typing import TypeGuard

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Call, short

_QUESTIONS = frozenset({"read", "dequeue", "acquire", "release"})  # invoked without a value


def by_key(calls: Sequence[Call]) -> Sequence[Call]:
    """The calls with keys and values separated, or unchanged if the history does not use independent keys.

    HistoryError, with the line, if the answer to a call names another key.
    """
    has_question = any(call.f in _QUESTIONS and _is_pair(call.argument) and call.argument[1] is None for call in calls)
    if has_question and all(_is_pair(value) for call in calls for value in (call.argument, call.result) if value is not UNKNOWN):
        return [_call_on_key(call) for call in calls]
    return calls


def alone(call: Call) -> Call | None:
    """One call with its key and value separated; None if it has no key."""
    return _call_on_key(call) if _is_pair(call.argument) else None


def _call_on_key(call: Call) -> Call:
    """The call on its key alone. Raises HistoryError if the answer names another key."""
    assert _is_pair(call.argument)
    key, argument = call.argument
    if not _is_pair(call.result):
        return replace(call, key=key, argument=argument)
    if call.result[0] != key:
        raise HistoryError(f"line {call.line}: the answer to {call.f} of key {short(key)} names key {short(call.result[0])}")
    return replace(call, key=key, argument=argument, result=call.result[1])


def _is_pair(value: Hashable) -> TypeGuard[tuple[Hashable, Hashable]]:
    return type(value) is tuple and len(value) == 2
