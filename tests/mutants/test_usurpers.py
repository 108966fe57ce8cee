"""Machines that are broken by hand break rules that no protocol switch breaks: who may write a state, what a fence forbids.

Each machine differs from a node in one point and runs a plan in which that point matters. The checker that guards the rule must
report it under the expected kind.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.durability import acked_loss
from checkers.judge import judge
from checkers.liveness import progress
from checkers.registry import ALL
from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.history import History
from reference.config import BrokerConfig
from reference.coordination import paths
from reference.coordination.api import Data, SetData
from reference.effects import AnyEffect, Flush, Note, Send, ZkRequest
from reference.events import AnyEvent, DirImage, Flushed, Received, ZkReplied
from reference.machine import Now
from reference.messages import EpochEnd, Fetch, FetchReply, LeaderAndIsr, ListOffsets, Metadata, PartitionState, Produce
from reference.node import Node
from reference.types import BrokerId, BrokerState, Incarnation, LeaderEpoch

PLANS = Path(__file__).parents[2] / "corpus" / "plans"
OWN_REQUEST = 1 << 40  # ids of requests that the node knows nothing of


class Broken:
    """A node whose effects can be changed."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        self._node = Node.boot(config, image, life)
        self._broker = config.broker

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Handle the event as a node does, then change the effects."""
        if isinstance(event, ZkReplied) and event.id >= OWN_REQUEST:
            return []
        return self.changed(self._node.handle(event, now=now), event)

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """The effects that replace those of the node."""
        return effects


class StateTamperer(Broken):
    """A node that writes wrong partition states."""

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Replace every partition state in the writes to ZooKeeper."""
        return [self._tampered(effect) if isinstance(effect, ZkRequest) else effect for effect in effects]

    def _tampered(self, request: ZkRequest) -> ZkRequest:
        return replace(request, ops=tuple(self._other(op) if isinstance(op, SetData) else op for op in request.ops))

    def _other(self, op: SetData) -> SetData:
        tp = paths.tp_of_state_path(op.path)
        if tp is None:
            return op
        state = paths.decode_state(tp, (), Data(op.data, op.version, 0))
        return replace(op, data=paths.state_payload(self.other(state)))

    def other(self, state: PartitionState) -> PartitionState:
        """The state that is written instead."""
        return state


class ForgetsTheLeader(StateTamperer):
    """A node that writes the ISR without the leader."""

    def other(self, state: PartitionState) -> PartitionState:
        """Remove the leader from the ISR if another member remains."""
        others = tuple(member for member in state.isr if member.broker != state.leader)
        return replace(state, isr=others) if others else state


class ForgetsTheElr(StateTamperer):
    """A node that forgets the ELR now and then."""

    def other(self, state: PartitionState) -> PartitionState:
        """Write no ELR in every second leader epoch."""
        return replace(state, elr=()) if state.leader_epoch % 2 else state


class GoesBack(StateTamperer):
    """A node that writes an old leader epoch."""

    def other(self, state: PartitionState) -> PartitionState:
        """Write the first epoch in place of the third."""
        return replace(state, leader_epoch=LeaderEpoch(0)) if state.leader_epoch == 2 else state


class RemembersStamps(StateTamperer):
    """A node that writes ISR members under their first registration after a later one was written."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        super().__init__(config, image, life)
        self._first: dict[BrokerId, Incarnation] = {}
        self._later: set[BrokerId] = set()

    def other(self, state: PartitionState) -> PartitionState:
        """Write the first registration the second time that a later one is due."""
        members = []
        for member in state.isr:
            first = self._first.setdefault(member.broker, member.incarnation)
            stale = member.incarnation != first and member.broker in self._later
            if member.incarnation != first:
                self._later.add(member.broker)
            members.append(replace(member, incarnation=first) if stale else member)
        return replace(state, isr=tuple(members))


class Meddler(Broken):
    """A follower that writes to ZooKeeper the state that it is told of."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        super().__init__(config, image, life)
        self._asked = OWN_REQUEST

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Add a write of each state that names another leader."""
        if not (isinstance(event, Received) and isinstance(event.message, LeaderAndIsr) and self.meddles(effects)):
            return effects
        states = [state for state in event.message.states if state.leader not in (None, self._broker)]
        self._asked += 1
        writes = tuple(SetData(paths.state_path(state.tp), data=paths.state_payload(state)) for state in states)
        return [*effects, ZkRequest(self._asked, writes)] if writes else effects

    def meddles(self, effects: list[AnyEffect]) -> bool:
        """Whether the node writes such a state now."""
        return True


class Clinging(Meddler):
    """A controller that goes on after it was deposed."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        super().__init__(config, image, life)
        self._resigned = False

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Write from the resignation on."""
        self._resigned = self._resigned or any(isinstance(e, Note) and e.kind == "controller-resigned" for e in effects)
        return super().changed(effects, event)

    def meddles(self, effects: list[AnyEffect]) -> bool:
        """True after the node was controller and has resigned."""
        return self._resigned


class Fenceless(Broken):
    """A node that notes that it is fenced, and serves requests all the same."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Serve requests of clients and followers as if the node were active."""
        membership = self._node.state.broker.membership
        ordinary = isinstance(event, Received) and isinstance(event.message, Fetch | EpochEnd | Produce | ListOffsets | Metadata)
        if not (ordinary and membership.state is BrokerState.INACTIVE):
            return super().handle(event, now=now)
        membership.state = BrokerState.ACTIVE
        effects = super().handle(event, now=now)
        membership.state = BrokerState.INACTIVE
        return effects


class Raiser(Broken):
    """A node that goes on appending to a partition after it deleted its replica."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        super().__init__(config, image, life)
        self._written: dict[tuple[object, object], Note] = {}  # the last append to each partition of each topic

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Note the last append again after the deletion, under the same topic id."""
        notes = [effect for effect in effects if isinstance(effect, Note)]
        self._written.update(((note.tp, note.topic_id), note) for note in notes if note.kind == "append")
        gone = [(note.tp, note.topic_id) for note in notes if note.kind == "replica-deleted"]
        return [*effects, *(self._written[deleted] for deleted in gone if deleted in self._written)]


class LeavesOut(Broken):
    """A leader that omits the first of several batches in answers to consumers."""

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Omit the batch for consumers; answers to followers stay whole."""
        return [self._without_first_batch(effect) if isinstance(effect, Send) else effect for effect in effects]

    def _without_first_batch(self, send: Send) -> Send:
        reply = send.message
        if send.to.startswith("b") or not isinstance(reply, FetchReply) or len(reply.batches) < 2:
            return send
        return replace(send, message=replace(reply, batches=reply.batches[1:]))


class FlushesLater(Broken):
    """A node that takes a flush for done when it asks for it."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Tell the node at once that its flush has ended, before the disk has done it."""
        effects = super().handle(event, now=now)
        for flush in [effect for effect in effects if isinstance(effect, Flush)]:
            effects = [*effects, *self._node.handle(Flushed(flush.dir, flush.id), now=now)]
        return effects


class Sulking(Broken):
    """A node that ignores produces while it leads the second epoch of a partition."""

    def __init__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> None:
        super().__init__(config, image, life)
        self._sulks = False

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Drop the produce without an answer."""
        if self._sulks and isinstance(event, Received) and isinstance(event.message, Produce):
            return []
        return super().handle(event, now=now)

    def changed(self, effects: list[AnyEffect], event: AnyEvent) -> list[AnyEffect]:
        """Start to ignore produces in the second epoch of a partition; stop with the next leadership."""
        for effect in effects:
            if isinstance(effect, Note) and effect.kind == "became-leader":
                self._sulks = effect.leader_epoch == 1
        return effects


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "plan", "found"),
    [
        (ForgetsTheLeader, "kafka-7164.yaml", "leader-outside-isr"),
        (GoesBack, "kafka-7164.yaml", "epoch-regressed"),
        (ForgetsTheElr, "mutants/kip-966.yaml", "short-electorate"),
        (FlushesLater, "flushed-behind-the-fence.yaml", "unflushed"),
        (Meddler, "kafka-7164.yaml", "unentitled-write"),
        (Clinging, "mutants/failover-retry.yaml", "deposed-controller"),
        (RemembersStamps, "mutants/isr-eager.yaml", "incarnation-order"),
        (Fenceless, "jepsen-2013.yaml", "fenced-append"),
        (Fenceless, "jepsen-2013.yaml", "fenced-answer"),
        (Raiser, "deleted-while-read.yaml", "resurrected"),
        (LeavesOut, "kafka-7164.yaml", "poll-skip"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else value,
)
def test_broken_broker_is_caught_by_the_named_anomaly_kind(machine: type[Broken], plan: str, found: str) -> None:
    """tests/mutants/test_mutants.py and the corpus check that the same plan on intact machines is clean."""
    safe = replace(load_plan(PLANS / plan), protocol="safe", variant=None)

    assert found in {anomaly.kind for anomaly in judge(history_of(machine, safe), ALL).anomalies}


@pytest.mark.slow
def test_progress_checker_finds_a_leader_idle_between_two_faults() -> None:
    """The second fault ends the idleness, so the calm between the faults shows it and the end of the run does not."""
    expired = load_plan(PLANS / "kafka-7164.yaml")
    window = expired.schedule[2]
    again = replace(window, id="b1-again", at_ms=window.at_ms + 50_000, until_ms=window.until_ms + 50_000)
    safe = replace(expired, protocol="safe", faults_ms=60_000, schedule=(window, again))

    verdict = judge(history_of(Sulking, safe), (acked_loss.CHECKER, progress.CHECKER))

    assert [message.partition(" was ")[0] for message in verdict.not_live] == ["no acks=all produce to t-0"]
    others = tuple(checker for checker in ALL if checker.name not in ("progress", "clients"))  # clients: the produces time out
    assert judge(history_of(Sulking, safe), others).live is True
    assert judge(history_of(Broken, safe), ALL).live is True


def history_of(machine: type[Broken], plan: Plan) -> History:
    return SimBackend(machine).perform(plan, Provenance(run_id="mutant", plan_digest="")).history
