"""Keeps the messages of a simulated run that are rows of its behaviour. Watching draws nothing and sends nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.world import World
from highwater.behaviour.rows import SentMessage
from reference.errors import ErrorCode
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    FetchReply,
    InitProducerIdReply,
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsetsReply,
    LogInfo,
    LogInfoReply,
    MetadataHeartbeatReply,
    MetadataReply,
    ProduceReply,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import Address

_KEPT: frozenset[type] = frozenset(
    {
        EpochEnd,
        EpochEndReply,
        IsrChange,
        IsrChangeReply,
        LeaderAndIsr,
        LeaderAndIsrReply,
        LogInfo,
        LogInfoReply,
        StopReplica,
        StopReplicaReply,
        UpdateMetadata,
    }
)
# There are thousands of these in a run; without an error they are only counted.
_KEPT_IF_REFUSED = (
    FetchReply,
    InitProducerIdReply,
    ListOffsetsReply,
    MetadataHeartbeatReply,
    MetadataReply,
    ProduceReply,
    UpdateMetadataReply,
)


@contextmanager
def tapped() -> Iterator[tuple[SimBackend, list[SentMessage]]]:
    """A simulator, and the messages that the next run on it sends. Not for two runs at a time."""
    messages_sent: list[SentMessage] = []

    def watch(world: World) -> None:
        recorder, scheduler = world.sim.recorder, world.sim.scheduler

        def tap(sender: Address, to: Address, message: AnyMessage) -> None:
            if message.__class__ in _KEPT or (isinstance(message, _KEPT_IF_REFUSED) and message.error is not ErrorCode.NONE):
                messages_sent.append(SentMessage(recorder.next_index, scheduler.now, sender, to, message))

        world.sim.transport.tap = tap

    yield SimBackend(watch=watch), messages_sent
