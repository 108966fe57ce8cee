"""The rules that a broker process is watched by."""

from monitors.engine import Watch
from monitors.facts import FACTS
from monitors.rules import RULES
from reference.config import BrokerConfig


def watch_of(config: BrokerConfig) -> Watch:
    """A watch over one life of a broker process with these settings."""
    return Watch(config, RULES, FACTS)


def no_watch(config: BrokerConfig) -> Watch:
    """A watch without rules, for a run of which it is known that no rule is broken."""
    return Watch(config, (), ())
