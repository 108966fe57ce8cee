"""Judge the ISR that a leader proposes (KIP-343 Initiating ISR Changes, R-201, R-202, R-203; KIP-497, KIP-841, KIP-903).

`leader_election` reads the state from ZooKeeper, judges a proposal by that state, and writes it on the version that was read. A
proposal that was made for another state is refused.
"""

from msgspec.structs import replace

from reference.config import min_isr_of
from reference.controller.context import Controller, IsrRequest, electable, leaving
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrChangeReply, IsrMember, IsrProposal, IsrResult, PartitionState
from reference.replica import eligible
from reference.types import NO_INCARNATION, NO_TOPIC_ID, NO_ZK_VERSION, TopicPartition, topic_of


def pending(controller: Controller, tp: TopicPartition) -> bool:
    """Whether the leader of this partition waits for an answer to an ISR that it proposed."""
    return any(result is None and c.tp == tp for r in controller.isr_requests for c, result in _places(r))


def _places(request: IsrRequest) -> list[tuple[IsrProposal, IsrResult | None]]:
    return list(zip(request.asked.changes, request.results, strict=True))


def choose(turn: Turn, controller: Controller, base: PartitionState) -> IsrProposal | None:
    """The first proposed ISR that is valid for the state in ZooKeeper; refuses the proposals before it."""
    for request in controller.isr_requests:
        for place, (proposal, result) in enumerate(_places(request)):
            if result is not None or proposal.tp != base.tp:
                continue
            error = judge(turn, controller, request, proposal, base)
            if error is ErrorCode.NONE:
                return proposal
            request.results[place] = IsrResult(error, _in_words(error), base)
    answer(turn, controller)
    return None


def judge(turn: Turn, controller: Controller, request: IsrRequest, proposal: IsrProposal, base: PartitionState) -> ErrorCode:
    """NONE if this leader may have the ISR that it proposes, else the error for it."""
    variant = turn.config.variant
    if base.leader != request.asked.broker:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    topic_id = controller.topic_ids.get(topic_of(base.tp), NO_TOPIC_ID)
    if variant.topic_id and proposal.topic_id not in (NO_TOPIC_ID, topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    if proposal.leader_epoch != base.leader_epoch:
        # KAFKA-14154: a leader with an epoch that this controller has not read was told it by another controller
        newer = proposal.leader_epoch > base.leader_epoch
        return ErrorCode.NOT_CONTROLLER if newer else ErrorCode.FENCED_LEADER_EPOCH
    ids = [member.broker for member in proposal.isr]
    members = {member.broker for member in base.isr}
    strangers = [b for b in ids if b not in members and b not in base.replicas and variant.isr_assigned_check]  # B-38
    if base.leader not in ids or len(set(ids)) != len(ids) or strangers:
        return ErrorCode.INVALID_REQUEST  # no ISR, one without its leader, or one with strangers
    if variant.isr_change_version and proposal.zk_version not in (base.zk_version, NO_ZK_VERSION):
        # U-13, B-31: the state has changed since; this may be a late copy of a proposal that was written (KIP-497)
        newer = proposal.zk_version > base.zk_version
        return ErrorCode.NOT_CONTROLLER if newer else ErrorCode.INVALID_UPDATE_VERSION
    return _eligibility(turn, controller, proposal, base)


def _eligibility(turn: Turn, controller: Controller, proposal: IsrProposal, base: PartitionState) -> ErrorCode:
    """A broker may join the ISR only in service and with the registration under which it caught up (B-35, B-36, B-37)."""
    variant = turn.config.variant
    live, stopping = electable(controller, proposal.tp), leaving(controller)
    present = {*base.isr, *(IsrMember(member.broker, NO_INCARNATION) for member in base.isr)}
    for member in proposal.isr:
        if member in present:
            continue
        registered = live.get(member.broker, member.incarnation)
        told = variant.isr_member_epoch and member.incarnation != NO_INCARNATION
        if told and variant.broker_incarnation and registered != member.incarnation:
            return ErrorCode.INELIGIBLE_REPLICA
        if not variant.isr_add_shutting_down and (member.broker not in live or member.broker in stopping):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _in_words(error: ErrorCode) -> str:
    return error.name.lower().replace("_", " ")


def state_with(turn: Turn, controller: Controller, proposal: IsrProposal, base: PartitionState) -> PartitionState:
    """The partition state with the proposed ISR. Leader and epoch stay."""
    config = turn.config
    # B-35, R-316: the request may name brokers without registrations; the controller takes those in the ISR, or the present ones
    live = {b.broker: b.incarnation for b in controller.live}
    old = {m.broker: m for m in base.isr}
    ignored = not config.variant.isr_member_epoch
    isr = tuple(
        old.get(m.broker, IsrMember(m.broker, live.get(m.broker, m.incarnation)))
        if ignored or m.incarnation == NO_INCARNATION
        else m
        for m in proposal.isr
    )
    min_isr = min_isr_of(config, topic_of(base.tp))
    elr = eligible.after(config.variant, isr=base.isr, elr=base.elr, wanted=isr, min_isr=min_isr)
    return replace(base, isr=isr, elr=elr, controller_epoch=controller.epoch)


def accept(turn: Turn, controller: Controller, proposal: IsrProposal, state: PartitionState) -> None:
    """R-203: the proposed ISR is in ZooKeeper. Answer the proposal; equal and later ones are judged by the new state."""
    for request in controller.isr_requests:
        for place, (other, result) in enumerate(_places(request)):
            if result is None and other == proposal:
                request.results[place] = IsrResult(ErrorCode.NONE, None, state)
                answer(turn, controller)
                return


def refuse(turn: Turn, controller: Controller, tp: TopicPartition, error: ErrorCode, state: PartitionState | None = None) -> None:
    """Refuse every ISR that was proposed for this partition."""
    for request in controller.isr_requests:
        for place, (proposal, result) in enumerate(_places(request)):
            if result is None and proposal.tp == tp:
                request.results[place] = IsrResult(error, _in_words(error), state)
    answer(turn, controller)


def answer(turn: Turn, controller: Controller) -> None:
    """Answer the leaders' IsrChange requests whose proposals all have results, in the order of the requests (R-198)."""
    for request in controller.isr_requests:
        results = tuple(result for result in request.results if result is not None)
        if len(results) == len(request.results):
            turn.send(request.source, IsrChangeReply(request.asked.correlation, ErrorCode.NONE, None, results))
    controller.isr_requests = [r for r in controller.isr_requests if None in r.results]


def disown(turn: Turn, controller: Controller) -> None:
    """R-199: refuse all waiting proposals: this broker is no longer controller and cannot say which were written."""
    for request in controller.isr_requests:
        turn.send(request.source, IsrChangeReply(request.asked.correlation, ErrorCode.NOT_CONTROLLER, "controller no more"))
    controller.isr_requests = []
