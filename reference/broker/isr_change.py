"""ISR changes of leaders, sent to the controller (KIP-343 Initiating ISR Changes, R-192).

One request carries the changes of all partitions of one turn. The request or its answer may be lost, so the leader repeats a
change to the current controller until it knows the resulting state (`replica.isr.on_result`).
"""

from collections.abc import Iterable

from reference.broker.broker import Broker
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrChange, IsrChangeReply, IsrProposal
from reference.replica import isr
from reference.replica.partition import IsrAsked, IsrStep, Leader
from reference.types import TopicPartition, broker_address


def send_due(turn: Turn, broker: Broker) -> None:
    """Send the controller an IsrChangeRequest (R-197) with all ISR changes that became due in this event."""
    if not turn.isr_due:
        return
    due = [broker.partitions[tp] for tp in sorted(turn.isr_due) if tp in broker.partitions]
    turn.isr_due = []
    config, controller = turn.config, broker.membership.controller
    request = IsrAsked(correlation=turn.correlation()) if due else None
    proposals = []
    for partition in due:
        leader = partition.role
        if request is None or not isinstance(leader, Leader) or leader.change is None:
            continue
        leader.change.request, leader.change.step = request.correlation, IsrStep.ASKING
        request.tps = (*request.tps, partition.tp)
        proposed, topic_id = leader.change.wanted, partition.log.topic_id
        proposals.append(IsrProposal(partition.tp, partition.leader_epoch, proposed, leader.zk_version, topic_id))
        turn.arm(f"ask-isr:{partition.tp}", config.request_timeout_ms)
    if request is None or not proposals or controller is None:
        return
    broker.asked = [earlier for earlier in broker.asked if _waits(broker, earlier)] + [request]
    turn.send(broker_address(controller), IsrChange(request.correlation, config.broker, broker.incarnation, tuple(proposals)))


def _waits(broker: Broker, request: IsrAsked) -> bool:
    roles = (broker.partitions[tp].role for tp in request.tps if tp in broker.partitions)
    return any(isinstance(r, Leader) and r.change is not None and r.change.request == request.correlation for r in roles)


def on_reply(turn: Turn, broker: Broker, reply: IsrChangeReply) -> None:
    """The controller answered an IsrChangeRequest (R-198): results in the order of the request."""
    request = next((a for a in broker.asked if a.correlation == reply.correlation), None)
    if request is None:
        return
    broker.asked.remove(request)
    anything = turn.config.variant.isr_pending_clear == "on_lair"
    for place, tp in enumerate(request.tps):
        partition = broker.partitions.get(tp)
        leader = None if partition is None else partition.role
        if partition is None or not isinstance(leader, Leader):
            continue
        change = leader.change
        mine = change is not None and change.step is IsrStep.ASKING and change.request == reply.correlation
        if anything and reply.error is ErrorCode.NONE:
            isr.take_unasked(turn, partition, leader, reply.results[place])  # B-32
        elif mine and reply.error is ErrorCode.NONE:
            isr.on_result(turn, partition, leader, reply.results[place])
        elif mine:
            # not the controller; R-200: an old registration. Neither tells whether the change was applied.
            isr.ask_later(turn, partition, leader)


def ask_again(turn: Turn, broker: Broker, tps: Iterable[TopicPartition]) -> None:
    """Repeat ISR changes in flight, because their request got no result or another controller was elected."""
    for tp in tps:
        partition = broker.partitions.get(tp)
        if partition is not None and isinstance(partition.role, Leader):
            isr.ask_again(turn, partition, partition.role)
