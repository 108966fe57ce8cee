"""A cluster whose leader changes its ISR through the controller, and the requests and answers of that."""

from collections.abc import Callable

from msgspec.structs import replace

from reference.broker import isr_change as asking
from reference.config import VARIANTS
from reference.controller.context import Controller
from reference.events import Received
from reference.machine import Now, Turn
from reference.messages import IsrChange, IsrChangeReply, IsrMember, IsrProposal
from reference.replica import isr
from reference.types import Address, BrokerId, LeaderEpoch, Millis, ZkVersion
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.recorded import leader_of

ELSEWHERE = Address("c9")


def cluster_in_sync(variant: str = "safe", *, min_isr: int = 1, legacy: tuple[int, ...] = ()) -> Lab:
    """b1 is the controller and has no replica; b2 leads, b3 and b4 follow; all three are in the ISR.

    The brokers in `legacy` use the protocol before KIP-343.
    """
    lab = Lab(4, variant=VARIANTS[variant], replicas=(2, 3, 4), min_isr=min_isr, start=False)
    for i in legacy:
        lab.configs[i] = replace(lab.configs[i], inter_broker_protocol="legacy")
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.isr(), lab.leaders(), controller_of(lab).step) == ([2, 3, 4], [2], "active")
    return lab


def controller_of(lab: Lab, i: int = 1) -> Controller:
    return lab.nodes[i].state.controller


def is_change(envelope: Envelope) -> bool:
    return isinstance(envelope.message, IsrChange)


def is_reply(envelope: Envelope) -> bool:
    return isinstance(envelope.message, IsrChangeReply)


def sent_to_leader_by(i: int) -> Callable[[Envelope], bool]:
    """Matches what broker i sends to the leader; while it is held, the broker cannot catch up."""
    return carries(sender=f"b{i}", receiver="b2")


def turn_of(lab: Lab, i: int) -> Turn:
    state = lab.nodes[i].state
    return Turn(Now(Millis(lab.now), Millis(lab.now)), state.ids, state.config, state.broker.incarnation)


def shrink(lab: Lab, *gone: int) -> tuple[IsrMember, ...]:
    """Have the leader propose its ISR without `gone` and send the request; return the proposed ISR."""
    leader = leader_of(lab)
    expected_members = tuple(member for member in leader.isr if member.broker not in gone)
    turn = turn_of(lab, 2)
    isr._propose(turn, lab.partition(2), leader, expected_members)
    asking.send_due(turn, lab.nodes[2].state.broker)
    for effect in turn.effects:
        lab._perform(2, effect)
    return expected_members


def request_isr_change(lab: Lab, *changes: IsrProposal) -> IsrChangeReply:
    """Send the controller an IsrChange in the name of b2 from outside of the cluster; return the answer."""
    lab.handle_event(1, Received(ELSEWHERE, IsrChange(5, BrokerId(2), lab.nodes[2].state.broker.incarnation, changes)))
    reply = lab.client_replies[-1]
    assert isinstance(reply, IsrChangeReply)
    return reply


def isr_proposal(lab: Lab, *members: int, version: int | None = None, epoch: int | None = None) -> IsrProposal:
    """A proposed ISR of these brokers with their current incarnations."""
    state = lab.state()
    isr_ = tuple(IsrMember(BrokerId(i), lab.nodes[i].state.broker.incarnation) for i in members)
    version = state.zk_version if version is None else version
    return IsrProposal(T0, LeaderEpoch(state.leader_epoch if epoch is None else epoch), isr_, ZkVersion(version))
