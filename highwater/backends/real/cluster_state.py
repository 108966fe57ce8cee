"""The state of the cluster as ZooKeeper and the brokers' metadata show it to any client, at the end of a run."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from highwater.rig.end_state import record_metadata, record_zookeeper
from history.recorder import Recorder
from reference.coordination.api import Data
from reference.messages import PartitionState
from reference.types import Address

LOOKS_MAX = 20
BETWEEN_LOOKS_S = 0.5


class EndState(Struct, frozen=True):
    """The final state of the cluster: topic and state znodes, and the metadata that each broker serves."""

    topics: tuple[tuple[str, Data], ...]
    states: dict[str, Data]
    told: dict[Address, tuple[PartitionState, ...]]

    def record(self, recorder: Recorder) -> None:
        """Record the final state of the cluster as history rows, which `checkers.convergence` compares."""
        record_zookeeper(recorder, self.topics, self.states)
        for node, states in self.told.items():
            record_metadata(recorder, node, states)


async def at_rest(see: Callable[[], Awaitable[EndState]]) -> tuple[EndState, ...]:
    """Read the cluster's state until two consecutive readings are equal, and return the last.

    A reading takes time, so one alone may mix two states. After LOOKS_MAX readings the last two, which differ, are returned: the
    final state of the cluster is then not known.
    """
    before = await see()
    for _ in range(LOOKS_MAX - 1):
        await asyncio.sleep(BETWEEN_LOOKS_S)
        after = await see()
        if after == before:
            return (after,)
        earlier, before = before, after
    return (earlier, before)
