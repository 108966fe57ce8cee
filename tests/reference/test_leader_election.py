"""A partition needs a new epoch for a new assignment while another write of its state is in flight."""

import pytest

from reference.controller import leader_election
from reference.controller.context import (
    NEW_EPOCH,
    AnyGoal,
    IsrRequest,
    LeaderElection,
    ListingStep,
    PreferredLeader,
    UncleanLeader,
)
from reference.effects import ZkRequest
from reference.machine import Now, Turn
from reference.messages import IsrChange, IsrProposal, PartitionState
from reference.replica.partition import brokers_of
from reference.types import NO_INCARNATION, BrokerId, Incarnation, Millis, broker_address
from tests.reference.lab import T0, Lab
from tests.reference.moving import OAR, cluster

WIDER = tuple(map(BrokerId, (*OAR, 4)))


class Desk:
    """The controller of an idle cluster, and a ZooKeeper that answers when a test calls `answer`."""

    def __init__(self) -> None:
        self.lab: Lab = cluster()
        node = self.lab.nodes[1].state
        self.controller = node.controller
        self.turn = Turn(Now(Millis(self.lab.now), Millis(self.lab.now)), node.ids, node.config, NO_INCARNATION)

    def answer(self) -> None:
        """Answer the single outstanding request to ZooKeeper."""
        (zk_request,) = [effect for effect in self.turn.effects if isinstance(effect, ZkRequest)]
        self.turn.effects.clear()
        answers, _ = self.lab.zk.submit(self.lab.sessions[1], zk_request.ops, atomic=zk_request.atomic)
        self.controller.outstanding.clear()
        leader_election.on_answer(self.turn, self.controller, T0, answers[-1:])

    def propose(self) -> None:
        """The leader proposes an ISR without b3."""
        state, leader = self.controller.states[T0], OAR[0]
        proposal = IsrProposal(T0, state.leader_epoch, state.isr[:2], state.zk_version)
        change = IsrChange(1, BrokerId(leader), state.isr[0].incarnation, (proposal,))
        self.controller.isr_requests.append(IsrRequest(broker_address(BrokerId(leader)), change, [None]))

    def widen(self) -> None:
        """Assign b4 as well, which needs a new epoch."""
        self.controller.assignments[T0] = WIDER
        leader_election.start(self.turn, self.controller, T0, NEW_EPOCH)

    def end(self) -> PartitionState:
        """Answer all requests; return the state that is sent to all replicas."""
        while T0 in self.controller.changes:
            self.answer()
        states = {channel.states[T0] for channel in self.controller.channels if channel.broker in WIDER and T0 in channel.states}
        (state,) = states  # all the same
        return state


@pytest.mark.parametrize("answered", [0, 1])
def test_assignment_change_during_an_isr_write_gets_an_epoch(answered: int) -> None:
    """The leader got no command, and added only replicas of the old assignment (corpus/seeds/widened-while-written.yaml)."""
    desk = Desk()
    before = desk.controller.states[T0]
    desk.propose()
    leader_election.start(desk.turn, desk.controller, T0)
    for _ in range(answered):
        desk.answer()
    desk.widen()

    after = desk.end()

    assert (after.leader_epoch, after.replicas) == (before.leader_epoch + 1, WIDER)


@pytest.mark.parametrize("answered", [0, 1])
def test_assignment_change_during_an_epoch_write_gets_an_epoch(answered: int) -> None:
    desk = Desk()
    before = desk.controller.states[T0]
    leader_election.start(desk.turn, desk.controller, T0, NEW_EPOCH)
    for _ in range(answered):
        desk.answer()
    desk.widen()

    after = desk.end()

    assert (after.leader_epoch, after.replicas) == (before.leader_epoch + 1 + answered, WIDER)


@pytest.mark.parametrize("order", [PreferredLeader(), UncleanLeader()])
def test_election_request_does_not_replace_a_new_assignment(order: AnyGoal) -> None:
    """The preferred leader leads already, so the election changes nothing."""
    desk = Desk()
    before = desk.controller.states[T0]
    desk.widen()
    leader_election.start(desk.turn, desk.controller, T0, order)

    after = desk.end()

    assert (after.leader_epoch, after.replicas) == (before.leader_epoch + 1, WIDER)


@pytest.mark.parametrize(
    ("step", "listed", "isr"),
    [
        (ListingStep.CHILDREN, False, (1, 2, 3)),
        (ListingStep.DATA, False, (1, 2, 3)),
        (ListingStep.IDLE, False, (1, 2)),
        (ListingStep.DATA, True, (1, 2)),
    ],
    ids=["list of names is read", "list is read", "no list is read", "was listed before"],
)
def test_election_waits_for_a_list_older_than_the_isr(step: ListingStep, listed: bool, isr: tuple[int, ...]) -> None:
    """V3 §A step 1: a broker registered and joined the ISR while the controller was cut off (seed 80387 of `--faults all`).

    A registration that was listed before is over if the list does not name it, and so is each one when no list is being read.
    """
    desk = Desk()
    controller, whole = desk.controller, desk.controller.live
    controller.live = tuple(live for live in whole if live.broker != OAR[-1])
    newest = next(live.incarnation for live in whole if live.broker == OAR[-1])
    controller.newest = newest if listed else Incarnation(newest - 1)
    controller.brokers_listing.step = step
    leader_election.start(desk.turn, controller, T0, PreferredLeader())
    for _ in range(3):
        if T0 in controller.changes:
            desk.answer()
    controller.live, controller.brokers_listing.step = whole, ListingStep.IDLE  # the answer to the list
    for _ in range(9):
        if T0 in controller.changes:
            desk.answer()

    assert T0 not in controller.changes
    assert brokers_of(controller.states[T0].isr) == isr


def test_later_election_request_replaces_the_earlier_one() -> None:
    desk = Desk()
    for goal in (PreferredLeader(), NEW_EPOCH, UncleanLeader()):
        leader_election.start(desk.turn, desk.controller, T0, goal)

    assert desk.controller.changes[T0].goals == (NEW_EPOCH, UncleanLeader())


def test_controller_clone_keeps_its_outstanding_elections() -> None:
    """The explorer clones machines by their encoding, so both unions must be told apart by their tags."""
    desk = Desk()
    desk.widen()
    original = desk.lab.nodes[1]

    clone = original.clone()

    assert clone.state.controller == original.state.controller
    assert clone.fingerprint() == original.fingerprint()
    assert [sent.pending for sent in clone.state.controller.outstanding] == [LeaderElection(T0)]
