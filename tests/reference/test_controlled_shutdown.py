"""Controlled shutdown (KIP-343 stopping, R-158): leaderships move before the process ends."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.controller import standings
from reference.errors import ErrorCode
from reference.events import ShutDown
from reference.messages import FetchReply, LeaderAndIsr, MetadataHeartbeat, MetadataHeartbeatReply, ProduceReply
from reference.types import BrokerId, BrokerState, Millis
from tests.reference.lab import T0, Lab


def full(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """b1 is the controller and has no replica, b2 leads, b3 follows."""
    lab = Lab(3, variant=VARIANTS[variant], replicas=(2, 3), min_isr=min_isr, start=False)
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([2, 3], [2])
    return lab


def test_a_stopping_leader_serves_until_another_leads() -> None:
    """R-184, R-191: stopping brokers handle traffic, and their leaders are migrated away."""
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)
    lab.tell(2, ShutDown())
    lab.settle()
    standing = standings.of(lab.nodes[1].state.controller, BrokerId(2))
    assert standing is not None
    assert standing.state is BrokerState.STOPPING
    assert (lab.state().leader, lab.isr()) == (3, [3])
    lab.produce(2, "x", acks=1)
    lab.held = lambda _: False
    lab.settle()

    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == [ErrorCode.NONE]
    assert (2 in lab.nodes, lab.disks[2].clean, lab.leaders()) == (False, True, [3])


def test_a_stopping_follower_leaves_the_isr_and_ends() -> None:
    """R-184, B-37: the leader need not wait for its silence to be noticed."""
    lab = full()
    lab.tell(3, ShutDown())
    lab.settle()

    assert (3 in lab.nodes, lab.isr(), lab.leaders()) == (False, [2], [2])


def test_the_last_in_the_isr_keeps_its_leadership_and_its_retries() -> None:
    """R-158: controlled.shutdown.max.retries attempts, controlled.shutdown.retry.backoff.ms apart; then it ends all the same."""
    lab = full()
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    lab.tell(2, ShutDown())
    lab.wait(14_000)
    assert (lab.leaders(), lab.isr()) == ([2], [2])
    assert lab.configs[2].controlled_shutdown_max_retries == 3
    lab.wait(1000)

    assert (2 in lab.nodes, lab.disks[2].clean) == (False, True)


def test_another_that_comes_back_in_time_takes_over() -> None:
    """R-158, R-184: that is what the retries are for."""
    lab = full()
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    lab.tell(2, ShutDown())
    lab.settle()
    lab.start(3)
    lab.wait(8000)

    assert (2 in lab.nodes, lab.leaders(), lab.isr()) == (False, [3], [3])


def test_a_stopping_broker_is_not_the_preferred_one() -> None:
    """R-184: nothing that has moved away is given back."""
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr) and letter[1] == "b2"
    lab.tell(2, ShutDown())
    lab.settle()
    lab.nodes[1].state.controller.changes.clear()
    lab.wait(3000)

    assert lab.state().leader == 3


def test_who_has_nobody_to_hand_over_to_just_ends() -> None:
    """R-205: with the protocol of before there is no stopping state; neither is there one behind the fence."""
    lab = full("no-heartbeat")
    lab.tell(2, ShutDown())
    assert 2 not in lab.nodes
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], MetadataHeartbeat) and letter[0] == "b2"
    lab.wait(10_000)
    lab.tell(2, ShutDown())

    assert 2 not in lab.nodes


def test_a_lost_heartbeat_is_sent_again() -> None:
    """R-191: the wish to stop stands in every heartbeat until the end."""
    lab = full()
    lab.tell(2, ShutDown())
    lab.letters.clear()
    lab.wait(4000)

    assert (2 in lab.nodes, lab.leaders()) == (False, [3])


def test_a_new_controller_hears_that_a_broker_is_stopping() -> None:
    """R-184: states of brokers are in the memory of one reign."""
    lab = full()
    lab.held = lambda letter: (
        isinstance(letter[2], MetadataHeartbeatReply) or (isinstance(letter[2], LeaderAndIsr) and letter[1] == "b2")
    )
    lab.tell(2, ShutDown())
    lab.settle()
    lab.crash(1)
    lab.expire(1)
    lab.held = lambda _: False
    lab.wait(4000)

    assert (2 in lab.nodes, lab.leaders()) == (False, [3])


def test_what_was_acknowledged_before_is_there_after_it() -> None:
    """R-184: the replica that takes over was in sync when it was elected."""
    lab = full(min_isr=2)
    lab.produce(2, "kept")
    lab.settle()
    lab.held = lambda letter: isinstance(letter[2], FetchReply)
    lab.tell(2, ShutDown())
    lab.settle()

    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == [ErrorCode.NONE]
    assert lab.values(3) == ["kept"]


def test_settings_of_the_shutdown_are_heard() -> None:
    """R-158: the defaults are Kafka's."""
    lab = full()
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
    lab.tell(2, ShutDown())
    lab.wait(200)

    assert 2 not in lab.nodes
    assert T0 in lab.disks[2].logs
