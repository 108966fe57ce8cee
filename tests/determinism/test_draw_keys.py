"""Every simulated draw is hashed from a key that contains these names: a name that changes changes the runs of all seeds."""

import re
from pathlib import Path
from typing import get_args

from highwater.backends.sim import zk
from highwater.backends.sim.inquirer import Observer
from highwater.backends.sim.simulation import Simulation
from highwater.plans.derive import derive
from highwater.rig.cuts import ZOOKEEPER
from reference.client import admin, client, session
from reference.effects import ZkRequest
from reference.messages import AnyMessage
from reference.timers import Timer, name_of
from reference.types import BrokerId, TopicPartition, broker_address

REFERENCE = Path(__file__).parents[2] / "reference"


def test_broker_timer_names_do_not_change() -> None:
    assert [str(timer) for timer in Timer] == [
        "fetch",
        "park",
        "isr",
        "ask-isr",
        "heartbeat",
        "fence",
        "hand-over",
        "checkpoint",
        "register",
        "strays",
        "dir-event",
        "silent",
        "controller",
        "reassign",
        "channel",
    ]
    assert name_of(Timer.CHANNEL, BrokerId(3)) == "channel:3"
    assert name_of(Timer.FETCH, TopicPartition("t-0")) == "fetch:t-0"


def test_brokers_set_only_timers_with_listed_names() -> None:
    sources = [path.read_text() for folder in ("broker", "replica") for path in sorted((REFERENCE / folder).glob("*.py"))]
    found = {name for source in sources for name in re.findall(r'(?:Set|Cancel)Timer\(f?"([a-z-]+)', source)}

    assert found <= {str(timer) for timer in Timer}


def test_client_timer_names_do_not_change() -> None:
    found = {value for module in (admin, client, session) for name, value in vars(module).items() if name.endswith("TIMER")}

    assert found == {"admin", "attempt-", "call-", "metadata", "producer-id"}


def test_message_class_names_do_not_change() -> None:
    """The delay of a message is drawn by the name of its class."""
    assert sorted(kind.__name__ for kind in get_args(AnyMessage)) == [
        "EpochEnd",
        "EpochEndReply",
        "Fetch",
        "FetchReply",
        "InitProducerId",
        "InitProducerIdReply",
        "IsrChange",
        "IsrChangeReply",
        "LeaderAndIsr",
        "LeaderAndIsrReply",
        "ListOffsets",
        "ListOffsetsReply",
        "LogInfo",
        "LogInfoReply",
        "Metadata",
        "MetadataHeartbeat",
        "MetadataHeartbeatReply",
        "MetadataReply",
        "Produce",
        "ProduceReply",
        "StopReplica",
        "StopReplicaReply",
        "UpdateMetadata",
        "UpdateMetadataReply",
    ]
    session_messages = (zk.Hello, zk.Ping, zk.Welcome, zk.Over, zk.Answer, zk.WatchEvent, ZkRequest)
    names = [kind.__name__ for kind in session_messages]
    assert names == ["Hello", "Ping", "Welcome", "Over", "Answer", "WatchEvent", "ZkRequest"]


def test_node_address_text_does_not_change() -> None:
    """A link is named by its ends, and a clock by its process."""
    laboratory = Observer(Simulation(1, derive(1).network))

    assert (broker_address(BrokerId(3)), ZOOKEEPER, zk.ADMINISTRATOR) == ("b3", "zk", "administrator")
    assert laboratory.address == "c-laboratory"
