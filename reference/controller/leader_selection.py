"""Choose leader and ISR from the state in ZooKeeper, the live registrations and the config switches (V3 §A step 3.2, R-144).

Pure functions; `leader_election` writes what they choose (docs/promise.md DUR-7).
"""

from msgspec import Struct
from msgspec.structs import replace

from reference.config import BrokerConfig, Variant, min_isr_of
from reference.controller.context import AnyGoal, IsrInTarget, LiveBroker, Move, NewEpoch
from reference.messages import IsrMember, LogEnd, PartitionState
from reference.types import NO_INCARNATION, NO_TOPIC_ID, BrokerId, Incarnation, TopicId, topic_of


class Keep(Struct, frozen=True):
    """Result of choosing a leader: leader and ISR stay."""


class Elect(Struct, frozen=True):
    """Result of choosing a leader: this broker leads, with this ISR."""

    leader: IsrMember
    isr: tuple[IsrMember, ...]


class Offline(Struct, frozen=True):
    """Result of choosing a leader: no broker may lead. `isr` is the ISR of which a member must return."""

    isr: tuple[IsrMember, ...]


class AskLogs(Struct, frozen=True):
    """Result of choosing a leader: ask these brokers for the ends of their logs first; the longest log will lead."""

    brokers: tuple[BrokerId, ...]


Choice = Keep | Elect | Offline | AskLogs
Live = dict[BrokerId, Incarnation]
Ends = list[tuple[BrokerId, LogEnd]]


def select(variant: Variant, state: PartitionState, live: Live, leaving: tuple[BrokerId, ...] = ()) -> Choice:
    """V3 §A step 3.2: a leader from ISR ∩ live (R-021, R-144), else any live replica or none (R-022, R-145), else none (R-023).

    A `leaving` broker (R-184) hands over to the rest of the ISR, and stays if there is no rest.
    """
    alive = tuple(m for m in state.isr if as_stamped(variant, m, live))
    alive = tuple(m for m in alive if m.broker not in leaving) or alive
    if alive:
        return _among(state, alive)
    eligible = {m.broker: m for m in state.elr if as_stamped(variant, m, live)}
    for broker in state.replicas:
        if broker in eligible:
            return Elect(eligible[broker], (eligible[broker],))
    if variant.unclean_election:
        candidates = [b for b in state.replicas if b in live]
        if candidates:
            # V3 §A step 3.2: one of the live brokers in AR becomes leader and ISR (potential data loss)
            member = IsrMember(candidates[0], live[candidates[0]])
            return Elect(member, (member,))
    elif variant.recovery_election and state.isr and all(m.broker in live for m in counted_on(state)):
        return AskLogs(tuple(m.broker for m in counted_on(state)))
    isr = () if variant.empty_isr else state.isr  # KAFKA-708: keep the ISR to wait for
    return Keep() if state.leader is None and isr == state.isr else Offline(isr)


def as_registered(state: PartitionState, live: tuple[LiveBroker, ...]) -> PartitionState:
    """The state with the present registration of each live ISR member whose own is not known (R-316).

    A leader wrote it that was told of the member in a layout without registrations.
    """
    if all(member.incarnation != NO_INCARNATION for member in state.isr):
        return state
    present = {IsrMember(broker.broker, NO_INCARNATION): IsrMember(broker.broker, broker.incarnation) for broker in live}
    return replace(state, isr=tuple(present.get(member, member) for member in state.isr))


def as_stamped(variant: Variant, member: IsrMember, live: Live) -> bool:
    """Whether a member is live under the registration in the ISR: under a later one it may have lost records (KIP-380)."""
    if not variant.broker_incarnation or member.incarnation == NO_INCARNATION:
        return member.broker in live
    return live.get(member.broker) == member.incarnation


def _among(state: PartitionState, alive: tuple[IsrMember, ...]) -> Choice:
    """Select the present leader if it is alive, else the first of the live replicas in the order of the assignment."""
    ids = {m.broker: m for m in alive}
    if state.leader is not None and state.leader in ids:
        member = ids[state.leader]
        return Keep() if alive == state.isr else Elect(member, alive)
    order = [b for b in state.replicas if b in ids] or sorted(ids)
    return Elect(ids[order[0]], alive)


def prefer(variant: Variant, state: PartitionState, live: Live) -> Choice:
    """R-147: the first assigned replica leads if it is live and in the ISR as stamped; else nothing changes."""
    first = next((m for m in state.isr if m.broker == state.replicas[0] and as_stamped(variant, m, live)), None)
    return Keep() if first is None or state.leader == first.broker else Elect(first, state.isr)


def stay(state: PartitionState) -> Choice:
    """Result of choosing: the same leader and ISR in a new epoch; without a leader no new epoch is needed."""
    leader = next((m for m in state.isr if m.broker == state.leader), None)
    return Keep() if leader is None else Elect(leader, state.isr)


def first_leader(replicas: tuple[BrokerId, ...], live: Live) -> Elect | None:
    """V3 §B init_leaders step 1.1: a live broker of AR leads, all live brokers of AR are the ISR."""
    isr = tuple(sorted(IsrMember(b, live[b]) for b in replicas if b in live))
    if not isr:
        return None
    leader = next(b for b in replicas if b in live)
    return Elect(IsrMember(leader, live[leader]), isr)


def counted_on(state: PartitionState) -> tuple[IsrMember, ...]:
    """The replicas that count: ISR and ELR together hold all committed records (docs/promise.md §1)."""
    return state.isr + state.elr


def longest(variant: Variant, state: PartitionState, live: Live, ends: Ends) -> Elect | None:
    """The replica that counts and has the greatest (last epoch, log end offset), alone in its ISR. None if no log is left.

    A log that was created after its replica was stamped does not count: a directory came back empty meanwhile, so the replica may
    follow but never lead by this log (docs/promise.md DUR-6).
    """
    stamps = {m.broker: m.incarnation for m in counted_on(state)}
    whole = [(b, end) for b, end in ends if b in stamps]
    if variant.log_birth:
        whole = [(b, end) for b, end in whole if stamps[b] == NO_INCARNATION or end.born <= stamps[b]]
    return _greatest(live, whole)


def all_answered(state: PartitionState, ends: Ends) -> bool:
    """Whether each replica that counts has said where its log ends: then the longest of them lacks nothing."""
    return {m.broker for m in counted_on(state)} <= {b for b, _ in ends}


def ordered(variant: Variant, state: PartitionState, live: Live, ends: Ends, topic: TopicId) -> Elect | None:
    """The leader that an operator orders where no clean one can be had (docs/promise.md DUR-7): the longest log of any replica.

    For a replica outside ISR and ELR no stamp says with which log it held the committed records. A log in a directory that is
    older than the topic was never emptied while it could hold records; any other log may have been, and DUR-6 has no exception.
    """
    stamps = {m.broker: m.incarnation for m in counted_on(state)}
    any_log = topic == NO_TOPIC_ID or not variant.log_birth
    whole = [(b, end) for b, end in ends if any_log or end.born < topic or end.born <= stamps.get(b, NO_INCARNATION)]
    return _greatest(live, whole)


def _greatest(live: Live, ends: Ends) -> Elect | None:
    """Select the log with the greatest (last epoch, log end offset); among equals the broker with the least id."""
    ranks = [(end.last_epoch, end.leo, -broker) for broker, end in ends if broker in live]
    if not ranks:
        return None
    winner = BrokerId(-max(ranks)[2])
    return Elect(IsrMember(winner, live[winner]), (IsrMember(winner, live[winner]),))


# --- a partition that is moved (V3 §F, KIP-236) ------------------------------------------------------------------------------
# `state.replicas` is AR as the controller has it in memory: RAR, or OAR where the reassignment is rolled back.


def members_wanted(config: BrokerConfig, state: PartitionState, move: Move | None) -> int:
    """How many of the target replicas must be in the ISR before the others may leave it.

    Forward: all of them (C-11: RAR is in the ISR). A rollback must be fast (R-244): min.insync.replicas, which hold all committed
    records if one fails. With `cancel_requires_isr` off, the letter of KIP-236: none (U-21). R-254: replicas that are dropped at
    once go whatever the ISR is, unless they are in ISR or ELR themselves.
    """
    if move is not None and move.back:
        enough = min(max(min_isr_of(config, topic_of(state.tp)), 1), len(state.replicas))
        return enough if config.variant.cancel_requires_isr else 0
    if move is not None and move.dropping:
        counted = [m for m in (*state.isr, *state.elr) if m.broker in move.dropped]
        return min(max(min_isr_of(config, topic_of(state.tp)), 1), len(state.replicas)) if counted else 1
    return len(state.replicas)


def newcomers(move: Move | None, state: PartitionState) -> tuple[BrokerId, ...]:
    """R-308: brokers that are to create a replica that they never had, and are not in the ISR yet.

    The next controller tells them again: else a broker with a directory that cannot be read would refuse to create the replica in
    another directory, and the move would never end (KAFKA-10314).
    """
    counted = {member.broker for member in (*state.isr, *state.elr)}
    return () if move is None else tuple(b for b in move.new if b not in counted)


def held_by(variant: Variant, state: PartitionState, replicas: tuple[BrokerId, ...], live: Live) -> tuple[IsrMember, ...]:
    """The ISR members that are among `replicas` and live under the registration recorded in the ISR."""
    return tuple(m for m in state.isr if m.broker in replicas and as_stamped(variant, m, live))


def lead_from_target(variant: Variant, state: PartitionState, live: Live, enough: int) -> Choice:
    """KIP-236 step 2 (R-235): elect one of the target replicas; if one leads already, it gets a new epoch."""
    holders = {m.broker: m for m in held_by(variant, state, state.replicas, live)}
    if len(holders) < enough:
        return Keep()
    if state.leader in holders:
        return Elect(holders[state.leader], state.isr)
    leader = next((holders[b] for b in state.replicas if b in holders), None)
    if leader is not None:
        return Elect(leader, state.isr)
    # B-60: "elect a new leader from OAR" has no condition on the ISR there
    alive = next((IsrMember(b, live[b]) for b in state.replicas if b in live), None)
    return Keep() if alive is None or enough > 0 else Elect(alive, (alive,))


def removes_its_leader(variant: Variant, move: Move | None) -> bool:
    """B-70, KAFKA-14808: whether a leader whose replica is given up is removed from the ISR, and nobody elected in its place."""
    return variant.reassign_given_up == "removed" and move is not None and move.back


def is_left_unled(variant: Variant, state: PartitionState, goals: tuple[AnyGoal, ...]) -> bool:
    """KAFKA-14808: whether a step of a move leaves a partition without a leader as it is. Another round elects."""
    kept = variant.reassign_given_up == "removed" and state.leader is None and bool(goals)
    return kept and all(isinstance(goal, NewEpoch | IsrInTarget) for goal in goals)


def shrink_to_target(
    variant: Variant, state: PartitionState, live: Live, enough: int, *, removes_its_leader: bool = False
) -> Choice:
    """R-236, V3 §F step 3.2.2: the ISR keeps only the live members that stay assigned, and one of them leads.

    Fewer than `enough` of them change nothing.
    """
    holders = held_by(variant, state, state.replicas, live)
    if not holders or len(holders) < enough or holders == state.isr:
        return Keep()
    candidates = {m.broker: m for m in holders}
    if removes_its_leader and state.leader not in candidates:
        return Offline(holders)
    # V3 §F does not mention a leader outside of the assigned replicas; a leader must be in its ISR.
    leader = next(b for b in (state.leader, *state.replicas) if b in candidates)
    return Elect(candidates[leader], holders)
