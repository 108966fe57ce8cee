"""The end of a run on this machine: asks ZooKeeper and the brokers as any client would. The disks are read once nobody runs."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from highwater.end_state import record_metadata, record_zookeeper
from highwater.local.admin import Admin
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import Children, Data, GetChildren, GetData
from reference.messages import AnyMessage, Metadata, MetadataReply, PartitionState
from reference.runtime.transport import Transport
from reference.types import Address

ANSWER_S_MAX = 2.0


async def look(admin: Admin, recorder: Recorder, brokers: Mapping[Address, tuple[str, int]]) -> None:
    """What ZooKeeper holds and what each broker tells clients. Who does not answer in time has told nothing."""
    await _zookeeper(admin, recorder)
    told = await _told(brokers)
    for node in brokers:
        record_metadata(recorder, node, told.get(node, ()))


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


async def _told(brokers: Mapping[Address, tuple[str, int]]) -> dict[Address, tuple[PartitionState, ...]]:
    told: dict[Address, tuple[PartitionState, ...]] = {}
    complete = asyncio.Event()

    def received(source: Address, message: AnyMessage) -> None:
        if isinstance(message, MetadataReply):
            told[source] = message.states
            if len(told) == len(brokers):
                complete.set()

    transport = Transport(Address("c-laboratory"), brokers, received, lambda _: None)
    for correlation, node in enumerate(brokers):
        transport.send(node, Metadata(correlation))
    with suppress(TimeoutError):
        await asyncio.wait_for(complete.wait(), ANSWER_S_MAX)
    await transport.close()
    return told
