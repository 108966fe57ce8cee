"""One anomaly or note in a history of sends and polls."""

from collections.abc import Hashable
from typing import NamedTuple


class Found(NamedTuple):
    """`kind` is Jepsen's name; `lines` are those of the fewest operations that show it."""

    kind: str
    key: Hashable
    lines: tuple[int, ...]
    words: str
    allowed: str = ""  # why it breaks no promise and is only noted; "" for an anomaly
