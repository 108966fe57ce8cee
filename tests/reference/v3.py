"""A cluster for tests of V3: commands by hand, deaths, fetches."""

import msgspec

from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Create
from reference.events import Received
from reference.messages import Fetch, FetchReply, IsrMember, LeaderAndIsr, LeaderAndIsrReply, PartitionState
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)
from tests.reference.lab import T0, Lab, carries

OTHER = TopicPartition("other-0")
THIRD = TopicPartition("third-0")


def cluster_in_sync(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """Three brokers, all in the ISR, b1 leading."""
    lab = Lab(3, variant=VARIANTS[variant], min_isr=min_isr)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def crash_and_expire(lab: Lab, i: int) -> None:
    lab.crash(i)
    lab.expire(i)
    lab.settle()


def isr_member(i: int, incarnation: int = 10) -> IsrMember:
    return IsrMember(BrokerId(i), Incarnation(incarnation + i))


def partition_state(leader: int | None, isr: tuple[int, ...], *, epoch: int = 3) -> PartitionState:
    return PartitionState(
        tp=T0,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=NO_INCARNATION if leader is None else isr_member(leader).incarnation,
        leader_epoch=LeaderEpoch(epoch),
        isr=tuple(isr_member(i) for i in isr),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    )


def live_brokers(*ids: int) -> dict[BrokerId, Incarnation]:
    return {BrokerId(i): isr_member(i).incarnation for i in ids}


def add_topic(lab: Lab, name: str, *replicas: int) -> None:
    payload = paths.topic_payload((tuple(BrokerId(i) for i in replicas),))
    _, fired = lab.zk.submit(lab.admin, (Create(paths.topic_path(name), payload),))
    lab.deliver_watches(fired)
    lab.settle()


def send_leader_and_isr(lab: Lab, i: int, *states: PartitionState, init: bool = False) -> LeaderAndIsrReply:
    lab.in_flight.clear()
    epoch = lab.nodes[i].state.broker.controller_epoch
    incarnation = lab.nodes[i].state.broker.incarnation
    lab.handle_event(i, Received(Address("b2"), LeaderAndIsr(77, BrokerId(2), epoch, incarnation, init, states)))
    replies = [message for _, _, message in lab.in_flight if isinstance(message, LeaderAndIsrReply)]
    assert len(replies) == 1
    return replies[0]


def next_state(lab: Lab, leader: int, *, epoch_up: int = 1, tp: TopicPartition = T0) -> PartitionState:
    now = lab.state()
    incarnation = next((member.incarnation for member in now.isr if member.broker == leader), NO_INCARNATION)
    return msgspec.structs.replace(
        now,
        tp=tp,
        leader=BrokerId(leader),
        leader_incarnation=incarnation,
        leader_epoch=LeaderEpoch(now.leader_epoch + epoch_up),
        replicas=(BrokerId(1), BrokerId(2), BrokerId(3)),
    )


def hold_record_above_hw(lab: Lab, i: int) -> None:
    """Let broker `i` hold a record above its HW; from here on no message arrives by itself."""
    lab.is_held = carries(FetchReply)
    lab.produce(1, "x")
    lab.settle()
    lab.deliver(carries(FetchReply))
    lab.is_held = lambda _: True
    assert (lab.values(i)[-1], lab.partition(i).log.leo - lab.partition(i).hw) == ("x", 1)


def start_without_commands(lab: Lab, i: int) -> None:
    """Start the broker again; neither commands of the controller nor records of the leader arrive."""
    lab.is_held = carries(LeaderAndIsr, FetchReply)
    lab.start(i)
    lab.settle()


def fetch(lab: Lab, i: int, offset: int, *, replica: int | None = None, epoch: int = NO_EPOCH) -> FetchReply | None:
    lab.client_replies.clear()
    incarnation = lab.nodes[replica].state.broker.incarnation if replica else NO_INCARNATION
    asker = None if replica is None else BrokerId(replica)
    request = Fetch(5, T0, asker, incarnation, LeaderEpoch(epoch), Offset(offset), Millis(100), 10)
    lab.handle_event(i, Received(Address("c9"), request))
    return next((reply for reply in lab.client_replies if isinstance(reply, FetchReply)), None)


def controllers(lab: Lab) -> list[int]:
    return [i for i in lab.ids if i in lab.nodes and lab.nodes[i].state.controller.step == "active"]
