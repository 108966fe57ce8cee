"""A moment of a run, the same for the simulator and the explorer: processes, ZooKeeper, and messages on their way.

The states are those of the run itself, so a moment is read (`highwater.inspect.view`) before the run goes on.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from reference.coordination.memory import Znode
from reference.machine import Now
from reference.node import NodeState


class Coming(Struct, frozen=True, kw_only=True):
    """A message on its way to a process. `when` says when it arrives, for example "in 0.412 ms"."""

    source: str
    target: str
    payload: object
    when: str


class Process(Struct, frozen=True, kw_only=True):
    """A broker. `state` is None while it is down. `logs`: LEO by partition on its disk.

    `now` is None, and no timer has ms left, where nothing has a clock.
    """

    name: str
    up: bool
    life: int
    state: NodeState | None
    timers: Mapping[str, int | None]
    logs: Mapping[str, int]
    paused: bool = False
    now: Now | None = None


class Moment(Struct, frozen=True, kw_only=True):
    """A run between two of its actions, after `rows` rows. `broken`: invariants that the explorer sees broken."""

    time_ns: int
    rows: int
    processes: Sequence[Process]
    znodes: Mapping[str, Znode]
    coming: Sequence[Coming]
    clients: Sequence[str]
    broken: Sequence[str] = ()
