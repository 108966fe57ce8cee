"""The state of the cluster as ZooKeeper and the brokers' metadata show it to any client, at the start and end of a run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from highwater.backends.real.site import HostPort
from highwater.backends.real.zookeeper.admin import Admin
from highwater.rig.end_state import record_metadata, record_zookeeper
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import Children, Data, GetChildren, GetData
from reference.messages import IsrMember, PartitionState
from reference.types import NO_INCARNATION, Address, BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion, topic_partition
from server.runtime.health import told_by
from server.wire.clients.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from server.wire.framing import WireError

LOOKS_MAX = 20
BETWEEN_LOOKS_S = 0.5


async def known_brokers(brokers: Mapping[Address, HostPort]) -> dict[Address, tuple[int, ...]]:
    """The broker ids that each broker's metadata lists, sorted; empty for a broker that does not answer."""
    told = await asyncio.gather(*(asyncio.to_thread(_metadata, where, ()) for where in brokers.values()))
    return {
        node: () if response is None else tuple(sorted(broker.node_id for broker in response.brokers))
        for node, response in zip(brokers, told, strict=True)
    }


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


async def look(admin: Admin, brokers: Mapping[Address, HostPort]) -> EndState:
    """Read ZooKeeper and each broker's metadata once; a broker that does not answer in time has no partitions."""
    topics, states = await _zookeeper(admin)
    told = await asyncio.gather(*(asyncio.to_thread(_told, where) for where in brokers.values()))
    return EndState(topics, states, dict(zip(brokers, told, strict=True)))


async def _zookeeper(admin: Admin) -> tuple[tuple[tuple[str, Data], ...], dict[str, Data]]:
    (found,) = await admin.ask_until_answered(GetChildren(paths.TOPICS))
    names = found.names if isinstance(found, Children) else ()
    answers = await admin.ask_until_answered(*(GetData(paths.topic_path(topic)) for topic in names)) if names else ()
    topics = tuple((topic, znode) for topic, znode in zip(names, answers, strict=True) if isinstance(znode, Data))
    wanted = [paths.state_path(tp) for topic, znode in topics for tp, _ in paths.decode_topic(topic, znode.data)]
    states = await admin.ask_until_answered(*map(GetData, wanted)) if wanted else ()
    return topics, {path: state for path, state in zip(wanted, states, strict=True) if isinstance(state, Data)}


def _told(where: HostPort) -> tuple[PartitionState, ...]:
    response = _metadata(where, None)
    if response is None:
        return ()
    return tuple(
        PartitionState(
            topic_partition(topic.name, partition.partition_index),
            None if partition.leader_id < 0 else BrokerId(partition.leader_id),
            NO_INCARNATION,
            LeaderEpoch(partition.leader_epoch),
            tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in partition.isr_nodes),
            ControllerEpoch(0),
            ZkVersion(0),
            tuple(map(BrokerId, partition.replica_nodes)),
        )
        for topic in response.topics
        for partition in topic.partitions
    )


def _metadata(where: HostPort, topics: tuple[MetadataRequestTopic, ...] | None) -> MetadataResponse | None:
    try:
        return told_by(where, MetadataRequest(topics=topics))
    except (OSError, WireError):
        return None
