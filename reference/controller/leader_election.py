"""Leader election of one partition: read its state znode, choose, write conditionally, tell the brokers (V3 §A step 3 and 4).

A round first repairs: leader and ISR must be live. Where nothing is to be repaired it serves a goal (`context.AnyGoal`). The rows
are tried from top to bottom; "live" means registered, as stamped in the ISR, with its directory in service, and not inactive.

    state znode                     goal             leader                  ISR                epoch source
    none                            any              first live of AR        live part of AR    0     V3 §B init_leaders step 1.1
    leader or ISR member not live   any              kept, or first of AR    live part of ISR   + 1   V3 §A step 3.2, R-021, R-144
    ISR not live, ELR member live   any              first of them in AR     the leader         + 1   KIP-966
    neither; unclean_election       any              first live of AR        the leader         + 1   R-022, R-145
    neither; recovery_election and
      all of ISR and ELR registered any              longest of their logs   the leader         + 1   docs/promise.md DUR-6
    no leader by the rows above     UncleanLeader    longest safe log of AR  the leader, no ELR + 1   docs/promise.md DUR-7
    none of these, leader named     any              none                    kept (U-18)        + 1   R-023
    live                            PreferredLeader  AR[0] if in the ISR     kept               + 1   R-147
    live                            LeaderInTarget   first of AR in the ISR  kept               + 1   R-235, KIP-236
    live                            IsrInTarget      kept, or first of AR    ISR without non-AR + 1   R-236, V3 §F step 3.2.2
    live                            NewEpoch         kept                    kept               + 1   R-051, V3 §F step 2.1
    live                            ProposedIsr      kept                    as proposed        kept  R-203, KIP-343
    live                            Repair           no write

`+ 1` is the switch `epoch_bump`. A broker in controlled shutdown leads, or stays in the ISR, where no other broker can (R-184).
`failover_writes` has the ways in which V3 would write the partitions of a failover: one after the other, or in a multi for all.
Every write is conditional on the version that was read, and in `safe` also on /controller_epoch (KAFKA-6082).

    state                     event                               next      effects                       by
    new, asking               a goal (a round follows one that    reading   read the state                start
                              is under way)
    new, asking               a goal, one_by_one: another         queued    none                          start
                              partition is under way
    queued                    no partition is read or written     reading   read the state                _read
    any                       read again: no answer, refused      reading   read the state                _read
                              write, another round
    reading                   logs must be compared first         asking    LogInfo to the brokers        _choose
    reading, asking           leader and ISR are chosen           writing   write on the version read     _send_write
    reading, asking           they are chosen, multi              gathered  none                          _write
    gathered                  no partition is read or written     writing   one multi for all             _write_batch
                              by itself
    any                       nothing is left to do               gone      after a write: commands,      _finish, _publish,
                                                                            metadata                      _choose
"""

from typing import assert_never

from msgspec.structs import replace

from reference.config import Variant, min_isr_of
from reference.controller import channel, leader_selection, proposals
from reference.controller.context import (
    NEW_EPOCH,
    REPAIR,
    AnyGoal,
    ChangeStep,
    Controller,
    Elections,
    IsrInTarget,
    LeaderElection,
    LeaderInTarget,
    ListingStep,
    LiveBroker,
    NewEpoch,
    Order,
    PreferredLeader,
    ProposedIsr,
    Repair,
    StateChange,
    UncleanLeader,
    electable,
    leaving,
    staying,
)
from reference.controller.leader_selection import AskLogs, Choice, Elect, Keep, Live, Offline
from reference.controller.outstanding import ask, is_outstanding, write
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Created, Data, GetData, RolledBack, SetData, Written
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import IsrMember, LogEnd, LogInfo, LogInfoReply, PartitionState
from reference.replica import eligible
from reference.types import NO_INCARNATION, NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition, ZkVersion, topic_of

# A request to ZooKeeper may have 1 MB (jute.maxbuffer); a state with its path takes about 300 bytes.
BATCH_WRITES_MAX = 1000


def start(turn: Turn, controller: Controller, tp: TopicPartition, goal: AnyGoal = REPAIR) -> None:
    """V3 §A step 3 for one partition of set_p: begin with V3 §A step 3.1. Where a change is under way, a round follows it.

    Partitions do not wait for one another: one read and one write for each, all in flight at once (R-067, R-068). One multi()
    for all of them would fail as a whole where one leader has just changed its ISR (C-26).
    """
    change = controller.changes.get(tp)
    if change is not None and change.step is not ChangeStep.ASKING:
        change.again = True
        _add_goal(change, goal)
        return
    # A goal, an operator's order too, outlives the brokers that were asked for their logs.
    goals = () if change is None else change.goals
    change = controller.changes[tp] = StateChange(step=ChangeStep.READING, goals=goals)
    _add_goal(change, goal)
    if turn.config.variant.failover_writes == "one_by_one" and _is_busy(controller):
        change.step = ChangeStep.QUEUED
        return
    _read(turn, controller, tp, change)


def _is_busy(controller: Controller) -> bool:
    """Whether the state of a partition is being read or written by itself."""
    return any(isinstance(sent.pending, LeaderElection) for sent in controller.outstanding)


def proceed(turn: Turn, controller: Controller) -> None:
    """Begin with the next partition, or write the batch, once no state is read or written by itself."""
    if turn.config.variant.failover_writes == "in_flight" or _is_busy(controller):
        return
    if turn.config.variant.failover_writes == "one_by_one":
        following = next((tp for tp, change in controller.changes.items() if change.step is ChangeStep.QUEUED), None)
        if following is not None:
            _read(turn, controller, following, controller.changes[following])
        return
    gathered = [tp for tp, change in controller.changes.items() if change.step is ChangeStep.GATHERED]
    for first in range(0, len(gathered), BATCH_WRITES_MAX):
        _write_batch(turn, controller, tuple(gathered[first : first + BATCH_WRITES_MAX]))


def _write_batch(turn: Turn, controller: Controller, partitions: tuple[TopicPartition, ...]) -> None:
    """V3, Discussion 1: "use the multi() support in ZK 3.4 to batch those writes in 1 ZK operation"."""
    ops: list[AnyOp] = []
    for tp in partitions:
        change = controller.changes[tp]
        change.step = ChangeStep.WRITING
        assert change.wanted is not None
        ops.append(_write_of(change.wanted))
    write(turn, controller, Elections(partitions), tuple(ops), atomic=True)


def on_batch_answer(
    turn: Turn, controller: Controller, partitions: tuple[TopicPartition, ...], answers: tuple[AnyAnswer, ...]
) -> None:
    """ZooKeeper answered a batch: all its states are written, or none because a leader has changed its ISR meanwhile (C-26).

    V3 does not say what happens then. Here every other state is written by itself, on the version that was read, so that the
    partitions of a second such leader fail alone.
    """
    for tp, answer in zip(partitions, answers, strict=True):
        change = controller.changes[tp]
        if isinstance(answer, RolledBack):
            assert change.wanted is not None
            _send_write(turn, controller, change, change.wanted, _write_of(change.wanted))
        else:
            _on_written(turn, controller, tp, change, answer)


def _write_of(state: PartitionState) -> SetData:
    return SetData(paths.state_path(state.tp), paths.state_payload(state), state.zk_version)


def _add_goal(change: StateChange, goal: AnyGoal) -> None:
    """A goal replaces an earlier one of its rank; NewEpoch comes first, then the order of a move, then that of an operator.

    An operator's order must not displace that of a move: the move would begin again, in epochs that change nothing.

    A write that is under way does not serve a goal that came after it: it may be an ISR, which raises no epoch, or go to the
    replicas that were assigned before.
    """
    if not isinstance(goal, Repair):  # every round begins with it
        others = [other for other in change.goals if _rank(other) != _rank(goal)]
        change.goals = tuple(sorted((*others, goal), key=_rank))
        change.serves = tuple(other for other in change.serves if _rank(other) != _rank(goal))


def _rank(goal: AnyGoal | ProposedIsr) -> int:
    """The place of a goal among the goals of one partition: repairs first, preferences last."""
    match goal:
        case Repair() | ProposedIsr():
            return 0
        case NewEpoch():
            return 1
        case LeaderInTarget() | IsrInTarget():
            return 2
        case PreferredLeader() | UncleanLeader():
            return 3
        case _ as unreachable:
            assert_never(unreachable)


def _read(turn: Turn, controller: Controller, tp: TopicPartition, change: StateChange) -> None:
    """V3 §A step 3.1: read the current ISR from the LeaderAndISR path."""
    change.step = ChangeStep.READING
    change.again = False
    change.serves = ()
    ask(turn, controller, LeaderElection(tp), (GetData(paths.state_path(tp)),))


def retry(turn: Turn, controller: Controller) -> None:
    """Read the partition's state again if ZooKeeper's answer was lost: a lost write may have been done."""
    batches = {tp for sent in controller.outstanding if isinstance(sent.pending, Elections) for tp in sent.pending.partitions}
    for tp, change in sorted(controller.changes.items()):
        asked = change.step in (ChangeStep.READING, ChangeStep.WRITING) and tp not in batches
        if asked and not is_outstanding(controller, LeaderElection(tp)):
            _read(turn, controller, tp, change)


def on_answer(turn: Turn, controller: Controller, tp: TopicPartition, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered the read or the write of the partition's state: go on with the election."""
    change = controller.changes[tp]
    if change.step is ChangeStep.READING:
        _choose(turn, controller, tp, change, answers[0])
    else:
        _on_written(turn, controller, tp, change, answers[0])


def _choose(turn: Turn, controller: Controller, tp: TopicPartition, change: StateChange, answer: AnyAnswer) -> None:
    """V3 §A step 3.2: choose leader and ISR; V3 §B init_leaders step 1.1 for a partition without a state yet."""
    replicas = controller.assignments.get(tp)
    live = electable(controller, tp)
    if replicas is None:
        del controller.changes[tp]  # the topic is gone
        proposals.refuse(turn, controller, tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    if not isinstance(answer, Data):
        first = leader_selection.first_leader(replicas, {b: i for b, i in live.items() if b not in leaving(controller)} or live)
        if first is None:
            proposals.refuse(turn, controller, tp, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            _finish(turn, controller, tp, change)
        else:
            _create(turn, controller, tp, change, first)
        return
    base = leader_selection.as_registered(paths.decode_state(tp, replicas, answer), controller.live)
    if _names_a_newcomer(turn.config.variant, controller, base):
        _read(turn, controller, tp, change)
        return
    change.base = base
    choice = leader_selection.select(turn.config.variant, base, live, leaving(controller))
    if leader_selection.is_left_unled(turn.config.variant, base, change.goals):
        choice = Keep()
    if UncleanLeader() in change.goals:
        choice = _unclean(base, choice, live)
    for order in _orders(change):
        if isinstance(choice, Keep) and not isinstance(order, UncleanLeader):
            choice, change.serves = _choice_by_order(turn, controller, order, base), (order,)
    if NEW_EPOCH in change.goals:
        choice = leader_selection.stay(base) if isinstance(choice, Keep) else choice
        change.serves = (NEW_EPOCH, *change.serves)
    match choice:
        case Keep():
            _keep_leader(turn, controller, change, base)
        case Elect(leader=leader, isr=isr):
            _write(turn, controller, change, _without_strangers(change, _next_state(turn, controller, base, leader, isr)))
        case Offline(isr=isr):
            _write(turn, controller, change, _without_strangers(change, _next_state(turn, controller, base, None, isr)))
        case AskLogs(brokers=brokers):
            change.step = ChangeStep.ASKING
            change.waiting = brokers
            change.ends = []
            if _moves_unled(controller.states.get(tp), base):
                controller.states[tp] = base
                channel.tell_metadata(controller, base)
            proposals.refuse(turn, controller, tp, ErrorCode.NOT_LEADER_OR_FOLLOWER, base)
            for broker in brokers:
                channel.ask_log(controller, broker, tp)


def _names_a_newcomer(variant: Variant, controller: Controller, base: PartitionState) -> bool:
    """V3 §A step 1: whether a broker was added to the ISR that has registered since the list of brokers was read.

    ZooKeeper tells the controller that the list changed before it shows it that ISR. So the list is being read again: the broker
    must not count as dead until then. Where no list is being read, its registration is over already. One that a heartbeat named
    (R-190) is known without a list, and says nothing of those before it.
    """
    if not variant.broker_incarnation or controller.brokers_listing.step is ListingStep.IDLE:
        return False
    unlisted = [member for member in (*base.isr, *base.elr) if member.incarnation > controller.newest]
    return any(LiveBroker(member.broker, member.incarnation) not in controller.live for member in unlisted)


def _unclean(base: PartitionState, choice: Choice, live: Live) -> Choice:
    """docs/promise.md DUR-7, SILENT-2: no leader can be elected without loss: ask for the ends of all live logs first."""
    brokers = tuple(broker for broker in base.replicas if broker in live)
    led = isinstance(choice, Elect) or (isinstance(choice, Keep) and base.leader is not None)
    return choice if led or not brokers else AskLogs(brokers)


def _without_strangers(change: StateChange, chosen: PartitionState) -> PartitionState:
    """The state to write: a broker that loses its replica with this write does not count any more."""
    if IsrInTarget() not in change.serves:
        return chosen
    return replace(chosen, elr=tuple(m for m in chosen.elr if m.broker in chosen.replicas))


def _orders(change: StateChange) -> tuple[Order, ...]:
    return tuple(goal for goal in change.goals if isinstance(goal, Order))


def _choice_by_order(
    turn: Turn, controller: Controller, order: PreferredLeader | LeaderInTarget | IsrInTarget, base: PartitionState
) -> Choice:
    """Nothing is to be repaired: serve the order. A broker in controlled shutdown is given nothing (R-184)."""
    variant, live = turn.config.variant, staying(controller, base.tp)
    move = controller.agent.moves.get(base.tp)
    enough = leader_selection.members_wanted(turn.config, base, move)
    match order:
        case PreferredLeader():
            return leader_selection.prefer(variant, base, live)
        case LeaderInTarget():
            return leader_selection.lead_from_target(variant, base, live, enough)
        case IsrInTarget():
            removes = leader_selection.removes_its_leader(variant, move)
            return leader_selection.shrink_to_target(variant, base, live, enough, removes_its_leader=removes)


def _keep_leader(turn: Turn, controller: Controller, change: StateChange, base: PartitionState) -> None:
    """The leader stays, and may have the ISR that it proposed (R-065: leaders change only by the controller's own choice)."""
    change.goals, change.serves = (), ()
    remembered = controller.states.get(base.tp)
    controller.states[base.tp] = base
    if remembered is None or remembered.leader_epoch != base.leader_epoch:
        channel.tell_state(controller, base)
    elif remembered.zk_version != base.zk_version or _moves_unled(remembered, base):
        # Only the other brokers must hear of it: ZooKeeper's answer to an ISR change was lost, the leader wrote its ISR itself,
        # or a move begins.
        channel.tell_metadata(controller, base)
    proposal = proposals.choose(turn, controller, base)
    if proposal is None:
        _finish(turn, controller, base.tp, change)
    else:
        change.serves = (ProposedIsr(proposal),)
        _write(turn, controller, change, proposals.state_with(turn, controller, proposal, base))


def _moves_unled(remembered: PartitionState | None, base: PartitionState) -> bool:
    """R-051: whether a move changed the replicas of a partition that nobody leads, so that no state is written and told."""
    return remembered is not None and base.leader is None and remembered.replicas != base.replicas


def _next_state(
    turn: Turn, controller: Controller, base: PartitionState, leader: IsrMember | None, isr: tuple[IsrMember, ...]
) -> PartitionState:
    """The state to write for this leader and ISR, with its leader epoch, controller epoch and ELR."""
    broker = None if leader is None else leader.broker
    variant, min_isr = turn.config.variant, min_isr_of(turn.config, topic_of(base.tp))
    return replace(
        base,
        leader=broker,
        leader_incarnation=NO_INCARNATION if leader is None else leader.incarnation,
        leader_epoch=LeaderEpoch(base.leader_epoch + (1 if _raises_epoch(variant, base, broker) else 0)),
        isr=isr,
        controller_epoch=controller.epoch,
        elr=eligible.after(variant, isr=base.isr, elr=base.elr, wanted=isr, min_isr=min_isr),
    )


def _raises_epoch(variant: Variant, base: PartitionState, leader: BrokerId | None) -> bool:
    """Whether the variant raises the leader epoch with this write."""
    match variant.epoch_bump:
        case "every_write":
            return True
        case "leader_change":
            return leader != base.leader
        case "never":
            return False


def _write(turn: Turn, controller: Controller, change: StateChange, state: PartitionState) -> None:
    """V3 §A step 3.3: write the new state, on condition that the version read in step 3.1 is unchanged (R-005, R-155)."""
    if turn.config.variant.failover_writes == "multi" and not change.serves:  # a repair, as all of a failover
        change.step = ChangeStep.GATHERED
        change.wanted = state
        return
    op = SetData(paths.state_path(state.tp), paths.state_payload(state), state.zk_version)
    _send_write(turn, controller, change, state, op)


def _create(turn: Turn, controller: Controller, tp: TopicPartition, change: StateChange, first: Elect) -> None:
    """V3 §B init_leaders step 1.2: create the state znode of a new partition with its first leader and ISR."""
    state = PartitionState(
        tp=tp,
        leader=first.leader.broker,
        leader_incarnation=first.leader.incarnation,
        leader_epoch=LeaderEpoch(0),
        isr=first.isr,
        controller_epoch=controller.epoch,
        zk_version=ZkVersion(0),
        replicas=controller.assignments[tp],
    )
    turn.effects.append(ZkRequest(turn.zk_id(), tuple(Create(path, b"") for path in paths.state_parents(tp))))
    _send_write(turn, controller, change, state, Create(paths.state_path(tp), paths.state_payload(state)))


def _send_write(turn: Turn, controller: Controller, change: StateChange, state: PartitionState, op: AnyOp) -> None:
    change.step = ChangeStep.WRITING
    change.wanted = state
    write(turn, controller, LeaderElection(state.tp), (op,))


def _on_written(turn: Turn, controller: Controller, tp: TopicPartition, change: StateChange, answer: AnyAnswer) -> None:
    """Tell the brokers the state that was written; after a lost race read again."""
    proposed = change.wanted
    assert proposed is not None
    if isinstance(answer, Written | Created):
        _count_election(turn, change.base if isinstance(answer, Written) else None, proposed)
    match answer:
        case Written(version=version):
            _publish(turn, controller, change, replace(proposed, zk_version=ZkVersion(version)))
        case Created():
            _publish(turn, controller, change, proposed)
            channel.mark_new(controller, tp, proposed.replicas)
        case _:
            # V3 §A step 3.3: the version moved, so another client wrote between our read and our write. Read again (step 3.1)
            # rather than retry: the ISR that we chose from may have shrunk meanwhile.
            _read(turn, controller, tp, change)


def _count_election(turn: Turn, before: PartitionState | None, after: PartitionState) -> None:
    """Count an election that gave the partition another leader; it is unclean if that one need not hold all that is committed."""
    if after.leader is None or (before is not None and before.leader == after.leader):
        return
    tally = turn.tally
    tally.leader_elections += 1
    tally.last_election_ms = turn.now.wall_ms
    if before is not None:
        tally.unclean_elections += after.leader not in [member.broker for member in leader_selection.counted_on(before)]


def _publish(turn: Turn, controller: Controller, change: StateChange, state: PartitionState) -> None:
    """V3 §A step 4: the state is in ZooKeeper, so send the command to the affected brokers (R-076) if the topic still exists."""
    if state.tp not in controller.assignments:
        del controller.changes[state.tp]
        proposals.refuse(turn, controller, state.tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return
    controller.states[state.tp] = state
    match change.serves:
        case (ProposedIsr(proposal=proposal),):
            channel.tell_metadata(controller, state)
            proposals.accept(turn, controller, proposal, state)
        case _:
            # R-236, V3 §F step 3.2.3: of an ISR that was shrunk the leader alone need hear; but where fetches are fenced its
            # followers must know the epoch that this write began.
            alone = IsrInTarget() in change.serves and not turn.config.variant.fetch_fencing
            channel.tell_state(controller, state, to=(state.leader,) if alone and state.leader is not None else None)
    if NEW_EPOCH in change.serves:  # also where a leader had to be elected in the same round, which is a new epoch too
        channel.mark_new(controller, state.tp, leader_selection.newcomers(controller.agent.moves.get(state.tp), state))
    change.goals = tuple(goal for goal in change.goals if goal not in change.serves)
    # One write serves one order. Where it served a repair, the order comes again from who gave it (`reassign.move.proceed`).
    change.again |= bool(_orders(change)) and any(isinstance(goal, Order) for goal in change.serves)
    _finish(turn, controller, state.tp, change)


def _finish(turn: Turn, controller: Controller, tp: TopicPartition, change: StateChange) -> None:
    if change.again or proposals.pending(controller, tp):
        _read(turn, controller, tp, change)
    else:
        del controller.changes[tp]


def _is_meant(turn: Turn, controller: Controller, end: LogEnd) -> bool:
    """Whether a reported log belongs to the present topic, not to an earlier one of the same name (KIP-516)."""
    meant = (NO_TOPIC_ID, controller.topic_ids.get(topic_of(end.tp), NO_TOPIC_ID))
    return not turn.config.variant.topic_id or end.topic_id in meant


def on_log_info(turn: Turn, controller: Controller, broker: BrokerId, request: LogInfo, reply: LogInfoReply) -> None:
    """A broker answered with the ends of its logs: elect where all brokers that were asked have answered.

    A requested partition without an end in the answer has no log there.
    """
    if reply.error is not ErrorCode.NONE:
        return
    ends = {end.tp: end for end in reply.ends}
    for tp, change in sorted(controller.changes.items()):
        if change.step is not ChangeStep.ASKING or broker not in change.waiting or tp not in request.partitions:
            continue
        change.waiting = tuple(b for b in change.waiting if b != broker)
        if tp in ends and _is_meant(turn, controller, ends[tp]):
            change.ends.append((broker, ends[tp]))
        if change.waiting:
            continue
        base = change.base
        assert base is not None
        live = electable(controller, tp)
        winner = leader_selection.longest(turn.config.variant, base, live, change.ends)
        is_clean = winner is not None and leader_selection.all_answered(base, change.ends)
        by_order = UncleanLeader() in change.goals and not is_clean
        change.goals = tuple(goal for goal in change.goals if not isinstance(goal, Order))
        if by_order:
            topic_id = controller.topic_ids.get(topic_of(tp), NO_TOPIC_ID)
            winner = leader_selection.ordered(turn.config.variant, base, live, change.ends, topic_id)
        if winner is not None:
            chosen = _next_state(turn, controller, base, winner.leader, winner.isr)
            # the former ISR and ELR do not count any more, for the new leader may lack records that they hold
            _write(turn, controller, change, replace(chosen, elr=()) if by_order else chosen)
        elif base.leader is not None:
            # No log of the ISR and ELR is left: the partition is offline until an operator orders a leader, and no broker may
            # take itself for the leader (docs/promise.md SILENT-2).
            _write(turn, controller, change, _next_state(turn, controller, base, None, base.isr))
        else:
            _finish(turn, controller, tp, change)
