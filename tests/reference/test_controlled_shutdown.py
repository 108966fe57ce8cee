"""Controlled shutdown (KIP-343 stopping, R-158): leaderships move before the process ends."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller import standings
from reference.coordination import paths
from reference.coordination.api import Create
from reference.errors import ErrorCode
from reference.events import ShutDown
from reference.messages import FetchReply, LeaderAndIsr, MetadataHeartbeat, MetadataHeartbeatReply, ProduceReply
from reference.replica.partition import brokers_of
from reference.types import BrokerId, BrokerState, Millis, TopicPartition
from tests.reference.lab import T0, Lab, carries
from tests.reference.moving import write
from tests.reference.v3 import crash_and_expire


def cluster_in_sync(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """b1 is the controller and has no replica, b2 leads, b3 follows."""
    lab = Lab(3, variant=VARIANTS[variant], replicas=(2, 3), min_isr=min_isr, start=False)
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([2, 3], [2])
    return lab


def test_stopping_leader_serves_until_another_broker_leads() -> None:
    """R-184, R-191: stopping brokers handle traffic, and their leaders are migrated away."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr)
    lab.handle_event(2, ShutDown())
    lab.settle()
    standing = standings.of(lab.nodes[1].state.controller, BrokerId(2))
    assert standing is not None
    assert standing.state is BrokerState.STOPPING
    assert (lab.state().leader, lab.isr()) == (3, [3])
    lab.produce(2, "x", acks=1)
    lab.is_held = lambda _: False
    lab.settle()

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]
    assert (2 in lab.nodes, lab.disks[2].clean, lab.leaders()) == (False, True, [3])


def test_stopping_follower_leaves_the_isr_and_halts() -> None:
    """R-184, B-37: the leader does not have to wait until the follower's silence is noticed."""
    lab = cluster_in_sync()
    lab.handle_event(3, ShutDown())
    lab.settle()

    assert (3 in lab.nodes, lab.isr(), lab.leaders()) == (False, [2], [2])


def test_last_isr_member_halts_after_its_shutdown_retries() -> None:
    """R-158: controlled.shutdown.max.retries attempts, controlled.shutdown.retry.backoff.ms apart.

    Then it halts, still the leader.
    """
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    lab.handle_event(2, ShutDown())
    lab.wait(14_000)
    assert (lab.leaders(), lab.isr()) == ([2], [2])
    assert lab.configs[2].controlled_shutdown_max_retries == 3
    lab.wait(1000)

    assert (2 in lab.nodes, lab.disks[2].clean) == (False, True)


def test_returning_replica_takes_over_from_a_stopping_leader() -> None:
    """R-158, R-184: the retries give another replica time to return."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    lab.handle_event(2, ShutDown())
    lab.settle()
    lab.start(3)
    lab.wait(8000)

    assert (2 in lab.nodes, lab.leaders(), lab.isr()) == (False, [3], [3])


def test_stopping_broker_is_not_elected_as_preferred_leader() -> None:
    """R-184: a leadership that moved away does not return."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr, receiver="b2")
    lab.handle_event(2, ShutDown())
    lab.settle()
    lab.nodes[1].state.controller.changes.clear()
    lab.wait(3000)

    assert lab.state().leader == 3


def test_new_partition_is_not_led_by_a_stopping_broker() -> None:
    """R-184: it would have to be migrated away at once."""
    lab = cluster_in_sync()
    lab.is_held = carries(LeaderAndIsr, receiver="b2")
    lab.handle_event(2, ShutDown())
    lab.settle()
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(2), BrokerId(3)),))))
    new = lab.nodes[1].state.controller.states[TopicPartition("u-0")]

    assert (new.leader, brokers_of(new.isr)) == (3, (3,))


def test_legacy_or_fenced_broker_shuts_down_at_once() -> None:
    """R-205: the protocol without heartbeats has no stopping state, and a fenced broker cannot ask the controller for it."""
    lab = cluster_in_sync("no-heartbeat")
    lab.handle_event(2, ShutDown())
    assert 2 not in lab.nodes
    lab = Lab(3, start=False)
    lab.configs[2] = replace(lab.configs[2], inter_broker_protocol="legacy")
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.handle_event(2, ShutDown())
    assert 2 not in lab.nodes
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeat, sender="b2")
    lab.wait(10_000)
    lab.handle_event(2, ShutDown())

    assert 2 not in lab.nodes


def test_lost_shutdown_heartbeat_is_sent_again() -> None:
    """R-191: every heartbeat names the stopping state as its target until the broker halts."""
    lab = cluster_in_sync()
    lab.handle_event(2, ShutDown())
    lab.in_flight.clear()
    lab.wait(4000)

    assert (2 in lab.nodes, lab.leaders()) == (False, [3])


def test_new_controller_learns_that_a_broker_is_stopping() -> None:
    """R-184: a controller keeps the states of brokers in memory only."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: (
        isinstance(envelope.message, MetadataHeartbeatReply)
        or (isinstance(envelope.message, LeaderAndIsr) and envelope.receiver == "b2")
    )
    lab.handle_event(2, ShutDown())
    lab.settle()
    lab.crash(1)
    lab.expire(1)
    lab.is_held = lambda _: False
    lab.wait(4000)

    assert (2 in lab.nodes, lab.leaders()) == (False, [3])


def test_controlled_shutdown_keeps_acknowledged_records() -> None:
    """R-184: the replica that takes over was in sync when it was elected."""
    lab = cluster_in_sync(min_isr=2)
    lab.produce(2, "kept")
    lab.settle()
    lab.is_held = carries(FetchReply)
    lab.handle_event(2, ShutDown())
    lab.settle()

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]
    assert lab.values(3) == ["kept"]


def test_controlled_shutdown_uses_its_configured_retries() -> None:
    """R-158: the default backoff is Kafka's."""
    lab = cluster_in_sync()
    assert lab.configs[2].controlled_shutdown_retry_backoff_ms == 5000
    lab.crash(2)
    lab.expire(2)
    lab.configs[2] = replace(lab.configs[2], controlled_shutdown_retry_backoff_ms=Millis(100), controlled_shutdown_max_retries=1)
    lab.start(2)
    lab.wait(3000)
    lab.crash(3)
    lab.expire(3)
    lab.wait(3000)
    assert (lab.leaders(), lab.isr()) == ([2], [2])
    lab.handle_event(2, ShutDown())
    lab.wait(200)

    assert 2 not in lab.nodes
    assert T0 in lab.disks[2].logs
