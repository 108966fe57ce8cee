"""The type of an anomaly, or a finding that Kafka allows, in a history of sends and polls."""

from collections.abc import Hashable
from typing import NamedTuple

from checkers.linearizability.judge import Link


class Found(NamedTuple):
    """An anomaly or an allowed finding: `kind` is Jepsen's name, `lines` the lines of the fewest operations that show it."""

    kind: str
    key: Hashable
    lines: tuple[int, ...]
    words: str
    allowed: str = ""  # why it breaks no promise and is only noted; "" for an anomaly
    links: tuple[Link, ...] = ()  # of a cycle
