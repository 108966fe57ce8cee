"""A machine whose turns are watched: the rules that a turn breaks are noted before its effects (`monitors`)."""

from collections.abc import Sequence
from typing import Protocol

from monitors.watch import watch_of
from reference.config import BrokerConfig
from reference.effects import AnyEffect
from reference.events import AnyEvent
from reference.machine import Now


class Handles(Protocol):
    """A protocol machine."""

    def handle(self, event: AnyEvent, *, now: Now) -> Sequence[AnyEffect]:
        """Handle one event; return the effects to perform, in order."""


class Watched:
    """A protocol machine that is watched over one life of its process."""

    def __init__(self, machine: Handles, config: BrokerConfig) -> None:
        self._machine = machine
        self._watch = watch_of(config)

    def handle(self, event: AnyEvent, *, now: Now) -> Sequence[AnyEffect]:
        """Let the machine handle one event; return the notes of broken rules and its effects."""
        effects = self._machine.handle(event, now=now)
        broken = self._watch.turn(event, effects)
        return [*broken, *effects] if broken else effects
