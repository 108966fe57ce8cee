"""The controller's reaction when brokers register or leave (V3 §A): find what changed, and elect leaders.

A registration with another czxid counts as another broker, so that the controller sees a bounce (KIP-380).
"""

from reference.controller import channel, leader_election, listings, standings
from reference.controller.context import BrokerList, Controller, ListingStep, LiveBroker, live_ids
from reference.controller.outstanding import ask
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Children, Data, GetData
from reference.machine import Turn
from reference.types import NO_INCARNATION, BrokerId, Incarnation


def on_answer(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §A step 1: get the current live brokers, from the children of /brokers/ids and then their data."""
    listing = controller.brokers_listing
    if listing.step is ListingStep.CHILDREN:
        listing.names = answers[0].names if isinstance(answers[0], Children) else ()
        if listing.names:
            listing.step = ListingStep.DATA
            ask(turn, controller, BrokerList(), tuple(GetData(f"{paths.BROKER_IDS}/{name}") for name in listing.names))
            return
        answers = ()
    live = with_adopted(controller, registrations(listing.names, answers))
    controller.legacy = legacy_registrations(listing.names, answers)
    on_broker_change(turn, controller, live)
    listings.resume(turn, controller, BrokerList())


def with_adopted(controller: Controller, live: tuple[LiveBroker, ...]) -> tuple[LiveBroker, ...]:
    """These registrations, and those adopted since they were asked for (R-190): the list may be older, and another follows."""
    newest = {broker.broker: broker.incarnation for broker in live}
    missing = {b.broker: b for b in controller.adopted if newest.get(b.broker, NO_INCARNATION) < b.incarnation}
    return tuple(sorted((*(b for b in live if b.broker not in missing), *missing.values())))


def registrations(names: tuple[str, ...], answers: tuple[AnyAnswer, ...]) -> tuple[LiveBroker, ...]:
    """Names and data of /brokers/ids as live brokers; a broker that left between the two reads is not live."""
    answered = zip(names, answers, strict=True)
    return tuple(sorted(LiveBroker(BrokerId(int(name)), Incarnation(a.czxid)) for name, a in answered if isinstance(a, Data)))


def legacy_registrations(names: tuple[str, ...], answers: tuple[AnyAnswer, ...]) -> tuple[LiveBroker, ...]:
    """The live brokers that send no heartbeats (R-206)."""
    answered = zip(names, answers, strict=True)
    legacy = [(name, a.czxid) for name, a in answered if isinstance(a, Data) and paths.is_legacy_registration(a.data)]
    return tuple(sorted(LiveBroker(BrokerId(int(name)), Incarnation(czxid)) for name, czxid in legacy))


def take_over(controller: Controller, live: tuple[LiveBroker, ...]) -> None:
    """V3 §A step 1, §D step 3: these registrations are the live brokers."""
    controller.live = live
    listed = (broker.incarnation for broker in live if broker not in controller.adopted)
    controller.newest = max((controller.newest, *listed))


def on_broker_change(turn: Turn, controller: Controller, live: tuple[LiveBroker, ...]) -> None:
    """V3 §A on_broker_change: compare the registrations now (`live`) with the known ones, and elect where they differ."""
    variant = turn.config.variant
    before, before_ids = controller.live, live_ids(controller)
    take_over(controller, live)
    if variant.broker_incarnation:
        moved = {b.broker for b in before if b not in live} | {b.broker for b in live if b not in before}
    else:
        # V3 §A: the list of ids is all there is; a bounce between two reads is not seen (B-47)
        moved = set(before_ids) ^ set(live_ids(controller))
    standings.take_registrations(turn, controller)
    fresh = channel.open_channels(turn, controller, live)
    for broker in fresh:
        if variant.broker_incarnation or broker in moved:
            channel.tell_everything(controller, broker, init=False)
    revisit(turn, controller, moved)


def revisit(turn: Turn, controller: Controller, moved: set[BrokerId]) -> None:
    """Tell every broker which brokers are live; then elect for the partitions of brokers that came or went."""
    channel.tell_live_brokers(controller)
    look_at(turn, controller, moved)


def look_at(turn: Turn, controller: Controller, moved: set[BrokerId]) -> None:
    """Start a leader election for each partition that has a replica on a broker that came or went, or has no leader."""
    # V3 §A step 2: partitions whose leader is no longer live, or whose ISR changes because a broker is down; and partitions
    # without a leader
    for tp, replicas in sorted(controller.assignments.items()):
        state = controller.states.get(tp)
        if any(b in moved for b in replicas):
            channel.tell_offline(controller, tp)  # its offline replicas have changed
        if state is None or state.leader is None or any(b in moved for b in replicas):
            leader_election.start(turn, controller, tp)
