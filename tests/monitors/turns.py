"""Turns of a broker process, written by hand."""

from collections.abc import Sequence

from monitors.engine import Rule, Watch
from monitors.facts import FACTS
from monitors.rules import RULES
from reference.config import SAFE, BrokerConfig
from reference.effects import AnyEffect, Note, Send
from reference.events import AnyEvent, Booted, Received
from reference.messages import AnyMessage
from reference.types import Address, BrokerId

CONFIG = BrokerConfig(broker=BrokerId(1), variant=SAFE, topics=(), log_dirs=2)

Turn = tuple[AnyEvent, list[AnyEffect]]


def turn_on_message(source: str, message: AnyMessage, *effects: AnyEffect) -> Turn:
    """A turn that begins with a message."""
    return Received(Address(source), message), [*effects]


def turn_with(*effects: AnyEffect) -> Turn:
    """A turn whose event no rule is about."""
    return Booted(), [*effects]


def send(to: str, message: AnyMessage) -> Send:
    return Send(Address(to), message)


def note(kind: str, **columns: object) -> Note:
    return Note(kind=kind, **columns)  # type: ignore[arg-type]


def broken(*turns: Turn, rules: Sequence[Rule] = RULES, config: BrokerConfig = CONFIG) -> list[str]:
    """The names of those of the rules that these turns break, in their order."""
    watch = Watch(config, rules, FACTS)
    return [(told.detail or "").partition(":")[0] for event, effects in turns for told in watch.turn(event, effects)]
