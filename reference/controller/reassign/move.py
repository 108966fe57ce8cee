"""The steps of one move, from widening AR to narrowing it (V3 §F, KIP-236 steps 1 to 4).

A move begins with AR := OAR + RAR in the topic znode (C-12). AR := RAR comes there only after the old replicas are deleted,
because the topic znode alone says who held a replica (B-59).

A rollback is the same with OAR for RAR, but need not wait for all of OAR; a drop (R-255) is the same with the replicas that stay.
Every step checks its precondition and goes back to the first step if it does not hold any more, so this controller or the next
can repeat any step.

    state                 event                                       next         effects                     by
    widening              the topic znode has OAR + RAR               joining      NewEpoch to all replicas    join
    widening, joining     enough of RAR is in the ISR                 leading,     AR := RAR in memory; elect  lead
                                                                      shrinking    in RAR
    leading               a replica of RAR leads                      shrinking    take the others out of the  proceed
                                                                                   ISR
    shrinking             ISR and ELR are within RAR                  stopping,    StopReplica(delete=false)   go_on
                                                                      narrowing
    stopping              all live ones have answered                 deleting     StopReplica(delete=true)    go_on
    deleting              all live ones have answered                 narrowing,   AR := RAR, or delete the    go_on
                                                                      clearing     entry
    narrowing             the topic znode has RAR                     clearing,    delete the entry            go_on
                                                                      stopping
    narrowing,            a dropped broker registers, or is heard     deleting     StopReplica(delete=true)    proceed
      clearing              again and has not answered
    leading, shrinking,   a precondition does not hold any more       widening                                 _begin_again
      stopping, deleting
"""

from msgspec.structs import replace

from reference.config import Variant
from reference.controller import channel, leader_election
from reference.controller.context import (
    NEW_EPOCH,
    Controller,
    IsrInTarget,
    LeaderInTarget,
    LiveBroker,
    Move,
    MoveStep,
    served_by,
    staying,
)
from reference.controller.leader_selection import held_by, members_wanted, newcomers, removes_its_leader
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import PartitionState, StopPartition, StopReplicaReply
from reference.replica.partition import brokers_of
from reference.types import BrokerId, TopicPartition

_ORDER: dict[str, tuple[MoveStep, ...]] = {
    "ar_last": (MoveStep.SHRINKING, MoveStep.STOPPING, MoveStep.DELETING, MoveStep.NARROWING, MoveStep.CLEARING),
    "ar_first": (MoveStep.SHRINKING, MoveStep.NARROWING, MoveStep.STOPPING, MoveStep.DELETING, MoveStep.CLEARING),
}


def go_on(variant: Variant, move: Move) -> None:
    """The step of a reassignment that follows this one."""
    order = _ORDER[variant.reassign_order]
    move.step = order[order.index(move.step) + 1]
    if move.step in (MoveStep.STOPPING, MoveStep.DELETING):
        move.told = ()


def is_ready(turn: Turn, controller: Controller, state: PartitionState, move: Move) -> bool:
    """Whether the replicas that are not in the target assignment may be removed.

    C-11, R-052: V3 §F step 3.2 waits for ISR == AR + RAR, and waits for ever if an old replica is dead. RAR in the ISR is enough.
    R-308: only replicas in service count.
    """
    if state.leader is None:
        return False
    variant = turn.config.variant
    if not (move.back or move.dropping) and variant.reassign_complete == "isr_is_all":
        return set(brokers_of(state.isr)) == set(controller.assignments[state.tp]) | set(move.target)
    holders = held_by(variant, state, move.target, staying(controller, state.tp))
    return len(holders) >= members_wanted(turn.config, replace(state, replicas=move.target), move)


def join(turn: Turn, controller: Controller, tp: TopicPartition, full: tuple[BrokerId, ...]) -> None:
    """R-051, V3 §F step 2.1, step 2.2: issue LeaderAndISR, so that new replicas start, and mark the partition as in progress.

    In a new epoch and to all replicas (Kafka 1.1): the leader must know which replicas it may add to the ISR.
    """
    move = controller.agent.moves[tp]
    move.step = MoveStep.JOINING
    controller.assignments[tp] = full
    if turn.config.variant.reassign_widens:
        leader_election.start(turn, controller, tp, NEW_EPOCH)
    elif tp in controller.states:
        channel.tell_state(controller, controller.states[tp], to=move.target)
        channel.mark_new(controller, tp, newcomers(move, controller.states[tp]))


def lead(turn: Turn, controller: Controller, tp: TopicPartition) -> None:
    """R-234: use the target assignment (for a rollback the original one) in memory. R-235: elect one of its replicas.

    C-17: the leader must not add RAR - OAR; the text of KIP-236 names OAR - RAR. V3 §F has no such step.
    """
    move = controller.agent.moves[tp]
    controller.assignments[tp] = move.target
    hands_over = turn.config.variant.reassign_widens and not removes_its_leader(turn.config.variant, move)
    move.step = MoveStep.LEADING if hands_over else MoveStep.SHRINKING
    leader_election.start(turn, controller, tp, LeaderInTarget() if move.step is MoveStep.LEADING else IsrInTarget())


def proceed(turn: Turn, controller: Controller, tp: TopicPartition, move: Move) -> None:
    """Take a partition's reassignment as far as it goes without reading ZooKeeper."""
    state = controller.states.get(tp)
    if tp not in controller.assignments or tp in controller.changes or state is None:
        return
    if move.held:  # an election that writes nothing fires no watch, which would wake the agent
        move.held = False
        controller.agent.again = True
    if move.step is MoveStep.LEADING:
        if state.leader not in move.target:
            _begin_again(controller, move)
        else:
            move.step = MoveStep.SHRINKING
            leader_election.start(turn, controller, tp, IsrInTarget())
    elif move.step is MoveStep.SHRINKING:
        if any(b not in move.target for b in brokers_of((*state.isr, *state.elr))):  # KIP-966: a member of the ELR is not deleted
            _begin_again(controller, move)
        else:
            go_on(turn.config.variant, move)
            controller.agent.again = True
    if move.step is MoveStep.STOPPING and _stop(controller, state, move):  # R-236, V3 §F step 3.2.4
        go_on(turn.config.variant, move)
    if move.step is MoveStep.DELETING and _stop(controller, state, move):
        go_on(turn.config.variant, move)
        controller.agent.again = True
    ends = move.step in (MoveStep.NARROWING, MoveStep.CLEARING) and turn.config.variant.reassign_order == "ar_last"
    if ends and not _stop(controller, state, move):  # one registered that may have read the old assignment, or is heard again
        move.step = MoveStep.DELETING


def _begin_again(controller: Controller, move: Move) -> None:
    """A precondition does not hold any more, because a broker died meanwhile."""
    move.step = MoveStep.WIDENING
    controller.agent.again = True


def _untold(controller: Controller, move: Move) -> tuple[LiveBroker, ...]:
    peers = [LiveBroker(peer.broker, peer.incarnation) for peer in controller.channels if peer.broker in move.dropped]
    return tuple(peer for peer in peers if peer not in move.told)


def _stop(controller: Controller, state: PartitionState, move: Move) -> bool:
    """Send StopReplica to the live brokers whose replicas the reassignment removes; True when all active ones have answered.

    Any answer is enough, also that the directory is offline (R-308): a broker that is down or cannot delete does so when it
    starts and finds no assignment (V3 §E step 4).

    R-183, R-244: an inactive broker counts as absent; otherwise a broker that does not reach the controller would hold up every
    rollback. Its StopReplica is repeated until it answers, also after the move. If another controller takes over meanwhile, the
    broker finds its replica itself (`broker.strays`).
    """
    for peer in _untold(controller, move):
        move.told = (*move.told, peer)
        stop = StopPartition(state.tp, state.leader_epoch, move.step is not MoveStep.STOPPING)
        channel.drop_replica(controller, stop, (peer.broker,))
    served = served_by(controller)
    dropped = [peer for peer in controller.channels if peer.broker in move.dropped and peer.broker in served]
    return not any(channel.is_stopping(peer, state.tp) for peer in dropped)


def on_stopped(controller: Controller, reply: StopReplicaReply) -> None:
    """A broker refused StopReplica because it knows a later epoch, from a write whose answer was lost: use a higher epoch."""
    for tp, error in reply.errors:
        move = controller.agent.moves.get(tp)
        if error is ErrorCode.FENCED_LEADER_EPOCH and move is not None and move.step in (MoveStep.STOPPING, MoveStep.DELETING):
            _begin_again(controller, move)
