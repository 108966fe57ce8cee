"""The calls on one object, as the rules of `verifier.answers` look at them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from history.foreign.step import Call, Pairs


class Asked(NamedTuple):
    """The calls on one object, those that may have happened and those that failed, and how the model was asked for."""

    calls: Sequence[Call]
    failed: Sequence[Call]
    initial: Any
    strict: bool

    def done(self, *functions: str) -> list[Call]:
        """The calls of these functions that certainly returned, in order of invocation."""
        return [call for call in self.calls if call.f in functions and call.end is not None]

    def values(self, *functions: str) -> set[Any]:
        """What the calls of these functions put in, if they happened."""
        return {call.argument for call in self.calls if call.f in functions}


def is_done(call: Call, *functions: str) -> bool:
    """Whether a call is of one of these functions and certainly returned."""
    return call.f in functions and call.end is not None


def answer(read: Call, *functions: str) -> tuple[Any, ...]:
    """The values of an answer, as a list. TypeError if it is no answer, or no list or set."""
    result: Any = read.result
    if not is_done(read, *functions or ("read",)) or isinstance(result, Pairs) or not isinstance(result, tuple | frozenset):
        raise TypeError
    return tuple(result)


def row_of(call: Call, value: Any) -> dict[Any, Any]:
    """A map, of a call that certainly returned. TypeError if it is none."""
    if call.end is None or not isinstance(value, Pairs):
        raise TypeError
    return dict(value)
