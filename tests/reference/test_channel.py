"""The requests and metadata that wait for a broker on its control channel."""

import pytest

from reference.controller import channel
from reference.controller.context import Channel, Controller
from reference.messages import PartitionState
from reference.types import BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, TopicId, ZkVersion, topic_partition

TP = topic_partition("t", 0)
B1 = BrokerId(1)
STATE = PartitionState(TP, B1, Incarnation(1), LeaderEpoch(0), (), ControllerEpoch(1), ZkVersion(0), (B1,))


@pytest.mark.parametrize(("full", "queued"), [(True, []), (False, [TopicId(7)])])
def test_controller_queues_no_state_if_full_metadata_is_due(full: bool, queued: list[TopicId]) -> None:
    """R-304: a full update reads all states when it is sent. A state queued beside it would get old and never be sent.

    A queued state names its topic id.
    """
    waiting = Channel(broker=B1, incarnation=Incarnation(1), metadata_full=full)
    controller = Controller(channels=[waiting], states={TP: STATE}, topic_ids={"t": TopicId(7)})

    channel.tell_offline(controller, TP)
    channel.tell_metadata(controller, STATE)

    assert [state.topic_id for state in waiting.metadata.values()] == queued
    assert waiting.metadata_due
