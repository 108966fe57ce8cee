"""Asking ZooKeeper and the brokers of a run as any client would, at its beginning and at its end."""

import asyncio
from collections.abc import Mapping

from highwater.end_state import record_metadata, record_zookeeper
from highwater.local.admin import Admin
from highwater.local.site import HostPort
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import Children, Data, GetChildren, GetData
from reference.messages import IsrMember, PartitionState
from reference.runtime.health import told_by
from reference.types import NO_INCARNATION, Address, BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion, topic_partition
from reference.wire.clients.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from reference.wire.framing import WireError


async def known_brokers(brokers: Mapping[Address, HostPort]) -> dict[Address, tuple[int, ...]]:
    """Of whom each of these brokers tells clients, sorted; of nobody where it does not answer."""
    told = await asyncio.gather(*(asyncio.to_thread(_metadata, where, ()) for where in brokers.values()))
    return {
        node: () if response is None else tuple(sorted(broker.node_id for broker in response.brokers))
        for node, response in zip(brokers, told, strict=True)
    }


async def look(admin: Admin, recorder: Recorder, brokers: Mapping[Address, HostPort]) -> None:
    """What ZooKeeper holds and what each broker tells clients. Who does not answer in time has told nothing."""
    await _zookeeper(admin, recorder)
    told = await asyncio.gather(*(asyncio.to_thread(_told, where) for where in brokers.values()))
    for node, states in zip(brokers, told, strict=True):
        record_metadata(recorder, node, states)


async def _zookeeper(admin: Admin, recorder: Recorder) -> None:
    (found,) = await admin.ask(GetChildren(paths.TOPICS))
    names = found.names if isinstance(found, Children) else ()
    answers = await admin.ask(*(GetData(paths.topic_path(topic)) for topic in names)) if names else ()
    topics = [(topic, znode) for topic, znode in zip(names, answers, strict=True) if isinstance(znode, Data)]
    wanted = [paths.state_path(tp) for topic, znode in topics for tp, _ in paths.decode_topic(topic, znode.data)]
    states = await admin.ask(*map(GetData, wanted)) if wanted else ()
    record_zookeeper(
        recorder, topics, {path: state for path, state in zip(wanted, states, strict=True) if isinstance(state, Data)}
    )


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
