"""Which replicas a move counts as online (KIP-112, R-308): by the liveness of the broker, and by its answers to LeaderAndIsr.

And how a move ends that takes a replica away which its broker cannot reach.
"""

import pytest

from reference.controller.channel import channel_of
from reference.controller.context import Controller, Move
from reference.controller.reassign.move import is_ready
from reference.coordination.api import Create
from reference.machine import Now, Turn
from reference.messages import StopReplica
from reference.types import BrokerId, BrokerState, Millis
from tests.reference.failing_dirs import break_dir, restart
from tests.reference.lab import T0, Envelope, Lab
from tests.reference.moving import (
    OAR,
    RAR,
    assigned_replicas,
    broker_ids,
    cluster,
    fetches_from,
    pending_moves,
    reassign,
    wait_until,
    write,
)
from tests.reference.v3 import crash_and_expire


def may_let_go(lab: Lab, controller: Controller) -> bool:
    """Whether the controller would let the other replicas go, if b1, b2 and b3 were the target of a move."""
    state = lab.nodes[1].state
    turn = Turn(Now(Millis(lab.now), Millis(lab.now)), state.ids, state.config, state.broker.incarnation)
    return is_ready(turn, controller, lab.state(), Move(target=broker_ids(*OAR), original=broker_ids(*OAR), back=False))


def test_move_counts_replicas_online_by_liveness_and_answer() -> None:
    """R-308: ZooKeeper still lists b3 in the ISR while its broker is gone or inactive, or has answered with a storage error."""
    lab = cluster()
    controller = lab.nodes[1].state.controller
    channel = channel_of(controller, BrokerId(3))
    (standing,) = [s for s in controller.standings if s.broker == 3]
    assert channel is not None
    assert may_let_go(lab, controller)

    channel.offline = (T0,)
    assert not may_let_go(lab, controller)
    channel.offline = ()
    standing.state = BrokerState.INACTIVE
    assert not may_let_go(lab, controller)
    standing.state = BrokerState.ACTIVE
    controller.live = tuple(b for b in controller.live if b.broker != 3)
    assert not may_let_go(lab, controller)


def moving_with_b4_behind() -> Lab:
    """A move to b4, b5 and b6, each with two directories; only b4 is still to join the ISR."""
    lab = Lab(6, replicas=OAR, min_isr=2, log_dirs=2)
    write(lab, Create("/admin", b""))
    lab.wait(2000)
    lab.is_held = fetches_from(4)
    reassign(lab)
    assert sorted(lab.isr()) == [1, 2, 3, 5, 6]
    return lab


def test_move_waits_for_a_replica_in_a_bad_directory() -> None:
    """R-308: the broker lives, and its answer to LeaderAndIsr says that the replica is offline, so it leaves the ISR."""
    lab = moving_with_b4_behind()
    (directory,) = [directory for directory in lab.disks[5].dirs if T0 in directory.logs]
    directory.bad = True
    lab.produce(1, "m2")
    lab.settle()
    assert 5 in lab.nodes
    assert sorted(lab.isr()) == [1, 2, 3, 6]
    lab.is_held = lambda _: False
    lab.wait(1500)

    assert sorted(lab.isr()) == [1, 2, 3, 4, 6]
    assert assigned_replicas(lab) == (*OAR, *RAR)


def test_move_waits_for_a_replica_on_a_dead_broker() -> None:
    """R-308: the broker has answered before without an error, and is gone now."""
    lab = moving_with_b4_behind()
    crash_and_expire(lab, 5)
    lab.is_held = lambda _: False
    lab.wait(1500)

    assert sorted(lab.isr()) == [1, 2, 3, 4, 6]
    assert assigned_replicas(lab) == (*OAR, *RAR)


def with_two_directories() -> Lab:
    """Six brokers, each with its replica of t-0 in the first of two directories; b1, b2 and b3 have one."""
    lab = Lab(6, replicas=OAR, min_isr=2, log_dirs=2)
    write(lab, Create("/admin", b""))
    lab.wait(2000)
    return lab


@pytest.mark.parametrize("known", [True, False])
def test_move_ends_though_an_old_replica_cannot_be_deleted(known: bool) -> None:
    """R-308: StopReplica fails, or its deletion is what finds the failure. The replica goes when its broker starts again."""
    lab = with_two_directories()

    def failing(envelope: Envelope) -> bool:
        if isinstance(envelope.message, StopReplica) and envelope.receiver == "b3":
            lab.disks[3].dirs[0].bad = True
        return False

    lab.is_held = failing
    if known:
        break_dir(lab, 3)
    reassign(lab)

    assert wait_until(lab, lambda: pending_moves(lab) is None)
    assert (assigned_replicas(lab), sorted(lab.isr()), 3 in lab.nodes) == (RAR, [4, 5, 6], True)
    assert T0 in lab.disks[3].dirs[0].logs
    lab.disks[3].dirs[0].bad = False
    restart(lab, 3)

    assert lab.disks[3].dirs[0].logs == {}
