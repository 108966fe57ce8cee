"""The next write of the reassignment agent, and which partitions take a step, from what the agent has read.

The write is one multi for all partitions: topic znodes with AR widened or narrowed, entries removed that are done or invalid,
entries added from /admin/reassign_partitions_extra. It is conditional on every version that was read.
"""

from reference.config import Variant, min_isr_of
from reference.controller import channel, deletion, leader_election
from reference.controller.context import NEW_EPOCH, Controller, Move, MoveStep, live_ids
from reference.controller.outstanding import refuse
from reference.controller.reassign import in_flight as reassign_in_flight
from reference.controller.reassign import move as reassign_move
from reference.controller.reassign.read import Draft, Seen, uses_proposal_b
from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment, Reassignments
from reference.coordination.api import AnyOp, Create, Delete, SetData
from reference.effects import Note
from reference.machine import Turn
from reference.types import BrokerId, TopicPartition, topic_of


def plan(turn: Turn, controller: Controller, facts: Seen) -> tuple[AnyOp, ...]:
    """V3 §F on_wakeup: decide the next step of each partition in reassigned_partition_map."""
    agent = controller.agent
    draft = Draft(entries=dict(agent.entries), extra=dict(agent.extra), legacy=dict(agent.legacy), assigned=dict(facts.assigned))
    failover, first = turn.config.variant.reassign_failover, not agent.resumed
    agent.resumed = True
    if not turn.config.variant.reassign_rollback:
        agent.cancelled = bool(agent.entries)  # before KIP-236 "this slowest partition prevents other reassignments"
    if first and failover == "premature":
        draft.entries = dict(list(draft.entries.items())[:1])  # B-58, KAFKA-6193: the map was not full when it was written back
    if uses_proposal_b(turn.config.variant):
        reassign_in_flight.take_requests(turn, controller, facts, draft)
    for tp in sorted({*agent.entries, *agent.moves}):
        entry = draft.entries.get(tp)
        if _is_gone(controller, facts, tp):
            agent.moves.pop(tp, None)  # no such partition: it must not block the others (KAFKA-2234)
            if failover != "zombie":
                draft.entries.pop(tp, None)
                draft.legacy.pop(tp, None)
        elif tp not in controller.assignments:
            pass  # not seen yet
        elif entry is None:
            _end_move(turn, controller, tp, facts.assigned[tp])
        elif entry != agent.entries.get(tp):
            pass  # begun or changed by a request: wait until it is written, because the next controller must do the same
        elif first and failover == "abort" and any(b not in live_ids(controller) for b in entry.replicas):
            del draft.entries[tp]  # B-58, KAFKA-4214: given up because a new replica is down just now
        else:
            if uses_proposal_b(turn.config.variant):
                _go_on_with(turn, controller, draft, tp)
            else:
                _take_up(turn, controller, draft, tp)
            _step(turn, controller, draft, facts, tp)
    _refuse(turn, controller, facts)
    _take_extra(controller, draft)
    return _writes(turn, controller, facts, draft)


def _is_gone(controller: Controller, facts: Seen, tp: TopicPartition) -> bool:
    return tp not in facts.assigned or deletion.is_under_way(controller, tp)


def _refuse(turn: Turn, controller: Controller, facts: Seen) -> None:
    """Note what was read and is deleted without a move: invalid entries, and entries of partitions that do not exist."""
    agent = controller.agent
    for path, bad in ((admin_paths.REASSIGN, agent.bad), (admin_paths.REASSIGN_EXTRA, agent.extra_bad)):
        if bad:
            refuse(turn, path, f"{bad} entries are invalid")
    for path in agent.strays:
        refuse(turn, path, "its name is no partition's")
    for path, request in agent.requests.items():
        if not request.replicas:
            refuse(turn, path, "it names no partition")
    for tp in sorted({*agent.entries, *agent.extra, *agent.legacy}):
        if _is_gone(controller, facts, tp):
            refuse(turn, admin_paths.REASSIGN, f"no such partition: {tp}")


def _end_move(turn: Turn, controller: Controller, tp: TopicPartition, assigned: tuple[BrokerId, ...]) -> None:
    """The entry is gone: the move is done, or an operator removed the entry, and AR stays as in the topic znode."""
    move = controller.agent.moves.pop(tp, None)
    if move is None:
        return
    # A broker that registered while the entry was removed was told to delete its replica (`reassign.move.proceed`).
    if move.step is MoveStep.CLEARING or (move.step in (MoveStep.DELETING, MoveStep.NARROWING) and assigned == move.target):
        turn.note(Note(kind="reassignment-ended", tp=tp, detail=_words(move)))
        state = controller.states.get(tp)
        if state is not None:
            channel.tell_state(controller, state, to=())  # resend the metadata to every broker
    else:
        controller.assignments[tp] = assigned
        leader_election.start(turn, controller, tp, NEW_EPOCH)


def _words(move: Move) -> str:
    way = "back" if move.back else "down" if move.dropping else "forward"
    return f"{way} to {','.join(map(str, move.target))}"


def _take_up(turn: Turn, controller: Controller, draft: Draft, tp: TopicPartition) -> None:
    """R-050: put an entry that is not in the map there. Another target than before begins another move.

    R-233, R-239: while /admin/reassign_cancel exists, every pending move goes back and none goes forward. R-243: so does a move
    whose partition is in the extra znode, until its entry is gone.
    """
    agent = controller.agent
    entry, move = draft.entries[tp], agent.moves.get(tp)
    back = turn.config.variant.reassign_rollback and (agent.cancelled or tp in agent.extra)
    # OAR is the assignment before the move. C-20: for a move in flight it is that of its beginning.
    original = entry.original or (move.original if move is not None else draft.assigned[tp])
    if len(entry.replicas) < min_isr_of(turn.config, topic_of(tp)):
        turn.note(Note(kind="reassignment-refused", tp=tp, detail="fewer replicas than min.insync.replicas"))
        del draft.entries[tp]  # as R-253: no record could be committed any more
        return
    draft.entries[tp] = Reassignment(entry.replicas, original)
    _set_move(turn, controller, draft, tp, Move(target=original if back else entry.replicas, original=original, back=back))


def _go_on_with(turn: Turn, controller: Controller, draft: Draft, tp: TopicPartition) -> None:
    """Proposal B: go on with an entry in flight. The replicas to drop go first (R-254, R-255).

    R-253: they have gone when AR names none of them. None of them is wanted, so AR is never widened to them again.
    """
    entry, assigned = draft.entries[tp], draft.assigned[tp]
    staying = tuple(b for b in assigned if b not in entry.drop)
    dropping = staying != assigned
    move = Move(target=staying if dropping else entry.replicas, original=entry.original, back=False, dropping=dropping)
    _set_move(turn, controller, draft, tp, move)


def _set_move(turn: Turn, controller: Controller, draft: Draft, tp: TopicPartition, next_move: Move) -> None:
    """Go on with the move under way, or replace it by another one."""
    agent, entry = controller.agent, draft.entries[tp]
    move = agent.moves.get(tp)
    if move is None or (move.target, move.back, move.dropping) != (next_move.target, next_move.back, next_move.dropping):
        agent.moves[tp] = move = next_move
        turn.note(Note(kind="reassignment-begun", tp=tp, detail=_words(move)))
    assigned = draft.assigned[tp]
    # C-12: AR lists who holds a replica; ar_first (B-59) has nothing else, as Kafka before original_replicas
    by_ar = turn.config.variant.reassign_order == "ar_first"
    holders = assigned if by_ar else (*assigned, *entry.replicas, *move.original, *entry.held)
    if move.dropping:
        holders = assigned
    move.dropped = tuple(b for b in sorted(set(holders)) if b not in move.target)
    move.new = tuple(b for b in move.target if b not in move.original)


def _step(turn: Turn, controller: Controller, draft: Draft, facts: Seen, tp: TopicPartition) -> None:
    """The next step of a partition, as far as it depends on the reads."""
    move, variant = controller.agent.moves.get(tp), turn.config.variant
    if move is None or tp not in draft.entries:
        return
    assigned, state = draft.assigned[tp], facts.states.get(tp)
    able = state is not None and reassign_move.is_ready(turn, controller, state, move)
    ready = able and tp not in controller.changes
    move.held = able and not ready and move.step is MoveStep.JOINING
    match move.step:
        case MoveStep.WIDENING:
            full = _widened(variant, assigned, move.target)
            written = variant.reassign_path == "v3" or draft.entries[tp] == controller.agent.entries[tp]
            if variant.reassign_widens and full != assigned:
                draft.assigned[tp] = full
            elif not written:
                pass  # without OAR in ZooKeeper the move could not be rolled back
            elif (move.back or move.dropping) and ready:
                reassign_move.lead(turn, controller, tp)
            else:
                reassign_move.join(turn, controller, tp, full)
        case MoveStep.JOINING if ready:
            reassign_move.lead(turn, controller, tp)
        case MoveStep.NARROWING if assigned != move.target:
            draft.assigned[tp] = move.target  # V3 §F step 3.2.5: AR := RAR in the topic znode
        case MoveStep.NARROWING:
            reassign_move.go_on(variant, move)
            controller.agent.again = True
        case MoveStep.CLEARING if _has_told_all(variant, facts, move):
            reassign_in_flight.done(draft, tp, draft.entries[tp].replicas)
            del draft.entries[tp]  # V3 §F step 3.2.6, R-238, R-248
        case _:
            pass


def _widened(variant: Variant, assigned: tuple[BrokerId, ...], target: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """AR while the partition moves. Leaders are elected in its order: KIP-455 prefers the replicas that are to stay."""
    first, last = (target, assigned) if variant.reassign_full == "target_first" else (assigned, target)
    return (*first, *(b for b in last if b not in first))


def _has_told_all(variant: Variant, facts: Seen, move: Move) -> bool:
    """True if every registered broker among the replicas that the move dropped was sent StopReplica."""
    late = [b for b in facts.registered if b.broker in move.dropped and b not in move.told]
    return not late or variant.reassign_order == "ar_first"


def _take_extra(controller: Controller, draft: Draft) -> None:
    """R-242: move the entries of the extra znode to the pending ones; R-243: not before the same partition is rolled back there.

    R-239: begin nothing while a cancellation is in place.
    """
    agent = controller.agent
    if agent.cancelled:
        return
    for tp, entry in agent.extra.items():
        if tp in agent.entries:
            continue
        del draft.extra[tp]
        if tp in draft.assigned:
            draft.entries[tp] = Reassignment(entry.replicas, draft.assigned[tp])


def _writes(turn: Turn, controller: Controller, facts: Seen, draft: Draft) -> tuple[AnyOp, ...]:
    """The writes that turn what was read into the draft."""
    agent, variant = controller.agent, turn.config.variant
    changed = sorted({topic_of(tp) for tp, replicas in draft.assigned.items() if replicas != facts.assigned[tp]})
    ops: list[AnyOp] = []
    for topic in changed:
        assignment = {tp: replicas for tp, replicas in draft.assigned.items() if topic_of(tp) == topic}
        ops.append(SetData(paths.topic_path(topic), paths.partitions_payload(assignment), facts.versions[topic]))
    if uses_proposal_b(variant):
        return (*ops, *reassign_in_flight.writes(agent, draft))
    if variant.reassign_path == "v3":
        return (*ops, *_erasing_ops(agent.entries, draft.entries))
    bad = agent.bad and variant.reassign_failover != "zombie"
    if agent.version >= 0 and (bad or draft.entries != agent.entries or not (draft.entries or agent.bad)):
        ops.append(_rewrite(admin_paths.REASSIGN, draft.entries, agent.version))
    elif draft.entries != agent.entries:
        ops.append(Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(draft.entries)))
    if agent.extra_version >= 0 and (agent.extra_bad or draft.extra != agent.extra or not draft.extra):
        ops.append(_rewrite(admin_paths.REASSIGN_EXTRA, draft.extra, agent.extra_version))
    return tuple(ops)


def _rewrite(path: str, entries: Reassignments, version: int) -> AnyOp:
    """R-242, R-148: replace the list of reassignments in its znode; without entries left, delete the znode."""
    return SetData(path, admin_paths.reassignments_payload(entries), version) if entries else Delete(path, version)


def _erasing_ops(before: Reassignments, after: Reassignments) -> tuple[AnyOp, ...]:
    """R-006: remove V3's znode of a moved partition, and with the last partition that of its topic."""
    removed = [tp for tp in before if tp not in after]
    topics = sorted({topic_of(tp) for tp in removed} - {topic_of(tp) for tp in after})
    return (
        *(Delete(admin_paths.partition_reassigned_path(tp)) for tp in removed),
        *(Delete(f"{admin_paths.PARTITIONS_REASSIGNED}/{topic}") for topic in topics),
    )
