"""Preferred replica elections (R-147)."""

import pytest

from reference.config import SAFE
from reference.controller import leader_selection
from reference.controller.leader_selection import Elect, Keep
from reference.coordination import paths
from reference.coordination.api import Create
from reference.effects import AnyEffect, ZkRequest
from reference.messages import IsrMember, PartitionState
from reference.types import BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, TopicPartition, ZkVersion
from tests.reference.admin import (
    BROKERS,
    T1,
    cluster_in_sync,
    pending_requests,
    remove_broker,
    request_partition,
    request_preferred_election,
    restart_broker,
    write,
)
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0
from tests.reference.moving import Mortal, cluster, reassign


def led_by_another() -> Interrupted:
    """b2 is the controller; b1, the preferred replica, is in the ISR again, and follows."""
    lab = cluster_in_sync()
    remove_broker(lab, 1)
    restart_broker(lab, 1)
    assert (1 in lab.followers(), lab.isr()) == (True, [1, 2, 3])
    return lab


def test_preferred_election_makes_the_preferred_replica_leader() -> None:
    """R-147: the request is deleted when it is done."""
    lab = led_by_another()
    request_preferred_election(lab)

    assert (lab.leaders(), lab.isr(), pending_requests(lab)) == ([1], [1, 2, 3], [])
    request_preferred_election(lab)  # it leads already
    assert pending_requests(lab) == []
    moved = cluster(replicas=(2, 1, 3))  # the first of AR, not the least id
    remove_broker(moved, 2)
    restart_broker(moved, 2)
    assert moved.leaders() == [1]
    request_preferred_election(moved)

    assert moved.leaders() == [2]


def test_preferred_election_skips_a_replica_that_is_down() -> None:
    lab = cluster_in_sync()
    remove_broker(lab, 1)
    before = lab.state()
    request_preferred_election(lab)

    assert (lab.state(), pending_requests(lab)) == (before, [])


def test_preferred_election_elects_nobody_but_the_first_replica() -> None:
    """R-147: b1 is down; b2 comes before b3 in the assignment, but is not the preferred replica."""
    lab = cluster_in_sync()
    remove_broker(lab, 1)
    remove_broker(lab, 2)
    restart_broker(lab, 2)
    before = lab.state()
    assert (lab.leaders(), sorted(lab.isr())) == ([3], [2, 3])
    request_preferred_election(lab)

    assert (lab.state(), pending_requests(lab)) == (before, [])


def test_preferred_election_leaves_other_partitions_alone() -> None:
    """R-147: b1 is the preferred replica of t-1 too, but only t-0 is listed."""
    lab = cluster_in_sync()
    request_partition(lab, 1, 2)
    remove_broker(lab, 1)
    restart_broker(lab, 1)
    assert (1 in lab.followers(), lab.leader(T1)) == (True, 2)
    request_preferred_election(lab)

    assert (lab.leader(), lab.leader(T1), pending_requests(lab)) == (1, 2, [])


def test_preferred_election_ends_though_a_partition_is_unknown() -> None:
    """R-147: the znode goes when the action is done, and no request of an administrator can follow before."""
    lab = led_by_another()
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0, T1))))
    assert (lab.leaders(), pending_requests(lab)) == ([1], [])
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T1,))))

    assert pending_requests(lab) == []


def test_preferred_election_skips_another_incarnation() -> None:
    """R-144: only members of the ISR, as they are recorded there, have all that is committed."""
    members = (IsrMember(BrokerId(1), Incarnation(11)), IsrMember(BrokerId(2), Incarnation(12)))
    state = PartitionState(
        tp=T0,
        leader=BrokerId(2),
        leader_incarnation=Incarnation(12),
        leader_epoch=LeaderEpoch(3),
        isr=members,
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=BROKERS,
    )
    live = {BrokerId(1): Incarnation(11), BrokerId(2): Incarnation(12)}

    assert leader_selection.prefer(SAFE, state, live) == Elect(members[0], members)
    assert leader_selection.prefer(SAFE, state, live | {BrokerId(1): Incarnation(99)}) == Keep()


@pytest.mark.parametrize("before", range(4))
def test_preferred_election_survives_a_crash_at_any_step(before: int) -> None:
    """The next controller finds the request and finishes it."""
    lab = cluster_in_sync()
    remove_broker(lab, 2)
    restart_broker(lab, 2)
    swap: dict[TopicPartition, tuple[BrokerId, ...]] = {T0: (BrokerId(2), BrokerId(1), BrokerId(3))}
    lab.nodes[1].state.controller.assignments[T0] = swap[T0]
    lab.zk.nodes[paths.topic_path("t")].data = paths.partitions_payload(swap)
    lab.requests_left = before
    request_preferred_election(lab)
    assert 1 in lab.cut_off_from_zk
    lab.requests_left = None
    remove_broker(lab, 1)

    assert lab.leaders() == [2]
    assert pending_requests(lab) == []


class Ordered(Mortal):
    """A cluster in which a preferred election of T0 is ordered right before the controller's request number `moment`."""

    requests: int = 0
    moment: int | None = None

    def _perform(self, i: int, effect: AnyEffect) -> str | None:
        if i == 1 and isinstance(effect, ZkRequest):
            if self.requests == self.moment:
                _, fired = self.zk.submit(self.admin, (Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0,))),))
                self.deliver_watches(fired)
            self.requests += 1
        return super()._perform(i, effect)


def cluster_with_order_during_move(target: tuple[int, ...], moment: int | None = None) -> Ordered:
    """Move T0 from 1,2,3, led by b1, with an order at this moment."""
    lab = cluster(kind=Ordered)
    assert isinstance(lab, Ordered)
    lab.requests, lab.moment = 0, moment
    lab.clear_record()
    reassign(lab, target)
    return lab


def test_preferred_election_costs_a_move_no_epoch() -> None:
    """R-147, R-235: b1 is the preferred replica and leads already, so no moment of the order may change the states written."""
    undisturbed = cluster_with_order_during_move((1, 4, 5))
    states = [step for step in undisturbed.steps if step.startswith("state")]
    for moment in range(undisturbed.requests):
        lab = cluster_with_order_during_move((1, 4, 5), moment)
        assert [step for step in lab.steps if step.startswith("state")] == states, moment
        assert (lab.state().leader_epoch, pending_requests(lab)) == (undisturbed.state().leader_epoch, []), moment


def test_preferred_election_is_served_beside_a_move() -> None:
    """R-147: once b4 is in the ISR and first in the assignment, no moment of the order loses it to the orders of the move."""
    undisturbed = cluster_with_order_during_move((4, 1, 5))
    served = [cluster_with_order_during_move((4, 1, 5), moment).leaders() == [4] for moment in range(undisturbed.requests)]

    assert undisturbed.leaders() == [1]
    assert (any(served), served) == (True, sorted(served))
