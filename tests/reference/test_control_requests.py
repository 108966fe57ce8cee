"""Control requests that arrive late, twice, or at another incarnation of their receiver (KIP-380, KIP-570, R-310, R-311)."""

import pytest

from reference.client.commands import placed
from reference.config import VARIANTS
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import LeaderAndIsr, LeaderAndIsrReply, UpdateMetadata
from reference.types import Address, BrokerId, ControllerEpoch
from tests.reference.lab import T0, Lab, carries
from tests.reference.v3 import OTHER, add_topic

CONTROLLER = Address("b1")


@pytest.mark.parametrize(("variant", "deleted"), [("safe", False), ("v3", True)])
def test_partial_first_leader_and_isr_deletes_no_replica(variant: str, deleted: bool) -> None:
    """B-50, B-53, U-11, R-011, R-033: a command sent before the restart lists fewer partitions than the broker has."""
    lab = Lab(2, variant=VARIANTS[variant])
    broker = lab.nodes[2].state.broker
    partial = LeaderAndIsr(9, BrokerId(1), ControllerEpoch(broker.controller_epoch), broker.incarnation, init=True, states=())
    lab.handle_event(2, Received(CONTROLLER, partial))

    assert (T0 not in broker.partitions) == deleted


@pytest.mark.parametrize(("variant", "is_reported"), [("safe", True), ("broker-epoch-newer-rejected", False)])
def test_leader_and_isr_refused_before_registration_is_resent(variant: str, is_reported: bool) -> None:
    """B-51, KAFKA-9839: the controller saw the registration before the broker did. The command must not be lost."""
    lab = Lab(2, variant=VARIANTS[variant])
    channel = next(c for c in lab.nodes[1].state.controller.channels if c.broker == 2)
    command = LeaderAndIsr(
        77, BrokerId(1), lab.nodes[1].state.controller.epoch, channel.incarnation, init=False, states=(lab.state(),)
    )
    channel.in_flight = command
    lab.handle_event(1, Received(Address("b2"), LeaderAndIsrReply(77, ErrorCode.STALE_BROKER_EPOCH)))
    sent_again = T0 in channel.states

    assert sent_again == is_reported


@pytest.mark.parametrize(("variant", "is_reported"), [("safe", True), ("control-requests-once", False)])
def test_lost_leader_and_isr_is_sent_again(variant: str, is_reported: bool) -> None:
    """B-54, R-044: otherwise the broker misses a transition, and the next one builds on it."""
    lab = Lab(2, variant=VARIANTS[variant], start=False)
    lab.is_held = carries(LeaderAndIsr, receiver="b2")
    for i in (1, 2):
        lab.start(i)
    lab.settle()
    lost_commands = [envelope for envelope in lab.in_flight if lab.is_held(envelope)]
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    lab.wait(2500)

    assert len(lost_commands) == 1
    assert any(i == 2 and note.kind == "became-follower" for i, note in lab.notes) == is_reported
    lab.is_held = carries(UpdateMetadata, receiver="b2")
    add_topic(lab, "other", 1, 2)
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    lab.wait(2500)

    assert (OTHER in lab.nodes[2].state.broker.metadata) == is_reported


def test_replicas_are_placed_round_robin_on_the_brokers() -> None:
    """R-132, R-003, R-151: partition i on broker i mod n, its replica j on broker (i + j) mod n, preferred first."""
    brokers = tuple(BrokerId(i) for i in (10, 1, 2))

    assert placed(brokers, partitions=4, replication_factor=2) == ((1, 2), (2, 10), (10, 1), (1, 2))
    assert all(len(set(replicas)) == 3 for replicas in placed(brokers, partitions=5, replication_factor=3))


def test_brokers_are_sorted_as_numbers() -> None:
    """R-132: as text, 10 would come before 9."""
    assert placed((BrokerId(10), BrokerId(9), BrokerId(101)), partitions=1, replication_factor=3) == ((9, 10, 101),)
