"""Rules of heartbeats, registrations and the fence (KIP-343, KIP-380)."""

from collections.abc import Iterable

from monitors.engine import Never, Rule, Within
from monitors.facts import COMMANDS, SERVED, number_of, obeyed_command
from monitors.patterns import (
    Exchange,
    Heard,
    Key,
    Memory,
    OfTimer,
    Outcome,
    Sent,
    answered,
    armed,
    asked,
    did,
    heard,
    noted,
    read,
    replied,
    sent,
)
from reference.config import BrokerConfig, sends_heartbeats
from reference.coordination import paths
from reference.coordination.api import Children, GetChildren, GetData
from reference.effects import ZkConnect
from reference.errors import ErrorCode
from reference.events import Received, ShutDown, ZkState
from reference.messages import (
    IsrChange,
    LeaderAndIsr,
    LogInfo,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    UpdateMetadata,
)
from reference.timers import Timer
from reference.types import NO_INCARNATION, BrokerState


def _fencing_refusal(event: Heard, memory: Memory) -> Iterable[Key]:
    """One empty key if the controller refuses the incarnation of a heartbeat, and the broker had not fenced itself before."""
    reply = event.message
    if (
        reply.error is ErrorCode.INVALID_INCARNATION_ID
        and reply.correlation == memory.of("heartbeat")
        and not memory.of("fenced")
    ):
        yield ()


def _late_reply(event: Heard, memory: Memory) -> Iterable[Key]:
    """One empty key for an answer to another heartbeat than the last."""
    if event.message.correlation != memory.of("heartbeat"):
        yield ()


def _requests_while_fenced(event: Heard, memory: Memory) -> Iterable[Key]:
    """(sender, correlation) of a request that comes while the broker is fenced."""
    return [(event.source, event.message.correlation)] if memory.of("fenced") else ()


def _served_requests(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(client, correlation) of an answer other than BROKER_NOT_AVAILABLE."""
    is_served = exchange.reply.error is not ErrorCode.BROKER_NOT_AVAILABLE
    return [(exchange.peer, exchange.reply.correlation)] if is_served else ()


def _reply_that_counts(event: Heard, memory: Memory) -> Iterable[Key]:
    """One empty key for an answer without error to the last heartbeat."""
    reply = event.message
    if reply.error is ErrorCode.NONE and reply.correlation == memory.of("heartbeat"):
        yield ()


def _other_incarnation(send: Sent, memory: Memory) -> Iterable[Key]:
    """The incarnation of a heartbeat that is not the broker's own."""
    if send.message.incarnation != memory.of("registration"):
        yield (send.message.incarnation,)


def _unwanted_state(send: Sent, memory: Memory) -> Iterable[Key]:
    """The state that a heartbeat asks for and the one that it must, if they differ."""
    wanted = BrokerState.STOPPING if memory.of("shutting-down") else BrokerState.ACTIVE
    if send.message.target_state is not wanted:
        yield send.message.target_state.name, wanted.name


def _commands_to_another(event: Heard, memory: Memory) -> Iterable[Key]:
    # a command in an older layout names no registration
    """(sender, correlation) of a command to another registration of this broker."""
    if event.message.broker_incarnation not in (memory.of("registration"), NO_INCARNATION):
        yield event.source, event.message.correlation


def _state_not_granted(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(broker, state given, state owed): the state asked for, and STOPPING until the registration ends (R-191, B-49)."""
    request, reply = exchange.request, exchange.reply
    standing = memory.of("standing", request.broker)
    if reply.error is not ErrorCode.NONE or standing is None:
        return
    stops = BrokerState.STOPPING in (request.target_state, reply.current_state) or standing == ("stopping", request.incarnation)
    granted = BrokerState.STOPPING if stops else request.target_state
    if reply.current_state is not granted or standing[0] != granted.name.lower():
        yield exchange.peer, reply.current_state.name.lower(), granted.name.lower()


def _early_fence_timers(item: OfTimer, memory: Memory) -> Iterable[Key]:
    """The shortest length of a fence timer, in ms, if it is below the configured timeout."""
    if item.timer.lo_ms < memory.config.broker_heartbeat_timeout_ms:
        yield (item.timer.lo_ms,)


def _fence_timed_by_refusal(item: OfTimer, memory: Memory) -> Iterable[Key]:
    """One empty key where the fence is timed in the turn of an answer that refuses a heartbeat."""
    reply = memory.event.message if isinstance(memory.event, Received) else None
    if isinstance(reply, MetadataHeartbeatReply) and reply.error is not ErrorCode.NONE:
        yield ()


def _refused_though_latest(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(broker, incarnation) of a refused heartbeat, if no later incarnation is listed or was accepted."""
    request = exchange.request
    known = max(memory.of("listed", str(request.broker), -1), memory.of("accepted", request.broker, -1))
    if exchange.reply.error is ErrorCode.INVALID_INCARNATION_ID and request.incarnation > known:
        yield exchange.peer, request.incarnation


def _topics_to_read(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """The paths of the topics that a broker is told of that learns its own replicas; a controller sets a watch."""
    is_asked = outcome.op.path == paths.TOPICS and not outcome.op.watch and outcome.last
    if is_asked and isinstance(outcome.answer, Children):
        for topic in outcome.answer.names:
            yield (paths.topic_path(topic),)


def _proposals_undecided(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """Partitions whose proposal has no result, for the request as a whole was refused."""
    if exchange.reply.error is not ErrorCode.NONE:
        for change in exchange.request.changes:
            if memory.of("proposed", change.tp) == exchange.request.correlation:
                yield (change.tp,)


def _partitions_led(event: ShutDown, memory: Memory) -> Iterable[Key]:
    """The partitions that this broker leads."""
    for tp, leader in memory.facts["role"].items():
        if leader == "":
            yield (tp,)


def _late_fence_timers(item: OfTimer, memory: Memory) -> Iterable[Key]:
    """The longest length of a fence timer, in ms, if it is above the configured timeout."""
    if item.timer.hi_ms > memory.config.broker_heartbeat_timeout_ms:
        yield (item.timer.hi_ms,)


def _speaks_kip_343(config: BrokerConfig) -> bool:
    """Whether the inter-broker protocol has the requests of KIP-343; the rule does not ask the code that it judges."""
    spoken = config.inter_broker_protocol if config.variant.protocol_by_setting else config.release
    return spoken.startswith("kip343")


def _heartbeats_too_early(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver of a heartbeat that the inter-broker protocol of the sender does not have."""
    if not (memory.config.variant.heartbeat and _speaks_kip_343(memory.config)):
        yield (send.to,)


def _proposals_too_early(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver of a proposal that the inter-broker protocol of the sender does not have."""
    if not (memory.config.variant.isr_change_via == "controller" and _speaks_kip_343(memory.config)):
        yield (send.to,)


MEMBERSHIP: tuple[Rule, ...] = (
    Never(
        name="fence-too-late",
        clause="R-185, R-204",
        says="the broker fences itself after {0} ms without an answer, more than broker.heartbeat.timeout.ms",
        what=armed(Timer.FENCE, keys=_late_fence_timers),
    ),
    Within(
        name="session-not-renewed",
        clause="R-002, R-071",
        says="the session expired, and the broker did not begin another one",
        after=heard(ZkState, keys=lambda event, _: [()] if event.state == "expired" else []),
        then=did(ZkConnect, keys=lambda effect, _: [()]),
    ),
    Never(
        name="fence-postponed-by-refusal",
        clause="R-185",
        says="an answer that refused a heartbeat set the timer of the fence again",
        what=armed(Timer.FENCE, keys=_fence_timed_by_refusal),
    ),
    Never(
        name="fence-too-early",
        clause="R-188",
        says="the broker fences itself after {0} ms without an answer, less than broker.heartbeat.timeout.ms",
        what=armed(Timer.FENCE, keys=_early_fence_timers),
    ),
    Within(
        name="command-not-answered",
        clause="R-013, R-186",
        says="a command of {0} was not answered in its turn",
        after=heard(LeaderAndIsr, LogInfo, UpdateMetadata, keys=lambda event, _: [(event.source, event.message.correlation)]),
        then=replied(LeaderAndIsr, LogInfo, UpdateMetadata, keys=lambda x, _: [(x.peer, x.reply.correlation)]),
    ),
    Never(
        name="newer-registration-refused",
        clause="R-190",
        says="the heartbeat of {0} under registration {1} was refused, and no later one is known",
        holds=lambda config: config.variant.broker_incarnation,
        what=replied(MetadataHeartbeat, keys=_refused_though_latest),
    ),
    Never(
        name="another-state-wanted",
        clause="R-189",
        says="a heartbeat asks for the state {0}, and the broker would like {1}",
        what=sent(MetadataHeartbeat, keys=_unwanted_state),
    ),
    Within(
        name="topic-not-read",
        clause="R-045, R-066",
        says="a broker that learns its replicas did not read {0}",
        after=read(GetChildren, keys=_topics_to_read),
        then=asked(GetData, keys=lambda op, _: [(op.path,)]),
    ),
    Within(
        name="proposal-forgotten",
        clause="R-199, R-200",
        says="the ISR proposed for {0} got no result, and the leader does not ask again",
        after=answered(IsrChange, keys=_proposals_undecided),
        then=armed(Timer.ASK_ISR, keys=lambda item, _: [(item.about,)]),
    ),
    Never(
        name="legacy-broker-asks",
        clause="R-205",
        says="a broker of an earlier protocol sent {0} a request that came with KIP-343",
        what=(
            *sent(MetadataHeartbeat, keys=_heartbeats_too_early),
            *sent(IsrChange, keys=_proposals_too_early),
        ),
    ),
    Within(
        name="legacy-shutdown-waits",
        clause="R-205",
        says="a broker that sends no heartbeats went on leading {0} when it was asked to end",
        holds=lambda config: not sends_heartbeats(config),
        after=heard(ShutDown, keys=_partitions_led),
        then=noted("resigned", keys=lambda note, _: [(note.tp,)]),
    ),
    Within(
        name="fence-not-postponed",
        clause="R-185",
        says="a heartbeat was answered, and the timer of the fence was not set again",
        after=heard(MetadataHeartbeatReply, keys=_reply_that_counts),
        then=armed(Timer.FENCE, keys=lambda item, _: [()]),
    ),
    Never(
        name="heartbeat-of-another-registration",
        clause="R-194, B-49",
        says="a heartbeat was sent under registration {0}, which is not the broker's",
        what=sent(MetadataHeartbeat, keys=_other_incarnation),
    ),
    Never(
        name="another-registration-obeyed",
        clause="KIP-380",
        says="a command of {0} for another registration was obeyed",
        holds=lambda config: config.variant.broker_incarnation,
        since=heard(*COMMANDS, keys=_commands_to_another),
        until=heard(*COMMANDS, keys=number_of),
        what=replied(*COMMANDS, keys=obeyed_command),
    ),
    Never(
        name="state-not-granted",
        clause="R-191",
        says="the heartbeat of {0} was answered with state {1} and not {2}",
        what=replied(MetadataHeartbeat, keys=_state_not_granted),
    ),
    Within(
        name="refusal-does-not-fence",
        clause="R-190, B-43",
        says="the controller refused the registration, and the broker did not fence itself",
        after=heard(MetadataHeartbeatReply, keys=_fencing_refusal),
        then=noted("fenced", keys=lambda n, _: [()]),
    ),
    Never(
        name="late-answer-counts",
        clause="R-185",
        says="an answer to an earlier heartbeat changed the fence",
        since=heard(MetadataHeartbeatReply, keys=_late_reply),
        in_turn=True,
        what=(
            *armed(Timer.FENCE, keys=lambda item, _: [()]),
            *noted("fenced", "unfenced", keys=lambda n, _: [()]),
        ),
    ),
    Never(
        name="served-while-fenced",
        clause="R-186",
        says="a request that {0} sent while the broker was fenced was carried out",
        since=heard(*SERVED, keys=_requests_while_fenced),
        until=heard(*SERVED, keys=number_of),
        what=replied(*SERVED, keys=_served_requests),
    ),
)
