"""R-081: clients are told of a leader once it has answered its command (ExternalView, V3 Discussion 6)."""

import pytest

from reference.config import VARIANTS
from reference.messages import LeaderAndIsr
from reference.types import BrokerId
from tests.reference.lab import T0, Lab, carries


def told_leader(lab: Lab, broker: int) -> BrokerId | None:
    """The leader that this broker names to clients."""
    return lab.nodes[broker].state.broker.metadata[T0].leader


def named_leader(variant: str) -> tuple[Lab, BrokerId | None]:
    """The leader has died, and another is in ZooKeeper whose command is still on its way; with the leader of before.

    b1 is controller and holds no replica.
    """
    lab = Lab(4, variant=VARIANTS[variant], replicas=(3, 2, 4))
    lab.wait(3000)
    before = lab.state().leader
    assert before is not None
    assert before != 1
    lab.is_held = carries(LeaderAndIsr)
    lab.crash(before)
    lab.expire(before)
    lab.settle()
    assert lab.state().leader not in (None, before)
    return lab, before


@pytest.mark.parametrize("variant", ["v3-external-view", "external-view"])
def test_clients_hear_of_a_leader_that_has_answered(variant: str) -> None:
    """R-081: "The controller only updates ExternalView after the broker responds positively"."""
    lab, before = named_leader(variant)
    assert told_leader(lab, 1) == before
    lab.is_held = lambda _: False
    lab.settle()

    assert told_leader(lab, 1) == lab.state().leader


@pytest.mark.parametrize("variant", ["v3", "safe"])
def test_clients_are_routed_to_a_leader_that_is_not_ready(variant: str) -> None:
    """V3's own window: "a client is routed to a broker that's the new leader, but the broker is not ready"."""
    lab, _ = named_leader(variant)

    assert told_leader(lab, 1) == lab.state().leader
