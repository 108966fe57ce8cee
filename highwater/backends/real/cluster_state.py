"""The state of the cluster as ZooKeeper and the brokers' metadata show it to any client, at the end of a run."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator

from msgspec import Struct

from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten
from highwater.rig.end_state import metadata_rows, zookeeper_rows
from highwater.rig.topics import topic_of_path
from history.recorder import EventRow
from reference.coordination import paths
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

    def rows(self) -> Iterator[EventRow]:
        """The final state of the cluster as history rows, which `checkers.liveness.convergence` compares."""
        yield from zookeeper_rows(self.topics, self.states)
        for node, states in self.told.items():
            yield from metadata_rows(node, states)


def znodes_of(commits: Iterable[AnyCommit]) -> tuple[tuple[tuple[str, Data], ...], dict[str, Data]]:
    """The topic znodes (by name) and state znodes (by path) that these commits, in order, leave."""
    remaining_znodes: dict[str, Data] = {}
    for commit in commits:
        if isinstance(commit, NodeCreated):
            remaining_znodes[commit.path] = Data(commit.data, 0, commit.zxid)
        elif isinstance(commit, NodeWritten):
            before = remaining_znodes.get(commit.path)
            remaining_znodes[commit.path] = Data(commit.data, commit.version, commit.zxid if before is None else before.czxid)
        elif isinstance(commit, NodeDeleted):
            remaining_znodes.pop(commit.path, None)
    topics = tuple((topic, data) for path, data in remaining_znodes.items() if (topic := topic_of_path(path)) is not None)
    return topics, {path: data for path, data in remaining_znodes.items() if paths.tp_of_state_path(path) is not None}


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
