"""Moves while a broker reaches ZooKeeper and not the controller: it becomes inactive, as good as absent (KIP-343)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.controller import standings
from reference.events import Received
from reference.messages import IsrMember, UpdateMetadata
from reference.types import BrokerId, BrokerState, ControllerEpoch, LeaderEpoch, broker_address
from tests.reference.lab import T0, Envelope, Lab
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    broker_ids,
    brokers_with_log,
    cluster,
    is_moved_to,
    pending_moves,
    reassign,
    request_rollback,
    stuck_move,
    wait_until,
    withdraw_rollback,
)

INACTIVE_MS = 6000  # controller.heartbeat.timeout.ms


def between(one: int, other: int) -> Callable[[Envelope], bool]:
    """Match the messages between two brokers, in both directions."""
    return lambda envelope: {envelope.sender, envelope.receiver} == {f"b{one}", f"b{other}"}


def end_cut(lab: Lab, *, lost: bool = True) -> None:
    """End the cut; the messages that it held back are lost, or arrive late."""
    if lost:
        lab.drop(lab.is_held)
    lab.is_held = lambda _: False
    lab.settle()


def is_inactive(lab: Lab, broker: int) -> bool:
    """Whether controller b1 takes a registered broker for inactive."""
    controller = lab.nodes[1].state.controller
    standing = standings.of(controller, BrokerId(broker))
    registered = any(live.broker == broker for live in controller.live)
    return registered and standing is not None and standing.state is BrokerState.INACTIVE


def cancelled_with_b4_cut_off() -> Mortal:
    """A rollback that drops b4, b5 and b6, while b4 reaches ZooKeeper and not the controller."""
    lab = stuck_move()
    lab.is_held = between(1, 4)
    request_rollback(lab)
    return lab


def is_rolled_back(lab: Lab) -> bool:
    """Whether AR is OAR again and no entry is pending."""
    return (assigned_replicas(lab), pending_moves(lab)) == (OAR, None)


def test_rollback_does_not_wait_for_an_inactive_broker() -> None:
    """R-183, R-244: an operator cancels because the cluster suffers; "cancelled immediately" must not mean after the repair."""
    lab = cancelled_with_b4_cut_off()
    assert not is_rolled_back(lab)
    lab.wait(INACTIVE_MS)

    assert is_inactive(lab, 4)
    assert is_rolled_back(lab)
    assert brokers_with_log(lab) == [1, 2, 3, 4]


def test_move_does_not_wait_for_an_inactive_old_replica() -> None:
    """R-183, R-244: "the slowest partition prevents other reassignments"; b3 holds an old replica and is cut off."""
    lab = cluster()
    lab.is_held = between(1, 3)
    reassign(lab)
    lab.wait(INACTIVE_MS)

    assert is_inactive(lab, 3)
    assert wait_until(lab, lambda: (assigned_replicas(lab), pending_moves(lab)) == (RAR, None), limit_ms=3000)
    assert brokers_with_log(lab) == [3, 4, 5, 6]
    end_cut(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


@pytest.mark.parametrize("lost", [True, False])
def test_returning_broker_deletes_its_dropped_replica(lost: bool) -> None:
    """R-183, R-237: the controller repeats StopReplica until the broker answers, also after the move has ended."""
    lab = cancelled_with_b4_cut_off()
    assert wait_until(lab, lambda: is_rolled_back(lab))
    withdraw_rollback(lab)
    lab.wait(3000)
    assert brokers_with_log(lab) == [1, 2, 3, 4]
    end_cut(lab, lost=lost)

    assert wait_until(lab, lambda: is_moved_to(lab, OAR), limit_ms=3000)


def test_next_controller_lets_a_returning_broker_delete() -> None:
    """R-183, R-237: no znode names the replica any more, so the broker finds it itself, by the new controller's metadata."""
    lab = cancelled_with_b4_cut_off()
    assert wait_until(lab, lambda: is_rolled_back(lab))
    withdraw_rollback(lab)
    lab.remove_dead_broker(1)

    assert wait_until(lab, lambda: brokers_with_log(lab) == [1, 2, 3], limit_ms=3000)
    assert 4 in lab.nodes


def test_broker_that_returns_into_a_new_move_holds_a_replica() -> None:
    """R-183: the late StopReplica of the rollback must not delete what the next move creates."""
    lab = cancelled_with_b4_cut_off()
    assert wait_until(lab, lambda: is_rolled_back(lab))
    withdraw_rollback(lab)
    reassign(lab, (1, 2, 4))
    end_cut(lab, lost=False)

    assert wait_until(lab, lambda: is_moved_to(lab, (1, 2, 4)))


def test_rollback_goes_on_as_soon_as_a_broker_is_inactive() -> None:
    """R-187, R-244: the end of the heartbeats is an event for the move; no timer of the agent is needed."""
    lab = cancelled_with_b4_cut_off()
    lab.timers[1].pop("reassign")
    lab.wait(INACTIVE_MS)

    assert is_rolled_back(lab)


@pytest.mark.parametrize(
    ("epoch", "isr", "suspected"),
    [
        (0, (1, 2, 3), True),
        (-1, (1, 2, 3), False),  # older than the last command to b4, and so perhaps than its assignment
        (0, (1, 2, 3, 4), False),  # b4 could still be elected
    ],
)
def test_broker_suspects_a_replica_listed_for_other_brokers(epoch: int, isr: tuple[int, ...], suspected: bool) -> None:
    """R-183: b4 asks ZooKeeper about a replica that a new controller lists for other brokers, unless it may still be needed."""
    lab = stuck_move()
    lab.cut_off_from_zk.add(4)  # ZooKeeper's answer stays out, so the question can be seen
    replica = lab.partition(4)
    broker = lab.nodes[4].state.broker
    broker.metadata.clear()  # it comes after the command that creates the replica
    state = replace(
        lab.state(),
        leader_epoch=LeaderEpoch(replica.leader_epoch + epoch),
        isr=tuple(IsrMember(member, broker.incarnation) for member in broker_ids(*isr)),
        replicas=broker_ids(*OAR),
        topic_id=replica.log.topic_id,
    )
    reign = ControllerEpoch(broker.controller_epoch + 1)
    update = UpdateMetadata(1, BrokerId(2), reign, broker.incarnation, (), (state,), full=True)
    lab.handle_event(4, Received(broker_address(BrokerId(2)), update))

    assert [suspect.tp for suspect in lab.nodes[4].state.broker.strays.suspects] == [T0] * suspected
