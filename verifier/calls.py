"""Is each call one that the object has? A witness proves nothing about a history of another object, whatever it shows.

Without this, an object that cannot take a call at all would be one whose calls no order explains.
"""

from collections.abc import Hashable, Iterable
from typing import Any

from history.foreign.step import UNKNOWN, Call, Pairs, text_of
from verifier.certificate import must

_OF_REGISTERS = ("r", "read", "w", "write")
_OF_ANSWERS = {  # models that look at answers one by one; their rules look at the values
    "set-full": ("add", "read"),
    "broadcast": ("broadcast", "read"),
    "comments": ("write", "read"),
    "bank": ("transfer", "read"),
    "counter": ("add", "read"),
    "total-queue": ("enqueue", "dequeue", "drain"),
    "monotonic": ("add", "read"),
    "sequential": ("write", "read"),
    "long-fork": ("write", "read"),
    "unique-ids": ("generate",),
    "adya-g2": ("insert",),
}


def all_are_calls(model: str, calls: Iterable[Call]) -> None:
    """Return if the object of this model has each of these calls; raise Refused if not."""
    for call in calls:
        must(_has_call(model, call.f, call.argument, call.result), f"{model} has no such call as {call.f} of line {call.line}")


def _has_call(model: str, f: str, asked: Any, result: Any) -> bool:
    is_open = result is UNKNOWN
    match model, f:
        case "cas-register", "cas":
            return type(asked) is tuple and len(asked) == 2
        case ("register" | "cas-register", "read") | ("mutex", "acquire" | "release") | ("set", "add"):
            return True
        case ("fifo-queue" | "unordered-queue", "dequeue") | ("versioned-node", "create" | "read"):
            return True
        case ("register" | "cas-register", "write") | ("fifo-queue" | "unordered-queue", "enqueue"):
            return asked is not None
        case "set", "read":
            return is_open or (isinstance(result, tuple | frozenset) and not isinstance(result, Pairs))
        case "kv", "get" | "put" | "append":
            return text_of(asked) is not None if f != "get" else is_open or text_of(result) is not None
        case "versioned-node", "set":
            return isinstance(asked, tuple) and len(asked) == 2 and isinstance(asked[1], int)
        case ("versioned-node", "delete") | ("partition-log", "read"):
            return isinstance(asked, int)
        case "partition-log", "append" | "end":
            return (f == "append" and asked is not None and result is None) or is_open or isinstance(result, int)
        case "multi-register", _:
            return are_micros(asked, _OF_REGISTERS) and (is_open or are_micros(result, _OF_REGISTERS))
    return f in _OF_ANSWERS.get(model, ())


def are_micros(value: Hashable, functions: tuple[str, ...]) -> bool:
    """Whether a value is a list of micro-operations `[f key value]` with these functions."""
    return isinstance(value, tuple) and all(type(one) is tuple and len(one) == 3 and one[0] in functions for one in value)
