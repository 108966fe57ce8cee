"""Crash points (fault `crash-at`): kill a broker process when it is about to perform a given effect.

A trap counts the effects of its kind that the process is about to perform while the window is open, over all its lives, and
strikes once. Effects before it in the list were performed, effects behind it are not.
"""

from collections.abc import Callable
from typing import get_args

from highwater.backends.sim.transport import kinds_named
from nemesis.faults import CrashAt
from reference.effects import AnyEffect, Send

_EFFECTS: dict[str, type] = {effect.__name__.lower(): effect for effect in get_args(AnyEffect)}


class Trap:
    """One crash point (an effect at which to kill the process) of one broker; `strike` is called to end it."""

    __slots__ = ("_kind", "_left", "_messages", "before", "strike")

    def __init__(self, fault: CrashAt, strike: Callable[[], None]) -> None:
        effect, _, message = fault.effect.partition(":")
        self._kind = _EFFECTS[effect.replace("-", "")]
        self._messages = kinds_named((message,)) if message else None
        self._left = fault.nth
        self.before = fault.before
        self.strike = strike

    def springs(self, effect: AnyEffect) -> bool:
        """Count this effect if it is of the crash point's kind; True for the `nth`, at which the process ends."""
        if effect.__class__ is not self._kind:
            return False
        if self._messages is not None and not (isinstance(effect, Send) and effect.message.__class__ in self._messages):
            return False
        self._left -= 1
        return self._left == 0
